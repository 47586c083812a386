// SPDX-License-Identifier: Apache-2.0
// Marks of the lines that may have a record of this epoch: a mark for each line that was evicted
// since the region's commit, with the number of its planes.
//
// `look` looks up the line `ask0`, or `ask1` with `second`, which is known late, so that the rows
// of both are computed before. From the next clock on, until the next `look`, `maybe` and `planes`
// belong to it. A line for which `maybe` is 0 has no state in memory, whatever memory holds:
// nothing has to be fetched. At most `planes` of its record's planes are valid. With `ask_leaves`
// the line is on its way out of its slot, and its mark will follow: it may have a record of every
// plane. `mark`: the line `mark_line` is written back with `mark_planes` planes; a `look` for that
// line in the same clock sees it. `clear[r]` (the commit of region r) forgets region r, while
// nothing is in progress. A region has 2^LOG2 marks: one a line up to that size; in a larger region
// neighbours, a group, share one, which holds the largest number of planes of all of them. After
// reset no mark is taken until `swept`.
//
// `fresh` are the regions that the record initialiser has not finished. It reads the mark of a
// group by `probe` (valid/ready); `probe_marked` is the answer in the clock after: an eviction has
// overwritten the records of that group, or will. A clock after `mark`, `marked_line` and
// `marked_first` say whether its group had no mark before.
//
// The marks are a protected RAM with a synchronous read, twice: one copy serves `look`, the other
// is read for the mark that is put into its row (M0), checked (M1) and written (M2). In a row that
// is bad every line may have a record of every plane: that costs fetches, not wrong data. If such a
// row is found by the fetch that it has caused (`used`), it is rewritten so without a mark, and
// counted then. In a fresh region memory may hold anything in a record without a mark, so there a
// bad row makes all records of the region unknown (`doubt`).
//
// The marks of a row mean something only in the round in which they were written, a number in the
// row: a commit starts the next round of its region, and all its rows are forgotten at once. Round
// numbers come back after ROWS commits. So each commit empties a row, the one whose number is that
// of the round: no row is older than ROWS - 1 commits, and no old round looks like the present one.
// After reset the rows hold anything, and are emptied one by one.

`default_nettype none
`include "nf_assert.svh"

module nf_written
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
#(
  parameter int REGIONS = 8,
  parameter int CNT_W   = 8,
  parameter int LOG2    = 12,
  parameter int KEY_W   = 19,  // index bits that can differ between two lines
  parameter int ECC     = 1,
  parameter int INJECT_DATA = 0
) (
  input  wire logic               clk,          // clock, rising edge
  input  wire logic               rst_n,        // asynchronous reset, active low
  input  wire ram_flip_t          ram_flip,     // bit of a protected RAM to flip (RAS_INJECT)
  // Fault that the protected RAM has found in this cycle.
  output ram_fault_t              ram_fault,
  input  wire logic [DESCS_W-1:0] desc,         // active descriptors of all regions
  input  wire logic [REGIONS-1:0] clear,        // regions to forget (commit)
  input  wire logic               look,         // look up `ask0` or `ask1`
  input  wire line_id_t           ask0,         // first line
  input  wire line_id_t           ask1,         // second line
  input  wire logic               second,       // look up `ask1`
  input  wire logic               ask_leaves,   // that line is on its way out of its slot
  output logic                    maybe,        // memory may hold a record of it
  output logic [3:0]              planes,       // planes of that record that mean anything
  input  wire logic               used,  // what was asked is fetched
  input  wire logic               mark,         // a line is written back
  input  wire line_id_t           mark_line,    // that line
  input  wire logic [3:0]         mark_planes,  // its planes
  output line_id_t                marked_line,   // line of the mark of the clock before
  output logic                    marked_first,  // its group had no mark
  input  wire logic [REGIONS-1:0] fresh,         // regions that are still being initialised
  output logic [REGIONS-1:0]      doubt,         // regions whose records are unknown now
  input  wire logic               probe,         // read the mark of a group
  output logic                    probe_ready,   // it is read
  input  wire line_id_t           probe_line,    // a line of the group
  output logic                    probe_marked,  // in the next clock: it has a mark
  output logic                    swept,  // since reset all rows were emptied: marks are taken
  output logic                    idle    // no mark is under way, no row is to be rewritten
);
  localparam int WORD_LOG2 = (LOG2 < 5) ? LOG2 : 5;  // marks in a row
  localparam int WORD      = 1 << WORD_LOG2;
  localparam int ROWS      = 1 << (LOG2 - WORD_LOG2);  // of a region
  localparam int ALL_ROWS  = REGIONS * ROWS;
  localparam int ROW_W     = (ALL_ROWS > 1) ? $clog2(ALL_ROWS) : 1;
  localparam int ROUND_W   = (ROWS > 1) ? $clog2(ROWS) : 1;
  localparam int MARKS_W   = WORD * 4;
  localparam int ROW_BITS  = ROUND_W + MARKS_W;
  localparam int CHECK_W   = ram_check_w(ROW_BITS, ECC);
  localparam int STORED_W  = CHECK_W + ROW_BITS;

  if (LOG2 < 1 || LOG2 > 20) begin : g_bad_log2
    initial $fatal(1, "nf_written: LOG2 must be 1..20");
  end

  // Check bits, round, marks: 0 for none, else planes + 1.
  logic [STORED_W-1:0] row [ALL_ROWS];
  logic [REGIONS*ROUND_W-1:0] round_q;  // of each region

  function automatic int region_of(input logic [ROW_W-1:0] number);
    return 32'(number) / ROWS;
  endfunction

  function automatic logic [LOG2-1:0] place_of(
    input logic [INDEX_W-1:0] index, input logic [5:0] lines_log2
  );
    return LOG2'((32'(lines_log2) > LOG2) ? index >> (lines_log2 - 6'(LOG2)) : index);
  endfunction

  function automatic logic [ROW_W-1:0] row_of(
    input logic [3:0] region, input logic [LOG2-1:0] place
  );
    return ROW_W'(32'(region) % REGIONS * ROWS + (32'(place) >> WORD_LOG2));
  endfunction

  logic                 m1_mark_q, m1_mend_q, m2_mark_q, m2_mend_q;
  line_id_t             m1_line_q, m2_line_q;

  region_desc_t         ask_desc, ask0_desc, ask1_desc, m0_desc;

  // ---- the line that is asked about -------------------------------------------------------------
  line_id_t             ask;
  logic [LOG2-1:0]      ask0_at, ask1_at;
  logic [ROW_W-1:0]     ask_row, ask_row_q;
  logic [WORD_LOG2-1:0] ask_at_q;
  logic [STORED_W-1:0]  ask_stored_q;
  logic [ROUND_W-1:0]   ask_round;
  logic [MARKS_W-1:0]   ask_marks;
  logic [3:0]           ask_most_q, found;
  logic                 ask_used, ask_leaves_q, ask_bad, ask_one, ask_lost, ask_wrong;

  assign ask0_desc = desc_of(desc, ask0.region);
  assign ask1_desc = desc_of(desc, ask1.region);
  assign ask0_at   = place_of(ask0.index, ask0_desc.lines_log2);
  assign ask1_at   = place_of(ask1.index, ask1_desc.lines_log2);
  assign ask       = second ? ask1 : ask0;
  assign ask_desc  = second ? ask1_desc : ask0_desc;
  assign ask_row   = second ? row_of(ask1.region, ask1_at) : row_of(ask0.region, ask0_at);

  always_ff @(posedge clk) begin
    if (look) begin
      ask_stored_q <= row[ask_row];
      ask_row_q    <= ask_row;
      ask_at_q     <= second ? ask1_at[WORD_LOG2-1:0] : ask0_at[WORD_LOG2-1:0];
      ask_most_q   <= planes_of(ask_desc.workers, ask_desc.tern5, 4'(CNT_W));
      // Its mark is in M0, M1 or M2.
      ask_leaves_q <= ask_leaves || (mark && mark_line == ask) || (m1_mark_q && m1_line_q == ask)
                      || (m2_mark_q && m2_line_q == ask);
    end
  end

  assign found     = ask_marks[32'(ask_at_q) * 4 +: 4];
  assign ask_used  = swept && ask_round == round_q[region_of(ask_row_q)*ROUND_W +: ROUND_W];
  assign ask_lost  = swept && ask_bad;
  assign ask_wrong = ask_lost || (ask_used && ask_one);
  assign maybe     = ask_leaves_q || ask_lost || (ask_used && found != '0);
  assign planes    = (ask_leaves_q || ask_lost) ? ask_most_q : found - 4'd1;

  // ---- a row that was found wrong is to be written ----------------------------------------------
  logic             doubtful_q, mend;
  logic [ROW_W-1:0] doubtful_row_q;

  assign mend = doubtful_q && !mark;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) doubtful_q <= 1'b0;
    else if (!doubtful_q || mend) doubtful_q <= used && ask_wrong;
  end

  always_ff @(posedge clk) begin
    if (!doubtful_q || mend) doubtful_row_q <= ask_row_q;
  end

  // ---- M0: one row is read: of a mark, of one that was found wrong, or for the initialiser ------
  logic [3:0]           m0_region, m0_most;
  logic [LOG2-1:0]      m0_at;
  logic [ROW_W-1:0]     m0_row, m1_row_q, m2_row_q;
  logic                 m1, m2, m1_probe_q, m1_again_q, m1_last_q;
  line_id_t             m0_line;
  logic [WORD_LOG2-1:0] m1_at_q;
  logic [3:0]           m1_newer_q, m1_most_q, older;
  logic [STORED_W-1:0]  m1_stored_q;
  logic [ROUND_W-1:0]   stored_round;
  logic [MARKS_W-1:0]   stored, held, m1_marks, m2_marks_q, last_q;
  logic                 held_bad, held_lost, newest, here, reads, puts, cleared;

  assign probe_ready = !mark && !mend && !cleared;
  assign cleared   = |clear;
  assign m0_line   = mark ? mark_line : probe_line;
  assign m0_region = mend ? 4'(region_of(doubtful_row_q)) : m0_line.region;
  assign m0_desc   = desc_of(desc, m0_region);
  assign m0_most   = planes_of(m0_desc.workers, m0_desc.tern5, 4'(CNT_W));
  assign m0_at     = place_of(m0_line.index, m0_desc.lines_log2);
  assign m0_row    = mend ? doubtful_row_q : row_of(m0_region, m0_at);
  assign m1        = m1_mark_q || m1_mend_q;
  assign m2        = m2_mark_q || m2_mend_q;
  assign idle      = !mark && !doubtful_q && !m1 && !m2;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      m1_mark_q  <= 1'b0;
      m1_mend_q  <= 1'b0;
      m1_probe_q <= 1'b0;
      m2_mark_q  <= 1'b0;
      m2_mend_q  <= 1'b0;
    end else begin
      m1_mark_q  <= mark;
      m1_mend_q  <= mend;
      m1_probe_q <= probe && probe_ready;
      m2_mark_q <= m1_mark_q;
      m2_mend_q <= m1_mend_q;
    end
  end

  always_ff @(posedge clk) begin
    if (mark || mend || probe) begin
      m1_stored_q <= row[m0_row];
      m1_row_q    <= m0_row;
      m1_line_q   <= short_line(m0_line, KEY_W);
      m1_at_q     <= m0_at[WORD_LOG2-1:0];
      m1_newer_q  <= mark_planes + 4'd1;
      m1_most_q   <= m0_most + 4'd1;
      m1_again_q  <= m1 && m0_row == m1_row_q;  // what is read is not written yet
      m1_last_q   <= m2 && m0_row == m2_row_q;
    end
    if (m1) begin
      m2_marks_q <= m1_marks;
      m2_row_q   <= m1_row_q;
      m2_line_q  <= short_line(m1_line_q, KEY_W);
    end
    if (m2) last_q <= m2_marks_q;
  end

  // ---- M1: it is checked, and the mark put in ---------------------------------------------------
  assign newest     = m1_again_q || m1_last_q;  // is not what was read
  assign here       = newest
                      || (swept && stored_round == round_q[region_of(m1_row_q)*ROUND_W +: ROUND_W]);
  assign reads      = (m1 || m1_probe_q) && swept && !newest;
  assign held       = m1_again_q ? m2_marks_q : m1_last_q ? last_q : stored;
  assign older      = here ? held[32'(m1_at_q) * 4 +: 4] : 4'd0;
  assign held_lost  = reads && held_bad;
  assign puts       = m1_mark_q && older < m1_newer_q;

  assign probe_marked = (older != '0);
  assign marked_line  = m1_line_q;
  assign marked_first = (older == '0);

  for (genvar r = 0; r < REGIONS; r++) begin : g_doubt
    assign doubt[r] = fresh[r] && ((held_lost && (region_of(m1_row_q) == r))
                                   || (used && ask_lost && (region_of(ask_row_q) == r)));
  end

  for (genvar k = 0; k < WORD; k++) begin : g_mark
    assign m1_marks[k*4 +: 4] = held_lost ? m1_most_q
                                : (puts && 32'(m1_at_q) == k) ? m1_newer_q
                                : here ? held[k*4 +: 4] : 4'd0;
  end

  // ---- M2: it is written; so is a row that a commit or the sweep empties ------------------------
  logic                 writes, sweeps_q;
  logic [ROW_W-1:0]     clear_row, sweep_row_q, wr_row;
  logic [ROUND_W-1:0]   clear_round, wr_round;
  logic [MARKS_W-1:0]   wr_marks;
  logic [CHECK_W-1:0]   check;

  always_comb begin
    clear_round = '0;
    clear_row   = '0;
    for (int r = 0; r < REGIONS; r++) begin
      if (clear[r]) begin
        clear_round = round_q[r*ROUND_W +: ROUND_W] + ROUND_W'(1);
        clear_row   = ROW_W'(r * ROWS + 32'(clear_round) % ROWS);
      end
    end
  end

  assign writes   = m2 || cleared || sweeps_q;
  assign wr_row   = m2 ? m2_row_q : cleared ? clear_row : sweep_row_q;
  assign wr_round = m2 ? round_q[region_of(m2_row_q)*ROUND_W +: ROUND_W]
                    : cleared ? clear_round : ROUND_W'(0);
  assign wr_marks = m2 ? m2_marks_q : MARKS_W'(0);

  always_ff @(posedge clk) begin
    if (writes) row[wr_row] <= {check, wr_round, wr_marks};
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      sweeps_q    <= 1'b1;
      sweep_row_q <= '0;
      swept       <= 1'b0;
    end else begin
      if (sweeps_q && !cleared) begin
        sweeps_q    <= (32'(sweep_row_q) != ALL_ROWS - 1);
        sweep_row_q <= sweep_row_q + ROW_W'(1);
      end
      swept <= !sweeps_q;  // what is read in the clock of the last write is not used
    end
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) round_q <= '0;
    else begin
      for (int r = 0; r < REGIONS; r++) begin
        if (clear[r]) round_q[r*ROUND_W +: ROUND_W] <= clear_round;
      end
    end
  end

  // ---- both copies are checked ------------------------------------------------------------------
  localparam int GUARD_ROWS = (ALL_ROWS > 1) ? ALL_ROWS : 2;

  /* verilator lint_off PINCONNECTEMPTY */
  nf_ram_guard #(
    .RAM(RAM_MARKS), .ROWS(GUARD_ROWS), .WIDTH(ROW_BITS), .ECC(ECC), .SYNC(1),
    .INJECT_DATA(INJECT_DATA)
  ) u_ask (
    .clk, .rst_n, .flip (ram_flip),
    .wr_en (writes), .wr_row, .wr_data ({wr_round, wr_marks}), .wr_check (),
    .rd_en (1'b0), .rd_row (look ? ask_row : ask_row_q), .rd_word (ask_stored_q[ROW_BITS-1:0]),
    .rd_check (ask_stored_q[ROW_BITS +: CHECK_W]), .data ({ask_round, ask_marks}), .bad (ask_bad),
    .corrected (ask_one), .fault ()
  );
  nf_ram_guard #(
    .RAM(RAM_MARKS), .ROWS(GUARD_ROWS), .WIDTH(ROW_BITS), .ECC(ECC), .SYNC(1),
    .INJECT_DATA(INJECT_DATA)
  ) u_write (
    .clk, .rst_n, .flip (ram_flip),
    .wr_en (writes), .wr_row, .wr_data ({wr_round, wr_marks}), .wr_check (check),
    .rd_en (reads), .rd_row (m0_row), .rd_word (m1_stored_q[ROW_BITS-1:0]),
    .rd_check (m1_stored_q[ROW_BITS +: CHECK_W]), .data ({stored_round, stored}), .bad (held_bad),
    .corrected (), .fault (ram_fault)
  );
  /* verilator lint_on PINCONNECTEMPTY */

  `NF_ASSERT_NEVER(CommitIsAlone_A, cleared && (look || !idle))
  `NF_ASSERT_NEVER(CommitOne_A, !$onehot0(clear))
  `NF_ASSERT_NEVER(MarkEarly_A, mark && !swept)
`ifdef NF_CHECKED
  // The rows that have a mark of this round, bit by bit.
  logic [ALL_ROWS-1:0] marked_q, forgotten;
  logic                looked_q;
  always_ff @(posedge clk) looked_q <= look;
  always_comb begin
    forgotten = '0;
    for (int r = 0; r < REGIONS; r++) if (clear[r]) forgotten[r*ROWS +: ROWS] = '1;
  end
  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n)  marked_q <= '0;
    else if (m2) marked_q[m2_row_q] <= 1'b1;
    else         marked_q <= marked_q & ~forgotten;
  end
  // Without a check a flipped round may look like any other.
  `NF_ASSERT_NEVER(NoOldMark_A, ECC != ECC_NONE && looked_q && ask_used && !ask_bad
                                && ask_marks != '0 && !marked_q[ask_row_q])
  `NF_ASSERT_NEVER(NoOldProbe_A, ECC != ECC_NONE && reads && !held_bad && here && stored != '0
                                 && !marked_q[m1_row_q])
  `NF_ASSERT_NEVER(MarksStay_A, ECC != ECC_NONE && reads && !held_bad && !here
                                && marked_q[m1_row_q])
`endif
endmodule

`default_nettype wire
