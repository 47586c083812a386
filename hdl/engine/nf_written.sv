// SPDX-License-Identifier: Apache-2.0
// Which lines may have a record of this epoch, and of how many planes: a mark for each line that
// was evicted since the region's commit.
//
// A line for which `maybe` is 0 has no state in memory, whatever memory holds: nothing has to be
// fetched. `planes` is asked for another line: no more of its record's planes mean anything. `mark`
// says that the line `mark_line` is written back with `mark_planes` planes; it is seen from the
// next clock on. `clear[r]` (the commit of region r) forgets region r. A region has 2^LOG2 marks:
// one a line up to that size; above it neighbours share one, which holds the most of them all.

`default_nettype none
`include "nf_assert.svh"

module nf_written
  import nf_pkg::*;
  import nf_core_pkg::*;
#(
  parameter int REGIONS = 8,
  parameter int LOG2    = 12
) (
  input  wire logic               clk,
  input  wire logic               rst_n,
  input  wire logic [DESCS_W-1:0] desc,
  input  wire logic [REGIONS-1:0] clear,
  input  wire line_id_t           ask,
  output logic                    maybe,
  input  wire line_id_t           planes_ask,
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

  if (LOG2 < 1 || LOG2 > 20) begin : g_bad_log2
    initial $fatal(1, "nf_written: LOG2 must be 1..20");
  end

  // Marks: 0 for none, else planes + 1. Those of a row mean something only when it is used: nothing
  // has to be cleared one by one.
  logic [WORD*4-1:0]   row [ALL_ROWS];
  logic [ALL_ROWS-1:0] used_q, drop;
  region_desc_t        ask_desc, planes_desc, mark_desc;
  logic [LOG2-1:0]     ask_at, planes_at, mark_at;
  logic [ROW_W-1:0]    ask_row, planes_row, mark_row;
  logic [WORD*4-1:0]   ask_marks, planes_marks, mark_marks, mark_new;
  logic [3:0]          asked, found, older, newer;

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

  assign ask_desc     = desc_of(desc, ask.region);
  assign planes_desc  = desc_of(desc, planes_ask.region);
  assign mark_desc    = desc_of(desc, mark_line.region);
  assign ask_at       = place_of(ask.index, ask_desc.lines_log2);
  assign planes_at    = place_of(planes_ask.index, planes_desc.lines_log2);
  assign mark_at      = place_of(mark_line.index, mark_desc.lines_log2);
  assign ask_row      = row_of(ask.region, ask_at);
  assign planes_row   = row_of(planes_ask.region, planes_at);
  assign mark_row     = row_of(mark_line.region, mark_at);
  assign ask_marks    = row[ask_row];
  assign planes_marks = row[planes_row];
  assign asked        = ask_marks[32'(ask_at[WORD_LOG2-1:0]) * 4 +: 4];
  assign found        = planes_marks[32'(planes_at[WORD_LOG2-1:0]) * 4 +: 4];
  assign maybe        = used_q[ask_row] && (asked != '0);
  assign planes       = (used_q[planes_row] && found != '0) ? found - 4'd1 : 4'd0;

  assign mark_marks = used_q[mark_row] ? row[mark_row] : '0;
  assign older      = mark_marks[32'(mark_at[WORD_LOG2-1:0]) * 4 +: 4];
  assign newer      = mark_planes + 4'd1;

  always_comb begin
    mark_new = mark_marks;
    mark_new[32'(mark_at[WORD_LOG2-1:0]) * 4 +: 4] = (older > newer) ? older : newer;
    drop     = '0;
    for (int r = 0; r < REGIONS; r++) begin
      if (clear[r]) drop[r*ROWS +: ROWS] = '1;
    end
  end

  always_ff @(posedge clk) begin
    if (mark) row[mark_row] <= mark_new;
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) used_q <= '0;
    else if (|clear) used_q <= used_q & ~drop;
    else if (mark) used_q[mark_row] <= 1'b1;
  end

  `NF_ASSERT_NEVER(MarkAtCommit_A, mark && |clear)
endmodule

`default_nettype wire
