// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <cstring>

namespace {

// splitmix64: garbage that is the same for the same seed and place.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

}  // namespace

Memory::Memory(unsigned lines_log2, uint32_t seed, nf_figures& figures, Fault& fault)
    : lines_(UINT64_C(1) << lines_log2),
      seed_(seed),
      figures_(figures),
      fault_(fault),
      pages_(static_cast<size_t>((lines_ + kPageLines - 1) / kPageLines)) {}

Memory::Page& Memory::page_of(uint64_t line) {
  auto& slot = pages_[line / kPageLines];
  if (!slot) {
    slot = std::make_unique<Page>();
    uint64_t at = (static_cast<uint64_t>(seed_) << 40) ^ (line / kPageLines << 10);
    for (auto& words : slot->words) {
      for (size_t i = 0; i < kLineWords; i += 2) {
        const uint64_t value = mix(at++);
        std::memcpy(&words[i], &value, 8);
      }
    }
  }
  return *slot;
}

Memory::Burst Memory::take(const char* channel, uint32_t id, const uint32_t* address,
                           uint32_t length, uint32_t size, uint32_t burst, uint64_t now) {
  const uint64_t byte = address[0] | static_cast<uint64_t>(address[1]) << 32;
  Burst out{id, byte >> 6, length + 1, 0, now + kLatency};
  if (byte & 63) fault_.set(now, "AXI: %sADDR %#" PRIx64 " is not aligned", channel, byte);
  if (size != 6) fault_.set(now, "AXI: %sSIZE is %u, not 6 (64 bytes)", channel, size);
  if (burst != 1) fault_.set(now, "AXI: %sBURST is %u, not INCR", channel, burst);
  if (out.line % 64 + length >= 64) {
    fault_.set(now, "AXI: %s burst at %#" PRIx64 " crosses a 4 KB boundary", channel, byte);
  }
  if (out.line + out.beats > lines_) {
    fault_.set(now, "AXI: %s burst at %#" PRIx64 " leaves the memory", channel, byte);
    out.line = 0;
  }
  return out;
}

void Memory::land(uint64_t line, const Beat& beat) {
  Page& page = page_of(line);
  uint32_t* words = page.words[line % kPageLines];
  bool& poison = page.poison[line % kPageLines];
  if (beat.strobe == UINT64_MAX) {
    std::memcpy(words, beat.words, 64);
    poison = beat.poison;  // only a full write clears it
    ++figures_.memory_writes;
  } else {
    auto* to = reinterpret_cast<uint8_t*>(words);
    const auto* from = reinterpret_cast<const uint8_t*>(beat.words);
    for (unsigned i = 0; i < 64; ++i) {
      if (beat.strobe >> i & 1) to[i] = from[i];
    }
    poison |= beat.poison;
    ++figures_.memory_partial_writes;
  }
  figures_.memory_poisoned_writes += beat.poison;
}

void Memory::take_write_beats(uint64_t now) {
  while (!writes_.empty() && !beats_.empty()) {
    Burst& burst = writes_.front();
    const Beat& beat = beats_.front();
    land(burst.line + burst.done, beat);
    ++burst.done;
    if (beat.last != (burst.done == burst.beats)) {
      fault_.set(now, "AXI: WLAST is %d at beat %u of %u", beat.last, burst.done, burst.beats);
    }
    if (burst.done == burst.beats) {
      burst.ready = now + kLatency;
      answers_.push_back(burst);
      writes_.pop_front();
    }
    beats_.pop_front();
  }
}

void Memory::show_read(ToDevice& host, uint64_t now) {
  host.m_rvalid = !reads_.empty() && reads_.front().ready <= now;
  if (!host.m_rvalid) return;
  const Burst& burst = reads_.front();
  const uint64_t line = burst.line + burst.done;
  Page& page = page_of(line);
  std::memcpy(host.m_rdata, page.words[line % kPageLines], 64);
  host.m_ruser = page.poison[line % kPageLines];
  host.m_rid = burst.id;
  host.m_rlast = burst.done + 1 == burst.beats;
}

void Memory::clock(const FromDevice& device, ToDevice& host, uint64_t now) {
  if (device.m_awvalid && host.m_awready) {
    writes_.push_back(take("AW", device.m_awid, device.m_awaddr, device.m_awlen,
                           device.m_awsize, device.m_awburst, now));
  }
  if (device.m_wvalid && host.m_wready) {
    Beat& beat = beats_.emplace_back();
    std::memcpy(beat.words, device.m_wdata, 64);
    beat.strobe = device.m_wstrb[0] | static_cast<uint64_t>(device.m_wstrb[1]) << 32;
    beat.last = device.m_wlast & 1;
    beat.poison = device.m_wuser & 1;
  }
  take_write_beats(now);
  if (device.m_arvalid && host.m_arready) {
    reads_.push_back(take("AR", device.m_arid, device.m_araddr, device.m_arlen, device.m_arsize,
                          device.m_arburst, now));
  }
  if (!host.m_rvalid) {
    show_read(host, now);
  } else if (device.m_rready) {
    ++figures_.memory_reads;
    if (++reads_.front().done == reads_.front().beats) reads_.pop_front();
    show_read(host, now);
  }
  if (!host.m_bvalid || device.m_bready) {
    host.m_bvalid = !answers_.empty() && answers_.front().ready <= now;
    if (host.m_bvalid) {
      host.m_bid = answers_.front().id;
      answers_.pop_front();
    }
  }
  host.m_awready = host.m_wready = host.m_arready = 1;
}
