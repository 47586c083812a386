// SPDX-License-Identifier: Apache-2.0
// The aggregation engine: slot lookup, state update, eviction and fill.
//
//   SL  lookup (nf_lookup): tags and marks are compared for an operation.
//   S0  decision (nf_lookup): a stored FP32 line, a finished fill, a waiting operation or the one
//       that was looked up. A line of which memory cannot hold a record is empty, without a fetch.
//       The state RAM is read (synchronous read).
//   S1  the words read are checked, with SECDED corrected; the codes of the line are decoded.
//   S2  the operation is applied to the state and written back; a completion leaves.
//   S3  to S4: the vote, plane or sums are formed from the written state, and leave.
//
// A fill brings its state along: with nothing in S1 it goes to S2 at once.
// S1 to S4 never stall: S0 issues only what has room at every exit. Two operations on one slot in
// consecutive clocks are served by forwarding S3's state to S2, so hits have an initiation interval
// of 1, on one line too, and a contribution at `op_*` is visible to the next operation and in
// the RAM 4 clocks later. Operations on one line keep their order; misses do not block hits.
//
// Handshake: `op_*` valid/ready. `ndr_*`, `drs_*` cannot be stalled (their place is reserved at
// admission). `store_*`, `gather_*` are queues with valid/ready.

`default_nettype none
`include "nf_assert.svh"
`include "nf_wave.svh"

module nf_engine
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
  import nf_ram_pkg::*;
  import nf_tern5_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 256,
  parameter int WAYS           = 8,
  parameter int PINS           = 64,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int MISS_DEPTH     = 64,
  parameter int WRITTEN_LOG2   = 12,
  parameter int ECC            = 1,
  parameter int TERN5          = 0,
  parameter int ECP5           = 0,
  parameter int INJECT_DATA    = 0,
  parameter int OPS            = 128  // operations admitted and not answered, at most
) (
  input  wire logic                     clk,         // clock, rising edge
  input  wire logic                     rst_n,       // asynchronous reset, active low
  input  wire ram_flip_t                ram_flip,    // bit of a protected RAM to flip (RAS_INJECT)
  output logic [7*RAM_FAULT_W-1:0]      ram_faults,  // RAM_PLANES to RAM_MARKS

  input  wire logic [DESCS_W-1:0]       desc,       // active descriptors of all regions
  // Generation of each region: number of its commits.
  input  wire logic [REGIONS*REC_GEN_W-1:0] gen,
  input  wire logic [REGIONS-1:0]       apply,      // pulse: the region starts a new round
  input  wire logic [REGIONS*32-1:0]    epoch,      // epoch of each region, 32 bits a region
  input  wire logic [REGIONS-1:0]       closed,     // regions whose round is closed
  // Regions whose records are unknown after a failed write.
  input  wire logic [REGIONS-1:0]       untrusted,
  input  wire logic [3:0]               settle,   // the region that is asked about
  output logic                          settled,  // no state of it leaves
  input  wire logic                     freeze,   // look nothing up
  output logic                          still,    // nothing was looked up, no victim in the stages

  input  wire logic                     op_valid,  // operation valid
  output logic                          op_ready,  // operation taken
  input  wire engine_op_t               op,        // operation of the decoder

  output logic                          ndr_valid,  // completion valid
  output resp_meta_t                    ndr_meta,   // requester and region of the completion
  output logic                          drs_valid,  // answer with data valid
  output answer_t                       drs,        // answer with data

  output logic                          store_valid,   // FP32 store valid
  input  wire logic                     store_ready,   // it is taken
  output fp_store_t                     store,         // worker's line
  output logic                          store_bad,     // its data cannot be trusted
  input  wire logic                     stored_valid,  // memory has answered a store
  input  wire logic                     stored_err,    // memory refused it
  input  wire fp_stored_t               stored,        // its slot and worker

  output logic                          gather_valid,  // FP32 gather valid
  input  wire logic                     gather_ready,  // it is taken
  output gather_op_t                    gather,        // line, and workers present
  input  wire logic                     end_valid,  // a gather has read its last line
  output logic                          end_ready,     // that is taken
  input  wire gather_end_t              gather_end,    // its slot, and the sum to keep

  // Record initialiser (nf_record_init).
  input  wire logic [REGIONS-1:0]       fresh,         // regions that are not finished
  output logic [REGIONS-1:0]            doubt,         // pulse: records of the region are unknown
  output line_id_t                      fill_line,     // line that is to be fetched
  input  wire logic                     fill_waits,    // its group is being overwritten
  output line_id_t                      evict_line,    // line that is to be written back
  input  wire logic                     evict_waits,   // its group is being overwritten
  output line_id_t                      marked_line,   // line that gets a mark
  input  wire logic                     marked_ahead,  // its group has not been reached
  input  wire logic                     probe,         // read the mark of a group
  output logic                          probe_ready,   // it is read
  input  wire line_id_t                 probe_line,    // a line of the group
  output logic                          probe_marked,  // in the next clock: it has a mark

  // State area traffic.
  output logic                          wr_valid,   // write beat valid
  input  wire logic                     wr_ready,   // write beat taken
  output logic [LADDR_W-1:0]            wr_addr,    // line address of the write
  output logic [7:0]                    wr_len,     // AXI length of the burst: beats less one
  output logic [LINE_W-1:0]             wr_data,    // data of the beat
  output logic                          wr_poison,  // the line is poisoned
  output logic                          wr_last,    // last beat of the burst
  input  wire logic                     b_valid,    // memory has answered the oldest write
  input  wire logic                     b_err,      // it refused that write
  output logic                          ar_valid,   // read request valid
  input  wire logic                     ar_ready,   // read request taken
  output logic [LADDR_W-1:0]            ar_addr,    // line address of the read
  output logic [7:0]                    ar_len,     // AXI length of the burst: beats less one
  input  wire logic                     read_busy,  // a beat is on the shared read channel
  input  wire logic                     r_valid,    // read beat valid
  output logic                          r_ready,    // read beat taken
  input  wire read_beat_t               r_beat,     // read beat

  output logic                          evict_failed,         // pulse: memory refused a write-back
  output logic [3:0]                    evict_failed_region,  // region of that line

  // Events, one clock each.
  output logic                          slot_hit,  // an operation found its line in a slot
  output logic                          slot_miss,            // it did not
  output logic                          lookup_contribution,  // with hit/miss: it is one
  output logic [3:0]                    lookup_region,        // region of that operation
  output logic                          eviction,             // a dirty line leaves its slot
  output logic                          fill,                 // a record was fetched
  output engine_events_t                events,               // event strobes of S2
  output logic [3:0]                    event_region,         // region of these events
  output logic [5:0]                    event_worker,         // worker of these events
  output logic [8:0]                    illegal_codes  // of the clock two before
);
  localparam int SLOT_W      = $clog2(SLOTS);
  localparam int PIN_W       = $clog2(pins_of(PINS, SLOTS));
  localparam int PLANES_W    = CNT_W * LINE_W;
  localparam int KEY_W       = index_bits(MEM_LINES_LOG2);

  if (CNT_W < 1 || CNT_W > 8) begin : g_bad_cnt_w
    initial $fatal(1, "nf_engine: CNT_W must be 1..8");
  end
  if (MISS_DEPTH < 2 || MISS_DEPTH > 256) begin : g_bad_miss_depth
    initial $fatal(1, "nf_engine: MISS_DEPTH must be 2..256");
  end
  if (TERN5 < 0 || TERN5 > 1) begin : g_bad_tern5
    initial $fatal(1, "nf_engine: TERN5 must be 0 or 1");
  end
  if (ECP5 < 0 || ECP5 > 1 || (ECP5 != 0 && CNT_W < 2)) begin : g_bad_ecp5
    initial $fatal(1, "nf_engine: ECP5 must be 0 or 1, and 0 where CNT_W is 1");
  end

  // ---- SL, S0: lookup --------------------------------------------------------------------------
  logic                s0_valid, s1_valid_q, s2_valid_q, s3_valid_q, straight, enters2;
  logic                is_op2_q, is_fill2_q, miss2_q;
  engine_stage_t       s0, filled0, s1_q, s2, s2_q;
  logic [SLOT_W-1:0]   slot2, s3_slot_q;
  logic [PIN_W-1:0]    fill_pin, fetch_pin;
  logic                fill_valid, fill_due, fill_known, fill_in_pipe;
  logic [PLANES_W-1:0] fill_planes;
  logic [CNT_W-1:0]    fill_has;
  logic                store_room, gather_room, evict_room, fill_room, lost2, use_book2;
  engine_op_t          looked_up;
  logic                fetch, fill_lost, fill_kept, record_maybe, evicts0, evicts1, evict_push2;
  logic                look, go_deferred, look_leaves, fill_leaves, marks_idle, counted3;
  logic                frozen, marks_swept;
  logic [1:0]          evicts_ahead;
  logic [3:0]          planes3, record_planes;
  line_id_t            look_line, new_line, deferred_line, lk_line, victim3;
  logic [2*RAM_FAULT_W-1:0] lookup_faults;

  // A finished fill is taken from its unit in S2 only.
  assign fill_in_pipe = (s1_valid_q && s1_q.act == ACT_FILL) || is_fill2_q;

  nf_lookup #(
    .REGIONS(REGIONS), .SLOTS(SLOTS), .WAYS(WAYS), .PINS(PINS), .MEM_LINES_LOG2(MEM_LINES_LOG2),
    .OPS(OPS), .ECC(ECC), .INJECT_DATA(INJECT_DATA)
  ) u_lookup (
    .clk, .rst_n, .ram_flip, .ram_faults (lookup_faults), .freeze, .frozen,
    .damage (lost2 && !miss2_q),
    .damage_slot (slot2), .untrusted, .look, .look_line, .new_line, .deferred_line, .go_deferred,
    .lk_line, .maybe_written (record_maybe),
    .op_valid, .op_ready, .op, .stored_valid, .stored_err, .stored, .end_valid, .end_ready,
    .gather_end, .fill_valid, .fill_in_pipe, .fill_take (is_fill2_q), .fill_due, .fill_pin,
    .fill_known, .fill_lost, .fill_kept, .invalidate (apply), .closed, .store_room, .gather_room,
    .fill_room, .evict_room, .issue_valid (s0_valid), .issue (s0), .filled (filled0),
    .fetch, .fetch_pin, .slot_hit, .slot_miss, .looked_up
  );

  // ---- S0: state RAM read -----------------------------------------------------------------------
  logic                book_we, planes_we, write_planes2, needs_planes0, sums0;

  assign slot2         = s2_q.slot[SLOT_W-1:0];
  assign evicts0       = s0_valid && (s0.act == ACT_MISS) && s0.dirty;
  assign sums0         = s0_valid && (s0.act == ACT_OP) && s0.kept && (s0.op.kind == OP_FP_SUM);
  assign needs_planes0 = evicts0 || sums0
                         || (s0_valid && (s0.act == ACT_OP) && is_low_bit_op(s0.op.kind));

  // ---- S1: what was read is checked -------------------------------------------------------------
  assign evicts1  = s1_valid_q && (s1_q.act == ACT_MISS) && s1_q.dirty;

  // What is in S1 stays ahead.
  assign straight = s0_valid && (s0.act == ACT_FILL) && !s1_valid_q;
  assign enters2  = s1_valid_q || straight;
  assign s2       = s1_valid_q ? s1_q : filled0;  // what does

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_valid_q <= 1'b0;
      is_op2_q     <= 1'b0;
      is_fill2_q   <= 1'b0;
      miss2_q      <= 1'b0;
    end else begin
      s1_valid_q <= s0_valid && !straight;
      s2_valid_q <= enters2;
      s3_valid_q <= s2_valid_q;
      is_op2_q     <= enters2 && (s2.act == ACT_OP || s2.acts);
      is_fill2_q   <= enters2 && s2.act == ACT_FILL;
      miss2_q      <= s1_valid_q && s1_q.act == ACT_MISS;
    end
  end

  always_ff @(posedge clk) begin
    if (s0_valid && !straight) s1_q <= s0;
    if (enters2) s2_q <= s2;
  end

  region_desc_t d2, victim_desc2;
  trits_t       trits2;
  logic         illegal_ternary2, illegal_tern5_2;

  nf_line_codes #(.TERN5(TERN5)) u_codes (
    .clk, .rst_n, .take (enters2 && s2.op.kind == OP_CONTRIBUTE), .data (s2.op.data),
    .counts (events.illegal), .tern5 (d2.tern5), .trits (trits2),
    .illegal_ternary (illegal_ternary2), .illegal_tern5 (illegal_tern5_2), .count (illegal_codes)
  );

  // ---- S2: update -------------------------------------------------------------------------------
  logic                is_stored2, is_empty2, is_keep2, changed2;
  ram_fault_t          book_fault, planes_fault, evict_fault, store_fault, mark_fault;
  book_t               book2, held_book2, own_book2, book2_d, fill_book;
  logic [6:0]          seen2, held_seen2, own_seen2, s3_seen_q, fill_seen;  // workers in them
  logic                mine2, own_mine2;  // the operation's worker is
  logic [PLANES_W-1:0] planes2, read_planes2, planes2_applied, planes2_d;
  logic [CNT_W*ram_check_w(LINE_W, ECC)-1:0] check2;  // of planes2
  logic [CNT_W-1:0]    has2;
  logic                zero2, forward_planes2, forward2;
  engine_op_t          op2;
  logic                sends_ndr2, sends_drs2, poison2, store_push2, gather_push2;
  fp_store_t           store2;
  gather_op_t          gather2;

  book_t               s3_book_q;
  logic [PLANES_W-1:0] s3_planes_q;
  logic                s3_wrote_planes_q;

  assign op2            = s2_q.op;
  assign event_region   = op2.meta.region;
  assign event_worker   = op2.worker;
  assign d2             = desc_of(desc, event_region);
  assign victim_desc2   = desc_of(desc, s2_q.victim.region);
  assign is_empty2      = miss2_q && s2_q.acts;
  // What the slot holds is the victim's or nothing: an operation that comes with a miss begins with
  // the empty state, one that comes with a fill with what was fetched. What cannot be trusted is
  // lost. A sum that is kept takes the place of all planes.
  assign own_book2      = is_empty2 ? '0 : is_fill2_q ? fill_book : held_book2;
  assign zero2          = is_empty2 || is_keep2 || lost2;
  // A fetched state is newer than that in S3: a slot that is filled had no state.
  assign read_planes2   = is_fill2_q ? fill_planes : planes2;  // one LUT for each bit
  assign forward2       = forward_planes2 && !is_fill2_q;
  assign has2           = zero2 ? '0 : is_fill2_q ? fill_has : '1;
  assign held_book2     = lost2 ? make_book(1'b1, 1'b1, 64'd0) : book2;
  assign own_seen2      = is_empty2 ? '0 : is_fill2_q ? fill_seen : held_seen2;
  assign held_seen2     = lost2 ? '0 : seen2;
  assign own_mine2      = !is_empty2 && (is_fill2_q ? |(fill_book.bitmap & (64'd1 << op2.worker))
                                                  : mine2 && !lost2);

  assign use_book2      = s2_valid_q && !is_fill2_q && (!miss2_q || s2_q.dirty);

  nf_state_ram #(
    .SLOTS(SLOTS), .CNT_W(CNT_W), .ECC(ECC), .INJECT_DATA(INJECT_DATA)
  ) u_state (
    .clk, .rst_n, .flip (ram_flip), .book_fault, .planes_fault,
    .read_book (s0_valid), .read_planes (needs_planes0),
    .slot0 (s0.slot[SLOT_W-1:0]), .s1_valid (s1_valid_q), .slot1 (s1_q.slot[SLOT_W-1:0]),
    .s2_valid (s2_valid_q), .slot2, .worker2 (op2.worker), .book (book2), .seen (seen2),
    .mine (mine2), .planes (planes2), .check (check2), .forward_planes (forward_planes2),
    .use_book (use_book2), .lost (lost2),
    .write_planes (write_planes2), .book_we, .planes_we, .book_d (book2_d), .planes_d (planes2_d),
    .s3_valid (s3_valid_q), .s3_wrote_planes (s3_wrote_planes_q),
    .s3_slot (s3_slot_q), .s3_book (s3_book_q), .s3_seen (s3_seen_q), .s3_planes (s3_planes_q)
  );
  assign is_stored2     = s2_valid_q && (s2_q.act == ACT_STORED || (is_fill2_q && s2_q.early));
  assign is_keep2       = s2_valid_q && (s2_q.act == ACT_KEEP);

  nf_line_rules #(.CNT_W(CNT_W), .TERN5(TERN5), .ECP5(ECP5)) u_rules (
    .is_op (is_op2_q), .is_stored (is_stored2), .stored_err (s2_q.stored_err),
    .is_early (miss2_q && s2_q.early), .kept (s2_q.kept), .op (op2), .trits (trits2),
    .illegal_ternary (illegal_ternary2), .illegal_tern5 (illegal_tern5_2),
    .pin (s2_q.pin), .d (d2), .closed (closed[32'(event_region) % REGIONS]), .book (own_book2),
    .seen (own_mine2), .planes_read (read_planes2), .planes_newer (s3_planes_q),
    .forward (forward2), .has (has2), .book_d (book2_d), .planes_d (planes2_applied),
    .changed (changed2), .sends_ndr (sends_ndr2), .sends_drs (sends_drs2), .poison (poison2),
    .store_push (store_push2), .store (store2), .gather_push (gather_push2), .gather (gather2),
    .events
  );

  always_comb begin
    planes2_d = planes2_applied;
    if (is_keep2 && !lost2) planes2_d[LINE_W-1:0] = op2.data;
  end
  assign book_we   = is_fill2_q || is_empty2 || changed2;
  assign planes_we = is_fill2_q || is_empty2 || is_keep2
                     || (changed2 && is_low_bit_op(op2.kind));

  // ---- FP32 exits: room for what S0 issues now and for all that is in the stages ahead of it ----
  nf_fp32_exits #(.ECC(ECC), .INJECT_DATA(INJECT_DATA)) u_exits (
    .clk, .rst_n, .ram_flip, .ram_fault (store_fault),
    .store_push (store_push2), .store_in (store2), .store_room, .store_valid, .store_ready, .store,
    .store_bad, .gather_push (gather_push2), .gather_in (gather2), .gather_room, .gather_valid,
    .gather_ready, .gather
  );

  // ---- misses: eviction and fill ----------------------------------------------------------------
  localparam int EVICT_CW  = $clog2(EVICT_DEPTH + 1);
  localparam int FLIGHT_CW = $clog2(MISS_DEPTH + 1);
  localparam int FILL_CW   = $clog2(FILL_DEPTH + 1);
  logic [EVICT_CW-1:0]  evict_count;
  logic [FLIGHT_CW-1:0] evict_flight;
  logic [FILL_CW-1:0]   fill_count;
  logic                 fill_req_ready, evicting, evict_idle, marked_first;

  assign settled     = evict_idle && !(evicts1 && s1_q.victim.region == settle)
                       && !(evict_push2 && s2_q.victim.region == settle);
  assign still       = frozen && !evicts1 && !evict_push2 && marks_idle;
  assign evict_push2 = miss2_q && s2_q.dirty;
  // A victim needs a place there, and its mark.
  assign evict_room   = (evict_count + EVICT_CW'(evicts_ahead) < EVICT_CW'(EVICT_DEPTH))
                        && (32'(evict_flight) + 32'(evicts_ahead) < MISS_DEPTH) && marks_swept;
  assign fill_room   = (fill_count <= FILL_CW'(FILL_DEPTH - 3));

  nf_leaving #(.CNT_W(CNT_W), .KEY_W(KEY_W)) u_leaving (
    .clk, .rst_n, .leaves0 (evicts0), .victim0 (s0.victim), .leaves1 (evicts1),
    .victim1 (s1_q.victim), .leaves2 (evict_push2), .victim2 (s2_q.victim),
    .seen2 (held_seen2), .twice2 (victim_desc2.tern5), .look_line, .look_leaves,
    .fill_line, .fill_leaves, .count (evicts_ahead), .counted (counted3), .line3 (victim3), .planes3
  );

  nf_evict #(
    .REGIONS(REGIONS), .CNT_W(CNT_W), .DEPTH(EVICT_DEPTH), .FLIGHT(MISS_DEPTH), .ECC(ECC),
    .MARKS_LOG2(WRITTEN_LOG2), .INJECT_DATA(INJECT_DATA),
    .MEM_LINES_LOG2(MEM_LINES_LOG2)
  ) u_evict (
    .clk, .rst_n, .ram_flip, .ram_fault (evict_fault), .desc, .gen, .push (evict_push2),
    .push_line (s2_q.victim), .push_book (held_book2),
    .push_kept (s2_q.victim_kept && !lost2), .push_planes (planes2), .push_check (check2),
    .counted (counted3),
    .counted_planes (planes3), .fresh, .first (marked_first && marked_ahead),
    .count (evict_count),
    .flight (evict_flight), .settle, .idle (evict_idle), .match_line (fill_line), .match (evicting),
    .head (evict_line), .head_waits (evict_waits),
    .wr_valid, .wr_ready, .wr_addr, .wr_len, .wr_data, .wr_poison, .wr_last, .b_valid, .b_err,
    .failed (evict_failed), .failed_region (evict_failed_region)
  );

  nf_written #(
    .REGIONS(REGIONS), .CNT_W(CNT_W), .LOG2(WRITTEN_LOG2), .KEY_W(KEY_W), .ECC(ECC),
    .INJECT_DATA(INJECT_DATA)
  ) u_written (
    .clk, .rst_n, .ram_flip, .ram_fault (mark_fault), .desc, .clear (apply),
    .look, .ask0 (new_line), .ask1 (deferred_line), .second (go_deferred),
    .ask_leaves (look_leaves), .maybe (record_maybe),
    .planes (record_planes), .used (fetch), .mark (counted3), .mark_line (victim3),
    .mark_planes (planes3), .marked_line, .marked_first, .fresh, .doubt,
    .probe, .probe_ready, .probe_line, .probe_marked, .swept (marks_swept), .idle (marks_idle)
  );

  nf_fill #(
    .REGIONS(REGIONS), .CNT_W(CNT_W), .PIN_W(PIN_W), .DEPTH(FILL_DEPTH),
    .FLIGHT(MISS_DEPTH), .ECC(ECC), .MEM_LINES_LOG2(MEM_LINES_LOG2)
  ) u_fill (
    .clk, .rst_n, .desc, .gen, .untrusted, .req_valid (fetch), .req_ready (fill_req_ready),
    .req_pin (fetch_pin), .req_line (lk_line), .req_sum (looked_up.kind != OP_FP_STORE),
    .req_planes (record_planes),
    .count (fill_count), .ask (fill_line),
    .ask_evicting (evicting || fill_leaves), .ask_waits (fill_waits),
    .ar_valid, .ar_ready, .ar_addr, .ar_len, .read_busy, .r_valid, .r_ready, .r_beat,
    .out_valid (fill_valid), .out_ready (is_fill2_q), .due (fill_due),
    .out_pin (fill_pin), .out_lost (fill_lost), .out_book (fill_book),
    .out_seen (fill_seen), .out_kept (fill_kept), .out_planes (fill_planes), .out_has (fill_has),
    .fetched (fill)
  );

  // ---- S3, S4: answer ---------------------------------------------------------------------------
  always_ff @(posedge clk) begin
    if (s2_valid_q) begin
      s3_slot_q         <= slot2;
      s3_book_q         <= book2_d;
      s3_seen_q         <= own_seen2 + 7'(events.worker_seen);
      s3_wrote_planes_q <= write_planes2;
      if (write_planes2 || sends_drs2) s3_planes_q <= planes2_d;
    end
  end

  nf_answer #(.REGIONS(REGIONS), .CNT_W(CNT_W), .TERN5(TERN5), .ECP5(ECP5)) u_answer (
    .clk, .rst_n, .gen, .epoch, .closed, .op (op2), .d (d2), .sends_ndr (sends_ndr2),
    .sends_drs (sends_drs2), .poison (poison2), .contributions (own_seen2), .book3 (s3_book_q),
    .planes (s3_planes_q), .ndr_valid, .ndr_meta, .drs_valid, .drs
  );

  // ---- events -----------------------------------------------------------------------------------
  assign lookup_contribution = (looked_up.kind == OP_CONTRIBUTE);
  assign lookup_region       = looked_up.meta.region;
  assign eviction            = evict_push2;
  assign ram_faults          = {mark_fault, store_fault, lookup_faults, evict_fault, book_fault,
                                planes_fault};

  `NF_ASSERT_NEVER(FillRoom_A, fetch && !fill_req_ready)
  // A stage that nothing enters does not toggle, and planes are read for those who need them.
  `NF_ASSERT_KEEPS(Stage1Keeps_A, !s0_valid || straight, s1_q)
  `NF_ASSERT_KEEPS(Stage2Keeps_A, !enters2, s2_q)
  `NF_ASSERT_KEEPS(Stage3Keeps_A, !s2_valid_q, s3_book_q)
  `NF_ASSERT_KEEPS(Planes3Keep_A, !(write_planes2 || sends_drs2), s3_planes_q[63:0])
  `NF_ASSERT_NEVER(PlanesReadIdle_A, needs_planes0 && !(s0_valid && (s0.act != ACT_STORED)
                                     && (s0.act == ACT_MISS || sums0
                                         || is_low_bit_op(s0.op.kind))))
`ifdef NF_CHECKED
  logic fill_due_q;  // what memory has answered alone, and a fill on its way, go before a fill
  always_ff @(posedge clk) begin
    fill_due_q <= fill_valid && fill_known && !stored_valid && !is_fill2_q
                  && !(s1_valid_q && s1_q.act == ACT_FILL);
  end
`endif
  `NF_ASSERT_NEVER(FillTurn_A, fill_due_q && !is_fill2_q && !(s1_valid_q && s1_q.act == ACT_FILL))
  // Room was asked for what comes, and for nothing else.
  `NF_ASSERT_NEXT(EvictAhead_A, evicts1, evict_push2)
`ifdef NF_CHECKED
  logic s3_changed_q;  // S3 holds planes that it has changed, not only corrected or lost
  always_ff @(posedge clk) if (s2_valid_q) s3_changed_q <= planes_we;
`endif
  `NF_ASSERT_NEVER(VictimForwarded_A, evict_push2 && forward_planes2 && s3_changed_q)
  // A commit finds nothing of the old epoch under way.
  `NF_ASSERT_NEVER(ApplyBusy_A, |apply && (evicts0 || evicts1 || evict_push2 || !evict_idle
                                           || !marks_idle))
  `NF_ASSERT_NEVER(ApplyUnder_A, (s1_valid_q && apply[32'(s1_q.op.meta.region) % REGIONS])
                                 || (s2_valid_q && apply[32'(event_region) % REGIONS]))

  `NF_WAVE_NAME(act1_name, s1_q.act, action_name)
  `NF_WAVE_NAME(act2_name, s2_q.act, action_name)
  `NF_WAVE_NAME(kind2_name, op2.kind, op_kind_name)
endmodule

`default_nettype wire
