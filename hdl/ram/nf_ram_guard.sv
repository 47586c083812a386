// SPDX-License-Identifier: Apache-2.0
// Protection of a RAM: makes the check bits of written words, checks words that are read, and flips
// stored bits on request. The RAM itself, with CHECK_W bits more a row, is its owner's.
//
// Write: `wr_check` belongs to `wr_data` and is stored with it; `wr_en` and `wr_row` mark that a
// row is new. Read: `rd_word` and `rd_check` come from row `rd_row`, which with SYNC is that of the
// clock before; `data`, `bad` and `corrected` are what they mean, in the same clock. `fault` shows
// what was found in a clock with `rd_en`: a word that is read but not used is no fault.
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
  parameter int ECC     = 1,
  parameter int SYNC    = 0,
  parameter int INJECT_DATA = 0,  // 1: the bit itself flips with parity, too
  parameter int CHECK_W = ram_check_w(WIDTH, ECC)  // not to be set
) (
  input  wire logic                    clk,    // clock, rising edge
  input  wire logic                    rst_n,  // asynchronous reset, active low
  input  wire ram_flip_t               flip,   // bit of a row to flip

  input  wire logic                    wr_en,     // a row is written
  input  wire logic [$clog2(ROWS)-1:0] wr_row,    // row that is written
  input  wire logic [WIDTH-1:0]        wr_data,   // data that is written
  output logic [CHECK_W-1:0]           wr_check,  // its check bits, to be stored with it

  input  wire logic                    rd_en,      // the word read is used
  input  wire logic [$clog2(ROWS)-1:0] rd_row,     // row that is read
  input  wire logic [WIDTH-1:0]        rd_word,    // data as the RAM returns it
  input  wire logic [CHECK_W-1:0]      rd_check,   // check bits as the RAM returns them
  output logic [WIDTH-1:0]             data,       // data, with SECDED corrected
  output logic                         bad,        // `data` cannot be trusted
  output logic                         corrected,  // one wrong bit was put right
  output ram_fault_t                   fault       // fault of a word that is used
);
  localparam int TOTAL = WIDTH + CHECK_W;
  localparam int ROW_W = $clog2(ROWS);
  // The bits of a row that flips can invert: all, or the parity bits, which are the highest.
  localparam int FLIPS_W = (ECC == ECC_PARITY && INJECT_DATA == 0) ? CHECK_W : TOTAL;

  if (ROWS < 2 || TOTAL > (1 << RAM_BIT_W)) begin : g_bad_size
    initial $fatal(1, "nf_ram_guard: 2 rows or more, a row of less than 8,192 bits");
  end

  // ---- bits that were flipped -------------------------------------------------------------------
  logic [1:0]           live_q;
  logic [ROW_W-1:0]     row0_q, row1_q;
  logic [RAM_BIT_W-1:0] place, place0_q, place1_q;  // among these bits
  logic                 next_q, hit, here0, here1;
  logic [TOTAL-1:0]     stored;

  assign hit = flip.valid && (flip.ram == RAM) && (32'(flip.row) < ROWS)
               && (32'(flip.place) < TOTAL);

  if (FLIPS_W == TOTAL) begin : g_bit
    assign place = flip.place;
  end else begin : g_group
    // Of a bit of data its number modulo CHECK_W, a power of two.
    assign place = RAM_BIT_W'(CHECK_W - 1)
                   & ((32'(flip.place) < WIDTH) ? flip.place : flip.place - RAM_BIT_W'(WIDTH));
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      live_q <= '0;
      next_q <= 1'b0;
    end else begin
      if (wr_en && wr_row == row0_q) live_q[0] <= 1'b0;
      if (wr_en && wr_row == row1_q) live_q[1] <= 1'b0;
      if (hit) begin
        live_q[next_q] <= !(wr_en && wr_row == ROW_W'(flip.row));
        next_q         <= !next_q;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (hit && !next_q) begin
      row0_q   <= ROW_W'(flip.row);
      place0_q <= place;
    end
    if (hit && next_q) begin
      row1_q   <= ROW_W'(flip.row);
      place1_q <= place;
    end
  end

  logic [RAM_ROW_W-1:0] word_row;
  logic                 asked0, asked1;

  assign asked0 = live_q[0] && row0_q == rd_row;
  assign asked1 = live_q[1] && row1_q == rd_row;

  if (SYNC != 0) begin : g_sync
    logic [RAM_ROW_W-1:0] row_q;
    logic                 here0_q, here1_q;
    always_ff @(posedge clk or negedge rst_n) begin
      if (!rst_n) {here1_q, here0_q} <= '0;
      else        {here1_q, here0_q} <= {asked1, asked0};
    end
    always_ff @(posedge clk) row_q <= RAM_ROW_W'(rd_row);
    assign {word_row, here1, here0} = {row_q, here1_q, here0_q};
  end else begin : g_async
    assign {word_row, here1, here0} = {RAM_ROW_W'(rd_row), asked1, asked0};
  end

  // One bit of these, by 64: an AND at each bit. A bit that is written by its number takes a
  // multiplexer at each, several times the gates of the check.
  localparam int GROUPS = (FLIPS_W + 63) / 64;

  function automatic logic [FLIPS_W-1:0] bit_of(
    input logic here, input logic [RAM_BIT_W-1:0] number
  );
    logic [FLIPS_W-1:0] low;
    low    = FLIPS_W'(1) << number[5:0];
    bit_of = '0;
    for (int g = 0; g < GROUPS; g++) begin
      if (here && 32'(number[RAM_BIT_W-1:6]) == g) bit_of = bit_of | (low << (64 * g));
    end
  endfunction

  always_comb begin
    stored = {rd_check, rd_word};
    if (`NF_ISOLATE(here0)) begin
      stored[TOTAL-1 -: FLIPS_W] = stored[TOTAL-1 -: FLIPS_W] ^ bit_of(here0, place0_q);
    end
    if (`NF_ISOLATE(here1)) begin
      stored[TOTAL-1 -: FLIPS_W] = stored[TOTAL-1 -: FLIPS_W] ^ bit_of(here1, place1_q);
    end
  end

  // ---- check ------------------------------------------------------------------------------------
  logic               unused_corrected, unused_bad;
  logic [WIDTH-1:0]   unused_data;
  logic [CHECK_W-1:0] unused_encoded;

  nf_ram_code #(.WIDTH(WIDTH), .ECC(ECC)) u_write (
    .word (wr_data), .check (CHECK_W'(0)),
    .encoded (wr_check), .data (unused_data),
    .corrected (unused_corrected), .bad (unused_bad)
  );
  nf_ram_code #(.WIDTH(WIDTH), .ECC(ECC)) u_read (
    .word (stored[WIDTH-1:0]), .check (stored[TOTAL-1:WIDTH]),
    .encoded (unused_encoded), .data,
    .corrected, .bad
  );

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
