// SPDX-License-Identifier: Apache-2.0
// S3 and S4 of the aggregation engine: the response to the operation that S2 has executed.
//
// `op`, `poison`, `sends_*`, the descriptor `d` of its region and the number of `contributions` to
// its line belong to the operation in S2; `book3` and `planes`, in S3, are the state after that
// operation. Without an operation `sends_*` are low and `op` is stable. A completion needs nothing
// of the state and leaves in S2, in the clock in which the state is written; data leaves in S4.
// Neither can be stalled.

`default_nettype none

module nf_answer
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8,
  parameter int CNT_W   = 8,
  parameter int TERN5   = 0,
  parameter int ECP5    = 0
) (
  input  wire logic                     clk,    // clock, rising edge
  input  wire logic                     rst_n,  // asynchronous reset, active low

  // Generation of each region: number of its commits.
  input  wire logic [REGIONS*REC_GEN_W-1:0] gen,
  input  wire logic [REGIONS*32-1:0]    epoch,    // epoch of each region, 32 bits a region
  input  wire logic [REGIONS-1:0]       closed,   // regions whose round is closed

  input  wire engine_op_t               op,             // operation in S2
  input  wire region_desc_t             d,              // descriptor of its region
  input  wire logic                     sends_ndr,      // it is answered with a completion
  input  wire logic                     sends_drs,      // it is answered with data
  input  wire logic                     poison,         // the answer is poisoned
  input  wire logic [6:0]               contributions,  // workers seen

  input  wire book_t                    book3,      // bookkeeping in S3
  input  wire logic [CNT_W*LINE_W-1:0]  planes,     // count planes in S3
  output logic                          ndr_valid,  // completion valid; leaves from S2
  output resp_meta_t                    ndr_meta,   // requester and region of the completion
  output logic                          drs_valid,  // answer with data valid; leaves from S4
  output answer_t                       drs         // answer with data
);

  typedef enum logic [1:0] {
    VIEW_COUNTS,  // a vote, a plane, or a sum that is kept as plane 0
    VIEW_SUM,
    VIEW_INFO
  } view_e;

  // ---- S2: what is asked for --------------------------------------------------------------------
  view_e             view, view3_q, view4_q;
  resp_meta_t        meta3_q, meta4_q;
  logic              drs3_q, drs4_q, poison3_q, poison4_q, votes;
  logic              wide_q, signed_q, eight_q, tern5_3_q, tern5_4_q;
  logic [1:0]        part_q;
  logic [7:0]        workers_q;
  logic [LINE_W-1:0] counts, info, info_q, sums;

  assign votes = (op.kind == OP_VOTE);
  assign view  = (op.kind == OP_INFO) ? VIEW_INFO : (op.kind == OP_SUM) ? VIEW_SUM : VIEW_COUNTS;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      drs3_q <= 1'b0;
      drs4_q <= 1'b0;
    end else begin
      drs3_q <= sends_drs;
      drs4_q <= drs3_q;
    end
  end

  always_ff @(posedge clk) begin
    if (sends_drs) begin
      view3_q   <= view;
      meta3_q   <= op.meta;
      poison3_q <= poison;
      tern5_3_q <= votes && d.tern5;
      wide_q    <= (d.mode == MODE_G_INT8);
      signed_q  <= d.codes_signed;
      eight_q   <= op.worker[5];
      part_q    <= op.plane[1:0];
      workers_q <= d.workers;
    end
    if (drs3_q) begin
      view4_q   <= view3_q;
      meta4_q   <= meta3_q;
      poison4_q <= poison3_q;
      tern5_4_q <= tern5_3_q;
      if (view3_q == VIEW_INFO) info_q <= info;
    end
  end

  // ---- S3 and S4: the views ---------------------------------------------------------------------
  logic [LINE_W-1:0] voted;
  logic              asks, ternary;

  assign asks    = sends_drs && (view == VIEW_COUNTS);
  assign ternary = (d.mode == MODE_G_TERNARY);

  if (ECP5 != 0) begin : g_ecp5
    nf_ecp5_vote #(.CNT_W(CNT_W), .TERN5(TERN5)) u_vote (
      .clk, .rst_n, .en (asks), .vote (votes), .plane (op.plane), .ternary, .contributions,
      .tie_minus (d.tie_minus), .threshold (d.threshold), .planes, .line (voted)
    );
  end else begin : g_portable
    nf_vote #(.CNT_W(CNT_W), .TERN5(TERN5)) u_vote (
      .clk, .rst_n, .en (asks), .vote (votes), .plane (op.plane), .ternary, .contributions,
      .tie_minus (d.tie_minus), .threshold (d.threshold), .planes, .line (voted)
    );
  end

  if (TERN5 != 0) begin : g_tern5
    logic [6:0]        m_q;
    logic [7:0]        threshold_q;
    logic [LINE_W-1:0] line, line_q;
    nf_tern5_vote #(.CNT_W(CNT_W)) u_tern5_vote (
      .en (drs3_q && tern5_3_q), .planes, .contributions (m_q), .threshold (threshold_q), .line
    );
    always_ff @(posedge clk) begin
      if (sends_drs) begin
        m_q         <= contributions;
        threshold_q <= d.threshold;
      end
      if (drs3_q && tern5_3_q) line_q <= line;
    end
    assign counts = tern5_4_q ? line_q : voted;
  end else begin : g_no_tern5
    logic unused_tern5;
    assign unused_tern5 = tern5_4_q;
    assign counts       = voted;
  end

  nf_info_view #(.REGIONS(REGIONS)) u_info (
    .region (meta3_q.region), .workers (workers_q), .epoch, .gen, .closed, .book (book3),
    .line (info)
  );

  // Planes above those that count 64 workers are 0: no gate is made for them.
  nf_sum #(.CNT_W(counting_planes(CNT_W))) u_sum (
    .clk, .en (drs3_q && view3_q == VIEW_SUM), .wide (wide_q), .codes_signed (signed_q),
    .bytes (eight_q), .part (part_q),
    .planes (planes[counting_planes(CNT_W)*LINE_W-1:0]), .line (sums)
  );

  assign ndr_valid = sends_ndr;
  assign ndr_meta  = op.meta;
  assign drs_valid = drs4_q;
  assign drs       = make_answer(meta4_q, poison4_q, (view4_q == VIEW_INFO) ? info_q
                                                     : (view4_q == VIEW_SUM) ? sums : counts);
endmodule

`default_nettype wire
