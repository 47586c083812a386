// SPDX-License-Identifier: Apache-2.0
#include "host.h"

namespace {

constexpr uint64_t kResetClocks = 8, kPhyClocks = 4;

}  // namespace

Host::Host(unsigned mem_lines_log2, uint32_t seed, uint32_t grant)
    : memory_(mem_lines_log2, seed, figures_, fault_), grant_(grant), op_of_tag_(1 << 16, kNobody) {}

void Host::begin(const nf_block& block) {
  block_ = block;
  cursor_ = prefix_ = 0;
  progress_ = now();
  std::memset(block.answers, 0, block.count * sizeof *block.answers);
  for (uint32_t i = 0; i < block.count; ++i) {
    const nf_op& op = block.ops[i];
    const bool wrong = op.kind > NF_REG_READ || op.ldid > 15 || op.after > i ||
                       (op.kind == NF_WRITE && op.line >= block.sent_lines) ||
                       (op.kind == NF_READ && op.line >= block.got_lines);
    if (wrong) fault_.set(now(), "operation %u of the block makes no sense", i);
  }
}

void Host::answer(uint32_t op, uint64_t value) {
  block_.answers[op] = value | NF_ANSWERED;
  while (prefix_ < block_.count && (block_.answers[prefix_] & NF_ANSWERED)) ++prefix_;
  progress_ = now();
}

void Host::registers(const FromDevice& device, ToDevice& to) {
  to.bready = to.rready = 1;
  if (register_ == Register::kIdle) {
    if (!ready_ || cursor_ != prefix_ || cursor_ == block_.count) return;
    const nf_op& op = block_.ops[cursor_];
    if (op.kind == NF_REG_WRITE) {
      to.awaddr = static_cast<uint32_t>(op.address);
      to.wdata = op.line;
      to.awvalid = to.wvalid = 1;
      register_ = Register::kWrite;
    } else if (op.kind == NF_REG_READ) {
      to.araddr = static_cast<uint32_t>(op.address);
      to.arvalid = 1;
      register_ = Register::kRead;
    }
    return;
  }
  if (device.awready) to.awvalid = 0;
  if (device.wready) to.wvalid = 0;
  if (device.arready) to.arvalid = 0;
  const bool done = register_ == Register::kWrite ? device.bvalid : device.rvalid;
  if (!done) return;
  const uint32_t response = register_ == Register::kWrite ? device.bresp : device.rresp;
  if (response) {
    fault_.set(now(), "register access at %#" PRIx64 " was answered by %u, not OKAY",
               block_.ops[cursor_].address, response);
  }
  const uint64_t value = register_ == Register::kRead ? device.rdata : 0;
  register_ = Register::kIdle;
  answer(cursor_++, value);
}

void Host::clock(const FromDevice& device, ToDevice& to) {
  ++figures_.cycles;
  to.tx_ready = 1;
  to.rst_n = now() > kResetClocks;
  to.phy_up = now() > kResetClocks + kPhyClocks;
  if (!to.phy_up) return;
  if (device.tx_valid) receive(device);
  memory_.clock(device, to, now());
  registers(device, to);
  send(to);
  if (device.retrain_request) fault_.set(now(), "the device asks for a retrain of the link");
  if (!ready_) ready_ = param_received_ && param_sent_ && plain_credits_ && data_credits_;
  if (now() - progress_ > kPatience && busy()) {
    fault_.set(now(), "no answer for %" PRIu64 " clocks; operation %u of %u waits (address %#"
               PRIx64 ")", kPatience, prefix_, block_.count,
               block_.count ? block_.ops[prefix_].address : 0);
  }
}
