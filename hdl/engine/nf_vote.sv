// SPDX-License-Identifier: Apache-2.0
// The reduced line from the bit-sliced counters of a line. Combinational.
//
// G_BINARY: with c of m contributions non-negative, 2c > m gives 0 (+), 2c < m gives 1 (-), a tie
// gives `tie_minus`; m = 0 gives zeros. So an element is - where c is below half of m, rounded up,
// or just above that half where ties are -.
// G_TERNARY: plus - minus >= T gives +1 (10), minus - plus >= T gives -1 (11), else 0. Net is plus
// less minus, at the odd lane of an element; without its sign it is compared with T.
//
// Both modes share one bit-sliced comparison with a scalar. A step of the subtraction and a step of
// the comparison are functions of four bits, a LUT4 each.

`default_nettype none
`include "nf_assert.svh"

module nf_vote
  import nf_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input  wire logic                    clk,            // for the checks alone
  input  wire logic                    rst_n,
  input  wire logic                    en,             // without it the line is meaningless
  input  wire logic                    ternary,
  input  wire logic [CNT_W*LINE_W-1:0] planes,
  input  wire logic [6:0]              contributions,  // m
  input  wire logic                    tie_minus,
  input  wire logic [7:0]              threshold,      // T, at least 1
  output logic [LINE_W-1:0]            line
);
  localparam int                WIDE = 8;  // bits of the scalar
  localparam logic [LINE_W-1:0] ODD  = {LINE_W/2{2'b10}};

  // ---- the scalar -------------------------------------------------------------------------------
  logic [WIDE-1:0] half, scalar;

  assign half   = (contributions == 7'd0) ? '0
                                          : (8'(contributions) + 8'(tie_minus) + 8'd1) >> 1;
  assign scalar = ternary ? threshold - 8'd1 : half;

  // ---- net --------------------------------------------------------------------------------------
  // G_TERNARY: at odd lanes a net, at even ones the count of plus; else the counts as they are.
  logic [CNT_W*LINE_W-1:0] nets;
  logic [LINE_W-1:0]       plane, plus, borrow;

  always_comb begin
    nets   = '0;
    plane  = '0;
    plus   = '0;
    borrow = '0;
    if (en) begin
      for (int b = 0; b < CNT_W; b++) begin
        plane                    = planes[b*LINE_W +: LINE_W];
        plus                     = ternary ? ((plane << 1) & ODD) : '0;
        nets[b*LINE_W +: LINE_W] = plane ^ plus ^ borrow;
        borrow = ternary ? (((~plus & plane) | (~(plus ^ plane) & borrow)) & ODD) : '0;
      end
    end
  end

  // ---- comparison -------------------------------------------------------------------------------
  // Compared with T - 1, beginning with a borrow, is "below T". The complement of a negative net is
  // one less than its size: there it begins without.
  logic [LINE_W-1:0] negative, size, below;

  assign negative = borrow;

  always_comb begin
    size  = '0;
    below = '0;
    if (en) begin
      below = ternary ? (~negative & ODD) : '0;
      for (int b = 0; b < WIDE; b++) begin
        size  = (b < CNT_W) ? (nets[b*LINE_W +: LINE_W] ^ negative) : '0;
        below = scalar[b] ? (~size | below) : (~size & below);
      end
    end
  end

  assign line = ternary ? ((~below & ODD) | ((~below & negative) >> 1)) : below;

  // What nobody asked for is not computed: these are the widest gates of the engine.
  `NF_ASSERT_NEVER(Idle_A, !en && (nets != '0 || below != '0))
endmodule

`default_nettype wire
