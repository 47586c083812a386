// SPDX-License-Identifier: Apache-2.0
// nf_line_codes against a count of the line that was taken last, code by code (controller §3): at
// once whether there is an illegal one, and two clocks later how many, if they are counted.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_line_codes
  import nf_pkg::*;
  import nf_tern5_pkg::*;
(
  input wire logic              clk,
  input wire logic              take,
  input wire logic [LINE_W-1:0] data,
  input wire logic              counts,
  input wire logic              tern5
);
  trits_t     trits;
  logic       illegal_ternary, illegal_tern5;
  logic [8:0] count;

  `NF_FORMAL_RESET

  nf_line_codes dut (.*);

  logic              any_q, taken_q;
  logic [LINE_W-1:0] data_q;
  logic [8:0]        want, want3_q, want4_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      any_q   <= 1'b0;
      taken_q <= 1'b0;
      want3_q <= '0;
      want4_q <= '0;
    end else begin
      any_q   <= any_q || take;
      taken_q <= take;
      want3_q <= counts ? want : '0;
      want4_q <= want3_q;
    end
  end

  always_ff @(posedge clk) begin
    if (take) data_q <= data;
  end

  always_comb begin
    want = 9'd0;
    for (int e = 0; e < LINE_W / 2; e++) want = want + 9'(data_q[2*e +: 2] == 2'b01);
  end

  // A line is in S2 for one clock, directly after the one in which it is taken.
  `NF_ASSUME(Counts_M, !counts || taken_q)

  `NF_ASSERT(Illegal_A, !any_q || illegal_ternary == (want != '0))
  `NF_ASSERT(Count_A, count == want4_q)
  `NF_ASSERT(NoTern5_A, trits == '0 && !illegal_tern5)

  `NF_COVER(All_C, count == 9'(LINE_W / 2))
  `NF_COVER(BackToBack_C, count == 9'd2 && want3_q == 9'd1)
  `NF_COVER(Keeps_C, any_q && !taken_q && want == 9'd2 && illegal_ternary)
endmodule

`default_nettype wire
