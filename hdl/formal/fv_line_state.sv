// SPDX-License-Identifier: Apache-2.0
// nf_line_rules and nf_vote over any sequence of operations on one line: the state of the line is
// at all times what the contributions of its workers add up to, each once (controller §3, §5;
// second edition §6). WORKERS of them, in a low-bit mode; `commit` begins an epoch, `close` ends
// its round.

`default_nettype none
`include "nf_assert.svh"
`include "nf_formal.svh"

module fv_line_state
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_fp32_pkg::*;
#(
  parameter int WORKERS = 3,
  parameter int CNT_W   = 2,  // 2^CNT_W - 1 >= WORKERS: what saturates is fv_accumulate's concern
  parameter int ECP5    = 0
) (
  input wire logic              clk,
  input wire logic              is_op,
  input wire op_kind_e          kind,
  input wire logic [5:0]        worker,
  input wire logic              poisoned_data,
  input wire logic [LINE_W-1:0] data,
  input wire logic              commit,
  input wire logic              close,
  input wire logic [1:0]        style,    // of the region: 0 binary, 1 ternary, 2 integer codes
  input wire logic              strict,
  input wire logic              tie_minus,
  input wire logic              forward,  // the state is forwarded
  input wire logic [CNT_W-1:0]  has,      // planes that are not 0
  input wire logic [CNT_W*LINE_W-1:0] junk  // planes that are not asked for
);
  localparam int COUNT_W = 3;

  engine_op_t              op;
  region_desc_t            d;
  book_t                   book_q, book_d;
  logic [CNT_W*LINE_W-1:0] planes_q, planes_d;
  logic                    closed_q, changed, sends_ndr, sends_drs, poison, store_push, gather_push;
  fp_store_t               store;
  gather_op_t              gather;
  engine_events_t          events;
  logic [LINE_W-1:0]       line;
  logic [6:0]              seen_count;

  `NF_FORMAL_RESET

  always_comb begin
    op             = '0;
    op.kind        = kind;
    op.worker      = worker;
    op.poison      = poisoned_data;
    op.data        = data;
    op.be          = '1;
    d              = '0;
    d.workers      = 8'(WORKERS);
    d.strict       = strict;
    d.tie_minus    = tie_minus;
    d.mode         = MODE_G_BINARY;
    if (style == 2'd1) d.mode = MODE_G_TERNARY;
    if (style == 2'd2) d.mode = MODE_G_INT4;
  end

  // The state is one of two, and planes without `has` are 0, whatever comes.
  logic [CNT_W*LINE_W-1:0] shown;
  for (genvar p = 0; p < CNT_W; p++) begin : g_shown
    assign shown[p*LINE_W +: LINE_W] = has[p] ? planes_q[p*LINE_W +: LINE_W]
                                              : junk[p*LINE_W +: LINE_W];
    `NF_ASSUME(Has_M, has[p] || planes_q[p*LINE_W +: LINE_W] == '0)
  end

  nf_line_rules #(.CNT_W(CNT_W), .ECP5(ECP5)) dut (
    .is_op, .is_stored(1'b0), .stored_err(1'b0), .is_early(1'b0), .kept(1'b0), .op, .trits('0),
    .illegal_ternary(1'b0), .illegal_tern5(1'b0), .pin(8'd0), .d, .closed(closed_q),
    .book(book_q), .seen(|(book_q.bitmap & (64'd1 << worker))),
    .planes_read(forward ? junk : shown), .planes_newer(forward ? shown : junk), .forward, .has,
    .book_d, .planes_d, .changed, .sends_ndr, .sends_drs, .poison, .store_push, .store,
    .gather_push, .gather, .events
  );
  logic votes;
  assign votes = is_op && kind == OP_VOTE;

  nf_vote #(.CNT_W(CNT_W)) u_vote (
    .clk, .rst_n, .en(votes), .vote(1'b1), .plane(3'd0), .ternary(style == 2'd1),
    .contributions(seen_count), .tie_minus, .threshold(8'd1), .planes(planes_q), .line
  );

  // The engine writes back what has changed; an epoch begins with an empty line.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      book_q   <= '0;
      planes_q <= '0;
      closed_q <= 1'b0;
    end else if (commit) begin
      book_q   <= '0;
      planes_q <= '0;
      closed_q <= 1'b0;
    end else begin
      if (changed) begin
        book_q   <= book_d;
        planes_q <= planes_d;
      end
      closed_q <= closed_q || close;
    end
  end

  // ---- what decode and commits keep to ---------------------------------------------------------
  logic reads;
  assign reads = is_op && (kind == OP_VOTE || kind == OP_PLANE || kind == OP_SUM ||
                           kind == OP_INFO);

  `NF_ASSUME(Workers_M, 32'(worker) < WORKERS && style != 2'd3)
  `NF_ASSUME(LowBitModes_M, !is_op || reads || kind == OP_CONTRIBUTE)
  `NF_ASSUME(Drained_M, !(commit || close) || !is_op)
  `NF_ASSUME_KEEPS(OneRegion_M, !commit, {style, strict, tie_minus})

  // ---- reference: what each worker has contributed ---------------------------------------------
  logic [LINE_W-1:0]  votes_q [WORKERS];
  logic [WORKERS-1:0] seen_q;
  logic               tainted_q, over_q, gives, counts, all_seen;
  logic               mine_seen;

  assign mine_seen  = seen_q[worker[1:0]];
  assign gives      = is_op && kind == OP_CONTRIBUTE;
  assign counts     = gives && !mine_seen && !poisoned_data && !over_q;
  assign all_seen   = &seen_q;
  assign seen_count = 7'($countones(seen_q));

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      seen_q    <= '0;
      tainted_q <= 1'b0;
      over_q    <= 1'b0;
    end else if (commit) begin
      seen_q    <= '0;
      tainted_q <= 1'b0;
      over_q    <= 1'b0;
    end else begin
      if (counts) seen_q[worker[1:0]] <= 1'b1;
      if (gives && !mine_seen && poisoned_data && !over_q) tainted_q <= 1'b1;
      over_q <= over_q || close;
    end
  end
  for (genvar w = 0; w < WORKERS; w++) begin : g_worker
    always_ff @(posedge clk) begin
      if (counts && 32'(worker) == w) votes_q[w] <= data;
    end
  end

  // What a worker's contribution adds at a place: of votes a sign, of codes their ones.
  logic [COUNT_W-1:0]  sum [LINE_W];
  logic [LINE_W-1:0]   wrong, binary, ternary, want_q, want2_q;
  logic                votes_q1, votes_q2, ternary_q1, ternary_q2;

  for (genvar i = 0; i < LINE_W; i++) begin : g_lane
    localparam int E = i - i % 2;
    logic [CNT_W-1:0]   shown;
    logic [WORKERS-1:0] adds;
    for (genvar w = 0; w < WORKERS; w++) begin : g_vote
      assign adds[w] = seen_q[w] &&
          ((style == 2'd0) ? !votes_q[w][i] :
           (style == 2'd2) ? votes_q[w][i] : votes_q[w][E +: 2] == ((i % 2 == 0) ? 2'b10 : 2'b11));
    end
    for (genvar p = 0; p < CNT_W; p++) begin : g_plane
      assign shown[p] = planes_q[p*LINE_W + i];
    end
    assign sum[i]        = COUNT_W'($countones(adds));
    assign wrong[i]      = COUNT_W'(shown) != sum[i];
    assign binary[i]     = (2 * 32'(sum[i]) == 32'(seen_count)) ?
                           (seen_count != '0 && tie_minus) : (2 * 32'(sum[i]) < 32'(seen_count));
  end
  for (genvar e = 0; e < LINE_W / 2; e++) begin : g_element
    assign ternary[2*e +: 2] = (sum[2*e] > sum[2*e+1]) ? 2'b10 :
                               (sum[2*e] < sum[2*e+1]) ? 2'b11 : 2'b00;
  end

  // A line comes two clocks after its operation.
  always_ff @(posedge clk) begin
    votes_q1   <= votes && rst_n;
    votes_q2   <= votes_q1 && rst_n;
    ternary_q1 <= style == 2'd1;
    ternary_q2 <= ternary_q1;
    want_q     <= (style == 2'd1) ? ternary : binary;
    want2_q    <= want_q;
  end

  `NF_ASSERT(Bitmap_A, book_q.bitmap == 64'(seen_q) && closed_q == over_q)
  `NF_ASSERT(Poison_A, book_q.poison == tainted_q && !book_q.lost && !book_q.saturated)
  `NF_ASSERT_NEVER(Counts_A, wrong != '0)
  `NF_ASSERT_NEVER(Vote_A, votes_q2 && !ternary_q2 && line != want2_q)
  `NF_ASSERT_NEVER(Ternary_A, votes_q2 && ternary_q2 && line != want2_q)
  `NF_ASSERT(Answers_A, sends_ndr == gives && sends_drs == reads && !store_push && !gather_push)
  `NF_ASSERT(AnswerPoison_A, !reads || poison == (kind != OP_INFO &&
                             (tainted_q || (strict && !over_q && !all_seen))))
  `NF_ASSERT(Duplicate_A, events.duplicate == (gives && mine_seen))
  `NF_ASSERT(Late_A, events.late == (gives && !mine_seen && over_q))
  `NF_ASSERT(Early_A, events.early_read == (reads && kind != OP_INFO && !over_q && !all_seen))
  `NF_ASSERT(Complete_A, events.line_complete ==
                         (counts && (seen_q | WORKERS'(1) << worker[1:0]) == '1))
  `NF_ASSERT_NEVER(CountedTwice_A, events.contribution && !counts)

  `NF_COVER(AllSeen_C, all_seen && !tainted_q && reads)
  `NF_COVER(LateAndClosed_C, events.late && seen_q != '0)
  `NF_COVER(Voted_C, votes_q2 && ternary_q2 && line[3:0] == 4'b1110)
  `NF_COVER(SecondEpoch_C, commit && tainted_q && seen_q != '0)
endmodule

`default_nettype wire
