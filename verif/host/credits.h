// SPDX-License-Identifier: Apache-2.0
// Credit nibbles of a flit header: CXL.mem flag and code (spec: docs/spec/cxl-mem-68b.md §3).
#pragma once

#include "cxl_wire.h"

namespace credits {

constexpr uint32_t kMem = 8, kCode = 7;  // the flag is 0 for CXL.cache

// Credits that a nibble returns.
inline uint32_t decode(uint32_t nibble) { return wire::CREDIT_SIZES[nibble & kCode]; }

// They are credits of CXL.cache, which a memory device does not have.
inline bool is_cache(uint32_t nibble) { return nibble & kCode && !(nibble & kMem); }

// The nibble of the largest size that does not exceed `count`; 0 for none.
inline uint32_t encode(uint32_t count) {
  uint32_t code = kCode;
  while (wire::CREDIT_SIZES[code] > count) --code;
  return code ? kMem | code : 0;
}

}  // namespace credits
