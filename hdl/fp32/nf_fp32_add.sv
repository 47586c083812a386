// SPDX-License-Identifier: Apache-2.0
// binary32 addition, round to nearest even, subnormals kept, every NaN result 7FC00000h.
//
// Two stages with one register between them: `sum` is valid in the clock after `a` and `b` were
// presented with `en`, and means nothing in every other.
//
// Each stage is a function that a simulator calls: it would otherwise copy it into every lane, and
// compute it in every clock.

`default_nettype none
`include "nf_operand_isolation.svh"

module nf_fp32_add (
  input  wire logic        clk,  // clock, rising edge
  input  wire logic        en,   // operands valid
  input  wire logic [31:0] a,    // first operand
  input  wire logic [31:0] b,    // second operand
  output logic [31:0]      sum   // their sum, one cycle later
);
  // Between the stages: 24 bits of the sum with carry, guard, round and sticky, not yet normalised.
  typedef struct packed {
    logic        nan;
    logic        inf;
    logic        sign;
    logic        zero_sign;
    logic [7:0]  exp;
    logic [27:0] total;
  } aligned_t;

  // ---- stage 1: order by magnitude, align, add --------------------------------------------------
  function automatic aligned_t aligned(input logic [31:0] x, input logic [31:0] y);
    /* verilator no_inline_task */
    logic [31:0] hi, lo;
    logic        swap, normal_hi, normal_lo, minus, sticky, unused;
    logic [7:0]  exp_hi, exp_lo, shift;
    logic [4:0]  places;
    logic [26:0] man;  // of `lo`: 24 bits and guard, round, sticky
    aligned_t    out;

    swap      = x[30:0] < y[30:0];
    hi        = swap ? y : x;
    lo        = swap ? x : y;
    normal_hi = (hi[30:23] != 8'd0);
    normal_lo = (lo[30:23] != 8'd0);
    exp_hi    = {hi[30:24], hi[23] || !normal_hi};
    exp_lo    = {lo[30:24], lo[23] || !normal_lo};
    shift     = exp_hi - exp_lo;
    minus     = hi[31] ^ lo[31];

    // 31 places are as good as more: no bit of 27 is left, and all are below the last one.
    places = shift[4:0] | {5{|shift[7:5]}};
    man    = {normal_lo, lo[22:0], 3'd0};
    sticky = 1'b0;
    for (int k = 4; k >= 0; k--) begin
      if (places[k]) begin
        sticky = sticky || (man & ((27'd1 << (1 << k)) - 27'd1)) != '0;
        man    = man >> (1 << k);
      end
    end
    man[0] = man[0] || sticky;

    out.inf       = (hi[30:23] == 8'hFF) && (hi[22:0] == '0);
    // A NaN is above every number: it is `hi`.
    out.nan       = ((hi[30:23] == 8'hFF) && (hi[22:0] != '0))
                    || (out.inf && (lo[30:23] == 8'hFF) && minus);
    out.sign      = hi[31] && !out.nan;
    out.zero_sign = hi[31] && lo[31];  // exact zero: + unless both are -
    out.exp       = exp_hi;
    // One adder for both signs: -man is its complement, and a carry from an additional lowest bit.
    {out.total, unused} = {1'b0, normal_hi, hi[22:0], 3'd0, 1'b1}
                          + {minus, man ^ {27{minus}}, minus};
    return out;
  endfunction

  aligned_t aligned_q;
  logic     valid_q;

  always_ff @(posedge clk) begin
    valid_q <= en;
    if (en) aligned_q <= aligned(a, b);
  end

  // ---- stage 2: normalise, round ----------------------------------------------------------------
  function automatic logic [31:0] rounded(input aligned_t in);
    /* verilator no_inline_task */
    logic [4:0]  zeros, left;
    logic [27:0] man;
    logic        none, special, over, up;
    logic [7:0]  exp;
    logic [30:0] size;
    logic [31:1] z16;
    logic [15:1] z8;
    logic [7:1]  z4;
    logic [3:1]  z2;

    // Leading zeros by halving; 28 if the sum is zero.
    z16   = {in.total, 3'h7};
    z8    = (z16[31:16] == '0) ? z16[15:1] : z16[31:17];
    z4    = (z8[15:8] == '0) ? z8[7:1] : z8[15:9];
    z2    = (z4[7:4] == '0) ? z4[3:1] : z4[7:5];
    zeros = {z16[31:16] == '0, z8[15:8] == '0, z4[7:4] == '0, z2[3:2] == '0,
             (z2[3:2] == '0) ? !z2[1] : !z2[3]};

    none = (zeros[4:2] == 3'd7) && !in.nan;

    // Normalise left no further than the exponent allows: below that the result is subnormal.
    special = in.nan || in.inf;
    over    = (in.exp == 8'd254) && in.total[27];  // an infinity before it is rounded
    left    = special ? '0 : ({3'd0, zeros} <= in.exp) ? zeros : in.exp[4:0];
    exp     = none ? '0 : in.exp - {3'd0, left};
    man     = in.total << left;
    up      = man[3] && (man[2] || man[1] || man[0] || man[4]) && !special && !over;
    if (special || over) man[26:4] = {in.nan, 22'd0};

    // The leading one is added to the exponent, which is one too small; a subnormal number has
    // none. A carry out of the fraction is added there, too: from 1.11..1 up to 2, or to infinity.
    size = {exp, man[26:4]} + {7'd0, man[27] && !special, 22'd0, up};
    return {none ? in.zero_sign : in.sign, size};
  endfunction

  always_comb begin
    sum = '0;
    if (`NF_ISOLATE(valid_q)) sum = rounded(aligned_q);
  end
endmodule

`default_nettype wire
