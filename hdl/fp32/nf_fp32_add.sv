// SPDX-License-Identifier: Apache-2.0
// binary32 addition, round to nearest even, subnormals kept, every NaN result 7FC00000h.
//
// Two stages with one register between them: `sum` is valid in the clock after `a` and `b` were
// presented with `en`, and zero in every other. Nothing toggles while nothing is added.
//
// Each stage is a function that a simulator calls: it would otherwise copy it into every lane, and
// compute it in every clock.

`default_nettype none

module nf_fp32_add (
  input  wire logic        clk,  // clock, rising edge
  input  wire logic        en,   // operands valid
  input  wire logic [31:0] a,    // first operand
  input  wire logic [31:0] b,    // second operand
  output logic [31:0]      sum   // their sum, one cycle later; else 0
);
  localparam logic [31:0] QNAN = 32'h7FC0_0000;

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
    logic        swap, inf, sticky;
    logic [7:0]  exp_hi, exp_lo, shift;
    logic [26:0] man_hi, man_lo, man_shifted;  // 24 bits and guard, round, sticky
    aligned_t    out;

    swap   = x[30:0] < y[30:0];
    hi     = swap ? y : x;
    lo     = swap ? x : y;
    exp_hi = (hi[30:23] == 8'd0) ? 8'd1 : hi[30:23];
    exp_lo = (lo[30:23] == 8'd0) ? 8'd1 : lo[30:23];
    man_hi = {hi[30:23] != 8'd0, hi[22:0], 3'd0};
    man_lo = {lo[30:23] != 8'd0, lo[22:0], 3'd0};
    shift  = exp_hi - exp_lo;

    // Of an operand that is 27 places below or more all bits are below the last one.
    man_shifted = man_lo >> shift;
    sticky      = |(man_lo & ~({27{1'b1}} << shift));

    inf           = (hi[30:23] == 8'hFF) && (hi[22:0] == '0);
    // A NaN is above every number: it is `hi`.
    out.nan       = ((hi[30:23] == 8'hFF) && (hi[22:0] != '0))
                    || (inf && (lo[30:23] == 8'hFF) && (hi[31] != lo[31]));
    out.inf       = inf;
    out.sign      = hi[31];
    out.zero_sign = hi[31] && lo[31];  // exact zero: + unless both are -
    out.exp       = exp_hi;
    out.total     = (hi[31] == lo[31]) ? {1'b0, man_hi} + {1'b0, man_shifted | 27'(sticky)}
                                       : {1'b0, man_hi} - {1'b0, man_shifted | 27'(sticky)};
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
    logic [8:0]  exp_norm, exp_final;
    logic [26:0] man_norm;
    logic        up;
    logic [24:0] man;
    logic [31:1] z16;
    logic [15:1] z8;
    logic [7:1]  z4;
    logic [3:1]  z2;

    // Leading zeros of total[26:0] by halving; 27 zero bits cannot matter, the sum is then zero.
    z16   = {in.total[26:0], 4'hF};
    z8    = (z16[31:16] == '0) ? z16[15:1] : z16[31:17];
    z4    = (z8[15:8] == '0) ? z8[7:1] : z8[15:9];
    z2    = (z4[7:4] == '0) ? z4[3:1] : z4[7:5];
    zeros = {z16[31:16] == '0, z8[15:8] == '0, z4[7:4] == '0, z2[3:2] == '0,
             (z2[3:2] == '0) ? !z2[1] : !z2[3]};

    // Normalise left no further than the exponent allows: below that the result is subnormal.
    left = ({3'd0, zeros} < in.exp) ? zeros : 5'(in.exp - 8'd1);

    if (in.total[27]) begin
      man_norm = {in.total[27:2], in.total[1] | in.total[0]};
      exp_norm = {1'b0, in.exp} + 9'd1;
    end else begin
      man_norm = in.total[26:0] << left;
      exp_norm = {1'b0, in.exp} - {4'd0, left};
    end

    up  = man_norm[2] && (man_norm[1] || man_norm[0] || man_norm[3]);
    man = {1'b0, man_norm[26:3]} + 25'(up);

    if (man[24])      exp_final = exp_norm + 9'd1;
    else if (man[23]) exp_final = exp_norm;
    else              exp_final = 9'd0;  // subnormal or zero

    if (in.nan)                             return QNAN;
    if (in.inf || exp_final >= 9'd255)      return {in.sign, 8'hFF, 23'd0};
    if (in.total == '0)                     return {in.zero_sign, 31'd0};
    return {in.sign, exp_final[7:0], man[22:0]};
  endfunction

  always_comb begin
    sum = '0;
    if (valid_q) sum = rounded(aligned_q);
  end
endmodule

`default_nettype wire
