// SPDX-License-Identifier: Apache-2.0
// Writes evicted lines back to their records in the state area.
//
// `push` (never with `count` at DEPTH) stores a line's whole state; it leaves as one INCR burst:
// the bookkeeping beat, then the planes that the region's W needs (an FP32 line has one if its sum
// is kept, else none). An entry stays visible to `match` until memory has answered, so a fill of
// the same line waits for it. An entry whose record is still to be initialised (`head_fresh`) waits
// for the initialiser.

`default_nettype none
`include "nf_assert.svh"

module nf_evict
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8,
  parameter int CNT_W   = 8,
  parameter int DEPTH   = 4
) (
  input  wire logic                     clk,
  input  wire logic                     rst_n,
  input  wire logic [DESCS_W-1:0]       desc,
  input  wire logic [REGIONS*REC_GEN_W-1:0] gen,

  input  wire logic                     push,
  input  wire line_id_t                 push_line,
  input  wire book_t                    push_book,
  input  wire logic                     push_kept,
  input  wire logic [CNT_W*LINE_W-1:0]  push_planes,
  output logic [$clog2(DEPTH+1)-1:0]    count,
  output logic                          idle,

  input  wire line_id_t                 match_line,
  output logic                          match,

  output line_id_t                      head,
  input  wire logic                     head_fresh,

  output logic                          wr_valid,
  input  wire logic                     wr_ready,
  output logic [LADDR_W-1:0]            wr_addr,
  output logic [7:0]                    wr_len,
  output logic [LINE_W-1:0]             wr_data,
  output logic                          wr_last,
  input  wire logic                     b_valid,
  input  wire logic                     b_err,
  output logic                          failed,  // pulse
  output logic [3:0]                    failed_region
);
  localparam int PTR_W = $clog2(DEPTH);
  localparam int CW    = $clog2(DEPTH + 1);

  if (DEPTH < 2 || (1 << PTR_W) != DEPTH) begin : g_bad_depth
    initial $fatal(1, "nf_evict: DEPTH must be a power of two, at least 2");
  end

  line_id_t                line_q [DEPTH];
  book_t                   book_q [DEPTH];
  logic [CNT_W*LINE_W-1:0] planes_q [DEPTH];
  logic [DEPTH-1:0]        live_q, kept_q, same;
  logic [PTR_W-1:0]        push_ptr_q, send_ptr_q, done_ptr_q;
  logic [CW-1:0]           count_q, unsent_q;
  logic [3:0]              beat_q, planes;
  region_desc_t            d;
  record_t                 record;
  line_id_t                answered;
  logic                    sent;

  always_ff @(posedge clk) begin
    if (push) begin
      line_q[push_ptr_q]   <= push_line;
      book_q[push_ptr_q]   <= push_book;
      kept_q[push_ptr_q]   <= push_kept;
      planes_q[push_ptr_q] <= push_planes;
    end
  end

  assign head   = line_q[send_ptr_q];
  assign d      = desc_of(desc, head.region);
  assign planes = is_low_bit(d.mode) ? planes_of(d.workers, 4'(CNT_W)) : 4'(kept_q[send_ptr_q]);
  assign record = make_record(kept_q[send_ptr_q],
                              gen[32'(head.region)*REC_GEN_W +: REC_GEN_W], book_q[send_ptr_q]);

  assign wr_valid = (unsent_q != '0) && !head_fresh;
  assign wr_addr  = LADDR_W'(record_addr(d, head.index, 4'(CNT_W)));
  assign wr_len   = 8'(planes);
  assign wr_last  = (beat_q == planes);
  assign sent     = wr_valid && wr_ready && wr_last;

  always_comb begin
    wr_data = record;
    for (int p = 0; p < CNT_W; p++) begin
      if (beat_q == 4'(p + 1)) wr_data = planes_q[send_ptr_q][p*LINE_W +: LINE_W];
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      live_q     <= '0;
      push_ptr_q <= '0;
      send_ptr_q <= '0;
      done_ptr_q <= '0;
      count_q    <= '0;
      unsent_q   <= '0;
      beat_q     <= '0;
    end else begin
      if (push) begin
        live_q[push_ptr_q] <= 1'b1;
        push_ptr_q         <= push_ptr_q + 1'b1;
      end
      if (sent) send_ptr_q <= send_ptr_q + 1'b1;
      if (b_valid) begin
        live_q[done_ptr_q] <= 1'b0;
        done_ptr_q         <= done_ptr_q + 1'b1;
      end
      if (wr_valid && wr_ready) beat_q <= wr_last ? '0 : beat_q + 1'b1;
      count_q  <= count_q + CW'(push) - CW'(b_valid);
      unsent_q <= unsent_q + CW'(push) - CW'(sent);
    end
  end

  for (genvar e = 0; e < DEPTH; e++) begin : g_match
    assign same[e] = live_q[e] && (line_q[e] == match_line);
  end

  assign match         = |same;
  assign count         = count_q;
  assign idle          = (count_q == '0);
  assign failed        = b_valid && b_err;
  assign answered      = line_q[done_ptr_q];
  assign failed_region = answered.region;

  `NF_ASSERT_NEVER(Overflow_A, push && count_q == CW'(DEPTH))
  `NF_ASSERT(LiveCount_A, 32'($countones(live_q)) == 32'(count_q) && unsent_q <= count_q)
  `NF_ASSERT(WrStable_A, wr_valid && !wr_ready |=> wr_valid && $stable(wr_addr) && $stable(wr_data))
  `NF_ASSERT_NEVER(BWithoutBurst_A, b_valid && count_q == unsent_q)
endmodule

`default_nettype wire
