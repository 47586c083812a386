// SPDX-License-Identifier: Apache-2.0
// S0 of the aggregation engine: finds the slot of a line and chooses one action a clock.
//
// In this order: an FP32 store that memory has answered, a finished fill, an FP32 sum to keep, the
// head of the waiting queue when its slot is ready, a new operation. A new operation that hits an
// open slot is executed; one that hits a slot still filling (or that others wait for) is parked in
// the waiting queue; a miss allocates a victim slot and is parked.
//
// A whole FP32 line that misses is stored at once, while its bookkeeping is fetched ("early"): it
// is parked like any other, and marked as seen when both its slot is ready and memory has answered.
//
// Handshake: `op_*` valid/ready. `issue_valid` cannot be stalled: an action is chosen only when
// `store_room`, `gather_room`, `fill_room` and `evict_room` say that what it may send has a place.
// `fill_valid` stays until the fill was taken, which happens two clocks after it was issued:
// `fill_in_pipe` says so.

`default_nettype none
`include "nf_assert.svh"

module nf_lookup
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 64,
  parameter int MEM_LINES_LOG2 = 20
) (
  input  wire logic                     clk,
  input  wire logic                     rst_n,

  // What may be done.
  input  wire logic                     op_valid,
  output logic                          op_ready,
  input  wire engine_op_t               op,
  input  wire logic                     stored_valid,
  input  wire logic                     stored_err,
  input  wire fp_stored_t               stored,
  input  wire logic                     end_valid,  // of a gather
  output logic                          end_ready,
  input  wire gather_end_t              gather_end,
  input  wire logic                     fill_valid,
  input  wire logic                     fill_in_pipe,
  input  wire logic [$clog2(SLOTS)-1:0] fill_slot,
  input  wire logic                     fill_lost,  // the state it brings must be written back
  input  wire logic                     fill_kept,  // a kept sum is part of it
  input  wire logic [REGIONS-1:0]       invalidate,
  input  wire logic [REGIONS-1:0]       closed,  // FP32 stores of these regions are not made

  // Room at the exits.
  input  wire logic                     store_room,
  input  wire logic                     gather_room,
  input  wire logic                     fill_room,
  input  wire logic                     evict_room,

  // What is done.
  output logic                          issue_valid,
  output engine_stage_t                 issue,
  output logic                          slot_hit,
  output logic                          slot_miss
);
  localparam int OP_W       = $bits(engine_op_t);
  localparam int SLOT_W     = $clog2(SLOTS);
  localparam int KEY_W      = (MEM_LINES_LOG2 < INDEX_W) ? MEM_LINES_LOG2 : INDEX_W;
  localparam int WAIT_DEPTH = 16;

  logic              lk_hit, lk_open, lk_writing, lk_reading, lk_kept;
  logic [SLOT_W-1:0] lk_slot, victim_slot, wait_slot, wait_push_slot;
  logic              victim_ok, victim_dirty, victim_kept;
  line_id_t          victim_line;
  action_e           act;
  engine_op_t        issue_op;
  logic [SLOT_W-1:0] issue_slot;
  logic              head_slot_ready, head_writing, head_reading, head_kept;
  logic              wait_valid, wait_pop, wait_push, wait_room;
  engine_op_t        wait_op, stored_op, keep_op;
  logic              do_stored, do_fill, do_keep, do_head, do_exec, do_wait, do_miss;
  logic              op_reads_fp, head_reads_fp, op_stores_fp, head_stores_fp;
  logic              op_gathers, head_gathers, op_settled, head_settled, op_room, head_room;

  // A sum that is kept is answered from its slot, as a vote is.
  assign op_gathers   = op_reads_fp && !(op.kind == OP_FP_SUM && lk_kept);
  assign head_gathers = head_reads_fp && !(wait_op.kind == OP_FP_SUM && head_kept);

  assign op_reads_fp    = (op.kind == OP_FP_SUM) || (op.kind == OP_FP_RAW);
  assign head_reads_fp  = (wait_op.kind == OP_FP_SUM) || (wait_op.kind == OP_FP_RAW);
  assign op_stores_fp   = (op.kind == OP_FP_STORE);
  assign head_stores_fp = (wait_op.kind == OP_FP_STORE);
  assign op_room   = op_stores_fp ? store_room : op_gathers ? gather_room : 1'b1;
  assign head_room = head_stores_fp ? store_room
                     : head_gathers ? gather_room : 1'b1;

  assign stored_op = make_engine_op(OP_FP_STORE, stored.meta, INDEX_W'(0), stored.worker, 3'd0,
                                    1'b0, BE_W'(0), LINE_W'(0));
  assign keep_op   = make_engine_op(OP_FP_SUM, stored.meta, INDEX_W'(0), 6'd0, 3'd0,
                                    1'b0, BE_W'(0), gather_end.sum);

  // FP32 reads (they enable no byte) wait for the stores of their line, so that a sum is of what
  // was contributed; a partial store waits too, because it must know whether it is its worker's
  // first. Stores wait for the gathers of their line: a sum reads line by line and must not mix the
  // moments before and after a store.
  assign op_settled     = !(lk_writing && op.be != '1) && !(lk_reading && op_stores_fp);
  assign head_settled   = !(head_writing && wait_op.be != '1) && !(head_reading && head_stores_fp);

  logic hit_open, new_turn;
  assign hit_open = lk_open && op_settled;

  // Early stores: parked, first of all that wait for their slot, and of those, answered by memory.
  logic [SLOTS-1:0] early_q, landed_q, landed_err_q;
  logic             miss_early, head_early, head_landed, lands, do_late;
  logic [3:0]       op_region;

  assign op_region   = op.meta.region;
  assign miss_early  = op_stores_fp && !op.poison && (op.be == '1) && store_room
                       && !closed[32'(op_region) % REGIONS];
  assign head_early  = early_q[wait_slot];
  assign head_landed = landed_q[wait_slot];
  assign lands       = stored_valid && early_q[stored.slot[SLOT_W-1:0]];
  assign do_late     = do_head && head_early && head_landed;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      early_q  <= '0;
      landed_q <= '0;
    end else begin
      if (do_miss && miss_early) begin
        early_q[victim_slot]  <= 1'b1;
        landed_q[victim_slot] <= 1'b0;
      end
      if (do_head) early_q[wait_slot] <= 1'b0;
      if (lands) landed_q[stored.slot[SLOT_W-1:0]] <= 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    if (lands) landed_err_q[stored.slot[SLOT_W-1:0]] <= stored_err;
  end

  assign do_stored = stored_valid && !lands;
  assign do_fill   = !stored_valid && fill_valid && !fill_in_pipe;
  assign do_keep   = !stored_valid && !do_fill && end_valid && gather_end.keep;
  assign do_head   = !stored_valid && !do_fill && !do_keep && wait_valid && head_slot_ready
                     && (head_early || (head_settled && head_room));
  assign new_turn  = !stored_valid && !do_fill && !do_keep && !do_head && op_valid;
  assign do_exec   = new_turn && hit_open && op_room;
  assign do_wait   = new_turn && lk_hit && !hit_open && wait_room;
  assign do_miss   = new_turn && !lk_hit && victim_ok && wait_room && fill_room
                     && (!victim_dirty || evict_room);
  assign end_ready = do_keep || !gather_end.keep;
  assign op_ready  = do_exec || do_wait || do_miss;

  // An early store that memory has not answered yet is no longer early: its answer issues it.
  assign issue_valid    = do_stored || do_fill || do_keep || do_exec || do_miss
                          || (do_head && (!head_early || head_landed));
  assign issue          = make_stage(act, issue_op, 8'(issue_slot), do_head ? head_kept : lk_kept,
                                     miss_early, victim_dirty, victim_kept, victim_line,
                                     do_late ? landed_err_q[wait_slot] : stored_err);
  assign act            = (do_stored || do_late) ? ACT_STORED : do_fill ? ACT_FILL
                          : do_keep ? ACT_KEEP : do_miss ? ACT_MISS : ACT_OP;
  assign issue_op       = do_stored ? stored_op : do_keep ? keep_op : do_head ? wait_op : op;
  assign issue_slot     = do_stored ? stored.slot[SLOT_W-1:0] : do_fill ? fill_slot
                          : do_keep ? gather_end.slot[SLOT_W-1:0]
                          : do_head ? wait_slot : do_miss ? victim_slot : lk_slot;
  assign wait_push      = do_wait || do_miss;
  assign wait_push_slot = do_miss ? victim_slot : lk_slot;
  assign wait_pop       = do_head;

  logic       executes_store, modifies, starts_store, starts_gather;
  logic [3:0] issue_region;
  assign issue_region   = issue_op.meta.region;
  assign executes_store = (do_head && head_stores_fp && !head_early)
                          || (do_exec && op_stores_fp);
  assign starts_store  = (executes_store && !issue_op.poison
                          && !closed[32'(issue_region) % REGIONS]) || (do_miss && miss_early);
  assign starts_gather = (do_exec && op_gathers) || (do_head && head_gathers);
  assign modifies      = do_stored || do_late || do_keep || (do_fill && fill_lost) || executes_store
                         || ((do_head || do_exec) && (issue_op.kind == OP_CONTRIBUTE));

  nf_slot_table #(.SLOTS(SLOTS), .REGIONS(REGIONS), .KEY_W(KEY_W)) u_table (
    .clk, .rst_n,
    .lk_line        (make_line_id(op.meta.region, op.index)),
    .lk_hit, .lk_slot, .lk_open, .lk_writing, .lk_reading, .lk_kept,
    .victim_ok, .victim_slot, .victim_dirty, .victim_kept, .victim_line,
    .head_slot      (wait_slot),
    .head_ready     (head_slot_ready),
    .head_writing   (head_writing),
    .head_reading   (head_reading),
    .head_kept      (head_kept),
    .alloc          (do_miss),
    .wait_add       (do_wait),
    .wait_take      (do_head),
    .filled         (do_fill),
    .fill_slot      (fill_slot),
    .keep           (do_keep || (do_fill && fill_kept)),
    .unkeep         (executes_store),
    .touch          (modifies),
    .touch_slot     (issue_slot),
    .write_start    (starts_store),
    .write_end      (do_stored || do_late),
    .write_end_slot (do_late ? wait_slot : stored.slot[SLOT_W-1:0]),
    .read_start     (starts_gather),
    .read_slot      (issue_slot),
    .read_end       (end_valid && end_ready),
    .read_end_slot  (gather_end.slot[SLOT_W-1:0]),
    .invalidate
  );

  nf_fifo #(.WIDTH(SLOT_W + OP_W), .DEPTH(WAIT_DEPTH)) u_waiting (
    .clk, .rst_n,
    .in_valid  (wait_push),
    .in_ready  (wait_room),
    .in_data   ({wait_push_slot, op}),
    .out_valid (wait_valid),
    .out_ready (wait_pop),
    .out_data  ({wait_slot, wait_op}),
    /* verilator lint_off PINCONNECTEMPTY */
    .count     ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign slot_hit  = do_exec || do_wait;
  assign slot_miss = do_miss;

  `NF_ASSERT_NEVER(NoStoreRoom_A, starts_store && !store_room)
  `NF_ASSERT_NEVER(NoGatherRoom_A, starts_gather && !gather_room)
  `NF_ASSERT_NEVER(NoMissRoom_A, do_miss && (!fill_room || (victim_dirty && !evict_room)))
  `NF_ASSERT_NEVER(NoWaitRoom_A, wait_push && !wait_room)
  `NF_ASSERT(EarlyIsStore_A, (do_head && head_early) |-> head_stores_fp && !wait_op.poison)
  `NF_ASSERT_NEVER(EarlyOverStore_A, do_miss && early_q[victim_slot])
  `NF_ASSERT(OneAction_A, $onehot0({do_stored, do_fill, do_keep, do_head, do_exec, do_wait,
                                    do_miss}))
endmodule

`default_nettype wire
