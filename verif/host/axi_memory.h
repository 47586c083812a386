// SPDX-License-Identifier: Apache-2.0
// AXI4 subordinate memory behind the controller: 64-byte lines, poison beside each.
//
// Pages come into being when they are touched, full of garbage: a device must never take for state
// what it has not written. Every burst is checked against the rules that an AXI4 manager can break.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "fault.h"
#include "flit.h"
#include "nf_bulk.h"
#include "nf_pins.h"

class AxiMemory {
 public:
  AxiMemory(unsigned lines_log2, uint32_t seed, const nf_memory& timing, nf_figures& figures,
            Fault& fault);

  // One clock: `device` as it is before the edge, `host` what it was shown; the next to be shown.
  void clock(const FromDevice& device, ToDevice& host);

 private:
  static constexpr unsigned kPageLines = 64;

  struct Page {
    uint8_t bytes[kPageLines][kLineBytes];
    bool poison[kPageLines];
  };
  struct Beat {
    uint8_t bytes[kLineBytes];
    uint64_t strobe;
    bool last, poison;
  };
  struct Burst {
    uint32_t id;
    uint64_t line;
    unsigned beats, done;
    uint64_t ready;
  };

  Page& page_of(uint64_t line);
  Burst take(const char* channel, uint32_t id, uint64_t address, uint32_t length, uint32_t size,
             uint32_t burst);
  void take_write_beats();
  void land(uint64_t line, const Beat& beat);
  void show_read(ToDevice& host);
  uint64_t now() const { return figures_.cycles; }
  uint64_t due() const { return now() + timing_.latency; }
  bool takes();

  uint64_t lines_;
  uint32_t seed_;
  nf_memory timing_;
  nf_figures& figures_;
  Fault& fault_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::deque<Burst> writes_, answers_, reads_;
  std::deque<Beat> beats_;  // data may come before their address
  uint64_t read_free_ = 0, write_free_ = 0;  // clock from which a beat may move
  uint64_t draws_ = 0;
};
