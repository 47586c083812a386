// SPDX-License-Identifier: Apache-2.0
// AXI4-Lite manager for the registers of the device: one access at a time.
#pragma once

#include "host_state.h"
#include "nf_pins.h"

class AxilManager {
 public:
  explicit AxilManager(HostState& state) : state_(state) {}

  // One clock: starts the register access that is next in the block, or ends the one under way.
  void clock(const FromDevice& device, ToDevice& to);

 private:
  enum class Access { kNone, kWrite, kRead };
  void start(const nf_op& op, ToDevice& to);

  HostState& state_;
  Access access_ = Access::kNone;
};
