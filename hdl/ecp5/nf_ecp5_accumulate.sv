// SPDX-License-Identifier: Apache-2.0
// One contribution added to the bit-sliced counters of a line, in carry cells of ECP5: what
// nf_accumulate adds to the planes that nf_line_rules chooses. Combinational.
//
// A chain of each column takes its vote in the first step, and a plane in each further one. The
// LUT4 of a plane chooses: it is the plane as it was read, or the newer one with `forward`, or 0
// where the plane means nothing (`has`). So neither choice takes a gate. Its XOR with the carry is
// the plane after. A full counter is not added to. Seven planes or more count all workers: nothing
// saturates then, a count at the maximum of seven planes must not be added to, and planes above are
// chosen alone.

`default_nettype none

module nf_ecp5_accumulate
  import nf_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input  wire logic                    en,            // add; else the planes pass unchanged
  input  wire logic                    ternary,       // G_TERNARY
  input  wire logic                    ones,          // integer codes: count the ones of each bit
  input  wire logic [LINE_W-1:0]       data,          // line of the contribution
  input  wire logic [CNT_W*LINE_W-1:0] planes_read,   // count planes before, as they were read
  input  wire logic [CNT_W*LINE_W-1:0] planes_newer,  // the same, written since
  input  wire logic                    forward,       // take these
  input  wire logic [CNT_W-1:0]        has,           // planes that mean something; others are 0
  output logic [CNT_W*LINE_W-1:0]      planes_out,    // count planes after
  output logic                         saturated      // at least one increment was lost
);
  localparam int COUNTED   = counting_planes(CNT_W);
  localparam bit SATURATES = ((1 << COUNTED) <= MAX_WORKERS);
  localparam int STEPS     = 1 + COUNTED;          // the vote, and a step for each plane
  localparam int BITS      = STEPS + (STEPS % 2);  // of the chain: even

  // Indices {d, c, b, a} from 15 down, four of each {d, c}. Where a LUT4 is 0 its step carries what
  // the lowest four say to {b, a}: 1 of a vote, whose LUT4 is 1 if it adds nothing, 0 of a plane.
  // A vote of {sign b, gate a}: none with 00, G_TERNARY 01, ones 10, zeros 11; +1 in even columns,
  // -1 in odd ones.
  localparam logic [15:0] PLUS  = 16'b1100_0011_1101_1111;
  localparam logic [15:0] MINUS = 16'b1010_0101_0111_1111;
  // Where counts saturate: the vote a of that style, unless the count is full b.
  localparam logic [15:0] CAPPED = 16'b1101_1101_1101_1111;
  // A plane: b with c, else a; 0 without d.
  localparam logic [15:0] PLANE  = 16'b1100_1010_0000_0000;

  logic [1:0]        style;  // of the votes
  logic [LINE_W-1:0] lost;

  assign style = !en ? 2'b00 : ternary ? 2'b01 : ones ? 2'b10 : 2'b11;

  for (genvar e = 0; e < LINE_W; e++) begin : g_column
    localparam int GATE = e | 1;  // of the element
    localparam int SIGN = GATE - 1;
    localparam logic [15:0] VOTE = SATURATES ? CAPPED : (e == GATE) ? MINUS : PLUS;

    logic [STEPS-1:0] a, b, c, d;
    logic [BITS-1:0]  sum;
    logic             unused_sums;

    if (SATURATES) begin : g_capped
      logic               vote, full;
      logic [COUNTED-1:0] count;
      for (genvar p = 0; p < COUNTED; p++) begin : g_count
        assign count[p] = has[p] && (forward ? planes_newer[p*LINE_W + e]
                                             : planes_read[p*LINE_W + e]);
      end
      assign full    = &count;
      assign vote    = style[1] ? (data[e] ^ style[0])
                                : (style[0] && data[GATE] && (data[SIGN] == (e == GATE)));
      assign lost[e] = vote && full;
      assign {d[0], c[0], b[0], a[0]} = {style, full, vote};
    end else begin : g_counts
      assign lost[e] = 1'b0;
      assign {d[0], c[0], b[0], a[0]} = {style, data[SIGN], data[GATE]};
    end

    for (genvar p = 0; p < COUNTED; p++) begin : g_plane
      assign a[p+1] = planes_read[p*LINE_W + e];
      assign b[p+1] = planes_newer[p*LINE_W + e];
      assign c[p+1] = forward;
      assign d[p+1] = has[p];
      assign planes_out[p*LINE_W + e] = sum[p+1];
    end

    nf_ecp5_chain #(.BITS(BITS), .INIT({{(BITS - 1){PLANE}}, VOTE})) u_chain (
      .a (BITS'(a)), .b (BITS'(b)),
      .c (BITS'(c)), .d (BITS'(d)),
      .sum
    );
    assign unused_sums = ^{sum[0], sum[BITS-1]};
  end

  for (genvar p = COUNTED; p < CNT_W; p++) begin : g_above
    assign planes_out[p*LINE_W +: LINE_W] = !has[p] ? '0 : forward
        ? planes_newer[p*LINE_W +: LINE_W] : planes_read[p*LINE_W +: LINE_W];
  end

  assign saturated = |lost;
endmodule

`default_nettype wire
