// SPDX-License-Identifier: Apache-2.0
// Which lines may have a record of this epoch, and of how many planes: a mark for each line that
// was evicted since the region's commit.
//
// A line for which `maybe` is 0 has no state in memory, whatever memory holds: nothing has to be
// fetched. `planes` is asked for another line, for which it was 1: no more of its record's planes
// mean anything. `mark` says that the line `mark_line` is written back with `mark_planes` planes;
// it is seen from the next clock on. `clear[r]` (the commit of region r) forgets region r. A region
// has 2^LOG2 marks: one a line up to that size; above it neighbours share one, which holds the most
// of them all.
//
// The marks are a protected RAM. In a row with a wrong bit every line may have a record of every
// plane: that costs fetches, not answers. Where such a row is found by the fetch that it has caused
// (`planes_used`), it is written so in the next clock without a mark, and counted then.

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
  parameter int ECC     = 1
) (
  input  wire logic               clk,
  input  wire logic               rst_n,
  input  wire ram_flip_t          ram_flip,
  output ram_fault_t              ram_fault,
  input  wire logic [DESCS_W-1:0] desc,
  input  wire logic [REGIONS-1:0] clear,
  input  wire line_id_t           ask,
  output logic                    maybe,
  input  wire line_id_t           planes_ask,
  input  wire logic               planes_used,
  output logic [3:0]              planes,
  input  wire logic               mark,
  input  wire line_id_t           mark_line,
  input  wire logic [3:0]         mark_planes
);
  localparam int WORD_LOG2 = (LOG2 < 5) ? LOG2 : 5;  // marks in a row
  localparam int WORD      = 1 << WORD_LOG2;
  localparam int ROWS      = 1 << (LOG2 - WORD_LOG2);  // of a region
  localparam int ALL_ROWS  = REGIONS * ROWS;
  localparam int ROW_W     = (ALL_ROWS > 1) ? $clog2(ALL_ROWS) : 1;
  localparam int ROW_BITS  = WORD * 4;
  localparam int CHECK_W   = ram_check_w(ROW_BITS, ECC);

  if (LOG2 < 1 || LOG2 > 20) begin : g_bad_log2
    initial $fatal(1, "nf_written: LOG2 must be 1..20");
  end

  // Marks: 0 for none, else planes + 1. Those of a row mean something only when it is used: nothing
  // has to be cleared one by one.
  logic [CHECK_W+ROW_BITS-1:0] row [ALL_ROWS];
  logic [ALL_ROWS-1:0] used_q, drop;
  region_desc_t        ask_desc, planes_desc, write_desc;
  logic [LOG2-1:0]     ask_at, planes_at, mark_at;
  logic [ROW_W-1:0]    ask_row, planes_row, write_row, doubtful_row_q;
  logic [CHECK_W+ROW_BITS-1:0] ask_stored, planes_stored, write_stored;
  logic [ROW_BITS-1:0] ask_marks, planes_marks, held, row_d;
  logic [3:0]          write_region, asked, found, older, newer, most;
  logic                ask_wrong, planes_wrong, held_wrong;  // the row cannot be trusted
  logic                doubtful_q, mend, reads;

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

  assign ask_desc      = desc_of(desc, ask.region);
  assign planes_desc   = desc_of(desc, planes_ask.region);
  assign ask_at        = place_of(ask.index, ask_desc.lines_log2);
  assign planes_at     = place_of(planes_ask.index, planes_desc.lines_log2);
  assign ask_row       = row_of(ask.region, ask_at);
  assign planes_row    = row_of(planes_ask.region, planes_at);
  assign ask_stored    = row[ask_row];
  assign planes_stored = row[planes_row];
  assign asked         = ask_marks[32'(ask_at[WORD_LOG2-1:0]) * 4 +: 4];
  assign found         = planes_marks[32'(planes_at[WORD_LOG2-1:0]) * 4 +: 4];
  assign maybe         = used_q[ask_row] && (ask_wrong || asked != '0);
  assign planes        = planes_wrong ? planes_of(planes_desc.workers, planes_desc.tern5, 4'(CNT_W))
                                       : found - 4'd1;

  // ---- one row is written: a mark, or all of them where nothing is known ------------------------
  assign mend         = doubtful_q && !mark;
  assign write_region = mark ? mark_line.region : 4'(32'(doubtful_row_q) / ROWS);
  assign write_desc   = desc_of(desc, write_region);
  assign mark_at      = place_of(mark_line.index, write_desc.lines_log2);
  assign write_row    = mark ? row_of(mark_line.region, mark_at) : doubtful_row_q;
  assign write_stored = row[write_row];
  assign reads        = (mark || mend) && used_q[write_row];
  assign older        = held[32'(mark_at[WORD_LOG2-1:0]) * 4 +: 4];
  assign newer        = mark_planes + 4'd1;
  assign most         = planes_of(write_desc.workers, write_desc.tern5, 4'(CNT_W)) + 4'd1;

  always_comb begin
    row_d = used_q[write_row] ? held : '0;
    if (mark) row_d[32'(mark_at[WORD_LOG2-1:0]) * 4 +: 4]
                = (used_q[write_row] && older > newer) ? older : newer;
    if (reads && held_wrong) row_d = {WORD{most}};
    drop = '0;
    for (int r = 0; r < REGIONS; r++) begin
      if (clear[r]) drop[r*ROWS +: ROWS] = '1;
    end
  end

  // ---- each of the three read ports is checked --------------------------------------------------
  localparam int GUARD_ROWS = (ALL_ROWS > 1) ? ALL_ROWS : 2;

  logic [CHECK_W-1:0] check;
  logic               ask_bad, ask_one, planes_bad, planes_one, held_bad, held_one;
  logic               planes_doubt;

  assign ask_wrong    = ask_bad || ask_one;
  assign planes_wrong = planes_bad || planes_one;
  assign held_wrong   = held_bad || held_one;
  assign planes_doubt = planes_used && planes_wrong;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) doubtful_q <= 1'b0;
    else if (!doubtful_q || mend) doubtful_q <= planes_doubt;
  end

  always_ff @(posedge clk) begin
    if (!doubtful_q || mend) doubtful_row_q <= planes_row;
  end

  /* verilator lint_off PINCONNECTEMPTY */
  nf_ram_guard #(.RAM(RAM_MARKS), .ROWS(GUARD_ROWS), .WIDTH(ROW_BITS), .ECC(ECC)) u_ask (
    .clk, .rst_n, .flip (ram_flip),
    .wr_en (mark || mend), .wr_row (write_row), .wr_data (row_d), .wr_check (),
    .rd_en (1'b0), .rd_row (ask_row), .rd_word (ask_stored[ROW_BITS-1:0]),
    .rd_check (ask_stored[ROW_BITS +: CHECK_W]), .data (ask_marks), .bad (ask_bad),
    .corrected (ask_one), .fault ()
  );
  nf_ram_guard #(.RAM(RAM_MARKS), .ROWS(GUARD_ROWS), .WIDTH(ROW_BITS), .ECC(ECC)) u_planes (
    .clk, .rst_n, .flip (ram_flip),
    .wr_en (mark || mend), .wr_row (write_row), .wr_data (row_d), .wr_check (),
    .rd_en (1'b0), .rd_row (planes_row), .rd_word (planes_stored[ROW_BITS-1:0]),
    .rd_check (planes_stored[ROW_BITS +: CHECK_W]), .data (planes_marks), .bad (planes_bad),
    .corrected (planes_one), .fault ()
  );
  nf_ram_guard #(.RAM(RAM_MARKS), .ROWS(GUARD_ROWS), .WIDTH(ROW_BITS), .ECC(ECC)) u_write (
    .clk, .rst_n, .flip (ram_flip),
    .wr_en (mark || mend), .wr_row (write_row), .wr_data (row_d), .wr_check (check),
    .rd_en (reads), .rd_row (write_row), .rd_word (write_stored[ROW_BITS-1:0]),
    .rd_check (write_stored[ROW_BITS +: CHECK_W]), .data (held), .bad (held_bad),
    .corrected (held_one), .fault (ram_fault)
  );
  /* verilator lint_on PINCONNECTEMPTY */

  always_ff @(posedge clk) begin
    if (mark || mend) row[write_row] <= {check, row_d};
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) used_q <= '0;
    else if (|clear) used_q <= used_q & ~drop;
    else if (mark) used_q[write_row] <= 1'b1;
  end

  `NF_ASSERT_NEVER(PlanesOfNothing_A,
                   planes_used && (!used_q[planes_row] || (!planes_wrong && found == '0)))
  `NF_ASSERT_NEVER(MarkAtCommit_A, mark && |clear)
endmodule

`default_nettype wire
