// SPDX-License-Identifier: Apache-2.0
// nf_counter against a count that is wide enough: it saturates once, and an event in the clock of a
// clear is counted after the clear.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_counter #(
  parameter int WIDTH = 6,
  parameter int INC_W = 3
) (
  input wire logic             clk,
  input wire logic             clear,
  input wire logic [INC_W-1:0] inc
);
  logic [WIDTH-1:0] count;
  logic [WIDTH:0]   sum, count_q;
  logic             was_full_q;

  `NF_FORMAL_RESET

  nf_counter #(.WIDTH(WIDTH), .INC_W(INC_W)) dut (.clk, .rst_n, .clear, .inc, .count);

  assign sum = (clear ? '0 : count_q) + (WIDTH+1)'(inc);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      count_q    <= '0;
      was_full_q <= 1'b0;
    end else begin
      count_q    <= sum[WIDTH] ? {1'b0, {WIDTH{1'b1}}} : sum;
      was_full_q <= sum[WIDTH];
    end
  end

  `NF_ASSERT(Count_A, {1'b0, count} == count_q)

  // A wide count needs too many clocks to become full.
  if (WIDTH < INC_W + 4) begin : g_narrow
    `NF_COVER(Saturates_C, was_full_q)
  end
  `NF_COVER(ClearAndEvent_C, clear && inc != '0 && count != '0)
endmodule

`default_nettype wire
