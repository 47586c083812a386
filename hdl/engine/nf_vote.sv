// SPDX-License-Identifier: Apache-2.0
// The reduced line, or one count plane, from the bit-sliced counters of a line.
//
// G_BINARY: with c of m contributions non-negative, 2c > m gives 0 (+), 2c < m gives 1 (-), a tie
// gives `tie_minus`; m = 0 gives zeros. So an element is - where c is below half of m, rounded up,
// or just above that half where ties are -.
// G_TERNARY: plus - minus >= T gives +1 (10), minus - plus >= T gives -1 (11), else 0.
//
// Three consecutive clocks: `en` and the request, then `planes`, then `line`. All columns pass the
// planes from the lowest on (nf_vote_steps), LOW of them in the second clock, the rest in the
// third. In a G_TERNARY vote both columns of an element use its net: the odd one whether that
// reaches T, the even one whether its complement does, which is one less than the size of a
// negative net.

`default_nettype none
`include "nf_assert.svh"

module nf_vote
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
  localparam int                WIDE    = 8;  // bits of the scalar
  // Planes above count no worker and are zero; a G_TERN5 element counts twice.
  localparam int                COUNTED = (TERN5 != 0) ? CNT_W : counting_planes(CNT_W);
  localparam int                LOW     = (COUNTED + 1) / 2;
  localparam logic [LINE_W-1:0] EVEN    = {LINE_W/2{2'b01}};
  localparam logic [LINE_W-1:0] ODD     = ~EVEN;

  if (COUNTED < CNT_W) begin : g_above
    logic unused_above;
    assign unused_above = ^planes[CNT_W*LINE_W-1:COUNTED*LINE_W];
  end

  // ---- what is asked for ------------------------------------------------------------------------
  logic [WIDE-1:0]    half, scalar;
  logic               nets, beyond;        // no count reaches the scalar
  logic [COUNTED-1:0] compares, digits;    // of each step; a digit without a comparison takes
  logic [COUNTED-1:0] compares_q, digits_q;
  logic               en_q, nets_q;
  logic [1:0]         start_q;             // of odd and even columns

  assign half   = (contributions == 7'd0) ? '0
                                          : (8'(contributions) + 8'(tie_minus) + 8'd1) >> 1;
  assign nets   = vote && ternary;
  assign scalar = ternary ? threshold - 8'd1 : half;
  assign beyond = (32'(scalar) >> COUNTED) != '0;

  always_comb begin
    compares = '0;
    digits   = '0;
    for (int b = 0; b < COUNTED; b++) begin
      compares[b] = vote && !beyond;
      digits[b]   = vote ? (scalar[b] && !beyond) : (plane == 3'(b));
    end
  end

  always_ff @(posedge clk) begin
    en_q <= en;
    if (en) begin
      compares_q <= compares;
      digits_q   <= digits;
      nets_q     <= nets;
      start_q    <= {vote && (ternary || beyond), vote && beyond};
    end
  end

  // ---- the lower planes -------------------------------------------------------------------------
  logic [LINE_W-1:0] low_below, low_borrow, below_q, borrow_q;
  logic              high_en_q, high_nets_q;

  nf_vote_steps #(.PLANES(LOW)) u_low (
    .en (en_q), .nets (nets_q), .compares (compares_q[LOW-1:0]), .digits (digits_q[LOW-1:0]),
    .planes (planes[LOW*LINE_W-1:0]), .below_in ({LINE_W/2{start_q}}), .borrow_in ('0),
    .below (low_below), .borrow (low_borrow)
  );

  always_ff @(posedge clk) begin
    high_en_q <= en_q;
    if (en_q) begin
      below_q     <= low_below;
      borrow_q    <= low_borrow;
      high_nets_q <= nets_q;
    end
  end

  // ---- the upper ones ---------------------------------------------------------------------------
  logic [LINE_W-1:0] below, borrow, below_even;

  if (LOW < COUNTED) begin : g_high
    localparam int HIGH = COUNTED - LOW;

    logic [HIGH*LINE_W-1:0] planes_q;
    logic [HIGH-1:0]        high_compares_q, high_digits_q;

    always_ff @(posedge clk) begin
      if (en_q) begin
        planes_q        <= planes[LOW*LINE_W +: HIGH*LINE_W];
        high_compares_q <= compares_q[COUNTED-1:LOW];
        high_digits_q   <= digits_q[COUNTED-1:LOW];
      end
    end

    nf_vote_steps #(.PLANES(HIGH)) u_high (
      .en (high_en_q), .nets (high_nets_q), .compares (high_compares_q), .digits (high_digits_q),
      .planes (planes_q), .below_in (below_q), .borrow_in (borrow_q), .below, .borrow
    );
  end else begin : g_none
    assign below  = high_en_q ? below_q : '0;
    assign borrow = borrow_q;
  end

  always_comb begin
    below_even = '0;
    line       = below;
    if (high_nets_q) begin
      below_even = (below & EVEN) | ((below & EVEN) << 1);
      line       = (~borrow & ~below & ODD) | (borrow & ~below_even);
    end
  end

  // What nobody asked for is not computed: these are the widest gates of the engine.
  `NF_ASSERT_KEEPS(LowKeeps_A, !en_q, below_q[7:0])
  `NF_ASSERT_NEVER(Idle_A, !en_q && (low_below != '0 || low_borrow != '0))
endmodule

`default_nettype wire
