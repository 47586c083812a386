// SPDX-License-Identifier: Apache-2.0
// The ports of nf_controller (controller spec, section 7), 32 bits or a multiple of them a port, so
// that the same structure is a vector of words in a Verilog bench (nf_bulk_pins.sv has the same order).

#ifndef NF_PINS_H
#define NF_PINS_H

#include <cstddef>
#include <cstdint>

constexpr size_t kFlitWords = 17;  // 528 bits, the upper half of the last word is 0
constexpr size_t kLineWords = 16;

struct FromDevice {
  uint32_t tx_valid, tx_protocol_id, tx_flit[kFlitWords], retrain_request;
  uint32_t awready, wready, bresp, bvalid, arready, rdata, rresp, rvalid;
  uint32_t m_awid, m_awaddr[2], m_awlen, m_awsize, m_awburst, m_awvalid;
  uint32_t m_wdata[kLineWords], m_wstrb[2], m_wlast, m_wuser, m_wvalid;
  uint32_t m_bready;
  uint32_t m_arid, m_araddr[2], m_arlen, m_arsize, m_arburst, m_arvalid;
  uint32_t m_rready;
};

struct ToDevice {
  uint32_t rst_n;
  uint32_t rx_valid, rx_protocol_id, rx_flit[kFlitWords], tx_ready, phy_up;
  uint32_t awaddr, awvalid, wdata, wvalid, bready, araddr, arvalid, rready;
  uint32_t m_awready, m_wready, m_bid, m_bresp, m_bvalid;
  uint32_t m_arready, m_rid, m_rdata[kLineWords], m_rresp, m_rlast, m_ruser, m_rvalid;
};

constexpr size_t kFromWords = sizeof(FromDevice) / 4;
constexpr size_t kToWords = sizeof(ToDevice) / 4;
static_assert(kFromWords == 65 && kToWords == 57, "nf_bulk_pins.sv counts the same words");

#endif
