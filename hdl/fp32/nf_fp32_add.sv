// SPDX-License-Identifier: Apache-2.0
// binary32 addition, round to nearest even, subnormals kept, every NaN result 7FC00000h.
//
// Two stages with one register between them: `sum` is valid one clock after `a` and `b` were
// presented with `en`, and holds until the next `en`.

`default_nettype none

module nf_fp32_add (
  input  wire logic        clk,
  input  wire logic        en,
  input  wire logic [31:0] a,
  input  wire logic [31:0] b,
  output logic [31:0]      sum
);
  localparam logic [31:0] QNAN = 32'h7FC0_0000;

  // ---- stage 1: order by magnitude, align, add --------------------------------------------------
  logic [31:0] hi, lo;
  logic        swap, nan, inf;
  logic [7:0]  exp_hi, exp_lo, shift;
  logic [26:0] man_hi, man_lo, man_shifted;  // 24 bits and guard, round, sticky
  logic        sticky;
  logic [27:0] total;

  assign swap   = a[30:0] < b[30:0];
  assign hi     = swap ? b : a;
  assign lo     = swap ? a : b;
  assign exp_hi = (hi[30:23] == 8'd0) ? 8'd1 : hi[30:23];
  assign exp_lo = (lo[30:23] == 8'd0) ? 8'd1 : lo[30:23];
  assign man_hi = {hi[30:23] != 8'd0, hi[22:0], 3'd0};
  assign man_lo = {lo[30:23] != 8'd0, lo[22:0], 3'd0};
  assign shift  = exp_hi - exp_lo;

  always_comb begin
    if (shift > 8'd26) begin
      man_shifted = '0;
      sticky      = |man_lo;
    end else begin
      man_shifted = man_lo >> shift;
      sticky      = |(man_lo & ~({27{1'b1}} << shift));
    end
  end

  assign total = (hi[31] == lo[31]) ? {1'b0, man_hi} + {1'b0, man_shifted | 27'(sticky)}
                                    : {1'b0, man_hi} - {1'b0, man_shifted | 27'(sticky)};
  assign inf   = (hi[30:23] == 8'hFF) && (hi[22:0] == '0);
  assign nan   = ((hi[30:23] == 8'hFF) && (hi[22:0] != '0))
                 || ((lo[30:23] == 8'hFF) && (lo[22:0] != '0))
                 || (inf && (lo[30:23] == 8'hFF) && (hi[31] != lo[31]));

  logic        nan_q, inf_q, sign_q, zero_sign_q;
  logic [7:0]  exp_q;
  logic [27:0] total_q;

  always_ff @(posedge clk) begin
    if (en) begin
      nan_q       <= nan;
      inf_q       <= inf;
      sign_q      <= hi[31];
      zero_sign_q <= hi[31] && lo[31];  // exact zero: + unless both are -
      exp_q       <= exp_hi;
      total_q     <= total;
    end
  end

  // ---- stage 2: normalise, round ----------------------------------------------------------------
  logic [4:0]  zeros, left;
  logic [8:0]  exp_norm;
  logic [26:0] man_norm;
  logic        up;
  logic [24:0] rounded;
  logic [8:0]  exp_final;

  // Leading zeros of total_q[26:0] by halving; 27 zero bits cannot matter, the sum is then zero.
  logic [31:1] z16;
  logic [15:1] z8;
  logic [7:1]  z4;
  logic [3:1]  z2;
  assign z16   = {total_q[26:0], 4'hF};
  assign z8    = (z16[31:16] == '0) ? z16[15:1] : z16[31:17];
  assign z4    = (z8[15:8] == '0) ? z8[7:1] : z8[15:9];
  assign z2    = (z4[7:4] == '0) ? z4[3:1] : z4[7:5];
  assign zeros = {z16[31:16] == '0, z8[15:8] == '0, z4[7:4] == '0, z2[3:2] == '0,
                  (z2[3:2] == '0) ? !z2[1] : !z2[3]};

  // Normalise left no further than the exponent allows: below that the result is subnormal.
  assign left = ({3'd0, zeros} < exp_q) ? zeros : 5'(exp_q - 8'd1);

  always_comb begin
    if (total_q[27]) begin
      man_norm = {total_q[27:2], total_q[1] | total_q[0]};
      exp_norm = {1'b0, exp_q} + 9'd1;
    end else begin
      man_norm = total_q[26:0] << left;
      exp_norm = {1'b0, exp_q} - {4'd0, left};
    end
  end

  assign up      = man_norm[2] && (man_norm[1] || man_norm[0] || man_norm[3]);
  assign rounded = {1'b0, man_norm[26:3]} + 25'(up);

  always_comb begin
    if (rounded[24])      exp_final = exp_norm + 9'd1;
    else if (rounded[23]) exp_final = exp_norm;
    else                  exp_final = 9'd0;  // subnormal or zero
  end

  always_comb begin
    if (nan_q)                              sum = QNAN;
    else if (inf_q || exp_final >= 9'd255)  sum = {sign_q, 8'hFF, 23'd0};
    else if (total_q == '0)                 sum = {zero_sign_q, 31'd0};
    else                                    sum = {sign_q, exp_final[7:0], rounded[22:0]};
  end
endmodule

`default_nettype wire
