// SPDX-License-Identifier: Apache-2.0
// The host's receiver: frame, CRC, control flits, acknowledgements and credits; slots go to the
// unpacker (spec: docs/spec/cxl-mem-68b.md §1, §2, §3, §7, §8, §9).
#pragma once

#include "flit_unpacker.h"
#include "nf_pins.h"

class LinkRx {
 public:
  explicit LinkRx(HostState& state) : state_(state), unpacker_(state) {}

  // A flit of the device.
  void receive(const FromDevice& device);

 private:
  void control_flit(const uint32_t* flit);
  void init_param(Bits slot);
  void acknowledged(uint32_t count);
  void credited(uint32_t header);

  HostState& state_;
  FlitUnpacker unpacker_;
  bool active_ = false;  // the device has sent more than its initialisation
};
