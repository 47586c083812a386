// SPDX-License-Identifier: Apache-2.0
// White-box functional coverage of the aggregation engine: what only the pipeline knows.
//
// Bound into nf_engine under Verilator (white_box.toml names the bins).
// Each array of counters is a point; its index is the concatenation of the codes of its axes, in
// the order in which white_box.toml lists them. A reset clears all counters, so that each test
// starts at 0. The module drives nothing.

`default_nettype none
`include "nf_cover.svh"

/* verilator coverage_off */
/* verilator lint_off UNUSEDSIGNAL */

module nf_engine_cover
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
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
  input wire logic                    do_exec,
  input wire logic                    do_wait,
  input wire logic                    do_miss,
  input wire logic                    go_deferred,
  input wire logic                    empty,
  input wire logic                    victim_dirty,
  input wire logic                    set_full,
  input wire logic                    lk_ready,
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
  input wire logic [CNT_W*LINE_W-1:0] planes2
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
  logic [2:0] distance, earlier, held_kind;
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
  assign held_kind   = op.kind == OP_SUM ? OP_PLANE : op.kind;
  assign distance_on = held || (issues_op && distance != 3'd0);
  assign distance_at = {earlier, held ? held_kind : issue_kind, distance};
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
      outcome = !lk_ready ? 4'd1 : !lk_open ? 4'd2
                : !op_settled ? 4'd3 : 4'd4;
    else
      outcome = 4'd5 + 4'(empty) * 4'd3 + (!set_full ? 4'd0 : victim_dirty ? 4'd2 : 4'd1);
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
  logic [LINE_W-1:0]      data2, gate2, sign2, adds_one2;
  assign data2     = s2.op.data;
  assign gate2     = (data2 >> 1) & {LINE_W/2{2'b01}};  // both brought to bit 2e
  assign sign2     = data2 & {LINE_W/2{2'b01}};
  assign adds_one2 = d2.mode == MODE_G_TERNARY ? (gate2 & ~sign2) | ((gate2 & sign2) << 1)
                   : is_int(d2.mode)           ? data2 : ~data2;
  always_comb begin
    carry2   = '0;
    carry_on = '0;
    if (adds2 && !d2.tern5) begin
      carry2[1] = adds_one2 & planes2[0 +: LINE_W];
      for (int p = 1; p < CNT_W; p++) begin
        carry_on[p-1] = |carry2[p];
        carry2[p+1]   = carry2[p] & planes2[p*LINE_W +: LINE_W];
      end
    end
    for (int p = 1; p < 8; p++)
      carry_at[p-1] = {d2.mode == MODE_G_TERNARY, 3'(p), &carry2[p]};
  end
  `NF_POINTS(carry, 5, 7)
endmodule

bind nf_engine nf_engine_cover #(.CNT_W(CNT_W)) u_cover (
  .clk, .rst_n, .desc,
  .op_valid         (u_lookup.lk_valid_q),
  .op_ready         (u_lookup.go),
  .op               (looked_up),
  .issue_valid      (s0_valid),
  .issue            (s0),
  .lk_hit           (u_lookup.lk_hit),
  .lk_open          (u_lookup.lk_open),
  .op_settled       (u_lookup.op_settled),
  .lk_slot          (8'(u_lookup.lk_slot)),
  .looked_up,
  .look             (u_lookup.go),
  .do_exec          (u_lookup.do_exec),
  .do_wait          (u_lookup.do_wait),
  .do_miss          (u_lookup.do_miss),
  .go_deferred      (u_lookup.lk_again_q),
  .empty            (u_lookup.empty),
  .victim_dirty     (u_lookup.victim_dirty),
  .set_full         (&u_lookup.u_table.row_used),
  .lk_ready         (!(|(u_lookup.u_pins.match & ~u_lookup.ready))),
  .s1_valid         (s1_valid_q),
  .s2_valid         (s2_valid_q),
  .s3_valid         (s3_valid_q),
  .s1               (s1_q),
  .s2               (s2_q),
  .s3_slot          (8'(s3_slot_q)),
  .forward          (u_state.forward_q && s2_q.act != ACT_MISS && !is_fill2_q),
  .forward_planes   (u_state.forward_planes && s2_q.act != ACT_MISS && !is_fill2_q),
  .book2            (own_book2),
  .seen2            (u_rules.seen),
  .early2           (u_rules.early),
  .adds2            (u_rules.adds),
  .planes2          (u_rules.planes)
);

/* verilator lint_on UNUSEDSIGNAL */
/* verilator coverage_on */
`default_nettype wire
