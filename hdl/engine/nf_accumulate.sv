// SPDX-License-Identifier: Apache-2.0
// One contribution added to the bit-sliced counters of a line. Combinational.
//
// Plane p holds bit p of all 512 counters, so adding a line is one ripple over CNT_W planes of
// 512-bit logic. G_BINARY counts non-negative votes at bit e; G_TERNARY counts +1 at bit 2e and -1
// at bit 2e+1, the element layout of the line itself; integer codes (`ones`) count the ones of each
// bit. A counter at its maximum stays there. Without `en` the planes pass unchanged.

`default_nettype none

module nf_accumulate
  import nf_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input  wire logic                    en,          // add; else the planes pass unchanged
  input  wire logic                    ternary,     // G_TERNARY
  input  wire logic                    ones,        // integer codes: count the ones of each bit
  input  wire logic [LINE_W-1:0]       data,        // line of the contribution
  input  wire logic [CNT_W*LINE_W-1:0] planes_in,   // count planes before
  output logic [CNT_W*LINE_W-1:0]      planes_out,  // count planes after
  output logic                         saturated  // at least one increment was lost
);
  localparam logic [LINE_W-1:0] EVEN = {LINE_W/2{2'b01}};

  logic [LINE_W-1:0]       gate, sign, votes;
  logic [CNT_W*LINE_W-1:0] sum;
  logic [LINE_W-1:0]       carry;

  assign gate  = (data >> 1) & EVEN;  // both brought to bit 2e
  assign sign  = data & EVEN;
  assign votes = ternary ? ((gate & ~sign) | ((gate & sign) << 1)) : ones ? data : ~data;

  always_comb begin
    sum   = planes_in;
    carry = '0;
    if (en) begin
      carry = votes;
      for (int p = 0; p < CNT_W; p++) begin
        sum[p*LINE_W +: LINE_W] = planes_in[p*LINE_W +: LINE_W] ^ carry;
        carry                   = planes_in[p*LINE_W +: LINE_W] & carry;
      end
    end
  end

  assign planes_out = saturated ? (sum | {CNT_W{carry}}) : sum;
  assign saturated  = |carry;
endmodule

`default_nettype wire
