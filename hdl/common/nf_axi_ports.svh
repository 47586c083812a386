// SPDX-License-Identifier: Apache-2.0
// Port lists of the AXI interfaces, and the connections of a port list to the one above it by name.
// Each is a list without a comma at its end. A line is one beat: 64 bytes with 64 strobes.
`ifndef NF_AXI_PORTS_SVH
`define NF_AXI_PORTS_SVH

// AXI4 manager, write side. WUSER[0] marks a beat as poisoned.
`define NF_AXI_WRITE_PORTS(ADDR_W) \
  output logic [2:0]                m_axi_awid, \
  output logic [(ADDR_W)-1:0]       m_axi_awaddr, \
  output logic [7:0]                m_axi_awlen, \
  output logic [2:0]                m_axi_awsize, \
  output logic [1:0]                m_axi_awburst, \
  output logic                      m_axi_awvalid, \
  input  wire logic                 m_axi_awready, \
  output logic [511:0]              m_axi_wdata, \
  output logic [63:0]               m_axi_wstrb, \
  output logic                      m_axi_wlast, \
  output logic [0:0]                m_axi_wuser, \
  output logic                      m_axi_wvalid, \
  input  wire logic                 m_axi_wready, \
  input  wire logic [2:0]           m_axi_bid, \
  input  wire logic [1:0]           m_axi_bresp, \
  input  wire logic                 m_axi_bvalid, \
  output logic                      m_axi_bready

`define NF_AXI_WRITE_CONNECT \
  .m_axi_awid, .m_axi_awaddr, .m_axi_awlen, .m_axi_awsize, .m_axi_awburst, .m_axi_awvalid, \
  .m_axi_awready, .m_axi_wdata, .m_axi_wstrb, .m_axi_wlast, .m_axi_wuser, .m_axi_wvalid, \
  .m_axi_wready, .m_axi_bid, .m_axi_bresp, .m_axi_bvalid, .m_axi_bready

// AXI4 manager, read side. RUSER[0] marks a beat as poisoned.
`define NF_AXI_READ_PORTS(ADDR_W) \
  output logic [2:0]                m_axi_arid, \
  output logic [(ADDR_W)-1:0]       m_axi_araddr, \
  output logic [7:0]                m_axi_arlen, \
  output logic [2:0]                m_axi_arsize, \
  output logic [1:0]                m_axi_arburst, \
  output logic                      m_axi_arvalid, \
  input  wire logic                 m_axi_arready, \
  input  wire logic [2:0]           m_axi_rid, \
  input  wire logic [511:0]         m_axi_rdata, \
  input  wire logic [1:0]           m_axi_rresp, \
  input  wire logic                 m_axi_rlast, \
  input  wire logic [0:0]           m_axi_ruser, \
  input  wire logic                 m_axi_rvalid, \
  output logic                      m_axi_rready

`define NF_AXI_READ_CONNECT \
  .m_axi_arid, .m_axi_araddr, .m_axi_arlen, .m_axi_arsize, .m_axi_arburst, .m_axi_arvalid, \
  .m_axi_arready, .m_axi_rid, .m_axi_rdata, .m_axi_rresp, .m_axi_rlast, .m_axi_ruser, \
  .m_axi_rvalid, .m_axi_rready

// AXI4-Lite subordinate, 32 bits of data.
`define NF_AXIL_PORTS(ADDR_W) \
  input  wire logic [(ADDR_W)-1:0]  s_axil_awaddr, \
  input  wire logic [2:0]           s_axil_awprot, \
  input  wire logic                 s_axil_awvalid, \
  output logic                      s_axil_awready, \
  input  wire logic [31:0]          s_axil_wdata, \
  input  wire logic [3:0]           s_axil_wstrb, \
  input  wire logic                 s_axil_wvalid, \
  output logic                      s_axil_wready, \
  output logic [1:0]                s_axil_bresp, \
  output logic                      s_axil_bvalid, \
  input  wire logic                 s_axil_bready, \
  input  wire logic [(ADDR_W)-1:0]  s_axil_araddr, \
  input  wire logic [2:0]           s_axil_arprot, \
  input  wire logic                 s_axil_arvalid, \
  output logic                      s_axil_arready, \
  output logic [31:0]               s_axil_rdata, \
  output logic [1:0]                s_axil_rresp, \
  output logic                      s_axil_rvalid, \
  input  wire logic                 s_axil_rready

`define NF_AXIL_CONNECT \
  .s_axil_awaddr, .s_axil_awprot, .s_axil_awvalid, .s_axil_awready, .s_axil_wdata, .s_axil_wstrb, \
  .s_axil_wvalid, .s_axil_wready, .s_axil_bresp, .s_axil_bvalid, .s_axil_bready, .s_axil_araddr, \
  .s_axil_arprot, .s_axil_arvalid, .s_axil_arready, .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, \
  .s_axil_rready

`endif
