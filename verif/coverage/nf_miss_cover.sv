// SPDX-License-Identifier: Apache-2.0
// White-box functional coverage of misses: what waits and why, victims, write-backs, fills, marks.
//
// Bound into nf_engine under Verilator (white_box.toml names the bins); conventions as in
// nf_engine_cover.sv.

`default_nettype none
`include "nf_cover.svh"

/* verilator coverage_off */
/* verilator lint_off UNUSEDSIGNAL */

module nf_miss_cover
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int PINS   = 64,
  parameter int FLIGHT = 64
) (
  input wire logic               clk,
  input wire logic               rst_n,
  input wire logic [DESCS_W-1:0] desc,

  // S0
  input wire engine_op_t         looked_up,
  input wire logic               do_exec,
  input wire logic               do_head,
  input wire logic               do_wait,
  input wire logic               do_miss,
  input wire logic               do_defer,
  input wire logic               do_fill,
  input wire logic               lk_open,
  input wire logic               op_settled,
  input wire logic               op_room,
  input wire logic               empty,
  input wire logic               behind,
  input wire logic               gives_way,   // a new operation, to the deferred one
  input wire logic               victim_ok,
  input wire logic               victim_dirty,
  input wire logic               fill_room,
  input wire logic               evict_room,
  input wire logic               store_room,
  input wire logic               gather_room,
  input wire logic               set_full,
  input wire logic [PINS-1:0]    held,
  input wire logic               pin_free,
  input wire logic [PINS-1:0]    ready,
  input wire logic [PINS-1:0]    writing,
  input wire logic [PINS-1:0]    reading,

  // Parked and deferred operations
  input wire logic [PINS-1:0]    waited,
  input wire logic [PINS-1:0]    can_go,
  input wire logic [PINS-1:0]    reads_fp,
  input wire logic [PINS-1:0]    stores_fp,
  input wire logic [8:0]         parked_count,
  input wire logic               park_push,
  input wire logic               park_pop,
  input wire logic [7:0]         push_slot,
  input wire logic [7:0]         pop_slot,
  input wire logic               pop_more,    // others of its list stay
  input wire logic [8:0]         deferred_count,
  input wire logic               take_deferred,
  input wire line_id_t           deferred_line,
  input wire line_id_t           lk_line,

  // Evictions
  input wire logic [2:0]         evict_unsent,
  input wire logic [8:0]         evict_flight,
  input wire logic               evict_push,
  input wire logic               evict_sent,
  input wire logic               evict_answer,
  input wire logic               evict_waits,  // for the initialiser
  input wire logic [7:0]         push_entry,
  input wire logic [7:0]         sent_entry,
  input wire logic [FLIGHT-1:0]  same,         // entries of the line that a fill asks for
  input wire logic               lookup_s1,    // the line that is looked up leaves: in S1, in S2
  input wire logic               lookup_s2,
  input wire logic               fill_s2,      // the line that a fill asks for is in S2

  // Fills
  input wire logic               fill_valid,   // a request is at the head
  input wire logic               fill_evicting,
  input wire logic               fill_fetches,
  input wire logic               fill_may_ask,
  input wire logic               fill_ar_ready,
  input wire logic               fill_take,    // the head is asked for
  input wire logic               fill_pop,     // the oldest has come
  input wire logic [8:0]         fill_flight,
  input wire logic [8:0]         fill_window,
  input wire logic               fill_back,    // the head goes after the others
  input wire logic               fill_alone,   // and is alone
  input wire logic               fill_grows,
  input wire logic               fill_calm,    // the window shrinks, if it can
  input wire logic               fill_wants,   // the window grows, if it can
  input wire fill_kind_e         fill_kind,
  input wire logic [3:0]         fill_region,
  input wire logic               fill_ours,
  input wire logic               fill_bad,
  input wire logic               fill_early,
  input wire logic               fill_landed,
  input wire logic               fill_acts,
  input wire op_kind_e           head_kind,    // of the operation that waits for the fill

  // Marks
  input wire logic               mark_used,    // the row that is asked, that is written
  input wire logic               maybe,
  input wire logic               mark,
  input wire logic               marked_used,
  input wire logic [3:0]         older,
  input wire logic [3:0]         newer,
  input wire logic               forgets,
  input wire logic               forgets_some  // of rows that were used
);
  function automatic logic [2:0] depth_class(input logic [8:0] count);
    if (count < 9'd2) return 3'(count);
    if (count < 9'd8) return 3'd2;
    return count < 9'd16 ? 3'd3 : 3'd4;
  endfunction

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
  assign waiting_at = {event0, depth_class(parked_count)};
  `NF_POINT(waiting, 6)

  // ---- the list of a slot, by how many other slots have one -------------------------------------
  logic             list_on;
  logic [1:0]       list_event, list_others;
  logic [3:0]       list_at;
  logic [7:0]       list_slot;
  logic [PINS-1:0]  others;
  assign list_slot   = park_push ? push_slot : pop_slot;
  assign others      = waited & ~(PINS'(1) << list_slot);
  assign list_event  = park_push ? 2'(|(waited & (PINS'(1) << push_slot)))
                                 : pop_more ? 2'd2 : 2'd3;
  assign list_others = others == '0 ? 2'd0 : 32'($countones(others)) < PINS - 1 ? 2'd1 : 2'd2;
  assign list_on     = park_push || park_pop;
  assign list_at     = {list_event, list_others};
  `NF_POINT(list, 4)

  // ---- deferred operations ----------------------------------------------------------------------
  logic       defers_on;
  logic [3:0] defers_at;
  assign defers_on = do_defer || take_deferred;
  assign defers_at = {take_deferred, depth_class(deferred_count)};
  `NF_POINT(defers, 4)
  logic       lot_on;
  logic [0:0] lot_at;
  assign lot_on = do_defer && behind && deferred_count == 9'd1;
  assign lot_at = lk_line != deferred_line;
  `NF_POINT(lot, 1)

  // ---- why an operation is not executed or fetched at once --------------------------------------
  logic       stall_on;
  logic [3:0] reason, stall_at, no_room;
  assign no_room = (looked_up.kind == OP_FP_STORE) ? 4'd1 : 4'd2;
  always_comb begin
    reason = 4'd0;
    if (do_wait && lk_open && op_settled)                  reason = no_room;
    else if (do_defer && behind)                           reason = 4'd3;
    else if (do_defer && gives_way)                        reason = 4'd0;  // a separate point
    else if (do_defer && !victim_ok)                       reason = 4'd4;
    else if (do_defer && victim_dirty && !evict_room)      reason = 4'd6;
    else if (do_defer && !empty && !fill_room)             reason = 4'd5;
    else if (do_defer && empty && !op_room)                reason = no_room;
    else if (do_defer && !pin_free)                        reason = 4'd8;
    else if (do_defer)                                     reason = 4'd7;
  end
  assign stall_on = reason != 4'd0;
  assign stall_at = reason;
  `NF_POINT(stall, 4)
  logic [3:0]       head_stall_on;
  logic [3:0][1:0]  head_stall_at;
  logic [PINS-1:0]  stays;
  assign stays            = waited & ready & ~can_go;
  assign head_stall_on[0] = |(waited & ~ready);
  assign head_stall_on[1] = |stays && store_room && gather_room;
  assign head_stall_on[2] = |(stays & stores_fp) && !store_room;
  assign head_stall_on[3] = |(stays & reads_fp) && !gather_room;
  for (genvar k = 0; k < 4; k++) begin : g_head_stall
    assign head_stall_at[k] = 2'(k);
  end
  `NF_POINTS(head_stall, 2, 4)

  // ---- what else goes on when a line is thrown out ----------------------------------------------
  logic [3:0]      pinned_on;
  logic [3:0][2:0] pinned_at;
  assign pinned_on = (do_miss && set_full) ? {|(held & ~ready), |reading, |writing, |waited} : '0;
  for (genvar k = 0; k < 4; k++) begin : g_pinned
    assign pinned_at[k] = {2'(k), victim_dirty};
  end
  `NF_POINTS(pinned, 3, 4)

  // ---- the eviction buffer, and write-backs that memory has not answered ------------------------
  logic       evict_on, evict_full;
  logic [2:0] evict_event;
  logic [5:0] evict_at;
  assign evict_full = 32'(evict_flight) == FLIGHT;
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
  assign evict_at = {evict_event, evict_unsent};
  `NF_POINT(evict, 6)
  logic [2:0]      back_on;
  logic [2:0][4:0] back_at;
  logic [2:0]      back_level;
  assign back_level = evict_full ? 3'd4 : evict_flight < 9'd2 ? 3'(evict_flight)
                      : evict_flight < 9'd8 ? 3'd2 : 3'd3;
  assign back_on = {evict_answer, evict_sent, evict_push};
  for (genvar k = 0; k < 3; k++) begin : g_back
    assign back_at[k] = {2'(k), back_level};
  end
  `NF_POINTS(back, 5, 3)

  // ---- a line on its way out is wanted again ----------------------------------------------------
  logic [FLIGHT-1:0] unsent_q;
  logic [4:0]        leaves_on;
  logic [4:0][2:0]   leaves_at;
  always_ff @(posedge clk) begin
    if (!rst_n) unsent_q <= '0;
    else unsent_q <= (unsent_q | (evict_push ? FLIGHT'(1) << push_entry : '0))
                     & ~(evict_sent ? FLIGHT'(1) << sent_entry : '0);
  end
  assign leaves_on = {fill_valid && |(same & ~unsent_q), fill_valid && |(same & unsent_q),
                      fill_valid && fill_s2, do_miss && lookup_s2, do_miss && lookup_s1};
  for (genvar k = 0; k < 5; k++) begin : g_leaves
    assign leaves_at[k] = 3'(k);
  end
  `NF_POINTS(leaves, 3, 5)

  // ---- fills: requests that stand still, how many are under way, how many may be ----------------
  logic       fill_stall_on;
  logic [1:0] fill_stall_at;
  assign fill_stall_on = fill_valid
                         && (fill_evicting || !fill_may_ask || (fill_fetches && !fill_ar_ready));
  assign fill_stall_at = fill_evicting ? 2'd0 : !fill_may_ask ? 2'd1 : 2'd2;
  `NF_POINT(fill_stall, 2)
  logic       flight_on;
  logic [1:0] flight_event;
  logic [2:0] flight_level;
  logic [4:0] flight_at;
  assign flight_event = fill_take && fill_pop ? 2'd2 : 2'(fill_pop);
  assign flight_level = 32'(fill_flight) == FLIGHT ? 3'd4 : fill_flight >= fill_window ? 3'd3
                        : fill_flight < 9'd2 ? 3'(fill_flight) : 3'd2;
  assign flight_on    = fill_take || fill_pop;
  assign flight_at    = {flight_event, flight_level};
  `NF_POINT(flight, 5)
  localparam int START = (FLIGHT < 8) ? FLIGHT : 8;
  logic [6:0]      window_on;
  logic [6:0][2:0] window_at;
  assign window_on = {fill_valid && fill_evicting && !fill_back, fill_back && fill_alone,
                      fill_back && !fill_alone,
                      fill_calm && !fill_grows && 32'(fill_window) == START,
                      fill_wants && 32'(fill_window) == FLIGHT,
                      fill_calm && !fill_grows && 32'(fill_window) != START, fill_grows};
  for (genvar k = 0; k < 7; k++) begin : g_window
    assign window_at[k] = 3'(k);
  end
  `NF_POINTS(window, 3, 7)

  // ---- how a fill ends, and the operation that waits for it -------------------------------------
  region_desc_t df;
  logic         fill_on, along_on;
  logic [3:0]   fill_at;
  logic [4:0]   along_at;
  logic [1:0]   fill_end;
  assign df = desc_of(desc, fill_region);
  always_comb begin
    if (fill_kind == FILL_LOST) fill_end = 2'd3;
    else fill_end = fill_bad ? 2'd2 : fill_ours ? 2'd0 : 2'd1;
  end
  assign fill_on = fill_pop;
  assign fill_at = {`NF_COVER_MODE(df.mode), fill_end};
  `NF_POINT(fill, 4)
  assign along_on = do_fill;
  assign along_at = {head_kind, fill_early ? {1'b1, !fill_landed} : {1'b0, !fill_acts}};
  `NF_POINT(along, 5)

  // ---- marks of lines that memory may have ------------------------------------------------------
  logic [2:0]      marks_on;
  logic [2:0][3:0] marks_at;
  assign marks_on    = {forgets, mark, do_miss};
  assign marks_at[0] = !mark_used ? 4'd0 : maybe ? 4'd2 : 4'd1;
  assign marks_at[1] = !marked_used ? 4'd3 : older == '0 ? 4'd4 : newer < older ? 4'd5
                       : newer == older ? 4'd6 : 4'd7;
  assign marks_at[2] = forgets_some ? 4'd8 : 4'd9;
  `NF_POINTS(marks, 4, 3)
endmodule

bind nf_engine nf_miss_cover #(.PINS(pins_of(PINS, SLOTS)), .FLIGHT(MISS_DEPTH)) u_miss_cover (
  .clk, .rst_n, .desc, .looked_up,
  .do_exec          (u_lookup.do_exec),
  .do_head          (u_lookup.do_head),
  .do_wait          (u_lookup.do_wait),
  .do_miss          (u_lookup.do_miss),
  .do_defer         (u_lookup.do_defer),
  .do_fill          (u_lookup.do_fill),
  .lk_open          (u_lookup.lk_open),
  .op_settled       (u_lookup.op_settled),
  .op_room          (u_lookup.op_room),
  .empty            (u_lookup.empty),
  .behind           (u_lookup.behind),
  .gives_way        (u_lookup.impatient && u_lookup.op_fp),
  .victim_ok        (u_lookup.victim_ok),
  .victim_dirty     (u_lookup.victim_dirty),
  .fill_room, .evict_room, .store_room, .gather_room,
  .set_full         (&u_lookup.u_table.row_used),
  .held             (u_lookup.u_pins.held),
  .pin_free         (u_lookup.pin_free),
  .ready            (u_lookup.ready),
  .writing          (u_lookup.writing),
  .reading          (u_lookup.reading),
  .waited           (u_lookup.waited),
  .can_go           (u_lookup.can_go),
  .reads_fp         (u_lookup.reads_fp),
  .stores_fp        (u_lookup.stores_fp),
  .parked_count     (9'(u_lookup.parked_count)),
  .park_push        (u_lookup.u_park.push),
  .park_pop         (u_lookup.u_park.pop),
  .push_slot        (8'(u_lookup.u_park.push_slot)),
  .pop_slot         (8'(u_lookup.u_park.pop_slot)),
  .pop_more         (u_lookup.u_park.more),
  .deferred_count   (9'(u_lookup.deferred_count)),
  .take_deferred    (u_lookup.take_deferred),
  .deferred_line    (make_line_id(u_lookup.deferred_op.meta.region, u_lookup.deferred_op.index)),
  .lk_line,
  .evict_unsent     (evict_count),
  .evict_flight     (9'(evict_flight)),
  .evict_push       (evict_push2),
  .evict_sent       (u_evict.sent),
  .evict_answer     (b_valid),
  .evict_waits      (u_evict.unsent_q != '0 && u_evict.head_waits),
  .push_entry       (8'(u_evict.push_line_q)),
  .sent_entry       (8'(u_evict.send_line_q)),
  .same             (u_evict.same),
  .lookup_s1        (evicts1 && s1_q.victim == lk_line),
  .lookup_s2        (evict_push2 && s2_q.victim == lk_line),
  .fill_s2          (evict_push2 && s2_q.victim == fill_line),
  .fill_valid       (u_fill.head_valid),
  .fill_evicting    (u_fill.ask_evicting),
  .fill_fetches     (u_fill.head_kind == FILL_FETCH),
  .fill_may_ask     (u_fill.may_ask),
  .fill_ar_ready    (ar_ready),
  .fill_take        (u_fill.head_take),
  .fill_pop         (u_fill.track_pop),
  .fill_flight      (9'(u_fill.flight)),
  .fill_window      (9'(u_fill.window_q)),
  .fill_back        (u_fill.head_back),
  .fill_alone       (32'(fill_count) == 1),
  .fill_grows       (u_fill.grows),
  .fill_calm        (u_fill.last_beat && u_fill.calm_q == '1),
  .fill_wants       (u_fill.held && u_fill.idle_q == '1),
  .fill_kind        (u_fill.track_kind),
  .fill_region      (u_fill.track_region),
  .fill_ours        (u_fill.ours),
  .fill_bad         (u_fill.bad),
  .fill_early       (u_lookup.fill_early),
  .fill_landed      (u_lookup.fill_landed),
  .fill_acts        (u_lookup.fill_acts),
  .head_kind        (u_lookup.parked_op.kind),
  .mark_used        (u_written.ask_used),
  .maybe            (record_maybe),
  .mark             (u_written.m1_mark_q),
  .marked_used      (u_written.here),
  .older            (u_written.older),
  .newer            (u_written.m1_newer_q),
  .forgets          (|apply),
  .forgets_some     (|(u_written.marked_q & u_written.forgotten))
);

/* verilator lint_on UNUSEDSIGNAL */
/* verilator coverage_on */
`default_nettype wire
