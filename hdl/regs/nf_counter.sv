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
  input  wire logic             clk,    // clock, rising edge
  input  wire logic             rst_n,  // asynchronous reset, active low
  input  wire logic             clear,  // set the count to 0
  input  wire logic [INC_W-1:0] inc,    // events of this cycle
  output logic [WIDTH-1:0]      count   // events since the last clear, saturating
);
  if (INC_W > WIDTH) begin : g_bad_width
    initial $fatal(1, "nf_counter: INC_W must not exceed WIDTH");
  end

  logic [WIDTH-1:0] count_q;

  assign count = count_q;

  logic [WIDTH-1:0] sum;
  logic             full;  // the sum has no room

  assign {full, sum} = {1'b0, count_q} + (WIDTH+1)'(inc);

  // Nothing toggles without an event.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)         count_q <= '0;
    else if (clear)     count_q <= WIDTH'(inc);
    else if (inc != '0) count_q <= full ? '1 : sum;
  end

`ifdef NF_CHECKED
  logic [WIDTH-1:0] before_q;  // the count before the last event

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)         before_q <= '0;
    else if (clear)     before_q <= '0;
    else if (inc != '0) before_q <= count_q;
  end
`endif
  `NF_ASSERT_NEVER(CountNeverWraps_A, count_q < before_q)
endmodule

`default_nettype wire
