// SPDX-License-Identifier: Apache-2.0
// White-box functional coverage of S0: FP32 lines in their slots (kept sums, and stores that go
// early), deferred operations, and the set of a line.
//
// Bound into nf_lookup under Verilator (white_box.toml names the bins, in the order of the codes
// here). The module drives nothing.

`default_nettype none
`include "nf_cover.svh"

/* verilator coverage_off */
/* verilator lint_off UNUSEDSIGNAL */

module nf_lookup_cover
  import nf_pkg::*;
  import nf_core_pkg::*;
(
  input wire logic       clk,
  input wire logic       rst_n,
  input wire engine_op_t op,
  input wire engine_op_t issue_op,
  input wire logic       do_keep,
  input wire logic       do_fill,
  input wire logic       do_exec,
  input wire logic       do_head,
  input wire logic       do_miss,
  input wire logic       fetch,
  input wire logic       executes_store,
  input wire logic       fill_kept,
  input wire logic       lk_kept,
  input wire logic       head_kept,
  input wire logic       victim_kept,
  input wire logic       victim_dirty,
  input wire logic       commit_drops,
  input wire logic       slot_kept,
  input wire logic       miss_early,
  input wire logic       fill_early,
  input wire logic       fill_landed,
  input wire logic       lands,
  input wire logic       stored_err,
  input wire logic       deferred_valid,
  input wire logic       take_deferred,
  input wire logic       again,      // S0 decides on one that was deferred
  input wire logic       do_wait,
  input wire logic       gives_way,  // a new operation, to the deferred one
  input wire logic       victim_ok,
  input wire logic       fill_room,
  input wire logic       deferred_room,
  input wire logic       evict_lacks,
  input wire logic       do_defer,
  input wire logic       set_full,      // no slot of the set is free
  input wire logic       slot_free,     // a slot is
  input wire logic       slot_unpinned,
  input wire logic       same_set,      // another line of the set is looked up
  input wire logic       frees,         // slots that a commit has dropped
  input wire logic       want
);
  // ---- the life of a kept sum -------------------------------------------------------------------
  logic       kept_on, reads, ends_kept;
  logic [3:0] kept_at;
  assign reads     = issue_op.kind == OP_FP_SUM && ((do_exec && lk_kept) || (do_head && head_kept));
  assign ends_kept = executes_store && slot_kept;
  always_comb begin
    kept_on = 1'b1;
    if (commit_drops)                               kept_at = 4'd9;
    else if (do_keep)                               kept_at = slot_kept ? 4'd1 : 4'd0;
    else if (do_fill && fill_kept)                  kept_at = 4'd8;
    else if (reads)                                 kept_at = do_head ? 4'd3 : 4'd2;
    else if (ends_kept && issue_op.poison)          kept_at = 4'd6;
    else if (ends_kept)                             kept_at = issue_op.be == '1 ? 4'd4 : 4'd5;
    else if (do_miss && victim_kept)                kept_at = victim_dirty ? 4'd7 : 4'd10;
    else begin
      kept_at = 4'd0;
      kept_on = 1'b0;
    end
  end
  `NF_POINT(kept, 4)

  // ---- the first store of a line that is in no slot ---------------------------------------------
  logic       early_on, misses;
  logic [2:0] early_at;
  assign misses = fetch && op.kind == OP_FP_STORE;
  always_comb begin
    early_on = 1'b1;
    if (misses && miss_early)                            early_at = 3'd0;
    else if (misses && op.poison)                        early_at = 3'd2;
    else if (misses && op.be != '1)                      early_at = 3'd1;
    else if (misses)                                     early_at = 3'd3;
    else if (lands)                                      early_at = stored_err ? 3'd5 : 3'd4;
    else if (do_fill && fill_early && !fill_landed)      early_at = 3'd6;
    else begin
      early_at = 3'd0;
      early_on = 1'b0;
    end
  end
  `NF_POINT(early, 3)

  // ---- the oldest deferred operation ------------------------------------------------------------
  logic       deferred_on;
  logic [3:0] deferred_at;
  always_comb begin
    deferred_on = again || (deferred_valid && !take_deferred);
    if (again)               deferred_at = do_exec ? 4'd0 : do_wait ? 4'd1 : fetch ? 4'd2 : 4'd3;
    else if (gives_way)      deferred_at = 4'd4;
    else if (!victim_ok)     deferred_at = 4'd5;
    else if (!fill_room)     deferred_at = 4'd6;
    else if (evict_lacks)    deferred_at = 4'd7;
    else if (!deferred_room) deferred_at = 4'd8;
    else                     deferred_at = 4'd9;
  end
  `NF_POINT(deferred, 4)

  // ---- the set of a line ------------------------------------------------------------------------
  logic [3:0]      set_on;
  logic [3:0][2:0] set_at;
  assign set_on[0] = do_miss && set_full && slot_free;
  assign set_on[1] = do_defer && !victim_ok && slot_unpinned;
  assign set_on[2] = do_miss && same_set;
  assign set_on[3] = frees;
  assign set_at    = {want ? 3'd3 : 3'd4, 3'd2, 3'd1, 3'd0};
  `NF_POINTS(set, 3, 4)
endmodule

bind nf_lookup nf_lookup_cover u_cover (
  .clk, .rst_n, .op (lk_op), .issue_op, .do_keep, .do_fill, .do_exec, .do_head, .do_miss, .fetch,
  .executes_store,
  .fill_kept, .lk_kept, .head_kept, .victim_kept, .victim_dirty,
  .commit_drops (|(u_table.stale & u_table.kept_q[u_table.row])),
  .slot_kept    (|(u_table.at_kept & u_table.at_way)),
  .miss_early, .fill_early, .fill_landed, .lands, .stored_err,
  .deferred_valid, .take_deferred, .do_wait, .victim_ok, .fill_room, .deferred_room,
  .again        (go && lk_again_q),
  .gives_way    (do_defer && impatient && op_fp && !behind),
  .evict_lacks  (victim_dirty && !evict_room),
  .do_defer,
  .set_full      (&u_table.row_used),
  .slot_free     (!(&u_table.set_full)),
  .slot_unpinned ($countones(u_pins.held) < SLOTS),
  .same_set      (look && u_table.look_set == u_table.lk_set_q && look_line != lk_line),
  .frees         (|u_table.stale && (look || u_table.sweeps)),
  .want
);

/* verilator lint_on UNUSEDSIGNAL */
/* verilator coverage_on */
`default_nettype wire
