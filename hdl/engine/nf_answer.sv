// SPDX-License-Identifier: Apache-2.0
// S3 of the aggregation engine: the answer to the operation that S2 has executed.
//
// `op`, `poison`, `sends_*` are of the operation in S2, `book` and `planes` of S3: the state as
// that operation has left it. Without one `sends_*` are low and `op` keeps still. A completion
// tells nothing of the state and leaves in S2, in the clock in which it is written; data leaves in
// S3. Neither can be stalled.

`default_nettype none

module nf_answer
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8,
  parameter int CNT_W   = 8,
  parameter int TERN5   = 0
) (
  input  wire logic                     clk,
  input  wire logic                     rst_n,

  input  wire logic [DESCS_W-1:0]       desc,
  input  wire logic [REGIONS*REC_GEN_W-1:0] gen,
  input  wire logic [REGIONS*32-1:0]    epoch,
  input  wire logic [REGIONS-1:0]       closed,

  input  wire engine_op_t               op,
  input  wire logic                     sends_ndr,
  input  wire logic                     sends_drs,
  input  wire logic                     poison,

  input  wire book_t                    book,
  input  wire logic [CNT_W*LINE_W-1:0]  planes,
  output logic                          ndr_valid,
  output resp_meta_t                    ndr_meta,
  output logic                          drs_valid,
  output answer_t                       drs
);
  region_desc_t      d;
  resp_meta_t        meta_q;
  logic [2:0]        plane_q;
  logic              vote_q, info_q, poison_q, drs_q, sum_q, eight_q;
  logic [LINE_W-1:0] vote, voted, plane, info, sums;
  logic [6:0]        m;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      drs_q <= 1'b0;
    end else begin
      drs_q <= sends_drs;
    end
  end

  always_ff @(posedge clk) begin
    meta_q   <= op.meta;
    plane_q  <= op.plane;
    vote_q   <= (op.kind == OP_VOTE);
    info_q   <= (op.kind == OP_INFO);
    sum_q    <= (op.kind == OP_SUM);
    eight_q  <= op.worker[5];
    poison_q <= poison;
  end

  assign d = desc_of(desc, meta_q.region);

  assign m = 7'($countones(book.bitmap));

  // What counts 64 workers; planes above are 0, and no step is made for them.
  localparam int PLANES_W = CNT_W * LINE_W;
  logic [PLANES_W-1:0] counted;
  assign counted = PLANES_W'(planes[counting_planes(CNT_W)*LINE_W-1:0]);

  nf_vote #(.CNT_W(CNT_W)) u_vote (
    .clk, .rst_n,
    .en            (vote_q),  // it keeps still for others
    .ternary (d.mode == MODE_G_TERNARY), .planes (counted),
    .contributions (m),
    .tie_minus (d.tie_minus), .threshold (d.threshold), .line (voted)
  );

  if (TERN5 != 0) begin : g_tern5
    logic [LINE_W-1:0] line;
    nf_tern5_vote #(.CNT_W(CNT_W)) u_tern5_vote (
      .en (vote_q && d.tern5), .planes, .contributions (m), .threshold (d.threshold), .line
    );
    assign vote = d.tern5 ? line : voted;
  end else begin : g_no_tern5
    assign vote = voted;
  end

  nf_info_view #(.REGIONS(REGIONS)) u_info (
    .region (meta_q.region), .workers (d.workers), .epoch, .gen, .closed, .book, .line (info)
  );

  nf_sum #(.CNT_W(CNT_W)) u_sum (
    .en (drs_q && sum_q), .wide (d.mode == MODE_G_INT8), .codes_signed (d.codes_signed),
    .bytes (eight_q), .part (plane_q[1:0]), .planes (counted), .line (sums)
  );

  always_comb begin
    plane = '0;
    for (int p = 0; p < CNT_W; p++) begin
      if (plane_q == 3'(p)) plane = planes[p*LINE_W +: LINE_W];
    end
  end

  assign ndr_valid = sends_ndr;
  assign ndr_meta  = op.meta;
  assign drs_valid = drs_q;
  assign drs       = make_answer(meta_q, poison_q,
                                 info_q ? info : sum_q ? sums : vote_q ? vote : plane);
endmodule

`default_nettype wire
