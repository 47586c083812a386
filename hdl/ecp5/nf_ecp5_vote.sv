// SPDX-License-Identifier: Apache-2.0
// nf_vote in carry cells of ECP5: the reduced line, or one count plane. The same ports, and the
// same three clocks, one behind the other: `en` and what is asked for, `planes`, `line`.
//
// In the second clock a chain of each element subtracts minus from plus. In the third a chain of
// each column tells whether a value is above a scalar; each bit of that value is one of the count
// or of the net. So
//
// - G_BINARY: - where the count is not above half of the contributions, less one;
// - G_TERNARY: +1 where there is no borrow and the net is above T - 1; -1 where there is one and
//   the net without its sign is not above 2^planes - T, which is the complement of T - 1;
// - a count plane: all bits but one are taken of the net, which is 0 without G_TERNARY, and the
//   scalar is 0. Of a G_BINARY line without contributions all are, so that it is zeros.

`default_nettype none
`include "nf_assert.svh"
`include "nf_still.svh"

module nf_ecp5_vote
  import nf_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int TERN5 = 0
) (
  input  wire logic                    clk,
  input  wire logic                    rst_n,          // for the checks alone
  input  wire logic                    en,             // without it `line` means nothing
  input  wire logic                    vote,           // else count plane `plane`
  input  wire logic [2:0]              plane,
  input  wire logic                    ternary,
  input  wire logic [6:0]              contributions,  // m
  input  wire logic                    tie_minus,
  input  wire logic [7:0]              threshold,      // T, at least 1
  input  wire logic [CNT_W*LINE_W-1:0] planes,         // a clock later
  output logic [LINE_W-1:0]            line            // and another
);
  localparam int WIDE     = 8;  // bits of the scalar
  // Planes above count no worker and are zero; a G_TERN5 element counts twice.
  localparam int COUNTED  = (TERN5 != 0) ? CNT_W : counting_planes(CNT_W);
  localparam int BITS     = COUNTED + 2 - (COUNTED % 2);  // with one that shows the carry; even
  localparam int ELEMENTS = LINE_W / 2;

  // Indices {d, c, b, a} from 15 down, four of each {d, c}.
  // Net: plus a, minus b, d = 1. Sums are the complement of the net, and 1, a net of 0, without c;
  // the carry is the borrow: b where both differ.
  localparam logic [15:0]        NET      = 16'b1001_1111_0000_1100;
  // Above: a digit a of the scalar, the complement b of the net, the count c, and the net with d.
  // Equal bits leave it to those below; else the value is above where the digit is 0.
  localparam logic [15:0]        ABOVE    = 16'b0110_0110_1010_0101;
  // Behind the last plane a is 0, and so is a LUT4 of a alone: its sum is the carry.
  localparam logic [15:0]        A        = 16'hAAAA;
  localparam logic [16*BITS-1:0] NETS     = {{(BITS - COUNTED){A}}, {COUNTED{NET}}};
  localparam logic [16*BITS-1:0] COMPARES = {{(BITS - COUNTED){A}}, {COUNTED{ABOVE}}};

  if (COUNTED < CNT_W) begin : g_above
    logic unused_above;
    assign unused_above = ^planes[CNT_W*LINE_W-1:COUNTED*LINE_W];
  end

  // ---- what is asked for ------------------------------------------------------------------------
  logic [WIDE-1:0]    half, scalar;
  logic               nets, takes, beyond;
  logic [COUNTED-1:0] digits, digits_q, of_net, of_net_q;
  logic               en_q, nets_q, minus_q;

  assign nets   = vote && ternary;
  assign takes  = !vote || (!ternary && contributions == '0);
  assign half   = (8'(contributions) - 8'(!tie_minus)) >> 1;
  assign scalar = ternary ? threshold - 8'd1 : half;
  assign beyond = (32'(scalar) >> COUNTED) != '0;  // no value is above

  always_comb begin
    digits = '0;
    of_net = '0;
    for (int p = 0; p < COUNTED; p++) begin
      digits[p] = !takes && (scalar[p] || beyond);
      of_net[p] = nets || (takes && (vote || plane != 3'(p)));
    end
  end

  always_ff @(posedge clk) begin
    en_q <= en;
    if (en) begin
      digits_q <= digits;
      of_net_q <= of_net;
      nets_q   <= nets;
      minus_q  <= !takes && !nets;
    end
  end

  // ---- nets -------------------------------------------------------------------------------------
  logic [BITS*ELEMENTS-1:0]  net, net_q;  // of element e at e*BITS: its complement, then the borrow
  logic [COUNTED*LINE_W-1:0] planes_q;
  logic [COUNTED-1:0]        odd_q, even_q, of_net2_q;  // digits of odd and even columns
  logic                      nets2_q, minus2_q;
  logic [COUNTED*LINE_W-1:0] counts;

  assign counts = `NF_STILL(en_q) ? planes[COUNTED*LINE_W-1:0] : '0;

  for (genvar e = 0; e < ELEMENTS; e++) begin : g_net
    logic [BITS-1:0] plus, minus;

    always_comb begin
      plus  = '0;
      minus = '0;
      for (int p = 0; p < COUNTED; p++) begin
        plus[p]  = counts[p*LINE_W + 2*e];
        minus[p] = counts[p*LINE_W + 2*e + 1];
      end
    end

    nf_ecp5_chain #(.BITS(BITS), .INIT(NETS)) u_chain (
      .a (plus), .b (minus), .c ({BITS{nets_q}}), .d ({BITS{1'b1}}), .sum (net[e*BITS +: BITS])
    );
  end

  always_ff @(posedge clk) begin
    if (en_q) begin
      net_q     <= net;
      planes_q  <= counts;
      odd_q     <= digits_q;
      even_q    <= digits_q ^ {COUNTED{nets_q}};
      of_net2_q <= of_net_q;
      nets2_q   <= nets_q;
      minus2_q  <= minus_q;
    end
  end

  // ---- comparisons ------------------------------------------------------------------------------
  logic [LINE_W-1:0] above;

  for (genvar i = 0; i < LINE_W; i++) begin : g_above_scalar
    logic [BITS-1:0] digit, count, sum;

    always_comb begin
      digit = BITS'((i % 2 == 1) ? odd_q : even_q);
      count = '0;
      for (int p = 0; p < COUNTED; p++) count[p] = planes_q[p*LINE_W + i];
    end

    nf_ecp5_chain #(.BITS(BITS), .INIT(COMPARES)) u_chain (
      .a (digit), .b (BITS'(net_q[(i/2)*BITS +: COUNTED])), .c (count), .d (BITS'(of_net2_q)), .sum
    );

    assign above[i] = sum[COUNTED];
  end

  for (genvar e = 0; e < ELEMENTS; e++) begin : g_line
    logic owes, is_minus;
    assign owes        = net_q[e*BITS + COUNTED];
    assign is_minus    = owes && !above[2*e];
    assign line[2*e]   = nets2_q ? is_minus : (above[2*e] ^ minus2_q);
    assign line[2*e+1] = owes ? is_minus : (above[2*e+1] ^ minus2_q);
  end

  // What nobody asked for is not computed.
  `NF_ASSERT_KEEPS(NetKeeps_A, !en_q, net_q[7:0])
endmodule

`default_nettype wire
