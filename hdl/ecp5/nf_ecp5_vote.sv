// SPDX-License-Identifier: Apache-2.0
// nf_vote in carry cells of ECP5: the reduced line, or one count plane. The same ports, and the
// same three consecutive clocks: `en` and the request, `planes`, `line`.
//
// A chain of each column shows whether its value is above a scalar. The chains of even columns are
// used in the second clock, those of odd ones in the third, so that in a G_TERNARY vote the first
// can subtract minus from plus, and the second compare the net:
//
// - G_BINARY: the result is - if the count is not above half of the contributions, less one;
// - G_TERNARY: the complement of a net, without its sign, is at least T - 1 if the net is
//   negative and reaches T, and at most 2^planes - T, which is the complement of T - 1, less one,
//   if the net is positive and reaches T;
// - a count plane: the other planes are skipped, or are 0, and the scalar is 0. A G_BINARY line
//   without contributions has no plane, so that it is zeros.

`default_nettype none
`include "nf_assert.svh"
`include "nf_operand_isolation.svh"

module nf_ecp5_vote
  import nf_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int TERN5 = 0
) (
  input  wire logic                    clk,            // clock, rising edge
  input  wire logic                    rst_n,          // for the checks alone
  input  wire logic                    en,             // without it `line` means nothing
  input  wire logic                    vote,           // else count plane `plane`
  input  wire logic [2:0]              plane,          // count plane that is asked for
  input  wire logic                    ternary,        // G_TERNARY
  input  wire logic [6:0]              contributions,  // m
  input  wire logic                    tie_minus,      // a tie gives minus
  input  wire logic [7:0]              threshold,      // T, at least 1
  input  wire logic [CNT_W*LINE_W-1:0] planes,         // a clock later
  output logic [LINE_W-1:0]            line            // and another
);
  localparam int WIDE     = 8;  // bits of the scalar
  // Planes above count no worker and are zero; a G_TERN5 element counts twice.
  localparam int COUNTED  = (TERN5 != 0) ? CNT_W : counting_planes(CNT_W);
  localparam int ELEMENTS = LINE_W / 2;
  // Of both chains: with one step that shows the carry, the second with one that makes it; even.
  localparam int FIRST_W  = COUNTED + 2 - (COUNTED % 2);
  localparam int SECOND_W = COUNTED + 2 + (COUNTED % 2);

  // Indices {d, c, b, a} from 15 down, four of each {d, c}.
  // First: plus a, minus d. With b = 0 plus is compared with the complement of c; with b = 1 minus
  // is subtracted, sums are the complement of the net, the carry is the borrow; with c, too, it
  // passes.
  localparam logic [15:0] FIRST  = 16'b1101_1010_1101_0110;
  // Second: c or d, minus or what came of the net, compared with the complement of a ^ b; b is the
  // borrow.
  localparam logic [15:0] SECOND = 16'b1001_1001_1001_0110;
  // A carry of a, with d = 1; and the carry with a ^ b.
  localparam logic [15:0] START  = 16'b0000_0000_0000_1010;
  localparam logic [15:0] SHOWN  = 16'b0110_0110_0110_0110;
  localparam logic [16*FIRST_W-1:0]  FIRSTS  = {{(FIRST_W - COUNTED){SHOWN}}, {COUNTED{FIRST}}};
  localparam logic [16*SECOND_W-1:0] SECONDS
    = {{(SECOND_W - COUNTED - 1){SHOWN}}, {COUNTED{SECOND}}, START};

  if (COUNTED < CNT_W) begin : g_above
    logic unused_above;
    assign unused_above = ^planes[CNT_W*LINE_W-1:COUNTED*LINE_W];
  end

  // ---- what is asked for ------------------------------------------------------------------------
  logic [WIDE-1:0]    half, scalar;
  logic               nets, takes, beyond;
  logic [COUNTED-1:0] digits, passes, keeps;  // of the scalar; planes of even, and of odd columns
  logic [COUNTED-1:0] below_q, passes_q, keeps_q, digits_q;
  logic               en_q, nets_q, minus_q;

  assign nets   = vote && ternary;
  assign takes  = !vote || (!ternary && contributions == '0);
  assign half   = (8'(contributions) - 8'(!tie_minus)) >> 1;
  assign scalar = ternary ? threshold - 8'd1 : half;
  assign beyond = (32'(scalar) >> COUNTED) != '0;  // no value is above

  always_comb begin
    digits = '0;
    passes = '0;
    keeps  = '0;
    for (int p = 0; p < COUNTED; p++) begin
      digits[p] = takes ? (vote || 3'(p) < plane) : (scalar[p] || beyond);
      passes[p] = takes && !vote && 3'(p) > plane;
      keeps[p]  = vote ? !ternary && !takes : plane == 3'(p);
    end
  end

  always_ff @(posedge clk) begin
    en_q <= en;
    if (en) begin
      below_q  <= nets ? '0 : (~digits | passes);
      passes_q <= nets ? '1 : passes;
      keeps_q  <= keeps;
      digits_q <= nets ? digits : takes ? '1 : ~digits;
      nets_q   <= nets;
      minus_q  <= !takes && !nets;
    end
  end

  // ---- even columns, and nets -------------------------------------------------------------------
  logic [COUNTED*LINE_W-1:0]   counts;
  // By plane: the complement of the net, 0 without one, and minus, 0 where the plane is not kept.
  logic [COUNTED*ELEMENTS-1:0] net, net_q, minus, minus_count_q;
  logic [ELEMENTS-1:0]         found;              // what the line says, or the borrow
  logic [ELEMENTS-1:0]         found_q, borrow_q;  // one of them, 0 the other
  logic [COUNTED-1:0]          drops;
  logic                        no_net;
  logic [COUNTED-1:0]          digits2_q;
  logic                        nets2_q, shown_q;

  assign counts = `NF_ISOLATE(en_q) ? planes[COUNTED*LINE_W-1:0] : '0;

  for (genvar e = 0; e < ELEMENTS; e++) begin : g_even
    logic [FIRST_W-1:0] plus, other, sum;

    always_comb begin
      plus  = FIRST_W'(minus_q) << COUNTED;
      other = '0;
      for (int p = 0; p < COUNTED; p++) begin
        plus[p]  = counts[p*LINE_W + 2*e];
        other[p] = counts[p*LINE_W + 2*e + 1];
      end
    end

    nf_ecp5_chain #(.BITS(FIRST_W), .INIT(FIRSTS)) u_chain (
      .a (plus), .b (FIRST_W'(passes_q)),
      .c (FIRST_W'(below_q)), .d (other),
      .sum
    );

    assign found[e] = sum[COUNTED];
    for (genvar p = 0; p < COUNTED; p++) begin : g_plane
      assign net[p*ELEMENTS + e]   = sum[p];
      assign minus[p*ELEMENTS + e] = other[p];
    end
  end

  always_ff @(posedge clk) begin
    if (en_q) begin
      digits2_q <= digits_q;
      nets2_q   <= nets_q;
      shown_q   <= nets_q || minus_q;
    end
  end

  // Set to 0 by the reset of their flip-flops, which costs no LUT.
  assign drops  = {COUNTED{en_q}} & ~keeps_q;
  assign no_net = en_q && !nets_q;

  always_ff @(posedge clk) begin
    if (no_net) begin
      net_q    <= '0;
      borrow_q <= '0;
    end else if (en_q) begin
      net_q    <= net;
      borrow_q <= found;
    end
    if (en_q && nets_q) found_q <= '0;
    else if (en_q)      found_q <= found;
  end

  for (genvar p = 0; p < COUNTED; p++) begin : g_minus
    always_ff @(posedge clk) begin
      if (drops[p])  minus_count_q[p*ELEMENTS +: ELEMENTS] <= '0;
      else if (en_q) minus_count_q[p*ELEMENTS +: ELEMENTS] <= minus[p*ELEMENTS +: ELEMENTS];
    end
  end

  // ---- odd columns, and the line ----------------------------------------------------------------
  for (genvar e = 0; e < ELEMENTS; e++) begin : g_odd
    logic [SECOND_W-1:0] digit, borrow, count, value, sum;
    logic                reached;

    always_comb begin
      digit  = SECOND_W'({shown_q, digits2_q, nets2_q});
      borrow = {SECOND_W{borrow_q[e]}};
      count  = '0;
      value  = SECOND_W'(1'b1);
      for (int p = 0; p < COUNTED; p++) begin
        count[p+1] = minus_count_q[p*ELEMENTS + e];
        value[p+1] = net_q[p*ELEMENTS + e];
      end
    end

    nf_ecp5_chain #(.BITS(SECOND_W), .INIT(SECONDS)) u_chain (
      .a (digit), .b (borrow),
      .c (count), .d (value),
      .sum
    );

    assign reached     = sum[COUNTED+1];
    assign line[2*e+1] = reached;
    assign line[2*e]   = found_q[e] || (reached && borrow_q[e]);
  end

  // Only the requested result is computed.
  `NF_ASSERT_KEEPS(NetKeeps_A, !en_q, net_q[7:0])
endmodule

`default_nettype wire
