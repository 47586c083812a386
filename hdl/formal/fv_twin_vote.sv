// SPDX-License-Identifier: Apache-2.0
// nf_vote against its MyHDL twin. A twin has COLUMNS of the line; as many of them stand side by
// side as the line is wide, so that at full width this shows how the lanes are wired, too.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_twin_vote
  import nf_pkg::*;
#(
  parameter int CNT_W   = 8,
  parameter int COLUMNS = 16
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
  localparam int GROUPS = LINE_W / COLUMNS;

  logic [LINE_W-1:0] line, want;

  `NF_FORMAL_RESET

  nf_vote #(.CNT_W(CNT_W)) dut (.*);

  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    logic [CNT_W*COLUMNS-1:0] own;

    for (genvar p = 0; p < CNT_W; p++) begin : g_plane
      assign own[p*COLUMNS +: COLUMNS] = planes[p*LINE_W + g*COLUMNS +: COLUMNS];
    end
    myhdl_nf_vote u_twin (
      .clk, .en, .vote, .plane, .ternary, .contributions, .tie_minus, .threshold, .planes(own),
      .line(want[g*COLUMNS +: COLUMNS])
    );
  end

  `NF_ASSUME(Threshold_M, threshold != 8'd0)
  `NF_ASSUME(SixtyFour_M, (planes >> (counting_planes(CNT_W) * LINE_W)) == '0)

  // A line is of what was asked for two clocks ago.
  logic       asked_q, shows_q, binary_q, binary2_q, two_q, two2_q, minus_q, minus2_q;
  logic       more_q, more2_q, zero_q;

  always_ff @(posedge clk) begin
    asked_q   <= en && vote && rst_n;
    shows_q   <= asked_q && rst_n;
    binary_q  <= !ternary;
    binary2_q <= binary_q;
    two_q     <= (contributions == 7'd2);
    two2_q    <= two_q;
    minus_q   <= tie_minus;
    minus2_q  <= minus_q;
    more_q    <= (threshold > 8'd1);
    more2_q   <= more_q;
    zero_q    <= planes[0];
  end

  logic any_q, any2_q;  // a plane or a vote
  always_ff @(posedge clk) begin
    any_q  <= en && rst_n;
    any2_q <= any_q && rst_n;
  end

  `NF_ASSERT_NEVER(SameLine_A, any2_q && line != want)

  `NF_COVER(TernaryBothSigns_C, shows_q && !binary2_q && line[3:0] == 4'b1110 && more2_q)
  `NF_COVER(TieBeside_C, shows_q && binary2_q && minus2_q && line[1:0] == 2'b10 && zero_q && two2_q)
  `NF_COVER(Plane_C, any2_q && !shows_q && line[1:0] == 2'b10)
endmodule

`default_nettype wire
