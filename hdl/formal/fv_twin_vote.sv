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
  input wire logic                    ternary,
  input wire logic [CNT_W*LINE_W-1:0] planes,
  input wire logic [6:0]              contributions,
  input wire logic                    tie_minus,
  input wire logic [7:0]              threshold
);
  localparam int GROUPS = LINE_W / COLUMNS;

  logic [LINE_W-1:0] line, want;

  `NF_FORMAL_NO_RESET

  nf_vote #(.CNT_W(CNT_W)) dut (.*);

  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    logic [CNT_W*COLUMNS-1:0] own;

    for (genvar p = 0; p < CNT_W; p++) begin : g_plane
      assign own[p*COLUMNS +: COLUMNS] = planes[p*LINE_W + g*COLUMNS +: COLUMNS];
    end
    myhdl_nf_vote u_twin (
      .en, .ternary, .planes(own), .contributions, .tie_minus, .threshold,
      .line(want[g*COLUMNS +: COLUMNS])
    );
  end

  `NF_ASSUME(Threshold_M, threshold != 8'd0)

  `NF_ASSERT_NEVER(SameLine_A, en && line != want)

  `NF_COVER(TernaryBothSigns_C, en && ternary && line[3:0] == 4'b1110 && threshold > 8'd1)
  `NF_COVER(TieBeside_C, en && !ternary && tie_minus && line[1:0] == 2'b10 && planes[0] &&
                         contributions == 7'd2)
endmodule

`default_nettype wire
