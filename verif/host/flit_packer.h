// SPDX-License-Identifier: Apache-2.0
// Packs operations of the block into protocol flits and all-data flits
// (spec: docs/spec/cxl-mem-68b.md §4 slots, §5 messages, §6 packing and rollover).
#pragma once

#include "host_state.h"

class FlitPacker {
 public:
  explicit FlitPacker(HostState& state) : state_(state) {}

  // More data are owed than a protocol flit holds: the next flit must be an all-data flit.
  bool owes_data_flit() const { return owed_ >= kSlots; }
  void pack_data_flit(uint32_t* flit);
  // A protocol flit would carry something. `room`: a data header may start its data flits.
  bool has_work(bool room) const { return owed_ || next(0, 0, room).kind != Kind::kNothing; }
  // Fills the slots; the header of the flit without acknowledgement and credits.
  uint32_t pack_protocol_flit(uint32_t* flit, bool room);

 private:
  static constexpr uint32_t kWindow = 1 << 15;  // operations without answer: tags stay unique
  static constexpr unsigned kRing = 2 * kChunks;
  enum class Kind { kNothing, kWrite, kRead };
  struct Next {
    Kind kind;
    uint32_t stream;  // its queue, or 1: it is of the stream beside
  };

  Kind startable(uint32_t at, uint32_t end, unsigned writes, unsigned reads, bool room) const;
  Kind sendable(const nf_op& op, unsigned writes, unsigned reads, bool room) const;
  Next next_of_queues(unsigned writes, unsigned reads, bool room) const;
  Next next(unsigned writes, unsigned reads, bool room) const;
  Bits start(Next next);
  void put_chunk(uint32_t* flit, unsigned slot);

  HostState& state_;
  uint32_t tag_ = 0;                   // of the next message
  uint32_t stream_ = 0;                // of the last message
  uint8_t chunks_[kRing][kSlotBytes];  // data slots owed, a ring
  unsigned first_ = 0, owed_ = 0;
};
