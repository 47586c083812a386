// SPDX-License-Identifier: Apache-2.0
#include "host.h"

namespace {

// The line numbers of the block's data hold what the operation waits for.
bool needs_fit(const nf_op& op, const nf_block& block) {
  const uint64_t bytes = uint64_t{kLineBytes} * op.after + sizeof(uint32_t) * block.queues;
  return bytes <= uint64_t{kLineBytes} * block.sent_lines;
}

}  // namespace

Host::Host(unsigned mem_lines_log2, uint32_t seed, const nf_memory& memory, uint32_t grant)
    : memory_(mem_lines_log2, seed, memory, state_.figures, state_.fault) {
  state_.ndr_return = state_.drs_return = grant;
}

void Host::begin(const nf_block& block) {
  constexpr unsigned kLdids = 1 << wire::req::ldid.width;
  state_.block = block;
  state_.prefix = state_.beside = 0;
  state_.cursor = block.beside;
  state_.progress = state_.figures.cycles;
  std::memset(block.answers, 0, block.count * sizeof *block.answers);
  for (uint32_t i = 0; i < block.count; ++i) {
    const nf_op& op = block.ops[i];
    const bool wrong = op.kind > NF_REG_READ || op.ldid >= kLdids ||
                       (!block.queues && op.after > i) ||
                       (op.kind == NF_WRITE && op.line >= block.sent_lines) ||
                       (op.kind == NF_READ && op.line >= block.got_lines) ||
                       ((block.beside || block.queues) && op.kind > NF_READ) ||
                       (block.queues && (op.queue >= block.queues || !needs_fit(op, block)));
    if (wrong) {
      state_.fault.set("operation %u of the block makes no sense", i);
      return;
    }
  }
  state_.queues.assign(block.queues, {});
  if (!block.queues) return;
  for (uint32_t i = 0; i < block.count; ++i) state_.queues[block.ops[i].queue].ops.push_back(i);
  for (HostState::Queue& queue : state_.queues) state_.advance(queue);
}

void Host::clock(const FromDevice& device, ToDevice& to) {
  HostState& s = state_;
  const uint64_t now = ++s.figures.cycles;
  const bool came = device.tx_valid && to.tx_ready, flit_time = now % flit_clocks_ == 0;
  to.tx_ready = flit_time;
  to.rst_n = now > kResetClocks;
  to.phy_up = now > kResetClocks + kPhyClocks;
  if (!to.phy_up) return;
  if (came) rx_.receive(device);
  memory_.clock(device, to);
  registers_.clock(device, to);
  tx_.clock(to, flit_time);
  if (device.retrain_request) s.fault.set("the device asks for a retrain of the link");
  if (!s.ready) s.ready = s.param_received && s.param_sent && s.req_credits && s.rwd_credits;
  if (now - s.progress > kPatience && busy()) {
    s.fault.set("no answer for %" PRIu64 " clocks; operation %u of %u waits (address %#" PRIx64 ")",
                kPatience, s.prefix, s.block.count,
                s.block_done() ? 0 : s.block.ops[s.prefix].address);
  }
}
