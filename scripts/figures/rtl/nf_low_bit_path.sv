// SPDX-License-Identifier: Apache-2.0
// The low-bit datapath of the engine alone, a line a clock: counters of a line plus a contribution,
// and the vote, sums or plane of the counters. Registers stand where the engine has them: behind
// the state RAM (S2), behind the accumulation (S3), and at the answer. No RAM, no control; for
// nf figures synth, not part of the device.

`default_nettype none

module nf_low_bit_path
  import nf_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int SUMS  = 1  // 0: without the sums of integer codes
) (
  input  wire logic                    clk,
  input  wire logic                    rst_n,
  input  wire logic                    adds,
  input  wire logic                    ternary,
  input  wire logic                    ones,
  input  wire logic                    vote,
  input  wire logic                    sum,
  input  wire logic                    wide,
  input  wire logic                    codes_signed,
  input  wire logic                    bytes,
  input  wire logic [2:0]              plane,
  input  wire logic [6:0]              contributions,
  input  wire logic                    tie_minus,
  input  wire logic [7:0]              threshold,
  input  wire logic [LINE_W-1:0]       data,
  input  wire logic [CNT_W*LINE_W-1:0] planes,
  output logic [CNT_W*LINE_W-1:0]      planes_q,  // to the RAM, and forwarded
  output logic [LINE_W-1:0]            line_q,
  output logic                         saturated_q,
  output logic [8:0]                   illegal_q
);
  localparam int CONTROL_W = 27;
  localparam int PLANES_W  = CNT_W * LINE_W;
  localparam int COUNTED_W = counting_planes(CNT_W) * LINE_W;

  logic [CONTROL_W-1:0]    control2_q, control3_q;
  logic [LINE_W-1:0]       data_q, voted, summed, shown;
  logic [CNT_W*LINE_W-1:0] planes2_q, planes_d, counted_d, counted_q;
  logic                    saturated;
  logic [8:0]              illegal;
  logic                    adds2, ternary2, ones2;
  logic                    ternary3, vote3, sum3, wide3, signed3, bytes3, tie3;
  logic [2:0]              plane3;
  logic [6:0]              m3;
  logic [7:0]              t3;

  assign {adds2, ternary2, ones2} = control2_q[CONTROL_W-1 -: 3];
  assign {ternary3, vote3, sum3, wide3, signed3, bytes3, plane3, m3, tie3, t3}
    = {control3_q[CONTROL_W-2], control3_q[23:0]};

  nf_accumulate #(.CNT_W(CNT_W)) u_accumulate (
    .en (adds2), .ternary (ternary2), .ones (ones2), .data (data_q),
    .planes_in (PLANES_W'(planes2_q[COUNTED_W-1:0])), .planes_out (counted_d), .saturated, .illegal
  );

  // As in nf_line_rules and nf_answer: planes that count no worker pass.
  if (COUNTED_W < PLANES_W) begin : g_above
    assign planes_d = {planes2_q[PLANES_W-1:COUNTED_W], counted_d[COUNTED_W-1:0]};
  end else begin : g_none_above
    assign planes_d = counted_d;
  end
  assign counted_q = PLANES_W'(planes_q[COUNTED_W-1:0]);

  nf_vote #(.CNT_W(CNT_W)) u_vote (
    .clk, .rst_n, .en (vote3), .ternary (ternary3), .planes (counted_q), .contributions (m3),
    .tie_minus (tie3), .threshold (t3), .line (voted)
  );

  if (SUMS != 0) begin : g_sums
    nf_sum #(.CNT_W(CNT_W)) u_sum (
      .en (sum3), .wide (wide3), .codes_signed (signed3), .bytes (bytes3), .part (plane3[1:0]),
      .planes (counted_q), .line (summed)
    );
  end else begin : g_no_sums
    assign summed = '0;
  end

  always_comb begin
    shown = '0;
    for (int p = 0; p < CNT_W; p++) begin
      if (plane3 == 3'(p)) shown = planes_q[p*LINE_W +: LINE_W];
    end
    if (vote3) shown = voted;
    if (sum3)  shown = summed;
  end

  always_ff @(posedge clk) begin
    control2_q  <= {adds, ternary, ones, vote, sum, wide, codes_signed, bytes, plane, contributions,
                    tie_minus, threshold};
    control3_q  <= control2_q;
    data_q      <= data;
    planes2_q   <= planes;
    planes_q    <= planes_d;
    saturated_q <= saturated;
    illegal_q   <= illegal;
    line_q      <= shown;
  end
endmodule

`default_nettype wire
