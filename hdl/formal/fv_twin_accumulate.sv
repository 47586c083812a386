// SPDX-License-Identifier: Apache-2.0
// nf_accumulate against its MyHDL twin. A twin has COLUMNS of the line; as many of them stand side
// by side as the line is wide, so that at full width this shows how the lanes are wired, too: what
// is illegal is then counted lane group by lane group.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_twin_accumulate
  import nf_pkg::*;
#(
  parameter int CNT_W   = 8,
  parameter int COLUMNS = 16
) (
  input wire logic                    clk,
  input wire logic                    en,
  input wire logic                    ternary,
  input wire logic                    ones,
  input wire logic [LINE_W-1:0]       data,
  input wire logic [CNT_W*LINE_W-1:0] planes_in
);
  localparam int GROUPS = LINE_W / COLUMNS;

  logic [CNT_W*LINE_W-1:0] planes_out;
  logic                    saturated;
  logic [8:0]              illegal;

  `NF_FORMAL_NO_RESET

  nf_accumulate #(.CNT_W(CNT_W)) dut (.*);

  // ---- twins -----------------------------------------------------------------------------------
  logic [GROUPS-1:0] other, miscounted, lost;

  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    logic [CNT_W*COLUMNS-1:0] own, after, want;
    logic [COLUMNS-1:0]       bad;
    logic [8:0]               wrong;

    for (genvar p = 0; p < CNT_W; p++) begin : g_plane
      assign own[p*COLUMNS +: COLUMNS]   = planes_in[p*LINE_W + g*COLUMNS +: COLUMNS];
      assign after[p*COLUMNS +: COLUMNS] = planes_out[p*LINE_W + g*COLUMNS +: COLUMNS];
    end
    myhdl_nf_accumulate u_twin (
      .en, .ternary, .ones, .data(data[g*COLUMNS +: COLUMNS]), .planes_in(own),
      .planes_out(want), .saturated(lost[g]), .illegal(wrong)
    );
    assign bad           = dut.bad[g*COLUMNS +: COLUMNS];
    assign other[g]      = (after != want);
    assign miscounted[g] = en && (wrong != (ternary ? 9'($countones(bad)) : 9'd0));
  end

  `NF_ASSERT(SamePlanes_A, other == '0)
  `NF_ASSERT(SameSaturated_A, saturated == (lost != '0))
  `NF_ASSERT(SameIllegal_A, miscounted == '0)
  `NF_ASSERT(IllegalInAll_A, illegal == (ternary ? 9'($countones(dut.bad)) : 9'd0))

  `NF_COVER(Saturates_C, saturated && ternary)
  `NF_COVER(Illegal_C, en && illegal == 9'd2)
endmodule

`default_nettype wire
