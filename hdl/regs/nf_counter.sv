// SPDX-License-Identifier: Apache-2.0
//
// Saturating event counter. `inc` is added every clock; the count stays at all ones instead of
// wrapping. `clear` sets it to zero, and an event in the same clock is counted after the clear, so
// that none is lost between a read and a clear. No handshake: outputs are valid every clock.

`default_nettype none
`include "nf_assert.svh"

module nf_counter #(
  parameter int WIDTH = 32,
  parameter int INC_W = 1
) (
  input  wire logic             clk,
  input  wire logic             rst_n,
  input  wire logic             clear,
  input  wire logic [INC_W-1:0] inc,
  output logic [WIDTH-1:0]      count
);
  if (INC_W > WIDTH) begin : g_bad_width
    initial $fatal(1, "nf_counter: INC_W must not exceed WIDTH");
  end

  logic [WIDTH-1:0] count_q;
  logic [WIDTH:0]   sum;

  assign sum   = {1'b0, clear ? '0 : count_q} + (WIDTH + 1)'(inc);
  assign count = count_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) count_q <= '0;
    else        count_q <= sum[WIDTH] ? '1 : sum[WIDTH-1:0];
  end

  `NF_ASSERT_NEVER(CountNeverWraps_A, !$past(clear) && count_q < $past(count_q))
endmodule

`default_nettype wire
