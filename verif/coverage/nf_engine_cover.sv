// SPDX-License-Identifier: Apache-2.0
// White-box functional coverage of the aggregation engine: what only the pipeline knows.
//
// Bound into nf_engine under Verilator (pipeline_points.py reads the counters and names the bins).
// Each array of counters is a point; its index is the concatenation of the codes of its axes, in
// the order in which the Python file lists them. A reset clears all counters, so that each test
// starts at 0. The module drives nothing.

`default_nettype none
`include "nf_cover.svh"

/* verilator coverage_off */
/* verilator lint_off UNUSEDSIGNAL */

module nf_engine_cover
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int SLOTS = 64,
  parameter int CNT_W = 8
) (
  input wire logic                    clk,
  input wire logic                    rst_n,
  input wire logic [DESCS_W-1:0]      desc,

  // S0
  input wire logic                    op_valid,
  input wire logic                    op_ready,
  input wire engine_op_t              op,
  input wire engine_op_t              looked_up,
  input wire logic                    issue_valid,
  input wire engine_stage_t           issue,
  input wire logic                    lk_hit,
  input wire logic                    lk_open,
  input wire logic                    op_settled,
  input wire logic [7:0]              lk_slot,
  input wire logic                    look,
  input wire logic                    do_head,
  input wire logic                    do_exec,
  input wire logic                    do_wait,
  input wire logic                    do_miss,
  input wire logic                    do_defer,
  input wire logic                    go_deferred,
  input wire logic                    behind,
  input wire logic                    empty,
  input wire logic [8:0]              wait_count,
  input wire logic [SLOTS-1:0]        can_go,
  input wire logic [SLOTS-1:0]        reads_fp,
  input wire logic [SLOTS-1:0]        stores_fp,
  input wire logic                    store_room,
  input wire logic                    gather_room,
  input wire logic                    victim_ok,
  input wire logic                    victim_dirty,
  input wire logic                    fill_room,
  input wire logic                    evict_room,
  input wire logic [SLOTS-1:0]        used,
  input wire logic [SLOTS-1:0]        ready,
  input wire logic [SLOTS-1:0]        waited,
  input wire logic [SLOTS-1:0]        writing,
  input wire logic [SLOTS-1:0]        reading,
  // S1 to S3
  input wire logic                    s1_valid,
  input wire logic                    s2_valid,
  input wire logic                    s3_valid,
  input wire engine_stage_t           s1,
  input wire engine_stage_t           s2,
  input wire logic [7:0]              s3_slot,
  input wire logic                    forward,
  input wire logic                    forward_planes,
  input wire book_t                   book2,
  input wire logic                    seen2,
  input wire logic                    early2,
  input wire logic                    adds2,
  input wire logic [LINE_W-1:0]       votes2,
  input wire logic [CNT_W*LINE_W-1:0] planes2,

  // Eviction and fill
  input wire logic [2:0]              evict_count,
  input wire logic                    evict_full,    // MISS_DEPTH are under way
  input wire logic                    evict_push,
  input wire logic                    evict_answer,
  input wire logic                    evict_waits,   // for the initialiser
  input wire logic                    fill_valid,    // a request is at the head
  input wire logic                    fill_evicting, // its line is being written back
  input wire logic                    fill_fetches,
  input wire logic                    fill_track_ready,
  input wire logic                    fill_ar_ready,
  input wire logic                    fill_pop,
  input wire fill_kind_e              fill_kind,
  input wire logic [3:0]              fill_region,
  input wire logic                    fill_ours,
  input wire logic                    fill_bad
);
  // ---- classes ----------------------------------------------------------------------------------
  // As value_classes.py: 1, 2, 3, 2^k-1, 2^k, 2^k+1, 63, 64, odd, even.
  function automatic logic [3:0] workers_class(input logic [7:0] w);
    if (w <= 8'd3) return 4'(w) - 4'd1;
    if (w == 8'd63) return 4'd6;
    if (w == 8'd64) return 4'd7;
    if ($countones(w + 8'd1) == 1) return 4'd3;
    if ($countones(w) == 1) return 4'd4;
    if ($countones(w - 8'd1) == 1) return 4'd5;
    return w[0] ? 4'd8 : 4'd9;
  endfunction
  function automatic logic [2:0] kind_of(input engine_stage_t stage);
    if (stage.act == ACT_STORED) return 3'd6;
    if (stage.act == ACT_FILL) return 3'd7;
    if (stage.op.kind == OP_SUM) return OP_PLANE;  // read alike; 7 is taken
    return stage.op.kind;
  endfunction
  // INFO changes nothing and is never early: what it meets is not told apart here.
  function automatic logic is_info(input engine_stage_t stage);
    return (stage.act == ACT_OP || stage.acts) && stage.op.kind == OP_INFO;
  endfunction
  function automatic logic [2:0] depth_class(input logic [8:0] count);
    if (count < 9'd2) return 3'(count);
    if (count < 9'd8) return 3'd2;
    return count < 9'd16 ? 3'd3 : 3'd4;
  endfunction

  logic       issues_op;
  logic [2:0] issue_kind;
  assign issues_op  = issue_valid && (issue.act == ACT_OP || issue.act == ACT_STORED)
                      && !is_info(issue);
  assign issue_kind = kind_of(issue);

  // ---- stages ahead: which of S1, S2, S3 hold the same slot -------------------------------------
  logic [2:0] ahead;
  logic       stages_on;
  logic [5:0] stages_at;
  assign ahead = {s3_valid && s3_slot == issue.slot, s2_valid && s2.slot == issue.slot,
                  s1_valid && s1.slot == issue.slot};
  assign stages_on = issues_op;
  assign stages_at = {issue_kind, ahead};
  `NF_POINT(stages, 6)

  // ---- distance of two actions on one slot: 1..5 clocks, 0: held back in the same clock ---------
  logic [2:0] past_kind [1:5];
  logic [7:0] past_slot [1:5];
  logic [5:1] past_valid;
  always_ff @(posedge clk) begin
    past_valid[1] <= rst_n && issue_valid && (issue.act != ACT_MISS || issue.acts)
                     && issue.act != ACT_KEEP && !is_info(issue);
    past_kind[1]  <= issue_kind;
    past_slot[1]  <= issue.slot;
    for (int d = 2; d <= 5; d++) begin
      past_valid[d] <= rst_n && past_valid[d-1];
      past_kind[d]  <= past_kind[d-1];
      past_slot[d]  <= past_slot[d-1];
    end
  end

  logic       held;
  logic [2:0] distance, earlier;
  logic       distance_on;
  logic [8:0] distance_at;
  assign held = op_valid && !op_ready && !go_deferred && lk_hit && issue_valid
                && issue.act != ACT_MISS && issue.act != ACT_KEEP && issue.slot == lk_slot
                && !is_info(issue) && op.kind != OP_INFO;
  always_comb begin
    distance = 3'd0;
    earlier  = issue_kind;
    for (int d = 5; d >= 1; d--) begin
      if (!held && past_valid[d] && past_slot[d] == issue.slot) begin
        distance = 3'(d);
        earlier  = past_kind[d];
      end
    end
  end
  assign distance_on = held || (issues_op && distance != 3'd0);
  assign distance_at = {earlier, held ? op.kind : issue_kind, distance};
  `NF_POINT(distance, 9)

  // ---- where S2 takes the state from ------------------------------------------------------------
  logic       acts2, source_on;
  logic [2:0] kind2;
  logic [1:0] source2;
  logic [4:0] source_at;
  assign acts2     = s2_valid && (s2.act == ACT_OP || s2.act == ACT_STORED || s2.acts)
                     && !is_info(s2);
  assign kind2     = kind_of(s2);
  assign source2   = s2.act == ACT_MISS ? 2'b10 : {forward_planes, forward};
  assign source_on = acts2 && s2.act != ACT_FILL;
  assign source_at = {kind2, source2};
  `NF_POINT(source, 5)

  // ---- lookup: outcome by mode, direction and W -------------------------------------------------
  region_desc_t d0;
  logic [3:0]   outcome;
  logic         lookup_on, writes0;
  logic [10:0]  lookup_at;
  assign d0      = desc_of(desc, looked_up.meta.region);
  assign writes0 = (looked_up.kind == OP_CONTRIBUTE) || (looked_up.kind == OP_FP_STORE);
  always_comb begin
    if (do_exec) outcome = 4'd0;
    else if (do_wait)
      outcome = !(|(ready & (SLOTS'(1) << lk_slot))) ? 4'd1 : !lk_open ? 4'd2
                : !op_settled ? 4'd3 : 4'd4;
    else
      outcome = 4'd5 + 4'(empty) * 4'd3 + (|(~used) ? 4'd0 : victim_dirty ? 4'd2 : 4'd1);
  end
  assign lookup_on = do_exec || do_wait || do_miss;
  assign lookup_at = {`NF_COVER_MODE(d0.mode), outcome, writes0, workers_class(d0.workers)};
  `NF_POINT(lookup, 11)

  // ---- what an operation does to the state of its line ------------------------------------------
  region_desc_t d2;
  logic [1:0]   line2, mode2;
  logic         reads2, line_read_on, line_write_on, bad2;
  logic [7:0]   line_read_at, line_write_at;
  assign d2     = desc_of(desc, s2.op.meta.region);
  assign line2  = book2.lost ? 2'd2 : book2.poison ? 2'd1 : 2'd0;
  assign reads2 = (s2.op.kind != OP_CONTRIBUTE) && (s2.op.kind != OP_FP_STORE);
  assign bad2   = s2.act == ACT_STORED ? s2.stored_err : s2.op.poison;
  assign line_read_on  = acts2 && s2.act != ACT_STORED && reads2;
  assign mode2         = `NF_COVER_MODE(d2.mode);
  assign line_read_at  = {mode2, s2.op.kind == OP_VOTE || s2.op.kind == OP_FP_SUM, early2,
                          d2.strict, line2, forward};
  assign line_write_on = acts2 && !(s2.act != ACT_STORED && reads2);
  assign line_write_at = {mode2, s2.act == ACT_STORED, seen2, bad2, line2, forward};
  `NF_POINT(line_read, 8)
  `NF_POINT(line_write, 8)

  // ---- carries out of each plane ----------------------------------------------------------------
  logic [6:0]            carry_on;
  logic [6:0][4:0]       carry_at;
  logic [8:1][LINE_W-1:0] carry2;  // carry2[p]: into plane p
  always_comb begin
    carry2   = '0;
    carry_on = '0;
    if (adds2) begin
      carry2[1] = votes2 & planes2[0 +: LINE_W];
      for (int p = 1; p < CNT_W; p++) begin
        carry_on[p-1] = |carry2[p];
        carry2[p+1]   = carry2[p] & planes2[p*LINE_W +: LINE_W];
      end
    end
    for (int p = 1; p < 8; p++)
      carry_at[p-1] = {d2.mode == MODE_G_TERNARY, 3'(p), &carry2[p]};
  end
  `NF_POINTS(carry, 5, 7)

  // ---- parked operations: what happens while so many are ----------------------------------------
  logic       waiting_on;
  logic [2:0] event0;
  logic [5:0] waiting_at;
  always_comb begin
    if (do_exec) event0 = 3'd0;
    else if (do_head) event0 = 3'd1;
    else if (do_wait) event0 = 3'd2;
    else if (do_miss) event0 = 3'd3;
    else event0 = 3'd4;
  end
  assign waiting_on = do_exec || do_head || do_wait || do_miss || do_defer;
  assign waiting_at = {event0, depth_class(wait_count)};
  `NF_POINT(waiting, 6)

  // ---- why an operation is not executed or fetched at once, and the fill unit stands still ------
  logic       stall_on;
  logic [2:0] reason, stall_at;
  always_comb begin
    reason = 3'd0;
    if (do_wait && lk_open && op_settled)
      reason = (looked_up.kind == OP_FP_STORE) ? 3'd1 : 3'd2;
    else if (do_defer && behind) reason = 3'd3;
    else if (do_defer && !victim_ok) reason = 3'd4;
    else if (do_defer && victim_dirty && !evict_room) reason = 3'd6;
    else if (do_defer && !empty && !fill_room) reason = 3'd5;
  end
  assign stall_on = reason != 3'd0;
  assign stall_at = reason;
  `NF_POINT(stall, 3)
  logic [3:0]       head_stall_on;
  logic [3:0][1:0]  head_stall_at;
  logic [SLOTS-1:0] stays;
  assign stays            = waited & ready & ~can_go;
  assign head_stall_on[0] = |(waited & ~ready);
  assign head_stall_on[1] = |stays && store_room && gather_room;
  assign head_stall_on[2] = |(stays & stores_fp) && !store_room;
  assign head_stall_on[3] = |(stays & reads_fp) && !gather_room;
  for (genvar k = 0; k < 4; k++) begin : g_head_stall
    assign head_stall_at[k] = 2'(k);
  end
  `NF_POINTS(head_stall, 2, 4)
  logic       fill_stall_on;
  logic [1:0] fill_stall_at;
  assign fill_stall_on = fill_valid
                         && (fill_evicting || !fill_track_ready
                             || (fill_fetches && !fill_ar_ready));
  assign fill_stall_at = fill_evicting ? 2'd0 : !fill_track_ready ? 2'd1 : 2'd2;
  `NF_POINT(fill_stall, 2)

  // ---- the eviction buffer ----------------------------------------------------------------------
  logic       evict_on;
  logic [2:0] evict_event;
  logic [5:0] evict_at;
  always_comb begin
    if (evict_push && evict_answer) evict_event = 3'd2;
    else if (evict_push) evict_event = 3'd0;
    else if (evict_answer) evict_event = 3'd1;
    else if (evict_full) evict_event = 3'd5;
    else if (evict_waits) evict_event = 3'd3;
    else evict_event = 3'd4;
  end
  assign evict_on = evict_push || evict_answer || evict_waits || evict_full
                    || (fill_valid && fill_evicting);
  assign evict_at = {evict_event, evict_count};
  `NF_POINT(evict, 6)

  // ---- what else goes on when a line is thrown out ----------------------------------------------
  logic [3:0]      pinned_on;
  logic [3:0][2:0] pinned_at;
  assign pinned_on = (do_miss && &used) ? {!(&ready), |reading, |writing, |waited} : '0;
  for (genvar k = 0; k < 4; k++) begin : g_pinned
    assign pinned_at[k] = {2'(k), victim_dirty};
  end
  `NF_POINTS(pinned, 3, 4)

  // ---- how a fill ends --------------------------------------------------------------------------
  region_desc_t df;
  logic         fill_on;
  logic [4:0]   fill_at;
  logic [2:0]   fill_end;
  assign df = desc_of(desc, fill_region);
  always_comb begin
    if (fill_kind == FILL_EMPTY) fill_end = 3'd3;
    else if (fill_kind == FILL_LOST) fill_end = 3'd4;
    else fill_end = fill_bad ? 3'd2 : fill_ours ? 3'd0 : 3'd1;
  end
  assign fill_on = fill_pop;
  assign fill_at = {`NF_COVER_MODE(df.mode), fill_end};
  `NF_POINT(fill, 5)
endmodule

bind nf_engine nf_engine_cover #(.SLOTS(SLOTS), .CNT_W(CNT_W)) u_cover (
  .clk, .rst_n, .desc,
  .op_valid, .op_ready, .op,
  .issue_valid      (s0_valid),
  .issue            (s0),
  .lk_hit           (u_lookup.lk_hit),
  .lk_open          (u_lookup.lk_open),
  .op_settled       (u_lookup.op_settled),
  .lk_slot          (8'(u_lookup.lk_slot)),
  .looked_up,
  .look             (u_lookup.look),
  .do_head          (u_lookup.do_head),
  .do_exec          (u_lookup.do_exec),
  .do_wait          (u_lookup.do_wait),
  .do_miss          (u_lookup.do_miss),
  .do_defer         (u_lookup.do_defer),
  .go_deferred      (u_lookup.go_deferred),
  .behind           (u_lookup.behind),
  .empty            (u_lookup.empty),
  .wait_count       (9'(u_lookup.parked_count)),
  .can_go           (u_lookup.can_go),
  .reads_fp         (u_lookup.reads_fp),
  .stores_fp        (u_lookup.stores_fp),
  .store_room, .gather_room,
  .victim_ok        (u_lookup.victim_ok),
  .victim_dirty     (u_lookup.victim_dirty),
  .fill_room, .evict_room,
  .used             (u_lookup.u_table.used_q),
  .ready            (u_lookup.u_table.ready_q),
  .waited           (u_lookup.u_table.waited),
  .writing          (u_lookup.u_table.writing),
  .reading          (u_lookup.u_table.reading),
  .s1_valid         (s1_valid_q),
  .s2_valid         (s2_valid_q),
  .s3_valid         (s3_valid_q),
  .s1               (s1_q),
  .s2               (s2_q),
  .s3_slot          (8'(s3_slot_q)),
  .forward          (forward && s2_q.act != ACT_MISS && !is_fill2),
  .forward_planes   (forward_planes && s2_q.act != ACT_MISS && !is_fill2),
  .book2            (own_book2),
  .seen2            (u_rules.seen),
  .early2           (u_rules.early),
  .adds2            (u_rules.adds),
  .votes2           (u_rules.u_accumulate.votes),
  .planes2          (own_planes2),
  .evict_count,
  .evict_full       (32'(evict_flight) == MISS_DEPTH),
  .evict_push       (evict_push2),
  .evict_answer     (b_valid),
  .evict_waits      (u_evict.unsent_q != '0 && u_evict.head_fresh),
  .fill_valid       (u_fill.head_valid),
  .fill_evicting    (evicting),
  .fill_fetches     (u_fill.head_kind == FILL_FETCH),
  .fill_track_ready (u_fill.may_ask),
  .fill_ar_ready    (ar_ready),
  .fill_pop         (u_fill.track_pop),
  .fill_kind        (u_fill.track_kind),
  .fill_region      (u_fill.track_region),
  .fill_ours        (u_fill.ours),
  .fill_bad         (u_fill.bad)
);

/* verilator lint_on UNUSEDSIGNAL */
/* verilator coverage_on */
`default_nettype wire
