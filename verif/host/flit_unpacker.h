// SPDX-License-Identifier: Apache-2.0
// Takes protocol flits and all-data flits of the device apart, and checks every rule that a memory
// device can break there (spec: docs/spec/cxl-mem-68b.md §4 slots, §5 messages, §6 rollover).
#pragma once

#include "host_state.h"

class FlitUnpacker {
 public:
  explicit FlitUnpacker(HostState& state) : state_(state) {}

  // So many data slots are owed that the next flit is an all-data flit.
  bool owes_data_flit() const { return owed_ >= kSlots; }
  void data_flit(const uint32_t* flit);
  void protocol_flit(const uint32_t* flit);

 private:
  struct Pending {  // a read whose data are on their way
    uint32_t op;
    unsigned chunks;
  };
  static constexpr unsigned kMaxPending = 4;  // one data header a flit, at most 7 slots owed
  struct Count {
    unsigned ndr, drs;
  };

  Count take_slot(unsigned slot, unsigned format, const uint32_t* flit);
  void take_ndr(Bits ndr);
  void take_drs(Bits drs, uint32_t header);
  void take_chunk(const uint32_t* words);
  uint32_t answered_op(const char* kind, uint32_t tag, uint32_t ldid, uint8_t wanted);

  HostState& state_;
  Pending pending_[kMaxPending];  // a ring
  unsigned first_ = 0, count_ = 0, owed_ = 0;
};
