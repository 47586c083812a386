// SPDX-License-Identifier: Apache-2.0
// Each module that has a MyHDL twin, beside the twin as MyHDL converts it, on the same inputs.
//
// A module's inputs are one vector and its outputs another, in the order of the twin's ports in
// models/myhdl, the first one highest: NAME_in, NAME_out of the hand-written module, NAME_twin of
// the converted twin. The clock and the reset of the checks are ports of their own.

`default_nettype none

module nf_twin_pairs
  import nf_pkg::*, nf_link_pkg::*;
#(
  parameter int CNT_W = 8
) (
  input  wire logic                             clk,
  input  wire logic                             rst_n,

  input  wire logic [CNT_W*LINE_W+LINE_W+2:0]   nf_accumulate_in,
  output logic      [CNT_W*LINE_W:0]            nf_accumulate_out,
  output logic      [CNT_W*LINE_W:0]            nf_accumulate_twin,

  input  wire logic [CNT_W*LINE_W+21:0]         nf_vote_in,
  output logic      [LINE_W-1:0]                nf_vote_out,
  output logic      [LINE_W-1:0]                nf_vote_twin,

  input  wire logic [CNT_W*LINE_W+5:0]          nf_sum_in,
  output logic      [LINE_W-1:0]                nf_sum_out,
  output logic      [LINE_W-1:0]                nf_sum_twin,

  input  wire logic [PAYLOAD_W:0]               nf_crc16_in,
  output logic      [CRC_W-1:0]                 nf_crc16_out,
  output logic      [CRC_W-1:0]                 nf_crc16_twin,

  input  wire logic [64:0]                      nf_fp32_add_in,
  output logic      [31:0]                      nf_fp32_add_out,
  output logic      [31:0]                      nf_fp32_add_twin,

  input  wire logic [617:0]                     nf_link_tx_pack_in,
  output logic      [PAYLOAD_W+8:0]             nf_link_tx_pack_out,
  output logic      [PAYLOAD_W+8:0]             nf_link_tx_pack_twin
);

  // ---- accumulate ------------------------------------------------------------------------------
  logic                    add_en, add_ternary, add_ones;
  logic [LINE_W-1:0]       add_data;
  logic [CNT_W*LINE_W-1:0] add_planes;
  assign {add_en, add_ternary, add_ones, add_data, add_planes} = nf_accumulate_in;

  nf_accumulate #(.CNT_W(CNT_W)) u_accumulate (
    .en(add_en), .ternary(add_ternary), .ones(add_ones), .data(add_data), .planes_in(add_planes),
    .planes_out(nf_accumulate_out[CNT_W*LINE_W:1]), .saturated(nf_accumulate_out[0])
  );
  myhdl_nf_accumulate u_accumulate_twin (
    .en(add_en), .ternary(add_ternary), .ones(add_ones), .data(add_data), .planes_in(add_planes),
    .planes_out(nf_accumulate_twin[CNT_W*LINE_W:1]), .saturated(nf_accumulate_twin[0])
  );

  // ---- vote ------------------------------------------------------------------------------------
  logic                    vote_en, vote_votes, vote_ternary, vote_tie_minus;
  logic [2:0]              vote_plane;
  logic [CNT_W*LINE_W-1:0] vote_planes;
  logic [6:0]              vote_contributions;
  logic [7:0]              vote_threshold;
  assign {vote_en, vote_votes, vote_plane, vote_ternary, vote_contributions, vote_tie_minus,
          vote_threshold, vote_planes} = nf_vote_in;

  nf_vote #(.CNT_W(CNT_W)) u_vote (
    .clk, .rst_n, .en(vote_en), .vote(vote_votes), .plane(vote_plane), .ternary(vote_ternary),
    .contributions(vote_contributions), .tie_minus(vote_tie_minus), .threshold(vote_threshold),
    .planes(vote_planes), .line(nf_vote_out)
  );
  myhdl_nf_vote u_vote_twin (
    .clk, .en(vote_en), .vote(vote_votes), .plane(vote_plane), .ternary(vote_ternary),
    .contributions(vote_contributions), .tie_minus(vote_tie_minus), .threshold(vote_threshold),
    .planes(vote_planes), .line(nf_vote_twin)
  );

  // ---- sum -------------------------------------------------------------------------------------
  logic                    sum_en, sum_wide, sum_signed, sum_bytes;
  logic [1:0]              sum_part;
  logic [CNT_W*LINE_W-1:0] sum_planes;
  assign {sum_en, sum_wide, sum_signed, sum_bytes, sum_part, sum_planes} = nf_sum_in;

  nf_sum #(.CNT_W(CNT_W)) u_sum (
    .clk, .en(sum_en), .wide(sum_wide), .codes_signed(sum_signed), .bytes(sum_bytes),
    .part(sum_part), .planes(sum_planes), .line(nf_sum_out)
  );
  myhdl_nf_sum u_sum_twin (
    .clk, .en(sum_en), .wide(sum_wide), .codes_signed(sum_signed), .bytes(sum_bytes),
    .part(sum_part), .planes(sum_planes), .line(nf_sum_twin)
  );

  // ---- CRC -------------------------------------------------------------------------------------
  nf_crc16 u_crc16 (
    .en(nf_crc16_in[PAYLOAD_W]), .payload(nf_crc16_in[PAYLOAD_W-1:0]), .crc(nf_crc16_out)
  );
  myhdl_nf_crc16 u_crc16_twin (
    .en(nf_crc16_in[PAYLOAD_W]), .payload(nf_crc16_in[PAYLOAD_W-1:0]), .crc(nf_crc16_twin)
  );

  // ---- FP32 adder ------------------------------------------------------------------------------
  nf_fp32_add u_fp32_add (
    .clk, .en(nf_fp32_add_in[64]), .a(nf_fp32_add_in[63:32]), .b(nf_fp32_add_in[31:0]),
    .sum(nf_fp32_add_out)
  );
  myhdl_nf_fp32_add u_fp32_add_twin (
    .clk, .en(nf_fp32_add_in[64]), .a(nf_fp32_add_in[63:32]), .b(nf_fp32_add_in[31:0]),
    .sum(nf_fp32_add_twin)
  );

  // ---- packer ----------------------------------------------------------------------------------
  logic         pack_rst_n, enable, multi_header, room_drs, room_multi, drs_valid, ak, flit_ready;
  logic [2:0]   ndr_count;
  logic [21:0]  ndr0, ndr1;
  logic [534:0] drs;
  logic [9:0]   ndr_credits, drs_credits;
  logic [3:0]   req_crd, data_crd;
  assign {pack_rst_n, enable, multi_header, room_drs, room_multi, ndr_count, ndr0, ndr1, drs_valid,
          drs, ndr_credits, drs_credits, ak, req_crd, data_crd, flit_ready} = nf_link_tx_pack_in;
  s2m_ndr_t ndr0_fields, ndr1_fields;
  s2m_drs_t drs_fields;
  assign ndr0_fields = ndr0;
  assign ndr1_fields = ndr1;
  assign drs_fields  = drs;

  nf_link_tx_pack u_tx_pack (
    .clk, .rst_n(pack_rst_n), .enable, .multi_header, .room_drs, .room_multi, .ndr_count,
    .ndr0(ndr0_fields), .ndr1(ndr1_fields), .drs_valid, .drs(drs_fields), .ndr_credits,
    .drs_credits, .ak, .req_crd, .data_crd, .flit_ready,
    .ndr_pop(nf_link_tx_pack_out[520:519]), .drs_ready(nf_link_tx_pack_out[518]),
    .drs_sent(nf_link_tx_pack_out[517:516]), .drs_empty(nf_link_tx_pack_out[515]),
    .flit_valid(nf_link_tx_pack_out[514]), .flit(nf_link_tx_pack_out[513:2]),
    .header(nf_link_tx_pack_out[1]), .run(nf_link_tx_pack_out[0])
  );
  myhdl_nf_link_tx_pack u_tx_pack_twin (
    .clk, .rst_n(pack_rst_n), .enable, .multi_header, .room_drs, .room_multi, .ndr_count,
    .ndr0, .ndr1, .drs_valid, .drs, .ndr_credits,
    .drs_credits, .ak, .req_crd, .data_crd, .flit_ready,
    .ndr_pop(nf_link_tx_pack_twin[520:519]), .drs_ready(nf_link_tx_pack_twin[518]),
    .drs_sent(nf_link_tx_pack_twin[517:516]), .drs_empty(nf_link_tx_pack_twin[515]),
    .flit_valid(nf_link_tx_pack_twin[514]), .flit(nf_link_tx_pack_twin[513:2]),
    .header(nf_link_tx_pack_twin[1]), .run(nf_link_tx_pack_twin[0])
  );

endmodule

`default_nettype wire
