// SPDX-License-Identifier: Apache-2.0
// nf_accumulate against its MyHDL twin. A twin has COLUMNS of the line; as many of them stand side
// by side as the line is wide, so that at full width this shows how the lanes are wired, too.

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

  `NF_FORMAL_NO_RESET

  nf_accumulate #(.CNT_W(CNT_W)) dut (.*);

  // ---- twins -----------------------------------------------------------------------------------
  logic [GROUPS-1:0] other, lost;

  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    logic [CNT_W*COLUMNS-1:0] own, after, want;

    for (genvar p = 0; p < CNT_W; p++) begin : g_plane
      assign own[p*COLUMNS +: COLUMNS]   = planes_in[p*LINE_W + g*COLUMNS +: COLUMNS];
      assign after[p*COLUMNS +: COLUMNS] = planes_out[p*LINE_W + g*COLUMNS +: COLUMNS];
    end
    myhdl_nf_accumulate u_twin (
      .en, .ternary, .ones, .data(data[g*COLUMNS +: COLUMNS]), .planes_in(own),
      .planes_out(want), .saturated(lost[g])
    );
    assign other[g] = (after != want);
  end

  `NF_ASSERT(SamePlanes_A, other == '0)
  `NF_ASSERT(SameSaturated_A, saturated == (lost != '0))

  `NF_COVER(Saturates_C, saturated && ternary)
endmodule

`default_nettype wire
