// SPDX-License-Identifier: Apache-2.0
// The set of slots that a line belongs to, one of 2^SET_W (set_index_masks). Combinational.

`default_nettype none

module nf_set_of
  import nf_core_pkg::*;
#(
  parameter int SET_W = 5
) (
  input  wire line_id_t     line,  // the line
  output logic [SET_W-1:0]  set    // its set
);
  localparam logic [7*INDEX_W-1:0] INDEX_MASKS = set_index_masks(SET_W);

  for (genvar p = 0; p < SET_W; p++) begin : g_bit
    localparam int REGION_BIT = SET_W - 1 - p;
    assign set[p] = ^(line.index & INDEX_MASKS[p*INDEX_W +: INDEX_W])
                    ^ ((REGION_BIT < 4) ? line.region[REGION_BIT%4] : 1'b0);
  end
endmodule

`default_nettype wire
