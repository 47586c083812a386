// SPDX-License-Identifier: Apache-2.0
// Window decode and protection: what an admitted message means, or why it is refused.
//
// Combinational, one message a clock. Exactly one of the outputs is valid for a valid input;
// `in_ready` is the ready of that output. The order of the checks is the order of the causes in
// nf_pkg: the first that applies is reported.

`default_nettype none
`include "nf_assert.svh"
`include "nf_wave.svh"

module nf_decode
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int MEM_LINES_LOG2 = 20
) (
  input  wire logic                       clk,    // clock, rising edge
  input  wire logic                       rst_n,  // asynchronous reset, active low

  input  wire logic [REGIONS-1:0]         committed,  // regions whose window is active
  input  wire logic [DESCS_W-1:0]         desc,       // active descriptors of all regions
  input  wire logic [REGIONS*MADDR_W-1:0] state_end,  // line after the state area of each region

  // What a commit or CLOSE concerns waits here: accesses to the window of its region, and with
  // `held_new` those to the window and the state area that the region asks for.
  input  wire logic                       held_all,     // everything waits: a window moves
  input  wire logic                       held,         // a commit or CLOSE is under way
  input  wire logic                       held_new,     // it is a commit
  input  wire logic [3:0]                 held_region,  // its region
  input  wire region_desc_t               held_desc,    // descriptor that is asked for
  input  wire logic [MADDR_W-1:0]         held_end,     // line after the state area of that
  input  wire logic                       batch,        // batch of what is taken (nf_drain)

  // The control window, and who may write through it (see nf_ctrl_rules).
  input  wire logic                       ctrl_on,       // the control window exists
  input  wire logic [LADDR_W-1:0]         ctrl_base,     // first line address of the control window
  input  wire logic [15:0]                ctrl_ld_mask,  // LD-IDs that may write every register
  input  wire logic [REGIONS*OWNER_W-1:0] owners,        // owner of each region (owner_t)

  input  wire logic                       in_valid,  // input message valid
  output logic                            in_ready,  // input message taken
  input  wire access_t                    in_msg,    // admitted message

  output logic                            engine_valid,  // operation of the aggregation engine
  input  wire logic                       engine_ready,  // the engine takes it
  output engine_op_t                      engine_op,     // kind, line, worker and data

  output logic                            plain_valid,  // access to ordinary memory
  input  wire logic                       plain_ready,  // plain memory takes it
  output plain_op_t                       plain_op,     // address and data

  // A read of the region's status: selectors 2 to 6 at line 0.
  output logic                            view_valid,  // read of the status view
  input  wire logic                       view_ready,     // the status view takes it
  output logic [2:0]                      view_selector,  // selector, 2 to 6

  output logic                            ctrl_valid,  // access to the control window
  input  wire logic                       ctrl_ready,  // the control window takes it
  output ctrl_op_t                        ctrl_op,     // line, words and data

  // Answered without touching anything: Cmp, or all ones with Poison.
  output logic                            direct_valid,    // answer without an access
  input  wire logic                       direct_ready,    // it is taken
  output logic                            direct_is_read,  // it is answered with data
  output resp_meta_t                      direct_meta,  // of `view` and `ctrl` too

  output access_error_t                   error,  // strobe, with the message taken
  output logic                            refused,     // strobe: refused by a rule of protection
  output logic                            unmapped,    // strobe: neither memory nor a window
  // Strobe: opcode that the device does not have.
  output logic                            unsupported
);
  logic [REGIONS-1:0] in_window, in_state;
  logic [3:0]         region;
  region_desc_t       d;
  logic               is_read, is_write, is_inval, is_known, windowed, in_memory;
  logic [LADDR_W-1:0] shifted, offset;
  logic [7:0]         selector, bound_to;
  logic [INDEX_W-1:0] index;
  logic               low_bit, sel_ok, sel_raw, sel_plane, sel_info, sel_view;
  logic               sums, sel_sum16, sel_sum8;
  cause_e             cause;
  logic [15:0]        ld_mask;
  logic [LDID_W-1:0]  ldid;

  for (genvar r = 0; r < REGIONS; r++) begin : g_match
    region_desc_t       own;
    logic [LADDR_W-1:0] differ;
    assign own          = desc_of(desc, 4'(r));
    assign differ       = (in_msg.addr ^ own.base) >> (own.lines_log2 + 6'd8);
    assign in_window[r] = committed[r] && (differ == '0);
    assign in_state[r]  = (in_msg.addr >= own.state_base)  // without a commit it ends at 0
                          && (MADDR_W'(in_msg.addr) < state_end[r*MADDR_W +: MADDR_W]);
  end

  logic                       in_ctrl, ctrl_partial, ctrl_denied;
  logic [CTRL_LINES_LOG2-1:0] ctrl_line;
  logic [CTRL_WORDS-1:0]      ctrl_words;

  nf_ctrl_rules #(.REGIONS(REGIONS)) u_ctrl (
    .on (ctrl_on), .base (ctrl_base),
    .ld_mask (ctrl_ld_mask), .owners,
    .msg (in_msg),
    .here (in_ctrl), .line (ctrl_line),
    .words (ctrl_words),
    .partial (ctrl_partial), .denied (ctrl_denied)
  );

  always_comb begin
    region = '0;
    for (int r = 0; r < REGIONS; r++) begin
      if (in_window[r]) region = region | 4'(r);
    end
  end

  assign d         = desc_of(desc, region);
  assign ld_mask   = d.ld_mask;
  assign ldid      = in_msg.ldid;
  assign windowed  = |in_window;
  assign in_memory = (in_msg.addr >> MEM_LINES_LOG2) == '0;
  assign is_read   = !in_msg.is_rwd
                     && (in_msg.opcode == REQ_MEM_RD || in_msg.opcode == REQ_MEM_RD_DATA);
  assign is_write  = in_msg.is_rwd && !in_msg.illegal
                     && (in_msg.opcode == RWD_MEM_WR || in_msg.opcode == RWD_MEM_WR_PTL);
  assign is_inval  = !in_msg.is_rwd
                     && (in_msg.opcode == REQ_MEM_INV || in_msg.opcode == REQ_MEM_INV_NT);
  assign is_known  = is_read || is_write || is_inval;

  assign shifted   = in_msg.addr >> d.lines_log2;
  assign selector  = shifted[7:0];
  assign offset    = in_msg.addr & ((LADDR_W'(1) << d.lines_log2) - LADDR_W'(1));
  assign index     = offset[INDEX_W-1:0];
  assign bound_to  = selector >> d.bind_shift;
  assign low_bit   = is_low_bit(d.mode);
  assign sel_info  = (selector == 8'd1);
  assign sel_view  = (selector >= 8'd2) && (selector <= 8'd6) && (index == '0);
  assign sel_plane = (selector[7:3] == 5'd1);
  assign sums      = is_int(d.mode);
  assign sel_sum16 = (selector[7:2] == 6'b0001_00) && (d.mode == MODE_G_INT4 || !selector[1]);
  assign sel_sum8  = (selector[7:1] == 7'b0010_000) && d.mode == MODE_G_INT4 && d.workers <= 8'd16;
  assign sel_raw   = (selector[7:6] == 2'd1) && ({2'd0, selector[5:0]} < d.workers);

  always_comb begin
    if (d.mode == MODE_IDENTITY) sel_ok = 1'b1;
    else if (is_write)           sel_ok = (selector < d.workers);
    else if (sel_info || sel_view) sel_ok = 1'b1;
    else if (sums)               sel_ok = sel_plane || sel_sum16 || sel_sum8;
    else if (low_bit)            sel_ok = (selector == 8'd0) || sel_plane;
    else                         sel_ok = (selector == 8'd0) || sel_raw;
  end

  always_comb begin
    if (!is_known)                                                     cause = CAUSE_UNSUPPORTED;
    else if (is_inval)                                                 cause = CAUSE_NONE;
    else if (in_ctrl && is_write && ctrl_partial)                      cause = CAUSE_PARTIAL;
    else if (in_ctrl && is_write && ctrl_denied)                       cause = CAUSE_CONTROL;
    else if (in_ctrl)                                                  cause = CAUSE_NONE;
    else if (!windowed && !in_memory)                                  cause = CAUSE_UNMAPPED;
    else if (|in_state)                                                cause = CAUSE_STATE_AREA;
    else if (!windowed)                                                cause = CAUSE_NONE;
    else if (!ld_mask[ldid])                                           cause = CAUSE_LD_MASK;
    else if (!sel_ok)                                                  cause = CAUSE_SELECTOR;
    else if (is_write && low_bit && in_msg.opcode == RWD_MEM_WR_PTL)   cause = CAUSE_PARTIAL;
    else if (is_write && d.bind_ld && bound_to != {4'd0, in_msg.ldid}) cause = CAUSE_BIND;
    else                                                               cause = CAUSE_NONE;
  end

  // ---- what waits for a commit ------------------------------------------------------------------
  logic [LADDR_W-1:0] held_differ;
  logic               waits, goes;

  assign held_differ = (in_msg.addr ^ held_desc.base) >> (held_desc.lines_log2 + 6'd8);
  assign waits = held_all
                 || (held && !in_ctrl
                     && ((windowed && region == held_region)
                         || (held_new && (held_differ == '0
                                          || (in_msg.addr >= held_desc.state_base
                                              && MADDR_W'(in_msg.addr) < held_end)))));
  assign goes  = in_valid && !waits;

  // ---- outputs --------------------------------------------------------------------------------
  logic to_direct, to_ctrl, to_plain, to_view;

  assign to_direct    = (cause != CAUSE_NONE) || is_inval;
  assign to_ctrl      = !to_direct && in_ctrl;
  assign to_plain     = !to_direct && !to_ctrl && (!windowed || d.mode == MODE_IDENTITY);
  assign to_view      = !to_direct && !to_ctrl && !to_plain && !is_write && sel_view;
  assign direct_valid = goes && to_direct;
  assign plain_valid  = goes && to_plain;
  assign view_valid   = goes && to_view;
  assign ctrl_valid   = goes && to_ctrl;
  assign engine_valid = goes && !to_direct && !to_ctrl && !to_plain && !to_view;
  assign in_ready     = !waits && (to_direct ? direct_ready : to_ctrl ? ctrl_ready
                                   : to_plain ? plain_ready : to_view ? view_ready : engine_ready);

  assign view_selector  = selector[2:0];

  assign direct_meta    = make_meta(in_msg.tag, in_msg.ldid, windowed, region, batch);
  assign direct_is_read = !in_msg.is_rwd && (is_read || in_msg.opcode == REQ_MEM_RD_FWD);

  assign ctrl_op        = make_ctrl_op(is_write, direct_meta, ctrl_line, ctrl_words, in_msg.data);

  logic [LADDR_W-1:0] plain_addr;
  op_kind_e           kind;

  assign plain_addr = !windowed ? in_msg.addr
                      : d.state_base + (LADDR_W'(selector) << d.lines_log2) + LADDR_W'(index);
  assign kind       = (sel_info && !is_write) ? OP_INFO
                      : low_bit ? (is_write ? OP_CONTRIBUTE : sel_plane ? OP_PLANE
                                            : sums ? OP_SUM : OP_VOTE)
                                : (is_write ? OP_FP_STORE : sel_raw ? OP_FP_RAW : OP_FP_SUM);

  // The selector's low bits are the worker (of a write, or of a raw read at 64 + w), the plane (at
  // 8 + p) or the line of sums (SUM16 at 16 + j, SUM8 at 32 + j).
  assign plain_op  = make_plain_op(is_write, direct_meta, plain_addr, in_msg.poison, in_msg.be,
                                   in_msg.data);
  assign engine_op = make_engine_op(kind, direct_meta, index, selector[5:0], selector[2:0],
                                    in_msg.poison, in_msg.be, in_msg.data);

  logic took_error;
  assign took_error = in_valid && in_ready && (cause != CAUSE_NONE);

  assign error = make_access_error(took_error, cause, in_msg.is_rwd, in_msg.opcode, in_msg.ldid,
                                   in_msg.tag, in_msg.addr);

  assign unsupported = took_error && (cause == CAUSE_UNSUPPORTED);
  assign unmapped    = took_error && (cause == CAUSE_UNMAPPED);
  assign refused     = took_error && !unsupported && !unmapped;

  `NF_ASSERT_NEVER(OneWindow_A, in_valid && !$onehot0(in_window))
  `NF_ASSERT_NEVER(OneTarget_A, goes && !$onehot({direct_valid, ctrl_valid, plain_valid,
                                                       view_valid, engine_valid}))

  `NF_WAVE_NAME(cause_name, cause, cause_name)
  `NF_WAVE_NAME(kind_name, kind, op_kind_name)
  `NF_WAVE_NAME(mode_name, d.mode, mode_name)
endmodule

`default_nettype wire
