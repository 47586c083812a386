// SPDX-License-Identifier: Apache-2.0
// Where the control window lies (64 lines, naturally aligned; line 0: nowhere).
//
// `code` judges the place `place` against the memory and the committed regions' windows; with
// `move` it takes effect in the next clock, unless it is refused. `clash` shows whether the window
// of the descriptor `region` would overlap the control window.

`default_nettype none

module nf_ctrl_place
  import nf_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int MEM_LINES_LOG2 = 20
) (
  input  wire logic               clk,    // clock, rising edge
  input  wire logic               rst_n,  // asynchronous reset, active low

  input  wire logic               move,       // move the control window to `place`
  input  wire logic [LADDR_W-1:0] place,      // line address asked for
  input  wire logic [REGIONS-1:0] committed,  // regions with an active descriptor
  input  wire logic [DESCS_W-1:0] descs,      // active descriptors of all regions
  output commit_code_e            code,       // result of `place`

  input  wire region_desc_t       region,  // descriptor whose window is compared
  output logic                    clash,   // that window would overlap the control window

  output logic                    on,   // the control window exists
  output logic [LADDR_W-1:0]      base  // its first line address
);
  // Both are naturally aligned, and a region's window is the larger one.
  function automatic logic overlaps(input region_desc_t desc, input logic [LADDR_W-1:0] line);
    return ((desc.base ^ line) >> (desc.lines_log2 + 6'd8)) == '0;
  endfunction

  logic [LADDR_W-1:0] base_q;
  logic [REGIONS-1:0] taken;

  for (genvar r = 0; r < REGIONS; r++) begin : g_taken
    assign taken[r] = committed[r] && overlaps(desc_of(descs, 4'(r)), place);
  end

  always_comb begin
    if (place == '0)                                        code = COMMIT_OK;
    else if (place[CTRL_LINES_LOG2-1:0] != '0)              code = COMMIT_BASE_ALIGN;
    else if ((place >> MEM_LINES_LOG2) == '0)               code = COMMIT_WINDOW_MEMORY;
    else if (|taken)                                        code = COMMIT_WINDOW_OVERLAP;
    else                                                    code = COMMIT_OK;
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) base_q <= '0;
    else if (move && code == COMMIT_OK) base_q <= place;
  end

  assign on    = (base_q != '0);
  assign base  = base_q;
  assign clash = on && overlaps(region, base_q);
endmodule

`default_nettype wire
