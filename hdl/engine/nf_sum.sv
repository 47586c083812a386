// SPDX-License-Identifier: Apache-2.0
// One line of exact sums from the bit-sliced counters of a line of integer codes. Combinational.
//
// The planes count the ones of each bit of the line. Plane p is itself a line of codes, of weight
// 2^p: the sum of an element is the sum over p of its code in plane p times 2^p. A SUM16 line holds
// 32 sums of 16 bits, a SUM8 line (`bytes`, 4-bit codes alone) 64 sums of 8 bits; `part` is the
// number of the line. 256 columns are at work: 64 groups of four, summed as 4-bit codes; an 8-bit
// code is a low group and 16 times a high one. With `codes_signed` the highest bit of a code weighs
// negative.

`default_nettype none

module nf_sum
  import nf_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input  wire logic                    en,            // without it the line is zero
  input  wire logic                    wide,          // codes of 8 bits, else of 4
  input  wire logic                    codes_signed,
  input  wire logic                    bytes,
  input  wire logic [1:0]              part,
  input  wire logic [CNT_W*LINE_W-1:0] planes,
  output logic [LINE_W-1:0]            line
);
  localparam int HALF_W = LINE_W / 2;
  localparam int GROUPS = HALF_W / 4;
  localparam int SUM_W  = 13;  // 15 * 255, and a sign

  // A 4-bit code, sign-extended where its highest bit weighs negative.
  function automatic logic [SUM_W-1:0] value(input logic [3:0] code, input logic is_signed);
    return {{(SUM_W - 4){is_signed && code[3]}}, code};
  endfunction

  // Four bits of each plane, plane 0 lowest, weighed by 2^p and added in pairs.
  // A function that is called: copied into every group, it is computed in every clock, whatever
  // `en` says.
  function automatic logic [SUM_W-1:0] weighed(input logic [31:0] bits, input logic is_signed);
    /* verilator no_inline_task */
    logic [SUM_W-1:0] low, high;
    low  = (value(bits[3:0], is_signed) + (value(bits[7:4], is_signed) << 1))
           + ((value(bits[11:8], is_signed) + (value(bits[15:12], is_signed) << 1)) << 2);
    high = (value(bits[19:16], is_signed) + (value(bits[23:20], is_signed) << 1))
           + ((value(bits[27:24], is_signed) + (value(bits[31:28], is_signed) << 1)) << 2);
    return low + (high << 4);
  endfunction

  logic                     second;  // the upper half of the columns
  logic [CNT_W*HALF_W-1:0]  picked;
  logic [31:0]              codes;
  logic [GROUPS*16-1:0]     sums;    // of each group, sign-extended
  logic [LINE_W-1:0]        sums8, sums16, sums_wide;
  logic [SUM_W-1:0]         group_sum;

  assign second = (wide || bytes) ? part[0] : part[1];

  always_comb begin
    picked    = '0;
    codes     = '0;
    group_sum = '0;
    sums      = '0;
    if (en) begin
      for (int p = 0; p < CNT_W; p++) begin
        picked[p*HALF_W +: HALF_W] = second ? planes[p*LINE_W + HALF_W +: HALF_W]
                                            : planes[p*LINE_W +: HALF_W];
      end
      for (int g = 0; g < GROUPS; g++) begin
        for (int p = 0; p < CNT_W; p++) codes[4*p +: 4] = picked[p*HALF_W + 4*g +: 4];
        group_sum        = weighed(codes, codes_signed && (!wide || g % 2 == 1));
        sums[16*g +: 16] = {{(16 - SUM_W){group_sum[SUM_W-1]}}, group_sum};
      end
    end
  end

  // An unsigned group of 4 bits is at most 15 * 255: its 13th bit is 0, so no sign is invented.
  always_comb begin
    sums8     = '0;
    sums_wide = '0;
    if (en) begin
      for (int g = 0; g < GROUPS; g++) sums8[8*g +: 8] = sums[16*g +: 8];
      for (int e = 0; e < GROUPS / 2; e++)
        sums_wide[16*e +: 16] = sums[32*e +: 16] + (sums[32*e+16 +: 16] << 4);
    end
  end

  assign sums16 = part[0] ? sums[LINE_W +: LINE_W] : sums[0 +: LINE_W];
  assign line   = wide ? sums_wide : bytes ? sums8 : sums16;
endmodule

`default_nettype wire
