// SPDX-License-Identifier: Apache-2.0
// Brings the state of a missed line into its slot.
//
// Requests (`req_*`, never without `req_ready`) are answered in order. The state is
//   fetched  one INCR read of the record; it counts only if its generation is the region's own,
//            otherwise the line is empty in this epoch;
//   empty    when the record is not initialised yet: nothing of this epoch can be there;
//   lost     when a beat that was needed came with an error or poison, or when the region's records
//            are untrusted: empty and poisoned. The planes behind bookkeeping that is not of this
//            epoch are not needed: whatever they are, they were never this region's.
// A record that an eviction is still writing back (`ask_evicting`) is not read before that is done.
// A sum that is kept beside the record comes with it, if `req_sum` asks for it. It is dropped when
// it cannot be read or is poisoned: the lines that it was made of are still there.
// `out_*` is held until `out_ready`.

`default_nettype none
`include "nf_assert.svh"
`include "nf_wave.svh"

module nf_fill
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8,
  parameter int CNT_W   = 8,
  parameter int SLOT_W  = 6,
  parameter int DEPTH   = 16
) (
  input  wire logic                     clk,
  input  wire logic                     rst_n,
  input  wire logic [DESCS_W-1:0]       desc,
  input  wire logic [REGIONS*REC_GEN_W-1:0] gen,
  input  wire logic [REGIONS-1:0]       untrusted,

  input  wire logic                     req_valid,
  output logic                          req_ready,
  input  wire logic [SLOT_W-1:0]        req_slot,
  input  wire line_id_t                 req_line,
  input  wire logic                     req_sum,
  output logic [$clog2(DEPTH+1)-1:0]    count,

  // The line asked about, and what the others know of it.
  output line_id_t                      ask,
  input  wire logic                     ask_evicting,
  input  wire logic                     ask_fresh,

  output logic                          ar_valid,
  input  wire logic                     ar_ready,
  output logic [LADDR_W-1:0]            ar_addr,
  output logic [7:0]                    ar_len,
  input  wire logic                     r_valid,
  output logic                          r_ready,
  input  wire read_beat_t               r_beat,

  output logic                          out_valid,
  input  wire logic                     out_ready,
  output logic [SLOT_W-1:0]             out_slot,
  output book_t                         out_book,
  output logic                          out_kept,  // plane 0 is the line's sum
  output logic [CNT_W*LINE_W-1:0]       out_planes,
  output logic                          fetched  // pulse: a record was read
);
  localparam int REQ_W   = SLOT_W + $bits(line_id_t) + 1;
  localparam int TRACK_W = SLOT_W + 4 + $bits(fill_kind_e) + 1;

  // ---- request side ---------------------------------------------------------------------------
  logic                head_valid, head_take, head_sum;
  logic [SLOT_W-1:0]   head_slot;
  fill_kind_e          head_kind;
  region_desc_t        d;
  logic                track_ready;

  nf_fifo #(.WIDTH(REQ_W), .DEPTH(DEPTH)) u_requests (
    .clk, .rst_n,
    .in_valid  (req_valid),
    .in_ready  (req_ready),
    .in_data   ({req_slot, req_line, req_sum}),
    .out_valid (head_valid),
    .out_ready (head_take),
    .out_data  ({head_slot, ask, head_sum}),
    .count     (count)
  );

  assign d         = desc_of(desc, ask.region);
  assign head_kind = untrusted[32'(ask.region) % REGIONS] ? FILL_LOST
                     : ask_fresh ? FILL_EMPTY : FILL_FETCH;
  assign ar_valid  = head_valid && !ask_evicting && track_ready && (head_kind == FILL_FETCH);
  assign ar_addr   = LADDR_W'(record_addr(d, ask.index, 4'(CNT_W)));
  assign ar_len    = is_low_bit(d.mode) ? 8'(planes_of(d.workers, 4'(CNT_W)))
                     : 8'(head_sum && d.keep_sum);
  assign head_take = head_valid && !ask_evicting && track_ready
                     && (head_kind != FILL_FETCH || ar_ready);

  // ---- answer side ----------------------------------------------------------------------------
  logic                    track_valid, track_pop, track_fp;
  logic [SLOT_W-1:0]       track_slot;
  logic [3:0]              track_region;
  fill_kind_e              track_kind;
  logic [3:0]              beat_q;
  logic                    full_q, bad_q, ours_q, kept_q, unusable, bad, ours, last_beat;
  logic [SLOT_W-1:0]       slot_q;
  book_t                   book_q;
  logic [CNT_W*LINE_W-1:0] planes_q;
  record_t                 record;

  nf_fifo #(.WIDTH(TRACK_W), .DEPTH(4)) u_track (
    .clk, .rst_n,
    .in_valid  (head_take),
    .in_ready  (track_ready),
    .in_data   ({head_slot, ask.region, head_kind, !is_low_bit(d.mode)}),
    .out_valid (track_valid),
    .out_ready (track_pop),
    .out_data  ({track_slot, track_region, track_kind, track_fp}),
    /* verilator lint_off PINCONNECTEMPTY */
    .count     ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign record    = r_beat.data;
  assign r_ready   = track_valid && (track_kind == FILL_FETCH) && (!full_q || out_ready);
  assign last_beat = r_valid && r_ready && r_beat.last;
  assign unusable  = r_beat.err || r_beat.poison;
  assign bad       = (beat_q == '0) ? unusable : (bad_q || (ours && unusable && !track_fp));
  assign ours      = (beat_q == '0) ? (record.gen == gen[32'(track_region)*REC_GEN_W +: REC_GEN_W])
                                    : ours_q;
  assign track_pop = track_valid && (!full_q || out_ready)
                     && ((track_kind != FILL_FETCH) || last_beat);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      beat_q <= '0;
      full_q <= 1'b0;
    end else begin
      if (r_valid && r_ready) beat_q <= r_beat.last ? '0 : beat_q + 1'b1;
      if (track_pop) full_q <= 1'b1;
      else if (out_ready) full_q <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (r_valid && r_ready) begin
      bad_q  <= bad;
      ours_q <= ours;
    end
    if (track_pop) slot_q <= track_slot;
    if (r_valid && r_ready)
      kept_q <= !unusable && ((beat_q == '0) ? ours && record.kept && !r_beat.last : kept_q);
    if (r_valid && r_ready && beat_q == '0) begin
      book_q   <= ours ? record.book : '0;
      planes_q <= '0;
    end
    if (r_valid && r_ready && beat_q != '0 && ours)
      planes_q[(32'(beat_q)-1)*LINE_W +: LINE_W] <= r_beat.data;
    if (track_pop && (track_kind != FILL_FETCH || bad)) begin
      book_q   <= make_book(track_kind != FILL_EMPTY, track_kind != FILL_EMPTY, 64'd0);
      planes_q <= '0;
      kept_q   <= 1'b0;
    end
  end

  assign out_valid  = full_q;
  assign out_slot   = slot_q;
  assign out_book   = book_q;
  assign out_kept   = kept_q;
  assign out_planes = planes_q;
  assign fetched    = last_beat;

  `NF_ASSERT_NEVER(Overflow_A, req_valid && !req_ready)
  `NF_ASSERT_NEVER(TrackRoom_A, head_take && !track_ready)
  `NF_ASSERT_NEVER(BeatRange_A, 32'(beat_q) > CNT_W)
  `NF_ASSERT(ArStable_A, ar_valid && !ar_ready |=> ar_valid && $stable(ar_addr))
  `NF_ASSERT(OutStable_A, (out_valid && !out_ready) |=> out_valid && $stable(out_book))

  `NF_WAVE_NAME(head_kind_name, head_kind, fill_kind_name)
  `NF_WAVE_NAME(track_kind_name, track_kind, fill_kind_name)
endmodule

`default_nettype wire
