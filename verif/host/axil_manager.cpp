// SPDX-License-Identifier: Apache-2.0
#include "axil_manager.h"

void AxilManager::start(const nf_op& op, ToDevice& to) {
  if (op.kind == NF_REG_WRITE) {
    to.s_axil_awaddr = static_cast<uint32_t>(op.address);
    to.s_axil_wdata = op.line;
    to.s_axil_wstrb = 0xF;
    to.s_axil_awvalid = to.s_axil_wvalid = 1;
    access_ = Access::kWrite;
  } else if (op.kind == NF_REG_READ) {
    to.s_axil_araddr = static_cast<uint32_t>(op.address);
    to.s_axil_arvalid = 1;
    access_ = Access::kRead;
  }
}

void AxilManager::clock(const FromDevice& device, ToDevice& to) {
  HostState& s = state_;
  to.s_axil_bready = to.s_axil_rready = 1;
  if (access_ == Access::kNone) {
    if (s.ready && s.cursor == s.prefix && !s.block_done()) start(s.block.ops[s.cursor], to);
    return;
  }
  if (device.s_axil_awready) to.s_axil_awvalid = 0;
  if (device.s_axil_wready) to.s_axil_wvalid = 0;
  if (device.s_axil_arready) to.s_axil_arvalid = 0;
  const bool read = access_ == Access::kRead;
  if (!(read ? device.s_axil_rvalid : device.s_axil_bvalid)) return;
  const uint32_t response = read ? device.s_axil_rresp : device.s_axil_bresp;
  if (response) {
    s.fault.set("register access at %#" PRIx64 " was answered by %u, not OKAY",
                s.block.ops[s.cursor].address, response);
  }
  access_ = Access::kNone;
  s.answer(s.cursor++, read ? device.s_axil_rdata : 0);
}
