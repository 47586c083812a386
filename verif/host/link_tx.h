// SPDX-License-Identifier: Apache-2.0
// The host's sender: initialisation, acknowledgements, credits, and what the packer gives
// (spec: docs/spec/cxl-mem-68b.md §3, §7, §8, §9).
#pragma once

#include "flit_packer.h"
#include "nf_pins.h"

class LinkTx {
 public:
  explicit LinkTx(HostState& state) : state_(state), packer_(state) {}

  // One clock: the flit that the device is shown next, if any, and if it is time for one.
  void clock(ToDevice& to, bool flit_time);

 private:
  bool choose(uint32_t* flit);
  bool may_pack() const;
  bool llcrd_is_due();
  void make_llcrd(uint32_t* flit);
  uint32_t take_credits();

  HostState& state_;
  FlitPacker packer_;
  uint32_t flush_ = 0;    // clocks since a flit with credits has left
  bool initial_ = true;   // part of the first grant has not left
};
