// SPDX-License-Identifier: Apache-2.0
// Protection of a RAM: makes the check bits of written words, checks words that are read, and flips
// stored bits on request. The RAM itself, with CHECK_W bits more a row, is its owner's.
//
// Write: `wr_check` belongs to `wr_data` and is stored with it; `wr_en` and `wr_row` mark that a
// row is new. Read: `rd_word` and `rd_check` come from row `rd_row`, which with SYNC is that of the
// clock before; `data`, `bad` and `corrected` are what they mean, in the same clock. `fault` shows
// what was found in a clock with `rd_en`: a word that is read but not used is no fault.
//
// A row of more than LANE bits is written at once and read in parts, its lanes, each with its own
// check bits: the check of a wide row costs that of a lane. The bits of `rd_row` below the row are
// the number of the lane, from the lowest bits of the row up; the last lane ends in zeros. The
// check bits of lane 0 are the lowest of `wr_check`. Lanes that come from another RAM, with their
// check bits, need no new ones: for the first GIVEN lanes `wr_check` is 0. A lane can be made of
// blocks of BLOCK bits, each with its own check bits, as lanes of another RAM have them.
//
// `flip` is a bit of a row that is wrong from the next clock on, until the row is written: where it
// is stored, the word is as the RAM would return it. Two bits may be wrong at a time; a third one
// takes the place of the oldest. Of a RAM with more rows only the first 256 can be flipped, and a
// fault shows the lowest bits of its row.
//
// With parity a flip inverts the parity bit of its group instead: either makes the word bad, and
// data of a bad word are not used. Two flips in one group cancel: the word is good, where two wrong
// bits of data would pass unseen. With INJECT_DATA, without a check and with SECDED the bit itself
// flips, which takes an AND and an XOR at each bit of a row. Verification sets INJECT_DATA: data
// that are used although they are bad must be wrong.

`default_nettype none
`include "nf_assert.svh"
`include "nf_operand_isolation.svh"

module nf_ram_guard
  import nf_ram_pkg::*;
#(
  parameter logic [3:0] RAM = 4'd0,  // ram_e
  parameter int ROWS    = 64,
  parameter int WIDTH   = 512,
  parameter int LANE    = WIDTH,  // data bits read at a time: all, or a power of two
  parameter int BLOCK   = LANE,   // data bits with their own check bits: all, or a power of two
  parameter int GIVEN   = 0,      // lanes whose check bits the writer has
  parameter int ECC     = 1,
  parameter int SYNC    = 0,
  parameter int INJECT_DATA = 0,  // 1: the bit itself flips with parity, too
  parameter int LANES   = (WIDTH + LANE - 1) / LANE,  // not to be set, nor those that follow
  parameter int LANE_CHECK_W = LANE / BLOCK * ram_check_w(BLOCK, ECC),
  parameter int CHECK_W = LANES * LANE_CHECK_W
) (
  input  wire logic                    clk,    // clock, rising edge
  input  wire logic                    rst_n,  // asynchronous reset, active low
  input  wire ram_flip_t               flip,   // bit of a row to flip

  input  wire logic                    wr_en,     // a row is written
  input  wire logic [$clog2(ROWS)-1:0] wr_row,    // row that is written
  input  wire logic [WIDTH-1:0]        wr_data,   // data that is written
  output logic [CHECK_W-1:0]           wr_check,  // its check bits, to be stored with it

  input  wire logic                    rd_en,      // the word read is used
  // Row that is read, and below it the lane.
  input  wire logic [$clog2(ROWS)+$clog2(LANES)-1:0] rd_row,
  input  wire logic [LANE-1:0]         rd_word,    // data as the RAM returns it
  // Check bits as the RAM returns them.
  input  wire logic [LANE_CHECK_W-1:0] rd_check,
  output logic [LANE-1:0]              data,       // data, with SECDED corrected
  output logic                         bad,        // `data` cannot be trusted
  output logic                         corrected,  // one wrong bit was put right
  output ram_fault_t                   fault       // fault of a word that is used
);
  localparam int TOTAL  = WIDTH + CHECK_W;
  localparam int ROW_W  = $clog2(ROWS);
  localparam int LANE_B = $clog2(LANES);
  localparam int AT_W   = ROW_W + LANE_B;
  localparam int BLOCKS  = LANE / BLOCK;  // of a lane
  localparam int BLOCK_CW = LANE_CHECK_W / BLOCKS;
  localparam int LANE_TOTAL   = LANE + LANE_CHECK_W;
  // The bits of a lane that flips can invert: all, or the parity bits, which are the highest.
  localparam int FLIPS_W = (ECC == ECC_PARITY && INJECT_DATA == 0) ? LANE_CHECK_W : LANE_TOTAL;

  if (ROWS < 2 || TOTAL > (1 << RAM_BIT_W)) begin : g_bad_size
    initial $fatal(1, "nf_ram_guard: 2 rows or more, a row of less than 8,192 bits");
  end
  if (LANES > 1 && ((1 << $clog2(LANE)) != LANE || LANE < 64)) begin : g_bad_lane
    initial $fatal(1, "nf_ram_guard: LANE must be WIDTH or a power of two, at least 64");
  end
  if (BLOCKS * BLOCK != LANE || (BLOCKS > 1 && ((1 << $clog2(BLOCK)) != BLOCK || BLOCK < 64
                                                || LANES > 1))) begin : g_bad_block
    initial $fatal(1, "nf_ram_guard: BLOCK must be LANE, or a power of two if LANE is WIDTH");
  end

  // ---- bits that were flipped -------------------------------------------------------------------
  logic [1:0]            live_q;
  logic [AT_W-1:0]       at, at0_q, at1_q;           // their rows and lanes
  logic [ROW_W-1:0]      row0, row1;                 // their rows
  logic [RAM_BIT_W-1:0]  place, place0_q, place1_q;  // among these bits
  logic                  next_q, hit, here0, here1;
  logic [LANE_TOTAL-1:0] stored;

  assign hit = flip.valid && (flip.ram == RAM) && (32'(flip.row) < ROWS)
               && (32'(flip.place) < TOTAL);

  if (LANES == 1 && FLIPS_W == LANE_TOTAL) begin : g_bit
    assign place = flip.place;
    assign at    = ROW_W'(flip.row);
  end else begin : g_lane
    logic                 is_data;
    logic [RAM_BIT_W-1:0] offset;  // among the bits of data, or among the check bits
    assign is_data = 32'(flip.place) < WIDTH;
    assign offset  = is_data ? flip.place : flip.place - RAM_BIT_W'(WIDTH);
    if (FLIPS_W != LANE_TOTAL) begin : g_group
      // Of a bit of data its number modulo the groups of its block, a power of two.
      logic [RAM_BIT_W-1:0] block;
      assign block = (is_data && BLOCKS > 1) ? offset >> $clog2(BLOCK) : '0;
      assign place = (block << $clog2(BLOCK_CW))
                     | (offset & (is_data || BLOCKS == 1 ? RAM_BIT_W'(BLOCK_CW - 1) : '1));
    end else begin : g_data
      assign place = is_data ? RAM_BIT_W'(LANE - 1) & offset
                             : RAM_BIT_W'(LANE) + (RAM_BIT_W'(LANE_CHECK_W - 1) & offset);
    end
    if (LANES == 1) begin : g_row
      assign at = ROW_W'(flip.row);
    end else begin : g_rows
      assign at = {ROW_W'(flip.row), LANE_B'(offset >> (is_data ? $clog2(LANE)
                                                                : $clog2(LANE_CHECK_W)))};
    end
  end

  assign row0 = at0_q[LANE_B +: ROW_W];
  assign row1 = at1_q[LANE_B +: ROW_W];

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      live_q <= '0;
      next_q <= 1'b0;
    end else begin
      if (wr_en && wr_row == row0) live_q[0] <= 1'b0;
      if (wr_en && wr_row == row1) live_q[1] <= 1'b0;
      if (hit) begin
        live_q[next_q] <= !(wr_en && wr_row == ROW_W'(flip.row));
        next_q         <= !next_q;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (hit && !next_q) begin
      at0_q    <= at;
      place0_q <= place;
    end
    if (hit && next_q) begin
      at1_q    <= at;
      place1_q <= place;
    end
  end

  logic [RAM_ROW_W-1:0] word_row;
  logic                 asked0, asked1;

  assign asked0 = live_q[0] && at0_q == rd_row;
  assign asked1 = live_q[1] && at1_q == rd_row;

  if (SYNC != 0) begin : g_sync
    logic [RAM_ROW_W-1:0] row_q;
    logic                 here0_q, here1_q;
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) {here1_q, here0_q} <= '0;
      else        {here1_q, here0_q} <= {asked1, asked0};
    end
    always_ff @(posedge clk) row_q <= RAM_ROW_W'(rd_row >> LANE_B);
    assign {word_row, here1, here0} = {row_q, here1_q, here0_q};
  end else begin : g_async
    assign {word_row, here1, here0} = {RAM_ROW_W'(rd_row >> LANE_B), asked1, asked0};
  end

  // One bit of these, by 64: an AND at each bit. A bit that is written by its number takes a
  // multiplexer at each, several times the gates of the check.
  localparam int GROUPS = (FLIPS_W + 63) / 64;

  function automatic logic [64*GROUPS-1:0] bit_of(
    input logic here, input logic [RAM_BIT_W-1:0] number
  );
    for (int g = 0; g < GROUPS; g++) begin
      bit_of[64*g +: 64] = (here && 32'(number[RAM_BIT_W-1:6]) == g) ? 64'd1 << number[5:0] : '0;
    end
  endfunction

  always_comb begin
    stored = {rd_check, rd_word};
    if (`NF_ISOLATE(here0)) begin
      stored[LANE_TOTAL-1 -: FLIPS_W] = stored[LANE_TOTAL-1 -: FLIPS_W]
                                     ^ FLIPS_W'(bit_of(here0, place0_q));
    end
    if (`NF_ISOLATE(here1)) begin
      stored[LANE_TOTAL-1 -: FLIPS_W] = stored[LANE_TOTAL-1 -: FLIPS_W]
                                     ^ FLIPS_W'(bit_of(here1, place1_q));
    end
  end

  // ---- check ------------------------------------------------------------------------------------
  logic [LANES*LANE-1:0] padded;
  logic [BLOCKS-1:0]     wrong, one;

  assign padded = (LANES*LANE)'(wr_data);

  for (genvar b = 0; b < LANES * BLOCKS; b++) begin : g_write
    if (b / BLOCKS < GIVEN) begin : g_given
      logic unused_word;

      assign unused_word                      = ^padded[b*BLOCK +: BLOCK];
      assign wr_check[b*BLOCK_CW +: BLOCK_CW] = '0;
    end else begin : g_made
      logic             unused_corrected, unused_bad;
      logic [BLOCK-1:0] unused_data;

      nf_ram_code #(.WIDTH(BLOCK), .ECC(ECC)) u_code (
        .word (padded[b*BLOCK +: BLOCK]), .check (BLOCK_CW'(0)),
        .encoded (wr_check[b*BLOCK_CW +: BLOCK_CW]), .data (unused_data),
        .corrected (unused_corrected), .bad (unused_bad)
      );
    end
  end

  for (genvar b = 0; b < BLOCKS; b++) begin : g_read
    logic [BLOCK_CW-1:0] unused_encoded;

    nf_ram_code #(.WIDTH(BLOCK), .ECC(ECC)) u_code (
      .word (stored[b*BLOCK +: BLOCK]), .check (stored[LANE+b*BLOCK_CW +: BLOCK_CW]),
      .encoded (unused_encoded), .data (data[b*BLOCK +: BLOCK]),
      .corrected (one[b]), .bad (wrong[b])
    );
  end

  assign bad       = |wrong;
  assign corrected = |one && !bad;

  assign fault = make_ram_fault(rd_en && bad, rd_en && corrected, word_row);

  // Nothing is wrong by itself. A word that is used with one wrong bit is always a fault, with two
  // if the code detects them.
  logic two;
  assign two = here0 && here1 && place0_q != place1_q;
  `NF_ASSERT_NEVER(WrongUnasked_A, (fault.bad || fault.corrected) && !(here0 || here1))
  `NF_ASSERT_NEVER(UsedIsCounted_A, ECC != ECC_NONE && rd_en
                                    && (here0 != here1 || (two && ECC == ECC_SECDED))
                                    && !(fault.bad || fault.corrected))
endmodule

`default_nettype wire
