// SPDX-License-Identifier: Apache-2.0
// The reduced G_TERN5 line from the bit-sliced counters of a line. Combinational.
//
// A counter holds the sum of t + 1 over m contributions: their net is the count less m. Net >= T
// gives +1, net <= -T gives -1, else 0, so the count is compared with the scalars m + T and m - T,
// in all columns at once.

`default_nettype none

module nf_tern5_vote
  import nf_pkg::*;
  import nf_tern5_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input  wire logic                    en,             // without it the line is zero
  input  wire logic [CNT_W*LINE_W-1:0] planes,         // count planes
  input  wire logic [6:0]              contributions,  // m
  input  wire logic [7:0]              threshold,      // T, at least 1
  output logic [LINE_W-1:0]            line            // reduced line
);
  localparam int WIDE = 9;  // 64 + 255

  logic [WIDE-1:0]  high, low;  // m + T, m - T
  logic             reaches;    // m - T is not negative: a count may be so small
  logic [TRITS-1:0] plane, above, same_high, below, same_low, plus, minus;

  assign high    = WIDE'(contributions) + WIDE'(threshold);
  assign low     = WIDE'(contributions) - WIDE'(threshold);
  assign reaches = 8'(contributions) >= threshold;

  // From the highest bit on: where a count is above or below, and where still the same.
  always_comb begin
    plane     = '0;
    above     = '0;
    below     = '0;
    same_high = '1;
    same_low  = '1;
    if (en) begin
      for (int b = WIDE - 1; b >= 0; b--) begin
        plane = (b < CNT_W) ? planes[b*LINE_W +: TRITS] : '0;
        if (high[b]) begin
          same_high = same_high & plane;
        end else begin
          above     = above | (same_high & plane);
          same_high = same_high & ~plane;
        end
        if (low[b]) begin
          below    = below | (same_low & ~plane);
          same_low = same_low & plane;
        end else begin
          same_low = same_low & ~plane;
        end
      end
    end
  end

  assign plus  = above | same_high;
  assign minus = reaches ? (below | same_low) : '0;

  always_comb begin
    line = '0;
    if (en) begin
      for (int j = 0; j < BYTES; j++)
        line[8*j +: 8] = code_of(plus[DIGITS*j +: DIGITS], minus[DIGITS*j +: DIGITS]);
    end
  end
endmodule

`default_nettype wire
