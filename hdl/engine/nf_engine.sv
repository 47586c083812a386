// SPDX-License-Identifier: Apache-2.0
// The aggregation engine: slot lookup, state update, eviction and fill.
//
//   S0  lookup (nf_lookup): a stored FP32 line, a finished fill, a waiting or a new operation.
//   S1  the state RAM is read (synchronous read).
//   S2  the operation is applied to the state and written back.
//   S3  the vote or plane is formed from the written state; the answer leaves.
//
// S1 to S3 never stall: S0 issues only what has room at every exit. Two operations on one slot in
// consecutive clocks are served by forwarding S3's state to S2, so hits have an initiation interval
// of 1, on one line too, and a contribution at `op_*` is visible to the operation behind it and in
// the RAM 3 clocks later. Operations on one line keep their order; misses do not block hits.
//
// Handshake: `op_*` valid/ready. `ndr_*`, `drs_*` cannot be stalled (their place is reserved at
// admission). `store_*`, `gather_*` are queues with valid/ready.

`default_nettype none
`include "nf_assert.svh"

module nf_engine
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 64,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20
) (
  input  wire logic                                    clk,
  input  wire logic                                    rst_n,

  input  wire logic [REGIONS*$bits(region_desc_t)-1:0] desc,
  input  wire logic [REGIONS*GEN_W-1:0]                gen,
  input  wire logic [REGIONS-1:0]                      apply,
  input  wire logic [REGIONS-1:0]                      untrusted,
  output logic                                         evict_idle,

  input  wire logic                                    op_valid,
  output logic                                         op_ready,
  input  wire engine_op_t                              op,

  output logic                                         ndr_valid,
  output resp_meta_t                                   ndr_meta,
  output logic                                         drs_valid,
  output resp_meta_t                                   drs_meta,
  output logic                                         drs_poison,
  output logic [LINE_W-1:0]                            drs_data,

  output logic                                         store_valid,
  input  wire logic                                    store_ready,
  output fp_store_t                                    store,
  input  wire logic                                    stored_valid,  // memory has answered a store
  input  wire logic                                    stored_err,
  input  wire fp_stored_t                              stored,

  output logic                                         gather_valid,
  input  wire logic                                    gather_ready,
  output gather_op_t                                   gather,
  input  wire logic                                    gathered_valid,  // a gather has read its last line
  input  wire logic [7:0]                              gathered_slot,

  // Record initialiser: is the record of this line still to be written?
  output logic [3:0]                                   fill_region,
  output logic [INDEX_W-1:0]                           fill_index,
  input  wire logic                                    fill_fresh,
  output logic [3:0]                                   evict_region,
  output logic [INDEX_W-1:0]                           evict_index,
  input  wire logic                                    evict_fresh,

  // State area traffic.
  output logic                                         wr_valid,
  input  wire logic                                    wr_ready,
  output logic [LADDR_W-1:0]                           wr_addr,
  output logic [7:0]                                   wr_len,
  output logic [LINE_W-1:0]                            wr_data,
  output logic                                         wr_last,
  input  wire logic                                    b_valid,
  input  wire logic                                    b_err,
  output logic                                         ar_valid,
  input  wire logic                                    ar_ready,
  output logic [LADDR_W-1:0]                           ar_addr,
  output logic [7:0]                                   ar_len,
  input  wire logic                                    r_valid,
  output logic                                         r_ready,
  input  wire logic [LINE_W-1:0]                       r_data,
  input  wire logic                                    r_err,
  input  wire logic                                    r_poison,
  input  wire logic                                    r_last,

  output logic                                         evict_failed,
  output logic [3:0]                                   evict_failed_region,

  // Events, one clock each.
  output logic                                         slot_hit,
  output logic                                         slot_miss,
  output logic                                         lookup_contribution,  // with hit/miss: it is one
  output logic [3:0]                                   lookup_region,
  output logic                                         eviction,
  output logic                                         fill,
  output logic                                         duplicate,
  output logic [8:0]                                   illegal_code,
  output logic                                         early_read,
  output logic                                         poison_received,
  output logic                                         contribution,
  output logic                                         line_complete,
  output logic                                         saturated,
  output logic [3:0]                                   event_region
);
  localparam int DESC_W      = $bits(region_desc_t);
  localparam int SLOT_W      = $clog2(SLOTS);
  localparam int PLANES_W    = CNT_W * LINE_W;
  localparam int BOOK_W      = $bits(book_t);
  localparam int FILL_DEPTH  = 16;
  localparam int EVICT_DEPTH = 4;
  localparam int EXIT_DEPTH  = 8;  // store and gather queues

  if (CNT_W < 1 || CNT_W > 8) begin : g_bad_cnt_w
    initial $fatal(1, "nf_engine: CNT_W must be 1..8");
  end

  // ---- S0: lookup -------------------------------------------------------------------------------
  logic              s0_valid, s0_victim_dirty;
  logic [1:0]        s0_act;
  engine_op_t        s0_op;
  logic [SLOT_W-1:0] s0_slot;
  logic [3:0]        s0_victim_region;
  logic [INDEX_W-1:0] s0_victim_index;
  logic              fill_valid, fill_take, fill_in_pipe, is_fill2;
  logic [SLOT_W-1:0] fill_slot;
  book_t             fill_book;
  logic [PLANES_W-1:0] fill_planes;
  logic              store_room, gather_room, evict_room, fill_room;

  logic              s1_valid_q, s2_valid_q, s3_valid_q;
  logic [1:0]        s1_act_q, s2_act_q;
  engine_op_t        s1_op_q, s2_op_q;
  logic [SLOT_W-1:0] s1_slot_q, s2_slot_q, s3_slot_q;
  logic              s1_err_q, s2_err_q, s1_dirty_q, s2_dirty_q;
  logic [3:0]        s1_old_region_q, s2_old_region_q;
  logic [INDEX_W-1:0] s1_old_index_q, s2_old_index_q;

  // A finished fill is taken from its unit in S2 only.
  assign fill_in_pipe = (s1_valid_q && s1_act_q == ACT_FILL) || is_fill2;

  nf_lookup #(.REGIONS(REGIONS), .SLOTS(SLOTS), .MEM_LINES_LOG2(MEM_LINES_LOG2)) u_lookup (
    .clk, .rst_n,
    .op_valid, .op_ready, .op, .stored_valid, .stored, .gathered_valid, .gathered_slot,
    .fill_valid, .fill_in_pipe, .fill_slot,
    .fill_lost     (fill_book.lost),
    .invalidate    (apply),
    .store_room, .gather_room, .fill_room, .evict_room,
    .issue_valid   (s0_valid),
    .issue_act     (s0_act),
    .issue_op      (s0_op),
    .issue_slot    (s0_slot),
    .victim_dirty  (s0_victim_dirty),
    .victim_region (s0_victim_region),
    .victim_index  (s0_victim_index),
    .slot_hit, .slot_miss
  );

  // ---- S1: state RAM read -----------------------------------------------------------------------
  // Bookkeeping and planes are two RAMs: FP32 operations leave the planes alone.
  logic [BOOK_W-1:0]   book_ram [SLOTS];
  logic [PLANES_W-1:0] planes_ram [SLOTS];
  logic [BOOK_W-1:0]   book_ram_q;
  logic [PLANES_W-1:0] planes_ram_q;
  book_t               book2_d;
  logic [PLANES_W-1:0] planes2_d;
  logic                book_we, planes_we, s1_low_bit, s2_low_bit;

  assign s1_low_bit = (s1_op_q.kind == OP_CONTRIBUTE) || (s1_op_q.kind == OP_VOTE)
                      || (s1_op_q.kind == OP_PLANE);
  assign s2_low_bit = (s2_op_q.kind == OP_CONTRIBUTE) || (s2_op_q.kind == OP_VOTE)
                      || (s2_op_q.kind == OP_PLANE);

  always_ff @(posedge clk) begin
    if (s1_valid_q) book_ram_q <= book_ram[s1_slot_q];
    if (s1_valid_q && ((s1_act_q == ACT_OP && s1_low_bit) || (s1_act_q == ACT_MISS && s1_dirty_q)))
      planes_ram_q <= planes_ram[s1_slot_q];
    if (book_we) book_ram[s2_slot_q] <= book2_d;
    if (planes_we) planes_ram[s2_slot_q] <= planes2_d;
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_valid_q <= 1'b0;
    end else begin
      s1_valid_q <= s0_valid;
      s2_valid_q <= s1_valid_q;
      s3_valid_q <= s2_valid_q;
    end
  end

  always_ff @(posedge clk) begin
    if (s0_valid) begin
      s1_act_q        <= s0_act;
      s1_op_q         <= s0_op;
      s1_slot_q       <= s0_slot;
      s1_err_q        <= stored_err;
      s1_dirty_q      <= s0_victim_dirty;
      s1_old_region_q <= s0_victim_region;
      s1_old_index_q  <= s0_victim_index;
    end
    if (s1_valid_q) begin
      s2_act_q        <= s1_act_q;
      s2_op_q         <= s1_op_q;
      s2_slot_q       <= s1_slot_q;
      s2_err_q        <= s1_err_q;
      s2_dirty_q      <= s1_dirty_q;
      s2_old_region_q <= s1_old_region_q;
      s2_old_index_q  <= s1_old_index_q;
    end
  end

  // ---- S2: update -------------------------------------------------------------------------------
  region_desc_t        d2;
  logic                is_op2, is_stored2, changed2, forward, forward_planes;
  book_t               book2, book2_applied;
  logic [PLANES_W-1:0] planes2, planes2_applied;
  logic                sends_ndr2, sends_drs2, poison2, store_push2, gather_push2;
  fp_store_t           store2;
  gather_op_t          gather2;

  book_t               s3_book_q;
  logic [PLANES_W-1:0] s3_planes_q;
  logic                s3_wrote_q, s3_wrote_planes_q;

  assign forward        = s3_valid_q && s3_wrote_q && (s3_slot_q == s2_slot_q);
  assign forward_planes = s3_valid_q && s3_wrote_planes_q && (s3_slot_q == s2_slot_q);
  assign book2          = forward ? s3_book_q : book_ram_q;
  assign planes2        = forward_planes ? s3_planes_q : planes_ram_q;
  assign event_region   = s2_op_q.meta.region;
  assign d2             = desc[32'(event_region)*DESC_W +: DESC_W];
  assign is_op2         = s2_valid_q && (s2_act_q == ACT_OP);
  assign is_stored2     = s2_valid_q && (s2_act_q == ACT_STORED);
  assign is_fill2       = s2_valid_q && (s2_act_q == ACT_FILL);

  nf_apply #(.CNT_W(CNT_W)) u_apply (
    .is_op       (is_op2),
    .is_stored   (is_stored2),
    .stored_err  (s2_err_q),
    .op          (s2_op_q),
    .slot        (8'(s2_slot_q)),
    .d           (d2),
    .book        (book2),
    .planes      (planes2),
    .book_d      (book2_applied),
    .planes_d    (planes2_applied),
    .changed     (changed2),
    .sends_ndr   (sends_ndr2),
    .sends_drs   (sends_drs2),
    .poison      (poison2),
    .store_push  (store_push2),
    .store       (store2),
    .gather_push (gather_push2),
    .gather      (gather2),
    .duplicate, .illegal_code, .early_read, .poison_received, .contribution, .line_complete,
    .saturated
  );

  assign book2_d   = is_fill2 ? fill_book : book2_applied;
  assign planes2_d = is_fill2 ? fill_planes : planes2_applied;
  assign book_we   = is_fill2 || changed2;
  assign planes_we = is_fill2 || (changed2 && is_op2 && s2_low_bit);
  assign fill_take = is_fill2;

  // ---- FP32 exits -------------------------------------------------------------------------------
  localparam int EXIT_CW = $clog2(EXIT_DEPTH + 1);
  logic [EXIT_CW-1:0] store_count, gather_count;
  logic               store_push_ready, gather_push_ready;

  nf_fifo #(.WIDTH($bits(fp_store_t)), .DEPTH(EXIT_DEPTH)) u_stores (
    .clk, .rst_n,
    .in_valid (store_push2), .in_ready (store_push_ready), .in_data (store2),
    .out_valid (store_valid), .out_ready (store_ready), .out_data (store), .count (store_count)
  );
  nf_fifo #(.WIDTH($bits(gather_op_t)), .DEPTH(EXIT_DEPTH)) u_gathers (
    .clk, .rst_n,
    .in_valid (gather_push2), .in_ready (gather_push_ready), .in_data (gather2),
    .out_valid (gather_valid), .out_ready (gather_ready), .out_data (gather), .count (gather_count)
  );

  // Room for what S0 issues now and for everything in S1 and S2 ahead of it.
  assign store_room  = (store_count <= EXIT_CW'(EXIT_DEPTH - 3));
  assign gather_room = (gather_count <= EXIT_CW'(EXIT_DEPTH - 3));

  // ---- misses: eviction and fill ----------------------------------------------------------------
  localparam int EVICT_CW = $clog2(EVICT_DEPTH + 1);
  localparam int FILL_CW  = $clog2(FILL_DEPTH + 1);
  logic                miss2, evict_push2, evicting;
  logic [EVICT_CW-1:0] evict_count, evict_ahead;
  logic [FILL_CW-1:0]  fill_count;
  logic                fill_req_ready;

  assign miss2       = s2_valid_q && (s2_act_q == ACT_MISS);
  assign evict_push2 = miss2 && s2_dirty_q;
  assign evict_ahead = evict_count + EVICT_CW'(s1_valid_q && s1_act_q == ACT_MISS && s1_dirty_q)
                       + EVICT_CW'(evict_push2);
  assign evict_room  = (evict_ahead < EVICT_CW'(EVICT_DEPTH));
  assign fill_room   = (fill_count <= FILL_CW'(FILL_DEPTH - 3));

  nf_evict #(.REGIONS(REGIONS), .CNT_W(CNT_W), .DEPTH(EVICT_DEPTH)) u_evict (
    .clk, .rst_n, .desc, .gen,
    .push          (evict_push2),
    .push_region   (s2_old_region_q),
    .push_index    (s2_old_index_q),
    .push_book     (book2),
    .push_planes   (planes2),
    .count         (evict_count),
    .idle          (evict_idle),
    .match_region  (fill_region),
    .match_index   (fill_index),
    .match         (evicting),
    .head_region   (evict_region),
    .head_index    (evict_index),
    .head_fresh    (evict_fresh),
    .wr_valid, .wr_ready, .wr_addr, .wr_len, .wr_data, .wr_last, .b_valid, .b_err,
    .failed        (evict_failed),
    .failed_region (evict_failed_region)
  );

  nf_fill #(.REGIONS(REGIONS), .CNT_W(CNT_W), .SLOT_W(SLOT_W), .DEPTH(FILL_DEPTH)) u_fill (
    .clk, .rst_n, .desc, .gen, .untrusted,
    .req_valid    (miss2),
    .req_ready    (fill_req_ready),
    .req_slot     (s2_slot_q),
    .req_region   (s2_op_q.meta.region),
    .req_index    (s2_op_q.index),
    .count        (fill_count),
    .ask_region   (fill_region),
    .ask_index    (fill_index),
    .ask_evicting (evicting),
    .ask_fresh    (fill_fresh),
    .ar_valid, .ar_ready, .ar_addr, .ar_len, .r_valid, .r_ready, .r_data, .r_err, .r_poison, .r_last,
    .out_valid    (fill_valid),
    .out_ready    (fill_take),
    .out_slot     (fill_slot),
    .out_book     (fill_book),
    .out_planes   (fill_planes),
    .fetched      (fill)
  );

  // ---- S3: answer -------------------------------------------------------------------------------
  region_desc_t      d3;
  resp_meta_t        s3_meta_q;
  logic [3:0]        region3;
  logic [2:0]        s3_plane_q;
  logic              s3_vote_q, s3_poison_q, s3_ndr_q, s3_drs_q;
  logic [LINE_W-1:0] vote3, plane3;

  always_ff @(posedge clk) begin
    if (s2_valid_q) begin
      s3_slot_q   <= s2_slot_q;
      s3_wrote_q  <= book_we;
      s3_book_q   <= book2_d;
      s3_meta_q   <= s2_op_q.meta;
      s3_plane_q  <= s2_op_q.plane;
      s3_vote_q   <= (s2_op_q.kind == OP_VOTE);
      s3_poison_q <= poison2;
      s3_ndr_q    <= sends_ndr2;
      s3_drs_q    <= sends_drs2;
      s3_wrote_planes_q <= planes_we;
      if (planes_we || sends_drs2) s3_planes_q <= planes2_d;
    end
  end

  assign region3 = s3_meta_q.region;
  assign d3 = desc[32'(region3)*DESC_W +: DESC_W];

  nf_vote #(.CNT_W(CNT_W)) u_vote (
    .en            (s3_drs_q && s3_vote_q),
    .ternary       (d3.mode == MODE_G_TERNARY),
    .planes        (s3_planes_q),
    .contributions (7'($countones(s3_book_q.bitmap))),
    .tie_minus     (d3.tie_minus),
    .threshold     (d3.threshold),
    .line          (vote3)
  );

  always_comb begin
    plane3 = '0;
    for (int p = 0; p < CNT_W; p++) begin
      if (s3_plane_q == 3'(p)) plane3 = s3_planes_q[p*LINE_W +: LINE_W];
    end
  end

  assign ndr_valid  = s3_valid_q && s3_ndr_q;
  assign ndr_meta   = s3_meta_q;
  assign drs_valid  = s3_valid_q && s3_drs_q;
  assign drs_meta   = s3_meta_q;
  assign drs_poison = s3_poison_q;
  assign drs_data   = s3_vote_q ? vote3 : plane3;

  // ---- events -----------------------------------------------------------------------------------
  assign lookup_contribution = (op.kind == OP_CONTRIBUTE);
  assign lookup_region       = op.meta.region;
  assign eviction            = evict_push2;

  `NF_ASSERT(StoreRoom_A, store_push2 |-> store_push_ready)
  `NF_ASSERT(GatherRoom_A, gather_push2 |-> gather_push_ready)
  `NF_ASSERT(FillRoom_A, miss2 |-> fill_req_ready)
endmodule

`default_nettype wire
