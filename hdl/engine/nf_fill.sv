// SPDX-License-Identifier: Apache-2.0
// Fetches the state of missed lines from their records in the state area.
//
// Requests (`req_*`, never without `req_ready`), each of another line. Up to FLIGHT reads are in
// flight, but no more than memory can use: while the read channel is busy all the time
// (`read_busy`), further ones would only lengthen the queue in which the reads of others wait. The
// state is
//   fetched  one INCR read of the record; it counts only if its generation is the region's own,
//            otherwise the line is empty in this epoch;
//   lost     if a beat that was needed came with an error or poison, or if the region's records
//            are untrusted: empty and poisoned. Planes that follow bookkeeping of another epoch
//            are not needed: whatever they are, they were never this region's.
// A request that finds no other is sent to memory in its own clock. A record that an eviction is
// still writing back (`ask_evicting`), or whose group the record initialiser is overwriting
// (`ask_waits`), is not read before that is done: its request is queued after the others. A kept
// FP32 sum, which is stored after the bookkeeping, is read with it if `req_sum` is set. It is
// dropped if it cannot be read or is poisoned: the lines that it was made of are still there.
// `out_*` is held until `out_ready`. Meanwhile the bookkeeping of the next record is received, but
// not its planes: there is one place for planes. `due` and `out_pin` name the slot, by its pin,
// whose turn it is, even before its record has arrived; they may be a clock later than `out_valid`.

`default_nettype none
`include "nf_assert.svh"
`include "nf_wave.svh"

module nf_fill
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8,
  parameter int CNT_W   = 8,
  parameter int PIN_W  = 6,
  parameter int DEPTH   = 16,
  parameter int FLIGHT  = 64,
  parameter int ECC     = 1,
  parameter int MEM_LINES_LOG2 = 20
) (
  input  wire logic                     clk,        // clock, rising edge
  input  wire logic                     rst_n,      // asynchronous reset, active low
  input  wire logic [DESCS_W-1:0]       desc,       // active descriptors of all regions
  // Generation of each region: number of its commits.
  input  wire logic [REGIONS*REC_GEN_W-1:0] gen,
  input  wire logic [REGIONS-1:0]       untrusted,  // regions whose records are unknown

  input  wire logic                     req_valid,   // request valid
  output logic                          req_ready,   // it is taken
  input  wire logic [PIN_W-1:0]        req_pin,    // pin of the slot to fill
  input  wire line_id_t                 req_line,    // line to fetch
  input  wire logic                     req_sum,     // fetch the kept sum too
  input  wire logic [3:0]               req_planes,  // of its record, at most
  output logic [$clog2(DEPTH+1)-1:0]    count,       // requests that wait

  // The line asked about, and what the others know of it.
  output line_id_t                      ask,           // line that is asked about
  input  wire logic                     ask_evicting,  // it is being written back
  input  wire logic                     ask_waits,     // the initialiser overwrites its group

  output logic                          ar_valid,   // read request valid
  input  wire logic                     ar_ready,   // read request taken
  output logic [LADDR_W-1:0]            ar_addr,    // line address of the read
  output logic [7:0]                    ar_len,     // AXI length of the burst: beats less one
  input  wire logic                     read_busy,  // a beat is on the shared read channel
  input  wire logic                     r_valid,    // read beat valid
  output logic                          r_ready,    // read beat taken
  input  wire read_beat_t               r_beat,     // read beat

  output logic                          out_valid,   // state valid
  input  wire logic                     out_ready,   // state taken
  output logic                          due,         // the turn of a slot has come, `out_pin`
  output logic [PIN_W-1:0]             out_pin,    // pin of the slot of the state
  output logic                          out_lost,  // out_book is lost; may be a clock later
  output book_t                         out_book,    // bookkeeping
  output logic [6:0]                    out_seen,  // workers in it
  output logic                          out_kept,  // plane 0 is the line's sum
  output logic [CNT_W*LINE_W-1:0]       out_planes,  // count planes
  output logic [CNT_W-1:0]              out_has,     // planes of the record; others count as 0
  output logic                          fetched  // pulse: a record was read
);
  localparam int REQ_W   = PIN_W + $bits(line_id_t) + 5;
  localparam int TRACK_W = PIN_W + 4 + $bits(fill_kind_e) + 1;

  // ---- request side ---------------------------------------------------------------------------
  localparam int FLIGHT_W = $clog2(FLIGHT + 1);
  localparam int START    = (FLIGHT < 8) ? FLIGHT : 8;

  logic                head_valid, head_take, head_sum, waits, first_sum;
  logic [FLIGHT_W-1:0] flight, window_q;  // reads under way, and how many may be
  logic [PIN_W-1:0]   head_pin, first_pin;
  logic [3:0]          head_planes, first_planes;
  line_id_t            first;
  fill_kind_e          head_kind;
  region_desc_t        d;
  logic [MADDR_W-1:0]  target;  // of the read: in memory
  logic                track_ready, head_back, may_ask, busy;

  // Requests are of different lines, so that their order is free.
  assign busy      = ask_evicting || ask_waits;
  assign head_back = waits && busy && req_ready && !req_valid;

  nf_fifo #(.WIDTH(REQ_W), .DEPTH(DEPTH)) u_requests (
    .clk, .rst_n,
    .in_valid  ((req_valid && (waits || !head_take)) || head_back),
    .in_ready  (req_ready),
    .in_data   (req_valid ? {req_pin, req_line, req_sum, req_planes}
                          : {first_pin, first, first_sum, first_planes}),
    .out_valid (waits),
    .out_ready (head_take || head_back),
    .out_data  ({first_pin, first, first_sum, first_planes}),
    .count     (count)
  );

  assign head_valid  = waits || req_valid;
  assign head_pin   = waits ? first_pin : req_pin;
  assign head_sum    = waits ? first_sum : req_sum;
  assign head_planes = waits ? first_planes : req_planes;
  assign ask         = waits ? first : req_line;

  assign d         = desc_of(desc, ask.region);
  assign head_kind = untrusted[32'(ask.region) % REGIONS] ? FILL_LOST : FILL_FETCH;
  assign ar_valid  = head_valid && !busy && may_ask && (head_kind == FILL_FETCH);
  assign target    = record_addr(d, ask.index, 4'(CNT_W));
  assign ar_addr   = LADDR_W'(target[MEM_LINES_LOG2-1:0]);
  assign ar_len    = is_low_bit(d.mode) ? 8'(head_planes) : 8'(head_sum && d.keep_sum);
  assign head_take = head_valid && !busy && may_ask
                     && (head_kind != FILL_FETCH || ar_ready);

  // ---- answer side ----------------------------------------------------------------------------
  logic                    track_valid, track_pop, track_fp, queued;
  logic [TRACK_W-1:0]      queued_track;
  logic [FLIGHT_W-1:0]     queued_count;
  logic [PIN_W-1:0]       track_pin;
  logic [3:0]              track_region;
  fill_kind_e              track_kind;
  logic [3:0]              beat_q;
  logic                    bad_q, ours_q, needed, unusable, bad, ours, last_beat, room, free;
  record_t                 record;
  book_t                   record_book;
  region_desc_t            came;  // of the record that comes

  // Two places: one is filled while the other waits to be taken. The planes of both are in the same
  // flip-flops, so those of the next record wait until a state is taken: in the clock after it has
  // come, or a little later. Planes from number `count` on mean nothing.
  logic [1:0]              full_q;
  logic                    in_q, out_q;  // place that is filled, place that goes out
  logic [PIN_W-1:0]       pin_q [2];
  book_t                   book_q [2];
  logic [6:0]              seen_q [2];
  logic [6:0]              seen;
  logic [3:0]              count_q [2];
  logic [3:0]              need_q, planes;  // of the record that comes: what it needs
  logic [1:0]              sum_q, lost_q;   // a place's plane is a kept sum; its record was lost
  logic                    brings_sum, brings_lost;
  logic [CNT_W*LINE_W-1:0] planes_q;

  nf_fifo #(.WIDTH(TRACK_W), .DEPTH(FLIGHT)) u_track (
    .clk, .rst_n,
    .in_valid  (head_take),
    .in_ready  (track_ready),
    .in_data   ({head_pin, ask.region, head_kind, !is_low_bit(d.mode)}),
    .out_valid (queued),
    .out_ready (!track_valid || track_pop),
    .out_data  (queued_track),
    .count     (queued_count)
  );

  // The oldest has a register of its own.
  logic               track_valid_q;
  logic [TRACK_W-1:0] track_q;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) track_valid_q <= 1'b0;
    else        track_valid_q <= queued || (track_valid_q && !track_pop);
  end

  always_ff @(posedge clk) begin
    if (queued && (!track_valid_q || track_pop)) track_q <= queued_track;
  end

  assign track_valid = track_valid_q;
  assign flight      = queued_count + FLIGHT_W'(track_valid_q);
  assign {track_pin, track_region, track_kind, track_fp} = track_q;

  // The window grows by one for every four clocks in which it holds a request back while the
  // channel is idle, about what a record takes, and shrinks by one after 64 records without growth.
  // So it stays where latency is just covered.
  logic [1:0]          idle_q;
  logic [5:0]          calm_q;
  logic                held, grows;

  assign may_ask = track_ready && (flight < window_q);
  assign held    = head_valid && (flight >= window_q) && !read_busy;
  assign grows   = held && (idle_q == '1) && (window_q != FLIGHT_W'(FLIGHT));

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      window_q <= FLIGHT_W'(START);
      idle_q   <= '0;
      calm_q   <= '0;
    end else begin
      if (held) idle_q <= idle_q + 1'b1;
      if (grows) begin
        window_q <= window_q + 1'b1;
        calm_q   <= '0;
      end else if (last_beat) begin
        calm_q <= calm_q + 1'b1;
        if (calm_q == '1 && window_q != FLIGHT_W'(START)) window_q <= window_q - 1'b1;
      end
    end
  end

  assign came        = desc_of(desc, track_region);
  assign record      = r_beat.data;
  assign record_book = record.book;
  assign seen        = 7'($countones(record_book.bitmap));
  assign room      = !full_q[in_q];
  assign free      = (beat_q == '0) || full_q == '0 || out_ready;  // the planes, if it is one
  assign r_ready   = track_valid && (track_kind == FILL_FETCH) && room && free;
  assign last_beat = r_valid && r_ready && r_beat.last;
  assign needed    = (beat_q == '0) || (beat_q <= need_q);
  assign unusable  = (r_beat.err || r_beat.poison) && needed;
  // The region may have become untrusted since the record was asked for.
  assign bad       = (beat_q == '0) ? unusable || untrusted[32'(track_region) % REGIONS]
                                    : (bad_q || (ours && unusable && !track_fp));
  assign ours      = (beat_q == '0) ? (record.gen == gen[32'(track_region)*REC_GEN_W +: REC_GEN_W])
                                    : ours_q;
  assign track_pop = track_valid && room && ((track_kind != FILL_FETCH) || last_beat);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      beat_q <= '0;
      full_q <= '0;
      in_q   <= 1'b0;
      out_q  <= 1'b0;
    end else begin
      if (r_valid && r_ready) beat_q <= r_beat.last ? '0 : beat_q + 1'b1;
      if (track_pop) begin
        full_q[in_q] <= 1'b1;
        in_q         <= !in_q;
      end
      if (out_ready) begin
        full_q[out_q] <= 1'b0;
        out_q         <= !out_q;
      end
    end
  end

  // The fetch of a record that shares its mark may be longer than the record: the beats after its
  // own planes may be anything.
  always_comb begin
    planes = '0;
    if (track_kind == FILL_FETCH && ours && !bad && beat_q != '0 && !unusable)
      planes = (beat_q < need_q) ? beat_q : need_q;
  end

  assign brings_sum  = track_fp && (planes != '0);
  assign brings_lost = (track_kind == FILL_LOST) || (track_kind == FILL_FETCH && bad);

  always_ff @(posedge clk) begin
    if (r_valid && r_ready) begin
      bad_q  <= bad;
      ours_q <= ours;
    end
    if (track_pop) pin_q[in_q] <= track_pin;
    if (r_valid && r_ready && beat_q == '0) begin
      book_q[in_q] <= ours ? record.book : '0;
      seen_q[in_q] <= ours ? seen : '0;
      need_q       <= track_fp ? 4'(record.kept) : planes_in_use(seen, came.tern5, 4'(CNT_W));
    end
    for (int p = 0; p < CNT_W; p++) begin
      if (r_valid && r_ready && beat_q == 4'(p + 1))
        planes_q[p*LINE_W +: LINE_W] <= r_beat.data;
    end
    if (track_pop) begin
      count_q[in_q] <= planes;
      sum_q[in_q]   <= brings_sum;
      lost_q[in_q]  <= brings_lost;
    end
    if (track_pop && (track_kind != FILL_FETCH || bad)) begin
      book_q[in_q] <= make_book(1'b1, 1'b1, 64'd0);
      seen_q[in_q] <= '0;
    end
  end

  // What has just come can be issued in the same clock: its state is needed two clocks later.
  logic now_full;
  assign now_full  = full_q[out_q];
  assign out_valid = now_full || track_pop;  // into the place that goes out next: both are free
  assign out_book  = book_q[out_q];
  assign out_seen  = seen_q[out_q];
  assign out_lost  = now_full ? lost_q[out_q] : brings_lost;
  assign out_kept  = now_full ? sum_q[out_q] : brings_sum;
  assign fetched   = last_beat;

  logic              place, place_full, due_q;
  logic [PIN_W-1:0] out_pin_q;
  assign place      = out_q ^ out_ready;  // that goes out in the next clock
  assign place_full = full_q[place];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) due_q <= 1'b0;
    else        due_q <= place_full || track_valid;
  end

  always_ff @(posedge clk) out_pin_q <= place_full ? pin_q[place] : track_pin;

  assign due      = due_q;
  assign out_pin = out_pin_q;

  logic [3:0] out_count;

  assign out_count  = count_q[out_q];
  assign out_planes = planes_q;
  for (genvar p = 0; p < CNT_W; p++) begin : g_has
    assign out_has[p] = 32'(out_count) > p;
  end

  // ---- checks ----------------------------------------------------------------------------------
`ifdef NF_CHECKED
  logic [5:0] records_q;  // since the window grew, 63 at most
  logic [1:0] waits_q;    // clocks in which it has held a request back since, 3 at most

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      records_q <= '0;
      waits_q   <= '0;
    end else if (grows) begin
      records_q <= '0;
      waits_q   <= '0;
    end else begin
      if (last_beat && records_q != '1) records_q <= records_q + 1'b1;
      if (held && waits_q != '1) waits_q <= waits_q + 1'b1;
    end
  end

  `NF_ASSERT_NEVER(GrowsEarly_A, grows && waits_q != '1)
  `NF_ASSERT_NEVER(ShrinksEarly_A, last_beat && !grows && calm_q == '1 && records_q != '1)
`endif
  `NF_ASSERT_NEVER(WindowRange_A, 32'(window_q) > FLIGHT || 32'(window_q) < START)
  `NF_ASSERT_NEVER(WindowRoom_A, head_take && flight >= window_q)
  `NF_ASSERT_NEVER(Overflow_A, req_valid && !req_ready)
  `NF_ASSERT_NEVER(TrackRoom_A, head_take && !track_ready)
  `NF_ASSERT_NEVER(Meanwhile_A, r_valid && track_valid && (track_kind == FILL_FETCH) && !r_ready
                                && full_q != '1 && (beat_q == '0 || full_q == '0 || out_ready))
  `NF_ASSERT_NEVER(PlanesWait_A, r_valid && r_ready && beat_q != '0 && now_full && !out_ready)
  `NF_ASSERT_NEVER(OutOfMemory_A, ar_valid && (target >> MEM_LINES_LOG2) != '0)
  `NF_ASSERT_NEVER(FreeRing_A, !now_full && in_q != out_q)
  // Where nothing checks the marks, a flipped one may say more planes than there are.
  `NF_ASSERT_NEVER(BeatRange_A, ECC != 0 && 32'(beat_q) > CNT_W)
  // What says that a record was lost, and is to be written back as that, is of the same place.
  `NF_ASSERT_NEVER(LostBook_A, now_full && out_lost && !(out_book.lost && out_book.bitmap == '0))
  // A request that waits is taken back only when the region's records become doubtful meanwhile.
  `NF_ASSERT_KEEPS(ArStable_A, ar_valid && !ar_ready,
                   {ar_valid || head_kind == FILL_LOST, ar_addr})
  `NF_ASSERT(OutSlot_A, !(out_valid && due_q)
                        || out_pin_q == (now_full ? pin_q[out_q] : track_pin))
  `NF_ASSERT_KEEPS(OutStable_A, now_full && !out_ready, {now_full, out_book})

  `NF_WAVE_NAME(head_kind_name, head_kind, fill_kind_name)
  `NF_WAVE_NAME(track_kind_name, track_kind, fill_kind_name)
endmodule

`default_nettype wire
