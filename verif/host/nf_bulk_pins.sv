// SPDX-License-Identifier: Apache-2.0
// The controller with its ports gathered in two vectors, 32 bits or a multiple of them a port, in the
// order of pins.h.

`default_nettype none

module nf_bulk_pins #(
  parameter int REGIONS        = 8,
  parameter int SLOTS          = 64,
  parameter int CNT_W          = 8,
  parameter int MEM_LINES_LOG2 = 20,
  parameter int RETRY_DEPTH    = 64,
  parameter int RETRY_TIMEOUT  = 4096,
  parameter int REQ_CREDITS    = 64,
  parameter int RWD_CREDITS    = 32
) (
  input  wire logic             clk,
  input  wire logic [32*57-1:0] to_device,
  output logic [32*65-1:0]      from_device
);
  localparam int ADDR_W = MEM_LINES_LOG2 + 6;

  logic                     rst_n;
  logic                     rx_valid, tx_valid, tx_ready, phy_up, retrain_request;
  logic [15:0]              rx_protocol_id, tx_protocol_id;
  logic [527:0]             rx_flit, tx_flit;
  logic                     awvalid, awready, wvalid, wready, bvalid, bready;
  logic                     arvalid, arready, rvalid, rready;
  logic [11:0]              awaddr, araddr;
  logic [31:0]              wdata, rdata;
  logic [1:0]               bresp, rresp;
  logic                     m_awvalid, m_awready, m_wvalid, m_wready, m_wlast, m_bvalid, m_bready;
  logic                     m_arvalid, m_arready, m_rvalid, m_rready, m_rlast;
  logic [0:0]               m_wuser, m_ruser;
  logic [2:0]               m_awid, m_bid, m_arid, m_rid, m_awsize, m_arsize;
  logic [7:0]               m_awlen, m_arlen;
  logic [1:0]               m_awburst, m_arburst, m_bresp, m_rresp;
  logic [ADDR_W-1:0]        m_awaddr, m_araddr;
  logic [511:0]             m_wdata, m_rdata;
  logic [63:0]              m_wstrb;
  /* verilator lint_off UNUSEDSIGNAL */
  logic                     irq;
  /* verilator lint_on UNUSEDSIGNAL */

  // The first word of pins.h is the lowest one.
  assign from_device = {
    32'(m_rready),
    32'(m_arvalid), 32'(m_arburst), 32'(m_arsize), 32'(m_arlen), 64'(m_araddr), 32'(m_arid),
    32'(m_bready),
    32'(m_wvalid), 32'(m_wuser), 32'(m_wlast), m_wstrb, m_wdata,
    32'(m_awvalid), 32'(m_awburst), 32'(m_awsize), 32'(m_awlen), 64'(m_awaddr), 32'(m_awid),
    32'(rvalid), 32'(rresp), rdata, 32'(arready), 32'(bvalid), 32'(bresp), 32'(wready), 32'(awready),
    32'(retrain_request), 544'(tx_flit), 32'(tx_protocol_id), 32'(tx_valid)};

  assign rst_n          = to_device[0];
  assign rx_valid       = to_device[32*1];
  assign rx_protocol_id = to_device[32*2 +: 16];
  assign rx_flit        = to_device[32*3 +: 528];
  assign tx_ready       = to_device[32*20];
  assign phy_up         = to_device[32*21];
  assign awaddr         = to_device[32*22 +: 12];
  assign awvalid        = to_device[32*23];
  assign wdata          = to_device[32*24 +: 32];
  assign wvalid         = to_device[32*25];
  assign bready         = to_device[32*26];
  assign araddr         = to_device[32*27 +: 12];
  assign arvalid        = to_device[32*28];
  assign rready         = to_device[32*29];
  assign m_awready      = to_device[32*30];
  assign m_wready       = to_device[32*31];
  assign m_bid          = to_device[32*32 +: 3];
  assign m_bresp        = to_device[32*33 +: 2];
  assign m_bvalid       = to_device[32*34];
  assign m_arready      = to_device[32*35];
  assign m_rid          = to_device[32*36 +: 3];
  assign m_rdata        = to_device[32*37 +: 512];
  assign m_rresp        = to_device[32*53 +: 2];
  assign m_rlast        = to_device[32*54];
  assign m_ruser        = to_device[32*55 +: 1];
  assign m_rvalid       = to_device[32*56];

  nf_controller #(
    .REGIONS(REGIONS), .SLOTS(SLOTS), .CNT_W(CNT_W), .MEM_LINES_LOG2(MEM_LINES_LOG2),
    .RETRY_DEPTH(RETRY_DEPTH), .RETRY_TIMEOUT(RETRY_TIMEOUT), .REQ_CREDITS(REQ_CREDITS),
    .RWD_CREDITS(RWD_CREDITS)
  ) dut (
    .clk, .rst_n,
    .rx_valid, .rx_protocol_id, .rx_flit, .tx_valid, .tx_protocol_id, .tx_flit, .tx_ready,
    .phy_up, .retrain_request,
    .s_axil_awaddr (awaddr), .s_axil_awprot (3'd0), .s_axil_awvalid (awvalid),
    .s_axil_awready (awready), .s_axil_wdata (wdata), .s_axil_wstrb (4'hF),
    .s_axil_wvalid (wvalid), .s_axil_wready (wready), .s_axil_bresp (bresp),
    .s_axil_bvalid (bvalid), .s_axil_bready (bready), .s_axil_araddr (araddr),
    .s_axil_arprot (3'd0), .s_axil_arvalid (arvalid), .s_axil_arready (arready),
    .s_axil_rdata (rdata), .s_axil_rresp (rresp), .s_axil_rvalid (rvalid),
    .s_axil_rready (rready),
    .m_axi_awid (m_awid), .m_axi_awaddr (m_awaddr), .m_axi_awlen (m_awlen),
    .m_axi_awsize (m_awsize), .m_axi_awburst (m_awburst), .m_axi_awvalid (m_awvalid),
    .m_axi_awready (m_awready), .m_axi_wdata (m_wdata), .m_axi_wstrb (m_wstrb),
    .m_axi_wlast (m_wlast), .m_axi_wuser (m_wuser), .m_axi_wvalid (m_wvalid),
    .m_axi_wready (m_wready), .m_axi_bid (m_bid), .m_axi_bresp (m_bresp),
    .m_axi_bvalid (m_bvalid), .m_axi_bready (m_bready),
    .m_axi_arid (m_arid), .m_axi_araddr (m_araddr), .m_axi_arlen (m_arlen),
    .m_axi_arsize (m_arsize), .m_axi_arburst (m_arburst), .m_axi_arvalid (m_arvalid),
    .m_axi_arready (m_arready), .m_axi_rid (m_rid), .m_axi_rdata (m_rdata),
    .m_axi_rresp (m_rresp), .m_axi_rlast (m_rlast), .m_axi_ruser (m_ruser),
    .m_axi_rvalid (m_rvalid), .m_axi_rready (m_rready),
    .irq
  );
endmodule

`default_nettype wire
