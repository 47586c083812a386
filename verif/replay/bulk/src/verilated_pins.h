// SPDX-License-Identifier: Apache-2.0
// The pins of the verilated controller to and from the structures of pins.h. Wide values are copied
// only where something is transferred.

#ifndef NF_VERILATED_PINS_H
#define NF_VERILATED_PINS_H

#include "Vnf.h"
#include "pins.h"

template <typename Wide, typename Word>
inline void copy_words(Wide& to, const Word& from, size_t words) {
  for (size_t i = 0; i < words; ++i) to[i] = from[i];
}

inline void split(uint32_t* to, uint64_t value) {
  to[0] = static_cast<uint32_t>(value);
  to[1] = static_cast<uint32_t>(value >> 32);
}

inline void sample(Vnf& top, FromDevice& pins) {
  pins.tx_valid = top.tx_valid;
  if (pins.tx_valid) {
    pins.tx_protocol_id = top.tx_protocol_id;
    copy_words(pins.tx_flit, top.tx_flit, kFlitWords);
  }
  pins.retrain_request = top.retrain_request;
  pins.awready = top.s_axil_awready;
  pins.wready = top.s_axil_wready;
  pins.bresp = top.s_axil_bresp;
  pins.bvalid = top.s_axil_bvalid;
  pins.arready = top.s_axil_arready;
  pins.rdata = top.s_axil_rdata;
  pins.rresp = top.s_axil_rresp;
  pins.rvalid = top.s_axil_rvalid;
  pins.m_awvalid = top.m_axi_awvalid;
  if (pins.m_awvalid) {
    pins.m_awid = top.m_axi_awid;
    split(pins.m_awaddr, top.m_axi_awaddr);
    pins.m_awlen = top.m_axi_awlen;
    pins.m_awsize = top.m_axi_awsize;
    pins.m_awburst = top.m_axi_awburst;
  }
  pins.m_wvalid = top.m_axi_wvalid;
  if (pins.m_wvalid) {
    copy_words(pins.m_wdata, top.m_axi_wdata, kLineWords);
    split(pins.m_wstrb, top.m_axi_wstrb);
    pins.m_wlast = top.m_axi_wlast;
    pins.m_wuser = top.m_axi_wuser;
  }
  pins.m_bready = top.m_axi_bready;
  pins.m_arvalid = top.m_axi_arvalid;
  if (pins.m_arvalid) {
    pins.m_arid = top.m_axi_arid;
    split(pins.m_araddr, top.m_axi_araddr);
    pins.m_arlen = top.m_axi_arlen;
    pins.m_arsize = top.m_axi_arsize;
    pins.m_arburst = top.m_axi_arburst;
  }
  pins.m_rready = top.m_axi_rready;
}

inline void drive(Vnf& top, const ToDevice& pins) {
  top.rst_n = pins.rst_n & 1;
  top.rx_valid = pins.rx_valid & 1;
  if (pins.rx_valid) {
    top.rx_protocol_id = static_cast<uint16_t>(pins.rx_protocol_id);
    copy_words(top.rx_flit, pins.rx_flit, kFlitWords);
  }
  top.tx_ready = pins.tx_ready & 1;
  top.phy_up = pins.phy_up & 1;
  top.s_axil_awaddr = pins.awaddr & 0xFFF;
  top.s_axil_awvalid = pins.awvalid & 1;
  top.s_axil_wdata = pins.wdata;
  top.s_axil_wstrb = 0xF;
  top.s_axil_wvalid = pins.wvalid & 1;
  top.s_axil_bready = pins.bready & 1;
  top.s_axil_araddr = pins.araddr & 0xFFF;
  top.s_axil_arvalid = pins.arvalid & 1;
  top.s_axil_rready = pins.rready & 1;
  top.m_axi_awready = pins.m_awready & 1;
  top.m_axi_wready = pins.m_wready & 1;
  top.m_axi_bvalid = pins.m_bvalid & 1;
  top.m_axi_bid = pins.m_bid & 7;
  top.m_axi_bresp = pins.m_bresp & 3;
  top.m_axi_arready = pins.m_arready & 1;
  top.m_axi_rvalid = pins.m_rvalid & 1;
  if (pins.m_rvalid) {
    top.m_axi_rid = pins.m_rid & 7;
    copy_words(top.m_axi_rdata, pins.m_rdata, kLineWords);
    top.m_axi_rresp = pins.m_rresp & 3;
    top.m_axi_rlast = pins.m_rlast & 1;
    top.m_axi_ruser = pins.m_ruser & 1;
  }
}

#endif
