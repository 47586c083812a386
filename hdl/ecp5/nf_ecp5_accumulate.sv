// SPDX-License-Identifier: Apache-2.0
// nf_accumulate in carry cells of ECP5: one contribution added to the bit-sliced counters of a
// line. Combinational, with the same ports.
//
// A counter needs a LUT4 for its vote, one for its lowest bit, and one for each further bit, in a
// chain. The lowest step of that chain generates the carry of the lowest bit itself. A full counter
// is not added to. Planes that no worker reaches are passed through, and nothing saturates then: a
// count at the maximum of the planes below must not be added to.

`default_nettype none
`include "nf_operand_isolation.svh"

module nf_ecp5_accumulate
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
  output logic                         saturated    // at least one increment was lost
);
  localparam int COUNTED   = counting_planes(CNT_W);
  localparam bit SATURATES = (COUNTED == CNT_W);
  localparam int ABOVE     = COUNTED - 1;          // planes in the chain
  localparam int BITS      = ABOVE + (ABOVE % 2);  // of the chain: even

  // Indices {d, c, b, a} from 15 down, four of each {d, c}. The first step, with its plane a, the
  // lowest plane b, the vote c, and `en` d, is a ^ (b & c & d); where that is 0 its carry is a. One
  // above, with c = 1, is a; where that is 0 no carry goes on.
  localparam logic [15:0]        FIRST  = 16'b0110_1010_1010_1010;
  localparam logic [15:0]        RIPPLE = 16'b1010_1010_1010_0000;
  localparam logic [16*BITS-1:0] INIT   = {BITS{RIPPLE}} ^ (16*BITS)'(FIRST ^ RIPPLE);

  logic [LINE_W-1:0]       lost;
  logic [CNT_W*LINE_W-1:0] planes, counted;

  assign planes = `NF_ISOLATE(en) ? planes_in : '0;

  for (genvar e = 0; e < LINE_W; e++) begin : g_column
    localparam int GATE = e | 1;  // of the element
    localparam int SIGN = GATE - 1;

    logic            vote, full, adds;
    logic [BITS-1:0] count, sum;

    assign vote = !ternary ? (ones ~^ data[e])
                           : (data[GATE] && (data[SIGN] == (e == GATE)));

    assign adds = vote && !full;

    always_comb begin
      count = '0;
      for (int p = 0; p < ABOVE; p++) count[p] = planes[(p+1)*LINE_W + e];
      full = SATURATES && planes[e] && (&(count | ~(BITS'((1 << ABOVE) - 1))));
    end

    nf_ecp5_chain #(.BITS(BITS), .INIT(INIT)) u_chain (
      .a (count), .b (BITS'(planes[e])),
      .c ({{(BITS - 1){1'b1}}, adds}), .d ({BITS{en}}),
      .sum
    );

    if (BITS > ABOVE) begin : g_above
      logic unused_sum;
      assign unused_sum = sum[BITS-1];
    end

    assign lost[e]    = en && vote && full;
    assign counted[e] = planes[e] ^ (adds && en);
    for (genvar p = 1; p < CNT_W; p++) begin : g_plane
      if (p < COUNTED) begin : g_counted
        assign counted[p*LINE_W + e] = sum[p-1];
      end else begin : g_passes
        assign counted[p*LINE_W + e] = planes[p*LINE_W + e];
      end
    end
  end

  assign planes_out = `NF_ISOLATE(en) ? counted : planes_in;
  assign saturated  = |lost;
endmodule

`default_nettype wire
