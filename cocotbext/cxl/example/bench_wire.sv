// SPDX-License-Identifier: Apache-2.0
//
// Two pipeline registers with the pins of a Type-3 device: what comes in on rx_* leaves on dev_rx_*
// one clock later, what stands on dev_tx_* leaves on tx_* under valid/ready. A host drives the pins
// without prefix, a device played by Python those with dev_: each is tested without a real device.
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
    output logic              dev_rx_valid,
    output logic      [ 15:0] dev_rx_protocol_id,
    output logic      [527:0] dev_rx_flit,
    output logic              dev_phy_up,
    input  wire logic         dev_tx_valid,
    input  wire logic [ 15:0] dev_tx_protocol_id,
    input  wire logic [527:0] dev_tx_flit,
    output logic              dev_tx_ready,
    input  wire logic         dev_retrain_request
);

  assign dev_tx_ready = !tx_valid || tx_ready;
  assign retrain_request = dev_retrain_request;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      dev_rx_valid  <= 1'b0;
      dev_phy_up <= 1'b0;
      tx_valid  <= 1'b0;
    end else begin
      dev_rx_valid  <= rx_valid;
      dev_phy_up <= phy_up;
      if (dev_tx_ready) tx_valid <= dev_tx_valid;
    end
  end

  always_ff @(posedge clk) begin
    dev_rx_protocol_id <= rx_protocol_id;
    dev_rx_flit        <= rx_flit;
    if (dev_tx_ready) begin
      tx_protocol_id <= dev_tx_protocol_id;
      tx_flit        <= dev_tx_flit;
    end
  end

endmodule

`default_nettype wire
