// SPDX-License-Identifier: Apache-2.0
// CRC-16 of a flit's 512 payload bits (spec: docs/spec/cxl-mem-68b.md §2).
#pragma once

#include <array>

#include "cxl_wire.h"

namespace crc16 {

using Tables = std::array<std::array<uint16_t, 256>, kLineBytes>;

// The CRC is linear: one table a payload byte, made of the columns of its eight bits. Column 0 is
// x^16 mod P, each next one x times the one before.
constexpr Tables make_tables() {
  Tables tables{};
  uint32_t column = wire::POLY & 0xFFFF;
  for (auto& table : tables) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      for (unsigned value = 0; value < (1u << bit); ++value) {
        table[value | (1u << bit)] = static_cast<uint16_t>(table[value] ^ column);
      }
      column <<= 1;
      if (column >> 16) column ^= wire::POLY;
    }
  }
  return tables;
}

inline constexpr Tables kTables = make_tables();

inline uint16_t of(const uint32_t* payload) {
  uint16_t crc = 0;
  for (unsigned word = 0; word < kPayloadWords; ++word) {
    const uint32_t value = payload[word];
    const auto* table = &kTables[4 * word];
    crc = static_cast<uint16_t>(crc ^ table[0][value & 255] ^ table[1][value >> 8 & 255] ^
                                table[2][value >> 16 & 255] ^ table[3][value >> 24]);
  }
  return crc;
}

}  // namespace crc16
