// SPDX-License-Identifier: Apache-2.0
// Rules of the control window: which messages are addressed to it, and which of them are refused.
//
// Purely combinational. A write is refused if it contains a part of a 32-bit word (`partial`), then
// if it is poisoned, or if neither CTRL_LD_MASK nor the owner of the line's region names its LD-ID
// (`denied`). Registers may be read by everyone.

`default_nettype none

module nf_ctrl_rules
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_regs_pkg::*;
#(
  parameter int REGIONS = 8
) (
  input  wire logic                       on,       // the control window exists
  input  wire logic [LADDR_W-1:0]         base,     // first line address of the window
  input  wire logic [15:0]                ld_mask,  // LD-IDs that may write every register
  input  wire logic [REGIONS*OWNER_W-1:0] owners,   // owner of each region (owner_t)
  input  wire access_t                    msg,      // admitted message

  output logic                            here,     // the message is to the control window
  output logic [CTRL_LINES_LOG2-1:0]      line,     // number of the line in the window
  output logic [CTRL_WORDS-1:0]           words,  // words of the line whose byte enables are set
  output logic                            partial,  // a write of a part of a word
  // A write that is poisoned, or whose LD-ID has no right.
  output logic                            denied
);
  localparam logic [CTRL_LINES_LOG2-1:0] REGION_LINE = ADDR_REGION[6 +: CTRL_LINES_LOG2];

  if (REGION_STRIDE != 4 * CTRL_WORDS) begin : g_bad_stride
    initial $fatal(1, "nf_ctrl_rules: the registers of a region must be one line");
  end

  logic [CTRL_WORDS-1:0] cut;
  logic [REGIONS-1:0]    owned;
  logic [LDID_W-1:0]     ldid;

  assign ldid   = msg.ldid;
  assign here   = on && ((msg.addr >> CTRL_LINES_LOG2) == (base >> CTRL_LINES_LOG2));
  assign line   = msg.addr[CTRL_LINES_LOG2-1:0];

  for (genvar w = 0; w < CTRL_WORDS; w++) begin : g_word
    assign words[w] = &msg.be[w*4 +: 4];
    assign cut[w]   = (|msg.be[w*4 +: 4]) && !words[w];
  end

  for (genvar r = 0; r < REGIONS; r++) begin : g_owner
    owner_t owner;
    assign owner    = owners[r*OWNER_W +: OWNER_W];
    assign owned[r] = owner.valid && (owner.ldid == ldid)
                      && (line == REGION_LINE + CTRL_LINES_LOG2'(r));
  end

  assign partial = |cut;
  assign denied  = msg.poison || !(ld_mask[ldid] || (|owned));
endmodule

`default_nettype wire
