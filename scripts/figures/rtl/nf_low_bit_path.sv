// SPDX-License-Identifier: Apache-2.0
// The low-bit datapath of the engine alone, a line a clock: counters of a line plus a contribution,
// and the vote, sums or plane of the counters. Registers stand where the engine has them: beside
// (S1) and behind the state RAM (S2), behind the accumulation (S3), in the middle of vote and sums
// (S4), and at the answer. `data` comes a clock before the inputs that say what is done with it. No
// RAM, no control; for nf measure figures synth, not part of the device.

`default_nettype none

module nf_low_bit_path
  import nf_pkg::*;
  import nf_tern5_pkg::*;
#(
  parameter int CNT_W = 8,
  parameter int SUMS  = 1,  // 0: without the sums of integer codes
  parameter int ECP5  = 0   // 1: counts and votes in carry cells
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
  output logic                         illegal_q,
  output logic [8:0]                   count_q
);
  localparam int CONTROL_W = 27;
  localparam int PLANES_W  = CNT_W * LINE_W;
  localparam int COUNTED_W = counting_planes(CNT_W) * LINE_W;

  logic [CONTROL_W-1:0]    control_q;
  logic [LINE_W-1:0]       data1_q, data_q, voted, summed;
  logic [CNT_W*LINE_W-1:0] planes2_q, planes_d, counted_d;
  logic                    saturated;
  logic [8:0]              illegal_count;
  logic                    adds2, ternary2, ones2, vote2, sum2, wide2, signed2, bytes2, tie2;
  logic                    sum3_q, sum4_q, wide3_q, signed3_q, bytes3_q;
  logic [1:0]              part3_q;
  logic [2:0]              plane2;
  logic [6:0]              m2;
  logic [7:0]              t2;

  assign {adds2, ternary2, ones2, vote2, sum2, wide2, signed2, bytes2, plane2, m2, tie2, t2}
    = control_q;

  if (ECP5 != 0) begin : g_ecp5_accumulate
    nf_ecp5_accumulate #(.CNT_W(CNT_W)) u_accumulate (
      .en (adds2), .ternary (ternary2), .ones (ones2), .data (data_q),
      .planes_read (PLANES_W'(planes2_q[COUNTED_W-1:0])), .planes_newer ('0), .forward (1'b0),
      .has ({CNT_W{1'b1}}), .planes_out (counted_d), .saturated
    );
  end else begin : g_accumulate
    nf_accumulate #(.CNT_W(CNT_W)) u_accumulate (
      .en (adds2), .ternary (ternary2), .ones (ones2), .data (data_q),
      .planes_in (PLANES_W'(planes2_q[COUNTED_W-1:0])), .planes_out (counted_d), .saturated
    );
  end

  trits_t     unused_trits;
  logic       illegal, unused_tern5;
  nf_line_codes u_codes (
    .clk, .rst_n, .take (adds), .data (data1_q), .counts (adds2 && ternary2), .tern5 (1'b0),
    .trits (unused_trits), .illegal_ternary (illegal), .illegal_tern5 (unused_tern5),
    .count (illegal_count)
  );

  // As in nf_line_rules: planes that count no worker pass.
  if (COUNTED_W < PLANES_W) begin : g_above
    assign planes_d = {planes2_q[PLANES_W-1:COUNTED_W], counted_d[COUNTED_W-1:0]};
  end else begin : g_none_above
    assign planes_d = counted_d;
  end

  if (ECP5 != 0) begin : g_ecp5_vote
    nf_ecp5_vote #(.CNT_W(CNT_W)) u_vote (
      .clk, .rst_n, .en (!adds2), .vote (vote2), .plane (plane2), .ternary (ternary2),
      .contributions (m2), .tie_minus (tie2), .threshold (t2), .planes (planes_q), .line (voted)
    );
  end else begin : g_vote
    nf_vote #(.CNT_W(CNT_W)) u_vote (
      .clk, .rst_n, .en (!adds2), .vote (vote2), .plane (plane2), .ternary (ternary2),
      .contributions (m2), .tie_minus (tie2), .threshold (t2), .planes (planes_q), .line (voted)
    );
  end

  if (SUMS != 0) begin : g_sums
    nf_sum #(.CNT_W(CNT_W)) u_sum (
      .clk, .en (sum3_q), .wide (wide3_q), .codes_signed (signed3_q), .bytes (bytes3_q),
      .part (part3_q), .planes (PLANES_W'(planes_q[COUNTED_W-1:0])), .line (summed)
    );
  end else begin : g_no_sums
    assign summed = '0;
  end

  always_ff @(posedge clk) begin
    control_q   <= {adds, ternary, ones, vote, sum, wide, codes_signed, bytes, plane, contributions,
                    tie_minus, threshold};
    sum3_q      <= sum2;
    sum4_q      <= sum3_q;
    wide3_q     <= wide2;
    signed3_q   <= signed2;
    bytes3_q    <= bytes2;
    part3_q     <= plane2[1:0];
    data1_q     <= data;
    data_q      <= data1_q;
    planes2_q   <= planes;
    planes_q    <= planes_d;
    saturated_q <= saturated;
    illegal_q   <= adds2 && ternary2 && illegal;
    count_q     <= illegal_count;
    line_q      <= sum4_q ? summed : voted;
  end
endmodule

`default_nettype wire
