// SPDX-License-Identifier: Apache-2.0
// One line of exact sums from the bit-sliced counters of a line of integer codes. Two clocks: the
// counters with what is asked for, and the line.
//
// The planes count the ones of each bit of the line: the sum of an element is the sum over the bits
// of its code of the count of bit j times 2^j. A SUM16 line holds
// 32 sums of 16 bits, a SUM8 line (`bytes`, 4-bit codes alone) 64 sums of 8 bits; `part` is the
// number of the line. 256 columns are at work: 64 groups of four, summed as 4-bit codes; an 8-bit
// code is a low group and 16 times a high one. With `codes_signed` the highest bit of a code weighs
// negative.

`default_nettype none
`include "nf_operand_isolation.svh"

module nf_sum
  import nf_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input  wire logic                    clk,           // clock, rising edge
  input  wire logic                    en,            // without it `line` means nothing
  input  wire logic                    wide,          // codes of 8 bits, else of 4
  input  wire logic                    codes_signed,  // the highest bit of a code weighs negative
  input  wire logic                    bytes,         // SUM8 line, else SUM16
  input  wire logic [1:0]              part,          // number of the line
  input  wire logic [CNT_W*LINE_W-1:0] planes,        // count planes
  output logic [LINE_W-1:0]            line           // a clock later
);
  localparam int HALF_W   = LINE_W / 2;
  localparam int GROUPS   = HALF_W / 4;
  localparam int SUM_W    = 13;  // 15 * 255, and a sign
  localparam int HALVES_W = 22;

  // Of a group: c0 + 2 c1, and c2 + 2 c3 doubled, or c2 - 2 c3 where bit 3 has a sign.
  typedef struct packed {
    logic [11:0] high;
    logic [9:0]  low;
  } halves_t;

  // Four bits of each plane, plane 0 lowest: bit j of a code is counted in one column, so its count
  // weighs 2^j. Three additions, two of them here; the codes of eight planes would take seven.
  // A function that is called: copied into every group, it is computed in every clock, whatever
  // `en` says.
  function automatic halves_t halves(input logic [31:0] bits, input logic is_signed);
    /* verilator no_inline_task */
    logic [7:0] c0, c1, c2, c3;
    for (int p = 0; p < 8; p++) begin
      c0[p] = bits[4*p];
      c1[p] = bits[4*p+1];
      c2[p] = bits[4*p+2];
      c3[p] = bits[4*p+3];
    end
    halves.low  = {2'd0, c0} + {1'b0, c1, 1'b0};
    // The lowest bit of the doubled sum, always 0, makes the carry of a subtraction.
    halves.high = {3'd0, c2, is_signed} + {{2'd0, c3, 1'b0} ^ {11{is_signed}}, is_signed};
  endfunction

  // ---- first clock ------------------------------------------------------------------------------
  logic                        second;  // the upper half of the columns
  logic [CNT_W*HALF_W-1:0]     picked;
  logic [31:0]                 codes;
  logic [GROUPS*HALVES_W-1:0]  added, added_q;  // of each group
  logic                        en_q, wide_q, bytes_q, part_q;

  assign second = (wide || bytes) ? part[0] : part[1];

  always_comb begin
    picked = '0;
    codes  = '0;
    added  = '0;
    if (`NF_ISOLATE(en)) begin
      for (int p = 0; p < CNT_W; p++) begin
        picked[p*HALF_W +: HALF_W] = second ? planes[p*LINE_W + HALF_W +: HALF_W]
                                            : planes[p*LINE_W +: HALF_W];
      end
      for (int g = 0; g < GROUPS; g++) begin
        for (int p = 0; p < CNT_W; p++) codes[4*p +: 4] = picked[p*HALF_W + 4*g +: 4];
        added[HALVES_W*g +: HALVES_W] = halves(codes, codes_signed && (!wide || g % 2 == 1));
      end
    end
  end

  always_ff @(posedge clk) begin
    en_q <= en;
    if (en) begin
      added_q <= added;
      wide_q  <= wide;
      bytes_q <= bytes;
      part_q  <= part[0];
    end
  end

  // ---- second clock -----------------------------------------------------------------------------
  halves_t              group;
  logic [GROUPS*16-1:0] sums;  // of each group, sign-extended
  logic [SUM_W-1:0]     group_sum;
  logic [LINE_W-1:0]    sums8, sums16, sums_wide;

  // An unsigned group of 4 bits is at most 15 * 255: its 13th bit is 0, so no sign is invented.
  always_comb begin
    group     = '0;
    group_sum = '0;
    sums      = '0;
    sums8     = '0;
    sums_wide = '0;
    if (`NF_ISOLATE(en_q)) begin
      for (int g = 0; g < GROUPS; g++) begin
        group            = added_q[HALVES_W*g +: HALVES_W];
        group_sum        = {3'd0, group.low} + {group.high, 1'b0};
        sums[16*g +: 16] = {{(16 - SUM_W){group_sum[SUM_W-1]}}, group_sum};
        sums8[8*g +: 8]  = group_sum[7:0];
      end
      for (int e = 0; e < GROUPS / 2; e++)
        sums_wide[16*e +: 16] = sums[32*e +: 16] + (sums[32*e+16 +: 16] << 4);
    end
  end

  assign sums16 = part_q ? sums[LINE_W +: LINE_W] : sums[0 +: LINE_W];
  assign line   = wide_q ? sums_wide : bytes_q ? sums8 : sums16;
endmodule

`default_nettype wire
