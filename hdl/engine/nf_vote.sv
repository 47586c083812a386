// SPDX-License-Identifier: Apache-2.0
// The reduced line from the bit-sliced counters of a line. Combinational.
//
// G_BINARY: with c of m contributions non-negative, 2c > m gives 0 (+), 2c < m gives 1 (-), a tie
// gives `tie_minus`; m = 0 gives zeros. One bit-sliced comparison of 2c with the scalar m.
// G_TERNARY: plus - minus >= T gives +1 (10), minus - plus >= T gives -1 (11), else 0. Both sides
// at once: X holds {minus, plus} counters, Y the same with the pairs swapped, and X >= Y + T is
// decided in all 512 lanes; at an even lane it means +1, at an odd one -1.

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
  localparam int                WIDE = 10;  // 255 + 255 needs 9 bits, one more for the borrow
  localparam logic [LINE_W-1:0] EVEN = {LINE_W/2{2'b01}};

  // ---- binary -----------------------------------------------------------------------------------
  logic [LINE_W-1:0] gt, eq, twice, binary_line;  // eq counts where not gt; twice: bit b of 2c
  logic [WIDE-1:0]   m;

  assign m = WIDE'(contributions);

  always_comb begin
    gt    = '0;
    eq    = '1;
    twice = '0;
    if (en && !ternary) begin
      for (int b = WIDE - 1; b >= 1; b--) begin
        twice = (b <= CNT_W) ? planes[(b-1)*LINE_W +: LINE_W] : '0;
        if (m[b]) eq = eq & twice;
        else      gt = gt | (eq & twice);
      end
      if (m[0]) eq = '0;  // 2c is even
    end
  end

  assign binary_line = (contributions == 7'd0) ? '0 : tie_minus ? ~gt : ~(gt | eq);

  // ---- ternary ----------------------------------------------------------------------------------
  logic [LINE_W-1:0] x, y, y_plus_t;
  logic [LINE_W-1:0] carry, borrow, wins, plus, minus, ternary_line;
  logic [WIDE-1:0]   t;

  assign t = WIDE'(threshold);

  always_comb begin
    x        = '0;
    y        = '0;
    y_plus_t = '0;
    carry    = '0;
    borrow   = '0;
    if (en && ternary) begin
      for (int b = 0; b < WIDE; b++) begin
        x = (b < CNT_W) ? planes[b*LINE_W +: LINE_W] : '0;
        y = ((x >> 1) & EVEN) | ((x & EVEN) << 1);
        if (t[b]) begin
          y_plus_t = ~(y ^ carry);
          carry    = y | carry;
        end else begin
          y_plus_t = y ^ carry;
          carry    = y & carry;
        end
        borrow = (~x & y_plus_t) | (~(x ^ y_plus_t) & borrow);
      end
    end
  end

  assign wins         = ~borrow;
  assign plus         = wins & EVEN;
  assign minus        = (wins >> 1) & EVEN;
  assign ternary_line = ((plus | minus) << 1) | minus;

  assign line = ternary ? ternary_line : binary_line;

  // What nobody asked for is not computed: these are the widest gates of the engine.
  `NF_ASSERT_NEVER(BinaryIdle_A, !(en && !ternary) && gt != '0)
  `NF_ASSERT_NEVER(TernaryIdle_A, !(en && ternary) && (borrow != '0 || carry != '0))
endmodule

`default_nettype wire
