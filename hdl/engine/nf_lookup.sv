// SPDX-License-Identifier: Apache-2.0
// SL and S0 of the aggregation engine: looks for the slot of a line, then decides, one action a
// clock.
//
// SL looks up a deferred operation if it can issue, else a new one: nf_slot_table compares its tag
// and nf_written reads its mark. It is in S0 from the next clock on, until its turn comes.
//
// S0 chooses, in this order: an FP32 store that memory has answered, a finished fill, an FP32
// sum to keep, a parked operation whose slot is ready, the operation that was looked up. One
// that hits an open slot is executed; one that hits a slot that is filling, that others wait for
// or that has no room at its exit is parked with its slot (nf_park), where it blocks no other
// slot. A miss takes a victim slot. If no record of its line can be in memory (nf_written) it
// is executed at once on the empty state; else it is parked, and the record is fetched. A miss
// that finds no victim, or no room for its fill or eviction, is deferred, and so are later
// operations on its line: a new operation is never refused for longer than the actions before it
// take. SL looks at a deferred operation only where S0 is sure to find a victim, and room for
// its fill and eviction. A miss whose victim was modified or filled in the clock before waits a
// clock: so the state of a victim is never forwarded from S3 to S2. FP32 operations that hit give
// way to a deferred one that has waited for 2^PATIENCE_LOG2 clocks.
//
// A whole FP32 line whose record is fetched is stored at once ("early"). It is parked like any
// other and leaves with the fill: as a store that memory has answered, or, if memory has not yet,
// as one that is no longer early.
//
// Handshake: `op_*` valid/ready. `issue_valid` cannot be stalled: an action is chosen only when
// `store_room`, `gather_room`, `fill_room` and `evict_room` say that what it may send has a place.
// `fill_valid` stays until the fill was taken, which `fill_take` says, a clock or two after it was
// issued; until then it is `fill_in_pipe`. Whose turn it is, whether or not memory has answered,
// tell `fill_due` and `fill_pin`: the operation that waits for it is read ahead, and a fill goes
// where that is done (`fill_known`). There are never more than OPS operations that have no answer.

`default_nettype none
`include "nf_assert.svh"

module nf_lookup
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 256,
  parameter int WAYS           = 8,
  parameter int PINS           = 64,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int OPS            = 128,
  parameter int ECC            = 1,
  parameter int INJECT_DATA    = 0,
  parameter int PATIENCE_LOG2  = 8,  // clocks, as a power of two, before hits give way
  parameter int PIN_W          = $clog2(pins_of(PINS, SLOTS))
) (
  input  wire logic                     clk,          // clock, rising edge
  input  wire logic                     rst_n,        // asynchronous reset, active low
  input  wire ram_flip_t                ram_flip,     // bit of a protected RAM to flip (RAS_INJECT)
  output logic [2*RAM_FAULT_W-1:0]      ram_faults,  // RAM_PARKED, RAM_DEFERRED
  input  wire logic                     damage,      // the state of a slot was lost
  input  wire logic [$clog2(SLOTS)-1:0] damage_slot,  // that slot
  input  wire logic [REGIONS-1:0]       untrusted,    // regions whose records are unknown

  input  wire logic                     freeze,  // a commit: look nothing up
  // Nothing that was looked up is in S0, and what the last commit dropped is gone.
  output logic                          frozen,

  // SL: the line that is looked at, one of two. S0: may memory hold a record of it?
  output logic                          look,           // look up a line
  output line_id_t                      look_line,      // that line
  output line_id_t                      new_line,       // line of the operation at `op`
  output line_id_t                      deferred_line,  // line of the deferred operation
  output logic                          go_deferred,    // the deferred operation is looked up
  output line_id_t                      lk_line,        // line that was looked up
  input  wire logic                     maybe_written,  // memory may hold a record of it

  // What may be done.
  input  wire logic                     op_valid,      // operation valid
  output logic                          op_ready,      // operation taken
  input  wire engine_op_t               op,            // operation
  input  wire logic                     stored_valid,  // memory has answered an FP32 store
  input  wire logic                     stored_err,    // it refused the store
  input  wire fp_stored_t               stored,        // slot and worker of the store
  input  wire logic                     end_valid,  // of a gather
  output logic                          end_ready,     // that is taken
  input  wire gather_end_t              gather_end,    // slot of the gather, and the sum to keep
  input  wire logic                     fill_valid,    // a fetched state waits
  input  wire logic                     fill_in_pipe,  // a fill is in the stages
  input  wire logic                     fill_take,     // the state enters S2
  input  wire logic                     fill_due,      // the turn of `fill_pin` has come
  input  wire logic [PIN_W-1:0]         fill_pin,      // pin of the slot of the state
  // The operation that waits for the fill is read ahead.
  output logic                          fill_known,
  input  wire logic                     fill_lost,  // the state it brings must be written back
  input  wire logic                     fill_kept,  // a kept sum is part of it
  input  wire logic [REGIONS-1:0]       invalidate,    // regions whose slots are dropped (commit)
  input  wire logic [REGIONS-1:0]       closed,  // FP32 stores of these regions are not made

  // Room at the exits.
  input  wire logic                     store_room,   // for an FP32 store
  input  wire logic                     gather_room,  // for an FP32 gather
  input  wire logic                     fill_room,    // for a fetch
  input  wire logic                     evict_room,   // for a victim

  // What is done; `fetch` with a miss whose record is to be fetched into the slot of `fetch_pin`.
  output logic                          issue_valid,  // an action enters S1
  output engine_stage_t                 issue,        // that action
  output engine_stage_t                 filled,  // the same, if it is a fill
  output logic                          fetch,        // the record of the miss is fetched
  output logic [PIN_W-1:0]              fetch_pin,    // pin of the slot for it
  output logic                          slot_hit,     // strobe: hit
  output logic                          slot_miss,    // strobe: miss
  output engine_op_t                    looked_up   // the operation that hits or misses
);
  localparam int OP_W    = $bits(engine_op_t);
  localparam int SLOT_W  = $clog2(SLOTS);
  localparam int WAYS_IN = (WAYS < 2) ? 2 : (WAYS < SLOTS) ? 1 << $clog2(WAYS) : SLOTS;
  localparam int PINS_IN = 1 << PIN_W;
  localparam int SET_B   = (SLOTS > WAYS_IN) ? $clog2(SLOTS / WAYS_IN) : 1;
  localparam int KEY_W   = index_bits(MEM_LINES_LOG2);

  if (WAYS < 2 || (WAYS & (WAYS - 1)) != 0) begin : g_bad_ways
    initial $fatal(1, "nf_lookup: WAYS must be a power of two, 2..256");
  end
  if (PINS < 2 || PINS > 256 || (PINS & (PINS - 1)) != 0) begin : g_bad_pins
    initial $fatal(1, "nf_lookup: PINS must be a power of two, 2..256");
  end

  localparam int LOT_W   = 6;  // lines form 2^LOT_W groups; deferred operations block their group
  localparam int COUNT_W = $clog2(OPS + 1);

  logic              lk_hit, lk_open, lk_writing, lk_reading, lk_kept, ask_ok, swept;
  logic              lk_pinned, lk_waited, op_pins;
  logic              pin_free, pin_next, pin_soon, pin_stays, pin_there;
  logic              take_pin;
  logic [SLOT_W-1:0] lk_slot, victim_slot, fill_slot;
  logic [PIN_W-1:0]  lk_pin, new_pin, at_pin, other_pin, issue_pin, parked_pin;
  logic [SET_B-1:0]  lk_set, ask_set;
  logic [WAYS_IN-1:0] hit, pick, row_pinned, ask_pinned;
  logic              victim_ok, victim_fresh, victim_dirty, victim_kept;
  line_id_t          victim_line;
  action_e           act;
  engine_op_t        issue_op, lk_op, parked_op, filled_op, deferred_op, stored_op, keep_op;
  engine_op_t        parked_raw, filled_raw, deferred_raw;
  logic              parked_bad, filled_bad, deferred_bad;
  ram_fault_t        parked_fault, deferred_fault;
  logic [SLOT_W-1:0] issue_slot, other_slot;
  logic              do_stored, do_fill, do_keep, do_head, do_exec, do_wait, do_miss, do_defer;
  logic              lands;  // memory answers an early store
  logic              impatient;
  logic              other_kept;
  logic [PINS_IN-1:0] ready, writing, reading, waited, reads_fp, stores_fp, reads_or_masked;

  // ---- SL: the oldest deferred operation if it is sure to go in the next clock, else a new one --
  logic              lk_valid_q, lk_again_q;  // an operation is in S0; it was deferred once
  engine_op_t        lk_op_q;
  logic              turn, go, ends, may_look, want, deferred_valid, deferred_room, pins, behind;
  logic              op_reads_fp, op_gathers, op_stores_fp, op_fp, op_room, op_settled, empty;
  logic [LOT_W-1:0]  lk_lot, deferred_lot;
  logic [63:0]       deferred_lots;

  function automatic logic [LOT_W-1:0] lot_of(
    input logic [LOT_W-1:0] index, input logic [3:0] region
  );
    return index ^ {region, 2'd0};
  endfunction

  // What S0 does in this clock must not take what the deferred operation needs: another one might
  // take its victim, an FP32 operation that hits might pin it; either might take the free pin. What
  // is new takes no victim while one is deferred.
  assign pins        = lk_valid_q && op_fp;
  assign pin_stays   = pin_next || (pin_free && !(lk_valid_q && (op_fp || !lk_hit)));
  assign go_deferred = deferred_valid && ask_ok && pin_stays && fill_room && evict_room
                       && deferred_room
                       && !(lk_valid_q && lk_again_q && !lk_hit);
  assign ends        = go || !lk_valid_q;
  assign may_look    = ends && !freeze;
  assign frozen      = !lk_valid_q && swept;
  assign want        = !freeze && (go_deferred || op_valid);
  assign look        = ends && want;
  assign look_line   = go_deferred ? deferred_line : new_line;
  assign op_ready    = may_look && !go_deferred;

  assign new_line      = make_line_id(op.meta.region, op.index);
  assign deferred_line = make_line_id(deferred_op.meta.region, deferred_op.index);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) lk_valid_q <= 1'b0;
    else if (ends) lk_valid_q <= look;
  end

  always_ff @(posedge clk) begin
    if (look) begin
      lk_op_q       <= go_deferred ? deferred_op : op;
      lk_op_q.index <= INDEX_W'(look_line.index[KEY_W-1:0]);
      lk_again_q    <= go_deferred;
    end
  end

  // ---- S0: the operation that was looked at -----------------------------------------------------
  // An FP32 operation that was deferred, and is to be executed on the empty state of its line,
  // waits here for room at its exit, if that was taken since SL looked. What needs a pin waits the
  // clock in which the next free one is chosen.
  assign turn         = !stored_valid && !do_fill && !do_keep && !do_head;
  assign pin_soon     = !pin_free && pin_next && !lk_pinned
                        && (op_pins || !(lk_hit || empty) || (lk_hit && !op_room));
  assign go           = lk_valid_q && turn && !pin_soon
                        && !(!lk_hit && (victim_fresh || (lk_again_q && empty && !op_room)));
  assign lk_op        = lk_op_q;
  assign lk_line      = make_line_id(lk_op.meta.region, lk_op.index);
  assign lk_lot       = lot_of(lk_op.index[LOT_W-1:0], lk_op.meta.region);
  assign deferred_lot = lot_of(deferred_op.index[LOT_W-1:0], deferred_op.meta.region);
  assign behind       = deferred_lots[lk_lot];

  // ---- what becomes of it -----------------------------------------------------------------------
  logic       miss_room, may_hit;
  logic [3:0] lk_region;

  assign lk_region = lk_op.meta.region;

  assign op_reads_fp  = (lk_op.kind == OP_FP_SUM) || (lk_op.kind == OP_FP_RAW);
  assign op_stores_fp = (lk_op.kind == OP_FP_STORE);
  assign op_fp        = op_reads_fp || op_stores_fp;
  // A sum that is kept is answered from its slot, as a vote is.
  assign op_gathers   = op_reads_fp && !(lk_op.kind == OP_FP_SUM && lk_kept);
  assign op_room      = op_stores_fp ? store_room : op_gathers ? gather_room : 1'b1;

  // FP32 reads (they enable no byte) wait for the stores of their line, so that a sum is of what
  // was contributed; a partial store waits too, because it must know whether it is its worker's
  // first. Stores wait for the gathers of their line: a sum reads line by line and must not mix the
  // moments before and after a store.
  assign op_settled   = !(lk_writing && lk_op.be != '1) && !(lk_reading && op_stores_fp);
  // What waits for its slot, and what starts an FP32 store or gather, needs a pin.
  assign lk_open      = lk_hit && !lk_waited;
  assign op_pins      = op_gathers || (op_stores_fp && !lk_op.poison
                                       && !closed[32'(lk_region) % REGIONS]);
  assign pin_there    = lk_pinned || pin_free;

  // No record: the line is empty, unless all of the region's records are doubtful.
  assign empty     = !maybe_written && !untrusted[32'(lk_region) % REGIONS];
  assign miss_room = victim_ok && (!victim_dirty || evict_room) && (empty ? op_room : fill_room)
                     && (pin_free || (empty && !op_pins));
  assign may_hit   = go && (lk_again_q || !(behind || (impatient && op_fp)));

  assign do_stored = stored_valid && !lands;
  assign do_fill   = !stored_valid && fill_valid && fill_known && !fill_in_pipe;
  assign do_keep   = !stored_valid && !do_fill && end_valid && gather_end.keep;
  assign end_ready = do_keep || !gather_end.keep;
  assign do_exec   = may_hit && lk_open && op_settled && op_room && (pin_there || !op_pins);
  assign do_wait   = may_hit && lk_hit && pin_there && !(lk_open && op_settled && op_room);
  assign do_miss   = go && !lk_hit && (lk_again_q || (!deferred_valid && miss_room));
  assign do_defer  = go && !do_exec && !do_wait && !do_miss;

  // ---- early stores: first of all that wait for their slot, and of those, answered by memory ----
  logic miss_early, fill_early, fill_landed, fill_err, do_late;

  assign miss_early = op_stores_fp && !empty && !lk_op.poison && (lk_op.be == '1) && store_room
                      && !closed[32'(lk_region) % REGIONS];
  assign do_late    = do_fill && fill_landed;

  nf_early_store #(.PINS(PINS_IN)) u_early (
    .clk, .rst_n, .alloc (fetch), .alloc_early (miss_early), .new_pin, .stored_valid,
    .stored_pin (stored.pin[PIN_W-1:0]), .stored_err, .lands, .filled (do_fill), .fill_pin,
    .fill_early, .fill_landed, .fill_err, .ready
  );

  // ---- parked operations: any slot that is ready, in turn ---------------------------------------
  logic [PINS_IN-1:0] ready_to, can_go;
  logic [COUNT_W-1:0] parked_count;
  logic               head_goes, head_kept, head_known;
  logic [PIN_W-1:0]   next_pin;

  assign ready_to = waited & ready & ~(writing & reads_or_masked) & ~(reading & stores_fp);
  assign can_go   = ready_to & (store_room ? '1 : ~stores_fp) & (gather_room ? '1 : ~reads_fp);
  assign do_head   = !stored_valid && !do_fill && !do_keep && head_goes && head_known;
  assign head_kept = other_kept;

  nf_parked_arb #(.SLOTS(PINS_IN)) u_turn (
    .clk, .rst_n, .ready_to, .can_go, .take (do_head), .goes (head_goes),
    .head_slot (parked_pin), .next_slot (next_pin)
  );

  // A fill takes the first operation of its slot along, if that has room at its exit; an early
  // store needs none. It stays the first as long as its slot is not ready, and is read ahead.
  logic [PINS_IN-1:0] filling;
  logic               fill_acts, fill_takes;
  assign filling   = PINS_IN'(1) << fill_pin;
  assign fill_acts = do_fill && !fill_early && (store_room || !(|(filling & stores_fp)))
                     && (gather_room || !(|(filling & reads_fp)));
  assign fill_takes = fill_acts || (do_fill && fill_early);
  assign at_pin     = lk_pinned ? lk_pin : new_pin;
  assign take_pin   = !lk_pinned && (do_wait || fetch || (op_pins && (do_exec || do_miss)));

  nf_park #(
    .SLOTS(PINS_IN), .DEPTH(OPS), .WIDTH(OP_W), .ECC(ECC), .INJECT_DATA(INJECT_DATA)
  ) u_park (
    .clk, .rst_n, .ram_flip, .ram_fault (parked_fault),
    .push       (do_wait || (do_miss && !empty)),
    .push_slot  (at_pin),
    .push_flags ({lk_op.be != '1, op_stores_fp, op_reads_fp}),
    .push_data  (lk_op),
    .ask        (fill_due),
    .ask_slot   (fill_pin),
    .forget     (fill_take),
    .popped     (fill_in_pipe),
    .known      (fill_known),
    .ahead_data (filled_raw),
    .ahead_bad  (filled_bad),
    .next_slot  (next_pin),
    .head_slot  (parked_pin),
    .head_known,
    .head_data  (parked_raw),
    .head_bad   (parked_bad),
    .pop        (do_head || fill_takes),
    .pop_ahead  (do_fill),
    .waited,
    .flag0      (reads_fp),
    .flag1      (stores_fp),
    .flag2      (reads_or_masked),
    .count      (parked_count)
  );

  // ---- deferred operations: in order ------------------------------------------------------------
  logic               defer_room, take_deferred;
  logic [COUNT_W-1:0] deferred_count;

  assign take_deferred = may_look && go_deferred;
  assign deferred_room = (deferred_op.kind == OP_FP_STORE) ? store_room
                         : (deferred_op.kind == OP_FP_SUM || deferred_op.kind == OP_FP_RAW)
                           ? gather_room : 1'b1;

  // FP32 operations that hit pin their slots and take the room at the exits, and could do so for
  // ever. Once the oldest deferred operation has waited for long, they are deferred, too.
  logic [PATIENCE_LOG2-1:0] waited_q;
  assign impatient = &waited_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) waited_q <= '0;
    else if (!deferred_valid || take_deferred) waited_q <= '0;
    else if (!impatient) waited_q <= waited_q + 1'b1;
  end

  nf_data_fifo #(
    .RAM(RAM_DEFERRED), .ECC(ECC), .WIDTH(OP_W), .DEPTH(OPS), .BLOCK(1),
    .INJECT_DATA(INJECT_DATA)
  ) u_deferred (
    .clk, .rst_n, .flip (ram_flip), .fault (deferred_fault),
    .in_valid (do_defer), .in_ready (defer_room), .in_data (lk_op),
    .out_valid (deferred_valid), .out_ready (take_deferred), .out_data (deferred_raw),
    .out_bad (deferred_bad), .count (deferred_count)
  );

  // Data that cannot be trusted any more is poisoned, if it matters: that of an early store is in
  // memory already.
  assign ram_faults  = {deferred_fault, parked_fault};
  assign parked_op   = mistrusted(parked_raw, parked_bad);
  assign filled_op   = mistrusted(filled_raw, filled_bad && !fill_early);
  assign deferred_op = mistrusted(deferred_raw, deferred_bad);

  nf_slot_count #(.SLOTS(1 << LOT_W), .WIDTH(COUNT_W)) u_lots (
    .clk, .rst_n,
    .up (do_defer), .up_slot (lk_lot), .down (take_deferred), .down_slot (deferred_lot),
    .busy (deferred_lots)
  );

  // ---- what is issued ---------------------------------------------------------------------------
  logic       modifies, executes_store, starts_store, starts_gather, acts, issue_kept;
  logic [3:0] issue_region;

  assign stored_op = make_engine_op(OP_FP_STORE, stored.meta, INDEX_W'(0), stored.worker, 3'd0,
                                    1'b0, BE_W'(0), LINE_W'(0));
  assign keep_op   = make_engine_op(OP_FP_SUM, stored.meta, INDEX_W'(0), 6'd0, 3'd0,
                                    1'b0, BE_W'(0), gather_end.sum);

  assign issue_valid   = do_stored || do_fill || do_keep || do_head || do_exec || do_miss;
  assign issue         = make_stage(act, issue_op, 8'(issue_slot), 8'(issue_pin), issue_kept,
                                    do_miss ? miss_early : do_late, victim_dirty, victim_kept,
                                    victim_line, do_fill ? fill_err : stored_err,
                                    fill_acts || (do_miss && empty));
  assign filled        = make_stage(ACT_FILL, filled_op, 8'(fill_slot), 8'(fill_pin), fill_kept,
                                    fill_landed, 1'b0, 1'b0, make_line_id(4'd0, INDEX_W'(0)),
                                    fill_err, fill_acts);
  assign fetch         = do_miss && !empty;
  assign fetch_pin     = new_pin;
  assign act           = do_stored ? ACT_STORED : do_fill ? ACT_FILL : do_keep ? ACT_KEEP
                         : do_miss ? ACT_MISS : ACT_OP;
  assign issue_op      = do_stored ? stored_op : do_keep ? keep_op
                         : do_fill ? filled_op : do_head ? parked_op : lk_op;
  assign issue_kept    = do_fill ? fill_kept : do_head ? head_kept : lk_kept;
  assign other_pin     = do_stored ? stored.pin[PIN_W-1:0] : do_fill ? fill_pin
                         : do_keep ? gather_end.pin[PIN_W-1:0] : parked_pin;
  assign issue_pin     = (do_miss || do_exec) ? at_pin : other_pin;
  assign issue_slot    = do_miss ? victim_slot : do_exec ? lk_slot : other_slot;
  assign acts          = do_head || do_exec || fill_acts || (do_miss && empty);
  assign issue_region  = issue_op.meta.region;
  assign executes_store = acts && (issue_op.kind == OP_FP_STORE);
  assign starts_store  = (executes_store && !issue_op.poison
                          && !closed[32'(issue_region) % REGIONS]) || (do_miss && miss_early);
  assign starts_gather = acts && (issue_op.kind == OP_FP_RAW
                                  || (issue_op.kind == OP_FP_SUM && !issue_kept));
  assign modifies      = do_stored || do_late || do_keep || (do_fill && fill_lost) || executes_store
                         || (acts && issue_op.kind == OP_CONTRIBUTE);

  nf_slot_table #(
    .SLOTS(SLOTS), .WAYS(WAYS_IN), .REGIONS(REGIONS), .KEY_W(KEY_W)
  ) u_table (
    .clk, .rst_n,
    .want, .look, .look_line, .lk_line, .lk_hit, .lk_slot, .lk_set, .hit, .lk_kept,
    .ask_line (deferred_line), .ask_set, .ask_pinned, .pins, .ask_ok,
    .row_pinned, .victim_ok, .pick, .victim_fresh, .victim_slot, .victim_dirty, .victim_kept,
    .victim_line,
    .alloc          (do_miss),
    .keep           (do_keep || (do_fill && fill_kept)),
    .unkeep         (executes_store),
    .touch          (modifies),
    .fills          (do_fill),
    .other_slot, .other_kept,
    .at_hit         (do_exec),
    .damage, .damage_slot, .invalidate, .swept
  );

  nf_slot_pins #(.SLOTS(SLOTS), .WAYS(WAYS_IN), .PINS(PINS_IN)) u_pins (
    .clk, .rst_n,
    .lk_set, .hit, .lk_pinned, .lk_pin, .lk_waited, .lk_writing, .lk_reading, .row_pinned,
    .ask_set, .ask_pinned,
    .free_ok        (pin_free),
    .free_next      (pin_next),
    .free_pin       (new_pin),
    .take           (take_pin),
    .take_way       (do_miss ? pick : hit),
    .take_slot      (do_miss ? victim_slot : lk_slot),
    .take_ready     (!fetch),
    .other_pin, .other_slot,
    .filled         (do_fill),
    .fill_pin, .fill_slot,
    .write_start    (starts_store),
    .read_start     (starts_gather),
    .start_pin      (issue_pin),
    .write_end      (do_stored || do_late),
    .write_end_pin  (do_late ? fill_pin : stored.pin[PIN_W-1:0]),
    .read_end       (end_valid && end_ready),
    .read_end_pin   (gather_end.pin[PIN_W-1:0]),
    .waited, .ready, .writing, .reading
  );

  assign slot_hit  = do_exec || do_wait;
  assign slot_miss = do_miss;
  assign looked_up = lk_op;

  // No operation stalls on a resource that it does not use: votes and counts need no FP32 exit, a
  // hit needs no victim slot.
  `NF_ASSERT_NEVER(NeedsNoExit_A, do_wait && lk_open && op_settled && !op_fp)
  `NF_ASSERT_NEVER(HitDeferred_A, do_defer && lk_hit && !behind
                                  && !(op_fp && impatient)
                                  && !(!pin_there && (op_pins || !op_room)))
  `NF_ASSERT_NEVER(MissDeferred_A, do_defer && !lk_hit && !deferred_valid && miss_room)
  `NF_ASSERT_NEVER(BehindAnother_A, behind && deferred_count == COUNT_W'(1)
                                    && deferred_op.meta.region == lk_op.meta.region
                                    && deferred_op.index[LOT_W-1:0] != lk_op.index[LOT_W-1:0])
  `NF_ASSERT_NEVER(KeptGathered_A, starts_gather && issue_op.kind == OP_FP_SUM
                                   && ((do_head && other_kept) || (do_exec && lk_kept)))
  `NF_ASSERT_NEVER(NoStoreRoom_A, starts_store && !store_room)
  `NF_ASSERT_NEVER(NoGatherRoom_A, starts_gather && !gather_room)
  `NF_ASSERT_NEVER(NoMissRoom_A,
                   do_miss && ((!empty && !fill_room) || (victim_dirty && !evict_room)))
  `NF_ASSERT(OneAction_A,
             $onehot0({do_stored, do_fill, do_keep, do_head, do_exec, do_wait, do_miss, do_defer}))
  `NF_ASSERT(EarlyIsStore_A,
             !(do_fill && fill_early) || (|(filling & stores_fp) && !filled_op.poison))
  `NF_ASSERT_NEVER(FillAwaited_A, do_fill && !waited[fill_pin])
  `NF_ASSERT_NEVER(DeferRoom_A, do_defer && (!defer_room || lk_again_q))
  `NF_ASSERT_NEVER(CommitOverWaiting_A, |invalidate && (lk_valid_q
                   || (deferred_valid && invalidate[32'(deferred_line.region) % REGIONS])))
  `NF_ASSERT_NEVER(Operations_A,
                   32'(parked_count) + 32'(deferred_count) + 32'(lk_valid_q) > OPS)
  // What SL has looked for is still there when S0 takes it.
  `NF_ASSERT_NEVER(DeferredAgain_A,
                   go && lk_again_q && !(pin_there && (lk_hit || (victim_ok && fill_room
                                                                  && evict_room))))
  `NF_ASSERT_NEVER(FillingAlone_A, |(u_pins.held & ~ready & ~waited))
  `NF_ASSERT_NEVER(KeptUnderStore_A, do_exec && lk_kept && lk_writing)
  // A slot that a commit has dropped is free: nothing is under way on it.
  `NF_ASSERT_NEVER(DropPinned_A, |u_table.stale && look && |(u_table.stale & row_pinned)
                                 && u_table.look_set == lk_set)
endmodule

`default_nettype wire
