// SPDX-License-Identifier: Apache-2.0
// nf_vote against arithmetic on the counts of each element: majority with its tie, the ternary
// threshold (controller §4), and a count plane as it is. What is asked for, the planes a clock
// later, the line another. With ECP5 it is nf_ecp5_vote.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_vote
  import nf_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int ECP5  = 0,
  parameter int TERN5 = 0
) (
  input wire logic                    clk,
  input wire logic                    en,
  input wire logic                    vote,
  input wire logic [2:0]              plane,
  input wire logic                    ternary,
  input wire logic [6:0]              contributions,
  input wire logic                    tie_minus,
  input wire logic [7:0]              threshold,
  input wire logic [CNT_W*LINE_W-1:0] planes
);
  logic [LINE_W-1:0] line;

  `NF_FORMAL_RESET

  localparam int COUNTED = (TERN5 != 0) ? CNT_W : counting_planes(CNT_W);

  if (ECP5 != 0) begin : g_ecp5
    nf_ecp5_vote #(.CNT_W(CNT_W), .TERN5(TERN5)) dut (.*);
  end else begin : g_portable
    nf_vote #(.CNT_W(CNT_W), .TERN5(TERN5)) dut (.*);
  end

  `NF_ASSUME(ThresholdThere_M, threshold != '0)
  `NF_ASSUME(SixtyFour_M, (planes >> (COUNTED * LINE_W)) == '0)

  // ---- what was asked for ----------------------------------------------------------------------
  logic                    asked_q, votes_q, of_ternary_q, minus_q;
  logic                    shows_q, shows_vote_q, shows_ternary_q, shows_minus_q;
  logic [2:0]              plane_q, shown_plane_q;
  logic [6:0]              m_q, shown_m_q;
  logic [7:0]              t_q, shown_t_q;
  logic [CNT_W*LINE_W-1:0] planes_q;

  always_ff @(posedge clk) begin
    asked_q <= en && rst_n;
    shows_q <= asked_q && rst_n;
    {votes_q, plane_q, of_ternary_q, m_q, minus_q, t_q}
      <= {vote, plane, ternary, contributions, tie_minus, threshold};
    {shows_vote_q, shown_plane_q, shows_ternary_q, shown_m_q, shows_minus_q, shown_t_q}
      <= {votes_q, plane_q, of_ternary_q, m_q, minus_q, t_q};
    planes_q <= planes;
  end

  // ---- reference -------------------------------------------------------------------------------
  logic [31:0]         count [LINE_W];
  logic [LINE_W-1:0]   wrong_binary, shown;
  logic [LINE_W/2-1:0] wrong_ternary;

  for (genvar i = 0; i < LINE_W; i++) begin : g_lane
    logic [CNT_W-1:0] bits;
    logic             voted;
    for (genvar p = 0; p < CNT_W; p++) begin : g_bit
      assign bits[p] = planes_q[p*LINE_W + i];
    end
    assign count[i] = 32'(bits);
    assign voted    = (shown_m_q == '0) ? 1'b0 :
                      (2 * count[i] > 32'(shown_m_q)) ? 1'b0 :
                      (2 * count[i] < 32'(shown_m_q)) ? 1'b1 : shows_minus_q;
    assign wrong_binary[i] = line[i] != voted;
  end
  for (genvar e = 0; e < LINE_W / 2; e++) begin : g_element
    logic [1:0] voted;
    assign voted = (count[2*e] >= count[2*e+1] + 32'(shown_t_q)) ? 2'b10 :
                   (count[2*e+1] >= count[2*e] + 32'(shown_t_q)) ? 2'b11 : 2'b00;
    assign wrong_ternary[e] = line[2*e +: 2] != voted;
  end
  assign shown = LINE_W'(planes_q >> (32'(shown_plane_q) * LINE_W));

  logic of_votes;
  assign of_votes = shows_q && shows_vote_q;

  `NF_ASSERT_NEVER(Binary_A, of_votes && !shows_ternary_q && wrong_binary != '0)
  `NF_ASSERT_NEVER(Ternary_A, of_votes && shows_ternary_q && wrong_ternary != '0)
  `NF_ASSERT_NEVER(Plane_A, shows_q && !shows_vote_q && line != shown)

  `NF_COVER(Tie_C, of_votes && !shows_ternary_q && shown_m_q != '0 &&
                   2 * count[0] == 32'(shown_m_q))
  `NF_COVER(Both_C, of_votes && shows_ternary_q && line[1:0] == 2'b10 && line[3:2] == 2'b11)
  `NF_COVER(TopPlane_C, shows_q && !shows_vote_q && line[1:0] == 2'b10 &&
                        32'(shown_plane_q) == COUNTED - 1)
endmodule

`default_nettype wire
