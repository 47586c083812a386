// SPDX-License-Identifier: Apache-2.0
// A flit as 17 words of 32 bits, its slots and their bit fields (spec: docs/spec/cxl-mem-68b.md §1).
#pragma once

#include <cstdint>
#include <cstring>

using Bits = unsigned __int128;  // a slot, or a message header inside it

constexpr Bits bits(uint64_t high, uint64_t low) { return Bits{high} << 64 | low; }

constexpr unsigned kSlots = 4, kSlotBytes = 16, kSlotWords = kSlotBytes / 4;
constexpr unsigned kPayloadWords = kSlots * kSlotWords;  // then 16 bits of CRC
constexpr unsigned kFlitWords = kPayloadWords + 1;
constexpr unsigned kLineBytes = 64, kChunks = kLineBytes / kSlotBytes;  // chunk: a slot of data
constexpr unsigned kHeaderBits = 32;  // of a flit, at the bottom of slot 0 (§3)

// Bits [lsb + width - 1 : lsb] of a slot or of a message.
struct Field {
  unsigned lsb, width;
  constexpr uint32_t get(Bits from) const {
    return static_cast<uint32_t>(from >> lsb) & ((UINT32_C(1) << width) - 1);
  }
  constexpr Bits put(uint64_t value) const { return Bits{value} << lsb; }
};

// A message header inside a slot; an NDR of 28 bits has its DevLoad elsewhere (`devload`, else 0; §4).
struct Part {
  bool drs;
  unsigned offset, devload;
};

// The bits that a slot may set, and its message headers.
struct SlotLayout {
  Bits live;
  unsigned count;
  Part parts[3];
};

inline Bits load_slot(const uint32_t* flit, unsigned slot) {
  Bits out;
  std::memcpy(&out, flit + kSlotWords * slot, kSlotBytes);
  return out;
}

inline void store_slot(uint32_t* flit, unsigned slot, Bits value) {
  std::memcpy(flit + kSlotWords * slot, &value, kSlotBytes);
}
