// SPDX-License-Identifier: Apache-2.0
// Writes evicted lines back to their records in the state area.
//
// `push` (never with `count` at DEPTH or `flight` at FLIGHT) stores a line's whole state; a clock
// later `counted_planes` tells how many planes the workers seen so far need. It leaves as one INCR
// burst: the bookkeeping beat, then these planes (an FP32 line has one if its sum is kept, else
// none). Its data is given up when it was sent (`count` are held). The line stays visible to
// `match` until memory has answered (`flight` are), so a fill of the same line waits for it, and no
// line is ever under way twice. `wr_ready` comes with `wr_valid` only: it takes a beat. In the
// first clock after a reset `push_planes` and `push_check` are 0.
//
// Each beat checks the word of the buffer that it sends. If the bookkeeping cannot be trusted, the
// line leaves as a lost one. A plane that cannot be trusted leaves with `wr_poison`, after a record
// that is good: its line is lost when it is fetched again, a kept sum is dropped. `ram_fault` tells
// of each such word that is sent and used.
//
// In a region that the record initialiser has not finished (`fresh`) an entry goes before the
// initialiser. Lines that share a mark (nf_written) are a group, and memory may hold anything in
// their records: the first eviction into a group that the initialiser has not reached (`first`, a
// clock after `counted`) overwrites all of them, before its own. Fills of the group wait for that.
// An entry whose group the initialiser is overwriting waits for it (`head_waits`).

`default_nettype none
`include "nf_assert.svh"

module nf_evict
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int REGIONS = 8,
  parameter int CNT_W   = 8,
  parameter int DEPTH   = 4,
  parameter int FLIGHT  = 64,
  parameter int ECC     = 1,
  parameter int INJECT_DATA = 0,
  parameter int MARKS_LOG2 = 12,
  parameter int MEM_LINES_LOG2 = 20
) (
  input  wire logic                     clk,        // clock, rising edge
  input  wire logic                     rst_n,      // asynchronous reset, active low
  input  wire ram_flip_t                ram_flip,   // bit of a protected RAM to flip (RAS_INJECT)
  // Fault that the protected RAM has found in this cycle.
  output ram_fault_t                    ram_fault,
  input  wire logic [DESCS_W-1:0]       desc,       // active descriptors of all regions
  // Generation of each region: number of its commits.
  input  wire logic [REGIONS*REC_GEN_W-1:0] gen,

  input  wire logic                     push,            // store the state of a line
  input  wire line_id_t                 push_line,       // that line
  input  wire book_t                    push_book,       // its bookkeeping
  input  wire logic                     push_kept,       // an FP32 sum is kept with it
  input  wire logic [CNT_W*LINE_W-1:0]  push_planes,     // its count planes
  input  wire logic [CNT_W*ram_check_w(LINE_W, ECC)-1:0] push_check,  // with parity: of each plane
  input  wire logic                     counted,      // in the next clock
  input  wire logic [3:0]               counted_planes,  // planes that must be written
  input  wire logic [REGIONS-1:0]       fresh,           // regions still being initialised
  input  wire logic                     first,           // the first in its group
  output logic [$clog2(DEPTH+1)-1:0]    count,           // entries whose data is held
  output logic [$clog2(FLIGHT+1)-1:0]   flight,          // entries that memory has not answered
  input  wire logic [3:0]               settle,          // region that is asked about
  output logic                          idle,  // no line of region `settle` is under way

  input  wire line_id_t                 match_line,  // line that is looked for
  output logic                          match,       // it is under way

  output line_id_t                      head,        // line that is written next
  input  wire logic                     head_waits,  // the initialiser overwrites its group

  output logic                          wr_valid,      // write beat valid
  input  wire logic                     wr_ready,      // write beat taken
  output logic [LADDR_W-1:0]            wr_addr,       // line address of the write
  output logic [7:0]                    wr_len,        // AXI length of the burst: beats less one
  output logic [LINE_W-1:0]             wr_data,       // data of the beat
  output logic                          wr_poison,     // the line is poisoned
  output logic                          wr_last,       // last beat of the burst
  input  wire logic                     b_valid,       // memory has answered the oldest write
  input  wire logic                     b_err,         // it refused that write
  output logic                          failed,  // pulse
  output logic [3:0]                    failed_region  // region of the refused write
);
  localparam int PTR_W = $clog2(DEPTH);
  localparam int CW    = $clog2(DEPTH + 1);
  localparam int FP_W  = $clog2(FLIGHT);
  localparam int FW    = $clog2(FLIGHT + 1);
  localparam int BOOK_W   = $bits(book_t);
  localparam int STATE_W  = BOOK_W + CNT_W * LINE_W;
  localparam int WORDS    = CNT_W + 1;  // of a row: the planes, the bookkeeping
  localparam int WORD_B   = $clog2(WORDS);
  localparam int WORD_CW  = ram_check_w(LINE_W, ECC);
  localparam int CHECK_W  = WORDS * WORD_CW;
  // Planes from the state RAM keep their parity bits. With SECDED these may be wrong.
  localparam int GIVEN    = (ECC == ECC_PARITY) ? CNT_W : 0;
  localparam int RECORD_W = BOOK_W + REC_GEN_W + 1;  // bits of a record that are not reserved
  // The low bits of an index tell the lines of a region apart, and those of a group still fewer.
  localparam int KEY_W    = index_bits(MEM_LINES_LOG2);
  localparam int REGION_W = (REGIONS > 1) ? $clog2(REGIONS) : 1;
  localparam int MATE_W   = (KEY_W > MARKS_LOG2) ? KEY_W - MARKS_LOG2 : 1;

  if (DEPTH < 2 || (1 << PTR_W) != DEPTH) begin : g_bad_depth
    initial $fatal(1, "nf_evict: DEPTH must be a power of two, at least 2");
  end
  if (FLIGHT < 2) begin : g_bad_flight
    initial $fatal(1, "nf_evict: FLIGHT must be at least 2");
  end

  // What is compared in every clock is in flip-flops, the rest in RAMs that are read by number.
  logic [REGION_W+KEY_W-1:0] key_q [FLIGHT];
  logic [REGION_W-1:0]     region_q [FLIGHT];
  logic [REGION_W+KEY_W-1:0] head_q [DEPTH];
  logic [WORD_CW+BOOK_W-1:0] book_q [DEPTH];
  logic [DEPTH-1:0]        kept_q;
  logic [FLIGHT-1:0]       live_q, same, unsettled;
  logic [PTR_W-1:0]        push_ptr_q, send_ptr_q;
  logic [FP_W-1:0]         push_line_q, send_line_q, done_line_q;
  logic [PTR_W-1:0]        counted_ptr_q;
  logic [FP_W-1:0]         counted_at_q, late_at_q;
  logic [3:0]              counted_region_q;
  logic [FLIGHT-1:0]       opens_q;  // entries that overwrite their group
  logic                    late, late_q, zeroing, zeroed_q, zero_answer;
  logic [MATE_W-1:0]       match_mates;  // bits of an index that differ within a group
  logic [MATE_W-1:0]       mate_q, mates;  // of the group of `head`: written, last one
  logic [INDEX_W-1:0]      zero_index;
  logic [MADDR_W-1:0]      target;  // of the write: in memory
  logic [MATE_W:0]         zeros_q;  // writes of the oldest entry's group that were answered
  logic [5:0]              counted_log2, head_log2, match_log2, done_log2;  // of their groups
  logic [3:0]              needs_q [DEPTH];  // planes of a low-bit line
  logic [CW-1:0]           unsent_q, known_q;  // entries held, and those whose planes are counted
  logic [FW-1:0]           flight_q;
  logic [3:0]              beat_q, planes;
  region_desc_t            d;
  record_t                 record;
  book_t                   book;
  logic [CHECK_W-1:0]      check, made_check;
  logic [LINE_W-1:0]       word, data;  // of the head, for this beat: as stored, and checked
  logic [WORD_CW-1:0]      word_check;
  logic [WORD_B-1:0]       word_at;
  logic [CNT_W*LINE_W-1:0] read;  // the plane of this beat, and zeros
  logic [CNT_W*WORD_CW-1:0] read_check;
  logic                    emptied_q;  // the row of zeros was written
  logic [REGION_W+KEY_W-1:0] push_key;
  logic                    bad, begun_q, lost_q, lost;
  logic [3:0]              answered;  // region of the oldest entry
  logic                    sent;

  assign push_key = {push_line.region[REGION_W-1:0], push_line.index[KEY_W-1:0]};

  // In a fresh region a group's mark says a clock later whether it is to be overwritten.
  assign counted_log2 = group_log2(desc_of(desc, counted_region_q), 6'(MARKS_LOG2));
  assign late         = counted && fresh[32'(counted_region_q) % REGIONS] && counted_log2 != '0;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) late_q <= 1'b0;
    else        late_q <= late;
  end

  always_ff @(posedge clk) begin
    if (push) begin
      counted_at_q         <= push_line_q;
      counted_region_q     <= push_line.region;
      opens_q[push_line_q] <= 1'b0;
    end
    if (late) late_at_q <= counted_at_q;
    if (late_q && first) opens_q[late_at_q] <= 1'b1;
  end

  always_ff @(posedge clk) begin
    if (push) begin
      key_q[push_line_q]    <= push_key;
      region_q[push_line_q] <= push_line.region[REGION_W-1:0];
      head_q[push_ptr_q]    <= push_key;
      kept_q[push_ptr_q]    <= push_kept;
      book_q[push_ptr_q]    <= {check[CHECK_W-1 -: WORD_CW], push_book};
      counted_ptr_q         <= push_ptr_q;
    end
    if (counted) needs_q[counted_ptr_q] <= counted_planes;
  end

  function automatic logic [FP_W-1:0] after(input logic [FP_W-1:0] place);
    return (32'(place) == FLIGHT - 1) ? '0 : place + 1'b1;
  endfunction

  function automatic line_id_t line_of(input logic [REGION_W+KEY_W-1:0] key);
    return make_line_id(4'(key[KEY_W +: REGION_W]), INDEX_W'(key[KEY_W-1:0]));
  endfunction

  assign head   = line_of(head_q[send_ptr_q]);
  assign d      = desc_of(desc, head.region);
  assign book   = lost ? make_book(1'b1, 1'b1, 64'd0) : data[BOOK_W-1:0];
  assign planes = is_low_bit(d.mode) ? needs_q[send_ptr_q] : 4'(kept_q[send_ptr_q]);
  assign record = make_record(kept_q[send_ptr_q] && !lost,
                              gen[32'(head.region)*REC_GEN_W +: REC_GEN_W], book);

  assign head_log2  = group_log2(d, 6'(MARKS_LOG2));
  assign mates      = (MATE_W'(1) << head_log2) - 1'b1;
  assign zeroing    = opens_q[send_line_q] && !zeroed_q;
  assign zero_index = {head.index[INDEX_W-1:MATE_W], (head.index[MATE_W-1:0] & ~mates) | mate_q};

  assign target   = record_addr(d, zeroing ? zero_index : head.index, 4'(CNT_W));
  assign wr_valid = (known_q != '0) && !head_waits;
  assign wr_addr  = LADDR_W'(target[MEM_LINES_LOG2-1:0]);
  assign wr_len   = zeroing ? '0 : 8'(planes);
  assign wr_last  = zeroing || (beat_q == planes);
  assign sent     = wr_ready && wr_last && !zeroing;

  // One word of the row for each beat: beat 0 is a group's zeros, or the bookkeeping. Each plane
  // has its own RAM, which reads a row of zeros in the beats of the others. So the word is what
  // they read, all ORed: a multiplexer takes more than twice the gates. The first clock after a
  // reset writes the zeros: `push_planes` is 0 in that clock.
  assign word_at = (beat_q == '0) ? WORD_B'(CNT_W) : WORD_B'(beat_q - 1'b1);

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) emptied_q <= 1'b0;
    else        emptied_q <= 1'b1;
  end

  for (genvar p = 0; p < CNT_W; p++) begin : g_plane
    logic [WORD_CW+LINE_W-1:0] plane_q [DEPTH + 1];
    logic [PTR_W:0]            push_row, read_row;

    assign push_row = emptied_q ? {1'b0, push_ptr_q} : (PTR_W+1)'(DEPTH);
    assign read_row = (beat_q == 4'(p + 1)) ? {1'b0, send_ptr_q} : (PTR_W+1)'(DEPTH);

    always_ff @(posedge clk) begin
      if (push || !emptied_q) begin
        plane_q[push_row] <= {check[p*WORD_CW +: WORD_CW], push_planes[p*LINE_W +: LINE_W]};
      end
    end

    assign {read_check[p*WORD_CW +: WORD_CW], read[p*LINE_W +: LINE_W]} = plane_q[read_row];
  end

  always_comb begin
    word       = '0;
    word_check = '0;
    if (beat_q == '0) {word_check, word[BOOK_W-1:0]} = book_q[send_ptr_q];
    for (int p = 0; p < CNT_W; p++) begin
      word       = word | read[p*LINE_W +: LINE_W];
      word_check = word_check | read_check[p*WORD_CW +: WORD_CW];
    end
  end

  // The bits above are zeros of the bookkeeping's word.
  always_comb begin
    wr_data = data;
    if (beat_q == '0) wr_data[RECORD_W-1:0] = zeroing ? '0 : record[RECORD_W-1:0];
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      zeroed_q <= 1'b0;
      mate_q   <= '0;
      zeros_q  <= '0;
    end else begin
      if (sent) zeroed_q <= 1'b0;
      else if (zeroing && wr_ready && mate_q == mates) zeroed_q <= 1'b1;
      if (zeroing && wr_ready) mate_q <= (mate_q == mates) ? '0 : mate_q + 1'b1;
      if (b_valid) zeros_q <= zero_answer ? zeros_q + 1'b1 : '0;
    end
  end

  // ---- the buffer is a protected RAM ------------------------------------------------------------
  assign check     = made_check | (CHECK_W'(push_check) & {CHECK_W{GIVEN != 0}});
  // A word is checked in the beat that takes it. The kind of a record is decided when it is first
  // offered: with bookkeeping that cannot be trusted the line leaves as a lost one, and its planes
  // are not valid. If a bit of it flips after that, the record is poisoned. A plane, or a kept sum,
  // that cannot be trusted is poisoned; its record is good.
  assign lost      = begun_q ? lost_q : bad;
  assign wr_poison = bad && !lost;

  always_ff @(posedge clk) begin
    begun_q <= wr_valid && !zeroing && !sent;  // a clock without a record follows every reset
    lost_q  <= lost;
  end

  /* verilator lint_off PINCONNECTEMPTY */
  nf_ram_guard #(
    .RAM(RAM_EVICT), .ROWS(DEPTH), .WIDTH(STATE_W), .LANE(LINE_W), .GIVEN(GIVEN), .ECC(ECC),
    .INJECT_DATA(INJECT_DATA)
  ) u_guard (
    .clk, .rst_n, .flip (ram_flip),
    .wr_en (push), .wr_row (push_ptr_q), .wr_data ({push_book, push_planes}),
    .wr_check (made_check),
    .rd_en (wr_ready && !zeroing && (beat_q == '0 || !lost)), .rd_row ({send_ptr_q, word_at}),
    .rd_word (word), .rd_check (word_check), .data, .bad, .corrected (), .fault (ram_fault)
  );
  /* verilator lint_on PINCONNECTEMPTY */

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      live_q      <= '0;
      push_ptr_q  <= '0;
      send_ptr_q  <= '0;
      push_line_q <= '0;
      send_line_q <= '0;
      done_line_q <= '0;
      flight_q    <= '0;
      unsent_q    <= '0;
      known_q     <= '0;
      beat_q      <= '0;
    end else begin
      if (push) begin
        live_q[push_line_q] <= 1'b1;
        push_ptr_q          <= push_ptr_q + 1'b1;
        push_line_q         <= after(push_line_q);
      end
      if (sent) begin
        send_ptr_q  <= send_ptr_q + 1'b1;
        send_line_q <= after(send_line_q);
      end
      if (b_valid && !zero_answer) begin
        live_q[done_line_q] <= 1'b0;
        done_line_q         <= after(done_line_q);
      end
      if (wr_ready) beat_q <= wr_last ? '0 : beat_q + 1'b1;
      flight_q <= flight_q + FW'(push) - FW'(b_valid && !zero_answer);
      unsent_q <= unsent_q + CW'(push) - CW'(sent);
      known_q  <= known_q + CW'(counted && !late) + CW'(late_q) - CW'(sent);
    end
  end

  assign match_log2  = group_log2(desc_of(desc, match_line.region), 6'(MARKS_LOG2));
  assign match_mates = (MATE_W'(1) << match_log2) - 1'b1;  // one shifter, not one for each entry

  for (genvar e = 0; e < FLIGHT; e++) begin : g_match
    logic [KEY_W-1:0]   apart;
    assign apart        = (key_q[e][KEY_W-1:0] ^ match_line.index[KEY_W-1:0])
                          & ~KEY_W'({MATE_W{opens_q[e]}} & match_mates);
    assign same[e]      = live_q[e] && 4'(key_q[e][KEY_W +: REGION_W]) == match_line.region
                          && apart == '0;
    assign unsettled[e] = live_q[e] && (4'(key_q[e][KEY_W +: REGION_W]) == settle);
  end

  assign match         = |same;
  assign count         = unsent_q;
  assign flight        = flight_q;
  assign idle          = (unsettled == '0);
  assign failed        = b_valid && b_err;
  assign answered      = 4'(region_q[done_line_q]);
  assign done_log2     = group_log2(desc_of(desc, answered), 6'(MARKS_LOG2));
  assign zero_answer   = opens_q[done_line_q] && (zeros_q >> done_log2) == '0;
  assign failed_region = answered;

  `NF_ASSERT_NEVER(EmptyRow_A, !emptied_q && (push || check[CNT_W*WORD_CW-1:0] != '0
                                               || push_planes != '0))
  `NF_ASSERT_NEVER(Overflow_A, push && unsent_q == CW'(DEPTH))
  `NF_ASSERT_NEVER(FlightOver_A, push && flight_q == FW'(FLIGHT))
  `NF_ASSERT(LiveCount_A,
             32'($countones(live_q)) == 32'(flight_q) && 32'(unsent_q) <= 32'(flight_q))
  `NF_ASSERT_NEVER(ReadyAlone_A, wr_ready && !wr_valid)
  `NF_ASSERT_KEEPS(WrStable_A, wr_valid && !wr_ready, {wr_valid, wr_addr, wr_len})
`ifdef NF_CHECKED
  // What a flipped bit changes leaves as poisoned, if anybody checks it.
  logic [$bits(wr_data)-1:0] offered_q;
  always_ff @(posedge clk) offered_q <= wr_data;
  `NF_ASSERT_NEXT(WrDataStable_A, wr_valid && !wr_ready,
                  (wr_data == offered_q) || bad || (ECC == ECC_NONE))
`endif
  `NF_ASSERT_NEXT(Counted_A, push, counted)
  // A line that nobody has contributed to is bookkeeping alone.
  `NF_ASSERT_NEVER(EmptyHasPlanes_A, wr_valid && !begun_q && !lost && is_low_bit(d.mode)
                                     && book.bitmap == '0 && wr_len != '0)
  `NF_ASSERT_NEVER(BWithoutBurst_A, b_valid && flight_q == FW'(unsent_q) && !zero_answer)
  `NF_ASSERT_NEVER(OutOfMemory_A, wr_valid && (target >> MEM_LINES_LOG2) != '0)
  `NF_ASSERT_NEVER(ZeroOther_A, wr_valid && zeroing
                                && (zero_index ^ head.index) >> head_log2 != '0)
`ifdef NF_CHECKED
  // Order to one address: a line is written again only after memory has answered the last time.
  logic [FLIGHT-1:0] again;
  for (genvar e = 0; e < FLIGHT; e++) begin : g_again
    assign again[e] = live_q[e] && (key_q[e] == push_key);
  end
  `NF_ASSERT_NEVER(SameLine_A, push && |again)
  `NF_ASSERT_NEVER(ShortKey_A, push && line_of(push_key) != push_line)
  // Planes are sent only after their record, whose kind is known then.
  `NF_ASSERT_NEVER(Begun_A, beat_q != '0 && !begun_q)
`endif
endmodule

`default_nettype wire
