// SPDX-License-Identifier: Apache-2.0
// One register bus for two: AXI4-Lite and the control window take turns, an access at a time.
//
// Write side as in nf_axil_slave: `wr_valid`, `wr_addr`, `wr_data` and `wr_mask` are held until
// `wr_done`; `in_band` marks a write of the control window. It may begin when AXI4-Lite has no
// write under way (`ctrl_free`), and keeps the bus (`lock` of `ctrl_bus`) until it ends: so each
// gets in after one access of the other. Reads of AXI4-Lite wait meanwhile, but not while
// `committing`. Read side: `line` are the registers of `rd_line`; the control window takes them in
// its clock of `read`, AXI4-Lite one word in any other.

`default_nettype none
`include "nf_axi_ports.svh"

module nf_reg_bus
  import nf_pkg::*;
(
  input  wire logic              clk,    // clock, rising edge
  input  wire logic              rst_n,  // asynchronous reset, active low

  `NF_AXIL_PORTS(12),

  input  wire ctrl_bus_t         ctrl_bus,   // request of the control window
  output logic                   ctrl_free,  // the control window may begin a write
  output logic                   ctrl_done,  // its write has ended

  output logic                   in_band,     // the control window writes
  output logic                   wr_valid,    // write under way; held until `wr_done`
  output logic [11:0]            wr_addr,     // byte address
  output logic [31:0]            wr_data,     // data
  output logic [31:0]            wr_mask,     // bits that are written
  input  wire logic              wr_done,     // the write takes effect in this cycle
  input  wire logic              wr_error,    // the write is refused
  input  wire logic              committing,  // a commit is under way

  output logic [5:0]             rd_line,   // line of registers that is read
  output logic [11:0]            rd_addr,   // of AXI4-Lite
  input  wire logic              rd_error,  // to it
  input  wire logic [LINE_W-1:0] line       // registers of `rd_line`
);
  logic        axil_valid;
  logic [11:0] axil_addr;
  logic [31:0] axil_data, axil_mask;

  nf_axil_slave u_axil (
    .clk, .rst_n,
    `NF_AXIL_CONNECT,
    .wr_valid (axil_valid), .wr_addr (axil_addr),
    .wr_data (axil_data), .wr_mask (axil_mask),
    .wr_done  (wr_done && !in_band), .wr_error,
    .rd_addr, .rd_error,
    .rd_data  (line[int'(rd_addr[5:2]) * 32 +: 32]),
    .rd_wait  (ctrl_bus.read || (in_band && !committing))
  );

  assign in_band   = ctrl_bus.lock;
  assign ctrl_free = !axil_valid;
  assign ctrl_done = wr_done && in_band;
  assign wr_valid  = in_band ? ctrl_bus.write : axil_valid;
  assign wr_addr   = in_band ? {ctrl_bus.line, ctrl_bus.word, 2'b00} : axil_addr;
  assign wr_data   = in_band ? ctrl_bus.data : axil_data;
  assign wr_mask   = in_band ? '1 : axil_mask;
  assign rd_line   = ctrl_bus.read ? ctrl_bus.line : rd_addr[11:6];
endmodule

`default_nettype wire
