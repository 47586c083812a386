// SPDX-License-Identifier: Apache-2.0
// Everything outside the device: the host's end of the link, the manager of its registers, memory.
//
// Written for the rules of docs/spec/cxl-mem-68b.md; link-level retry is left out, because nothing
// here damages a flit: a RETRY.Req, or a flit that would need one, is a fault. Every rule that a
// device can break on the link is checked for every flit.
#pragma once

#include "axi_memory.h"
#include "axil_manager.h"
#include "link_rx.h"
#include "link_tx.h"

class Host {
 public:
  // `grant`: credits of each kind that the device gets.
  Host(unsigned mem_lines_log2, uint32_t seed, const nf_memory& memory,
       uint32_t grant = wire::LinkConfig::grant_plain);

  // Starts a block; its arrays must live until busy() is false.
  void begin(const nf_block& block);
  // The block is not done, or the link is not up.
  bool busy() const { return !state_.fault && (!state_.block_done() || !state_.ready); }
  // A narrower link: one flit in so many clocks, each way.
  void set_flit_clocks(uint32_t clocks) { flit_clocks_ = clocks; }
  // One rising edge: `device` as it was before, `to` what the device was shown then and, on return,
  // what it is shown next.
  void clock(const FromDevice& device, ToDevice& to);

  Fault& fault() { return state_.fault; }
  const nf_figures& figures() const { return state_.figures; }

 private:
  static constexpr uint64_t kResetClocks = 8, kPhyClocks = 4;
  static constexpr uint64_t kPatience = 20000;  // clocks without any answer

  uint64_t flit_clocks_ = 1;
  HostState state_;
  LinkTx tx_{state_};
  LinkRx rx_{state_};
  AxilManager registers_{state_};
  AxiMemory memory_;
};
