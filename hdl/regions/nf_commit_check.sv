// SPDX-License-Identifier: Apache-2.0
// Judges a region descriptor against the address map and the other committed regions.
//
// Purely combinational: `code` is the first rule that `desc` breaks, in the order of the codes in
// nf_pkg, or COMMIT_OK; of a reserved mode nothing else is judged. `ctrl_clash`: it overlaps the
// control window. `state_end` is the line after the state area. The region's own old window and
// area do not count as an overlap. What `others` and `others_state_end` hold of a region that was
// never committed is zero: its window would lie where memory is, which COMMIT_WINDOW_MEMORY refuses
// before, and its area ends before line 0.

`default_nettype none

module nf_commit_check
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20
) (
  input  wire logic [3:0]                 region,            // region of the commit
  input  wire region_desc_t               desc,              // descriptor to judge
  input  wire logic [DESCS_W-1:0]         others,            // active descriptors of all regions
  // Line after the state area of each region.
  input  wire logic [REGIONS*MADDR_W-1:0] others_state_end,
  // The window would overlap the control window.
  input  wire logic                       ctrl_clash,

  output commit_code_e                    code,      // first rule broken, or COMMIT_OK
  output logic [MADDR_W-1:0]              state_end  // line after the state area
);
  localparam logic [8:0] COUNTS = 9'd1 << CNT_W;  // a counter holds fewer

  logic [2:0]         rec_log2;
  logic [MADDR_W-1:0] state_lines, state_base;
  logic [LADDR_W-1:0] window_low;  // ones below the window's alignment
  logic [5:0]         window_log2;
  logic [REGIONS-1:0] window_clash, state_clash;
  logic               mode_ok, too_many, lines_ok, base_aligned, state_aligned;

  assign rec_log2    = record_log2(planes_of(desc.workers, desc.tern5, 4'(CNT_W)));
  assign state_base  = MADDR_W'(desc.state_base);
  assign state_end   = state_base + state_lines;
  assign window_log2 = desc.lines_log2 + 6'd8;
  assign window_low  = (LADDR_W'(1) << window_log2) - LADDR_W'(1);

  always_comb begin
    case (desc.mode)
      MODE_IDENTITY: state_lines = MADDR_W'(256) << desc.lines_log2;
      MODE_FP32:  // data and records: see fp_records
        state_lines = ((MADDR_W'(desc.workers) + MADDR_W'(1) + MADDR_W'(desc.keep_sum))
                       << desc.lines_log2) + MADDR_W'(desc.keep_sum);
      default:       state_lines = (MADDR_W'(1) << rec_log2) << desc.lines_log2;
    endcase
  end

  assign mode_ok       = (is_low_bit(desc.mode) && (desc.tern5 || desc.mode != MODE_G_TERN5))
                         || desc.mode == MODE_IDENTITY || desc.mode == MODE_FP32;
  assign too_many      = desc.tern5 ? {desc.workers, 1'b0} >= COUNTS
                                    : is_int(desc.mode) && {1'b0, desc.workers} >= COUNTS;
  assign lines_ok      = desc.lines_log2 <= 6'(LADDR_W - 8);
  assign base_aligned  = (desc.base & window_low) == '0;
  assign state_aligned = !is_low_bit(desc.mode)
                         || ((desc.state_base & ((LADDR_W'(1) << rec_log2) - LADDR_W'(1))) == '0);

  for (genvar r = 0; r < REGIONS; r++) begin : g_other
    region_desc_t       other;
    logic [LADDR_W-1:0] other_low;
    logic               live;
    assign other           = desc_of(others, 4'(r));
    assign live            = (region != 4'(r));
    assign other_low       = (LADDR_W'(1) << (other.lines_log2 + 6'd8)) - LADDR_W'(1);
    // Naturally aligned windows overlap exactly when they agree above the larger alignment.
    assign window_clash[r] = live && (((desc.base ^ other.base) & ~window_low & ~other_low) == '0);
    assign state_clash[r]  = live && (state_base < others_state_end[r*MADDR_W +: MADDR_W])
                             && (MADDR_W'(other.state_base) < state_end);
  end

  always_comb begin
    if (!mode_ok)                                               code = COMMIT_MODE;
    else if (desc.workers == 8'd0 || desc.workers > 8'(MAX_WORKERS)) code = COMMIT_WORKERS;
    else if (desc.threshold == 8'd0)                            code = COMMIT_THRESHOLD;
    else if (!lines_ok)                                         code = COMMIT_LINES;
    else if (!base_aligned)                                     code = COMMIT_BASE_ALIGN;
    else if ((desc.base >> MEM_LINES_LOG2) == '0)               code = COMMIT_WINDOW_MEMORY;
    else if (|window_clash || ctrl_clash)                       code = COMMIT_WINDOW_OVERLAP;
    else if (!state_aligned)                                    code = COMMIT_STATE_ALIGN;
    else if (state_end > (MADDR_W'(1) << MEM_LINES_LOG2))       code = COMMIT_STATE_MEMORY;
    else if (|state_clash)                                      code = COMMIT_STATE_OVERLAP;
    else if (too_many)                                          code = COMMIT_PLANES;
    else                                                        code = COMMIT_OK;
  end
endmodule

`default_nettype wire
