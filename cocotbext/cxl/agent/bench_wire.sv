// SPDX-License-Identifier: Apache-2.0
//
// Two pipeline registers with the pins of a Type-3 device: what comes in on rx_* leaves on in_*
// one clock later, what the bench puts on out_* leaves on tx_* under valid/ready. The bench of the
// CXL.mem agent plays the device behind it, so that the agent is tested without any real device.
`timescale 1ns / 1ps
`default_nettype none

module bench_wire (
    input  wire logic         clk,
    input  wire logic         rst_n,
    input  wire logic         rx_valid,
    input  wire logic [ 15:0] rx_protocol_id,
    input  wire logic [527:0] rx_flit,
    output logic              tx_valid,
    output logic      [ 15:0] tx_protocol_id,
    output logic      [527:0] tx_flit,
    input  wire logic         tx_ready,
    input  wire logic         phy_up,
    output logic              retrain_request,
    output logic              in_valid,
    output logic      [ 15:0] in_protocol_id,
    output logic      [527:0] in_flit,
    output logic              in_phy_up,
    input  wire logic         out_valid,
    input  wire logic [ 15:0] out_protocol_id,
    input  wire logic [527:0] out_flit,
    output logic              out_ready,
    input  wire logic         out_retrain,
    input  wire logic         break_hold  // 1: tx moves on although tx_ready is low
);

  assign out_ready = break_hold || !tx_valid || tx_ready;
  assign retrain_request = out_retrain;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      in_valid  <= 1'b0;
      in_phy_up <= 1'b0;
      tx_valid  <= 1'b0;
    end else begin
      in_valid  <= rx_valid;
      in_phy_up <= phy_up;
      if (out_ready) tx_valid <= out_valid;
    end
  end

  always_ff @(posedge clk) begin
    in_protocol_id <= rx_protocol_id;
    in_flit        <= rx_flit;
    if (out_ready) begin
      tx_protocol_id <= out_protocol_id;
      tx_flit        <= out_flit;
    end
  end

endmodule

`default_nettype wire
