// SPDX-License-Identifier: Apache-2.0
// The state of the slots: bookkeeping and count planes, two protected RAMs with a synchronous read.
//
// S0 reads (`read_book`, `read_planes`, `slot0`); S1 (`slot1`) checks the words, with SECDED
// corrects them, and counts the workers in the bookkeeping (`seen`); S2 (`slot2`) uses them and may
// write the slot. A row that was read may be older than what S2 has written since: S1 takes the
// state in S3 instead, and so does S2, which knows this when it is entered. Planes are chosen by
// S2 itself: `forward_planes` says that those in S3 are newer than `planes`. A victim's never are
// (nf_lookup): they go from here to the eviction buffer without that choice.
//
// S2 says with `use_book` whether it uses the bookkeeping; planes are read only for operations that
// use them. If a word that was read, and not forwarded, cannot be trusted the state is `lost`, the
// state that S2 makes of that (`*_d`) is written, and a fault is reported. A corrected word is
// written back. Each plane has its own check bits: `check` are those of `planes` with parity, where
// they stay valid as long as the planes are not corrected.

`default_nettype none

module nf_state_ram
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int SLOTS = 64,
  parameter int CNT_W = 8,
  parameter int ECC   = 1,
  parameter int INJECT_DATA = 0
) (
  input  wire logic                     clk,           // clock, rising edge
  input  wire logic                     rst_n,         // asynchronous reset, active low
  input  wire ram_flip_t                flip,          // bit of a protected RAM to flip
  output ram_fault_t                    book_fault,    // fault in the bookkeeping
  output ram_fault_t                    planes_fault,  // fault in the count planes

  input  wire logic                     read_book,    // S0 reads the bookkeeping
  input  wire logic                     read_planes,  // S0 reads the count planes
  input  wire logic [$clog2(SLOTS)-1:0] slot0,        // slot in S0
  input  wire logic                     s1_valid,     // S1 holds an action
  input  wire logic [$clog2(SLOTS)-1:0] slot1,        // slot in S1

  input  wire logic                     s2_valid,   // S2 holds an action
  input  wire logic [$clog2(SLOTS)-1:0] slot2,      // slot in S2
  input  wire logic [5:0]               worker2,    // worker in S2
  output book_t                         book,       // bookkeeping in S2
  output logic [6:0]                    seen,  // workers in it
  output logic                          mine,  // worker2 is one of them
  output logic [CNT_W*LINE_W-1:0]       planes,     // count planes in S2, as S1 had them
  output logic [CNT_W*ram_check_w(LINE_W, ECC)-1:0] check,  // their check bits
  output logic                          forward_planes,  // S3 has newer ones
  input  wire logic                     use_book,   // S2 uses the bookkeeping
  output logic                          lost,       // what was read cannot be trusted
  output logic                          write_planes,  // S2 writes planes, also corrected ones
  input  wire logic                     book_we,    // S2 writes the bookkeeping
  input  wire logic                     planes_we,  // S2 writes the count planes
  input  wire book_t                    book_d,     // bookkeeping to write
  input  wire logic [CNT_W*LINE_W-1:0]  planes_d,   // count planes to write

  // What S3 holds, and has written.
  input  wire logic                     s3_valid,         // S3 holds an action
  input  wire logic                     s3_wrote_planes,  // it has written count planes
  input  wire logic [$clog2(SLOTS)-1:0] s3_slot,          // slot in S3
  input  wire book_t                    s3_book,          // bookkeeping in S3
  input  wire logic [6:0]               s3_seen,          // workers in it
  input  wire logic [CNT_W*LINE_W-1:0]  s3_planes         // count planes in S3
);
  localparam int BOOK_W    = $bits(book_t);
  localparam int PLANES_W  = CNT_W * LINE_W;
  localparam int BOOK_CW   = ram_check_w(BOOK_W, ECC);
  localparam int PLANES_CW = CNT_W * ram_check_w(LINE_W, ECC);

  // Two RAMs: FP32 needs no plane but 0, for a sum that is kept.
  // A row that is read in the clock of its write is not used (BookNewer_A, PlanesNewer_A): S1 takes
  // the state in S3. So block RAMs need no bypass around them.
  (* no_rw_check *) logic [BOOK_CW+BOOK_W-1:0]     book_ram [SLOTS];
  (* no_rw_check *) logic [PLANES_CW+PLANES_W-1:0] planes_ram [SLOTS];
  logic [BOOK_CW+BOOK_W-1:0]     book_ram_q;
  logic [PLANES_CW+PLANES_W-1:0] planes_ram_q;
  logic [BOOK_CW-1:0]            book_check;
  logic [PLANES_CW-1:0]          planes_check;
  logic                          write_book;

  always_ff @(posedge clk) begin
    if (read_book) book_ram_q <= book_ram[slot0];
    if (read_planes) planes_ram_q <= planes_ram[slot0];
    if (write_book) book_ram[slot2] <= {book_check, book_d};
    if (write_planes) planes_ram[slot2] <= {planes_check, planes_d};
  end

  // ---- S1: check --------------------------------------------------------------------------------
  book_t               book_right, book_q;
  logic [6:0]          seen_q;
  logic [PLANES_W-1:0] planes_right, planes_q;
  logic [PLANES_CW-1:0] s3_check_q, check_q;
  logic                book_wrong, planes_wrong, book_one, planes_one, newer, newer_planes;
  logic                book_bad_q, planes_bad_q, book_fixed_q, planes_fixed_q;
  logic                book_lost, planes_lost;
  logic                planes_here_q, asked_planes_q, uses_book, uses_planes;
  logic                forward_q;
  logic [63:0]         me;

  // A guard tells of a word what S2 uses a clock later, or not at all: no fault is told here.
  /* verilator lint_off PINCONNECTEMPTY */
  nf_ram_guard #(
    .RAM(RAM_BOOK), .ROWS(SLOTS), .WIDTH(BOOK_W), .ECC(ECC), .SYNC(1), .INJECT_DATA(INJECT_DATA)
  ) u_book (
    .clk, .rst_n, .flip,
    .wr_en (write_book), .wr_row (slot2), .wr_data (book_d), .wr_check (book_check),
    .rd_en (1'b0), .rd_row (slot0), .rd_word (book_ram_q[BOOK_W-1:0]),
    .rd_check (book_ram_q[BOOK_W +: BOOK_CW]), .data (book_right), .bad (book_wrong),
    .corrected (book_one), .fault ()
  );
  nf_ram_guard #(
    .RAM(RAM_PLANES), .ROWS(SLOTS), .WIDTH(PLANES_W), .BLOCK(LINE_W), .ECC(ECC), .SYNC(1),
    .INJECT_DATA(INJECT_DATA)
  ) u_planes (
    .clk, .rst_n, .flip,
    .wr_en (write_planes), .wr_row (slot2), .wr_data (planes_d), .wr_check (planes_check),
    .rd_en (1'b0), .rd_row (slot0), .rd_word (planes_ram_q[PLANES_W-1:0]),
    .rd_check (planes_ram_q[PLANES_W +: PLANES_CW]), .data (planes_right), .bad (planes_wrong),
    .corrected (planes_one), .fault ()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  assign newer        = s3_valid && (s3_slot == slot1);
  assign newer_planes = newer && s3_wrote_planes;

  // A word that was read before a reset is not used in the clock after it.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) planes_here_q <= 1'b0;
    else        planes_here_q <= read_planes;
  end

  // The eviction buffer takes its row of zeros from here: see nf_evict.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      planes_q <= '0;
      check_q  <= '0;
    end else if (s1_valid) begin
      planes_q <= newer_planes ? s3_planes : planes_right;
      check_q  <= newer_planes ? s3_check_q : planes_ram_q[PLANES_W +: PLANES_CW];
    end
  end

  always_ff @(posedge clk) begin
    asked_planes_q <= planes_here_q;
    if (write_planes) s3_check_q <= planes_check;
    if (s1_valid) begin
      book_q         <= newer ? s3_book : book_right;
      seen_q         <= newer ? s3_seen : 7'($countones(book_right.bitmap));
      book_bad_q     <= !newer && book_wrong;
      book_fixed_q   <= !newer && book_one;
      planes_bad_q   <= !newer_planes && planes_wrong;
      planes_fixed_q <= !newer_planes && planes_one;
    end
  end

  // ---- S2: what it was, or what S3 holds now ----------------------------------------------------
  // What goes straight to S2 is a fill: it looks at nothing here.
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)        forward_q <= 1'b0;
    else if (s1_valid) forward_q <= s2_valid && (slot2 == slot1);
  end

  assign forward_planes = forward_q && s3_wrote_planes;
  assign book           = forward_q ? s3_book : book_q;
  assign seen           = forward_q ? s3_seen : seen_q;
  assign planes         = planes_q;
  assign check          = check_q;

  // In parallel with the choice, not after it: the addition in S2 waits for it.
  assign me   = 64'd1 << worker2;
  assign mine = forward_q ? |(s3_book.bitmap & me) : |(book_q.bitmap & me);

  assign uses_book    = use_book && !forward_q;
  assign book_lost    = uses_book && book_bad_q;
  assign planes_lost  = uses_planes && planes_bad_q;
  assign uses_planes  = !forward_planes && asked_planes_q;
  assign lost         = book_lost || planes_lost;
  assign write_book   = book_we || lost || (uses_book && book_fixed_q);
  assign write_planes = planes_we || lost || (uses_planes && planes_fixed_q);
  assign book_fault   = make_ram_fault(book_lost, uses_book && book_fixed_q, RAM_ROW_W'(slot2));
  assign planes_fault = make_ram_fault(planes_lost, uses_planes && planes_fixed_q,
                                       RAM_ROW_W'(slot2));

  `NF_ASSERT_NEVER(Forward_A, use_book && forward_q != (s3_valid && s3_slot == slot2))
  `NF_ASSERT(Seen_A, !use_book || seen == 7'($countones(book.bitmap)))
  // The next clock has the operation that reads in S1, the one that writes in S3.
  `NF_ASSERT_NEXT(BookNewer_A, read_book && write_book && slot0 == slot2, !s1_valid || newer)
  `NF_ASSERT_NEXT(PlanesNewer_A, read_planes && write_planes && slot0 == slot2, newer_planes)
  // A RAM that nobody asks does not toggle; the widest one is read for those who need its planes
  // alone.
  `NF_ASSERT_KEEPS(BookKeeps_A, !read_book, book_ram_q)
  `NF_ASSERT_KEEPS(PlanesKeep_A, !read_planes, planes_ram_q[63:0])
endmodule

`default_nettype wire
