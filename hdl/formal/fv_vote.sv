// SPDX-License-Identifier: Apache-2.0
// nf_vote against arithmetic on the counts of each element: majority with its tie, and the ternary
// threshold (controller §4).

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_vote
  import nf_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input wire logic                    clk,
  input wire logic                    en,
  input wire logic                    ternary,
  input wire logic [CNT_W*LINE_W-1:0] planes,
  input wire logic [6:0]              contributions,
  input wire logic                    tie_minus,
  input wire logic [7:0]              threshold
);
  logic [LINE_W-1:0] line;

  `NF_FORMAL_NO_RESET

  nf_vote #(.CNT_W(CNT_W)) dut (.*);

  `NF_ASSUME(ThresholdThere_M, threshold != '0)

  // ---- reference -------------------------------------------------------------------------------
  logic [31:0]         count [LINE_W];
  logic [LINE_W-1:0]   wrong_binary;
  logic [LINE_W/2-1:0] wrong_ternary;

  for (genvar i = 0; i < LINE_W; i++) begin : g_lane
    logic [CNT_W-1:0] bits;
    logic             vote;
    for (genvar p = 0; p < CNT_W; p++) begin : g_bit
      assign bits[p] = planes[p*LINE_W + i];
    end
    assign count[i] = 32'(bits);
    assign vote     = (contributions == '0) ? 1'b0 :
                      (2 * count[i] > 32'(contributions)) ? 1'b0 :
                      (2 * count[i] < 32'(contributions)) ? 1'b1 : tie_minus;
    assign wrong_binary[i] = line[i] != vote;
  end
  for (genvar e = 0; e < LINE_W / 2; e++) begin : g_element
    logic [1:0] vote;
    assign vote = (count[2*e] >= count[2*e+1] + 32'(threshold)) ? 2'b10 :
                  (count[2*e+1] >= count[2*e] + 32'(threshold)) ? 2'b11 : 2'b00;
    assign wrong_ternary[e] = line[2*e +: 2] != vote;
  end

  `NF_ASSERT_NEVER(Binary_A, en && !ternary && wrong_binary != '0)
  `NF_ASSERT_NEVER(Ternary_A, en && ternary && wrong_ternary != '0)

  `NF_COVER(Tie_C, en && !ternary && 2 * count[0] == 32'(contributions) && contributions != '0)
  `NF_COVER(Both_C, en && ternary && line[1:0] == 2'b10 && line[3:2] == 2'b11)
endmodule

`default_nettype wire
