// SPDX-License-Identifier: Apache-2.0
#include "axi_memory.h"

#include <cstring>

namespace {

// splitmix64: garbage that is the same for the same seed and place.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

constexpr uint32_t kSize64 = 6, kIncr = 1;  // AxSIZE of a line, AxBURST
constexpr unsigned kBoundaryLines = 4096 / kLineBytes;

// A port as one number, whether it takes one word or two.
uint64_t number(uint32_t word) { return word; }
uint64_t number(const uint32_t (&words)[2]) { return words[0] | uint64_t{words[1]} << 32; }

}  // namespace

AxiMemory::AxiMemory(unsigned lines_log2, uint32_t seed, const nf_memory& timing,
                     nf_figures& figures, Fault& fault)
    : lines_(UINT64_C(1) << lines_log2),
      seed_(seed),
      timing_(timing),
      figures_(figures),
      fault_(fault),
      pages_(static_cast<size_t>((lines_ + kPageLines - 1) / kPageLines)) {}

AxiMemory::Page& AxiMemory::page_of(uint64_t line) {
  auto& slot = pages_[line / kPageLines];
  if (!slot) {
    slot = std::make_unique<Page>();
    uint64_t at = (static_cast<uint64_t>(seed_) << 40) ^ (line / kPageLines << 10);
    for (auto& line : slot->bytes) {
      for (size_t i = 0; i < kLineBytes; i += sizeof at) {
        const uint64_t value = mix(at++);
        std::memcpy(&line[i], &value, sizeof value);
      }
    }
  }
  return *slot;
}

AxiMemory::Burst AxiMemory::take(const char* channel, uint32_t id, uint64_t address,
                                 uint32_t length, uint32_t size, uint32_t burst) {
  Burst out{id, address / kLineBytes, length + 1, 0, due()};
  if (address % kLineBytes) {
    fault_.set("AXI: %sADDR %#" PRIx64 " is not aligned", channel, address);
  }
  if (size != kSize64) fault_.set("AXI: %sSIZE is %u, not 6 (64 bytes)", channel, size);
  if (burst != kIncr) fault_.set("AXI: %sBURST is %u, not INCR", channel, burst);
  if (out.line % kBoundaryLines + length >= kBoundaryLines) {
    fault_.set("AXI: %s burst at %#" PRIx64 " crosses a 4 KB boundary", channel, address);
  }
  if (out.line + out.beats > lines_) {
    fault_.set("AXI: %s burst at %#" PRIx64 " leaves the memory", channel, address);
    out.line = 0;
  }
  return out;
}

void AxiMemory::land(uint64_t line, const Beat& beat) {
  Page& page = page_of(line);
  uint8_t* bytes = page.bytes[line % kPageLines];
  bool& poison = page.poison[line % kPageLines];
  if (beat.strobe == UINT64_MAX) {
    std::memcpy(bytes, beat.bytes, kLineBytes);
    poison = beat.poison;  // only a full write clears it
    ++figures_.memory_writes;
  } else {
    for (unsigned i = 0; i < kLineBytes; ++i) {
      if (beat.strobe >> i & 1) bytes[i] = beat.bytes[i];
    }
    poison |= beat.poison;
    ++figures_.memory_partial_writes;
  }
  figures_.memory_poisoned_writes += beat.poison;
}

void AxiMemory::take_write_beats() {
  while (!writes_.empty() && !beats_.empty()) {
    Burst& burst = writes_.front();
    const Beat& beat = beats_.front();
    land(burst.line + burst.done, beat);
    ++burst.done;
    if (beat.last != (burst.done == burst.beats)) {
      fault_.set("AXI: WLAST is %d at beat %u of %u", beat.last, burst.done, burst.beats);
    }
    if (burst.done == burst.beats) {
      burst.ready = due();
      answers_.push_back(burst);
      writes_.pop_front();
    }
    beats_.pop_front();
  }
}

// Whether a channel takes something in the next clock, drawn from the seed.
bool AxiMemory::takes() {
  return !timing_.stall || mix(uint64_t{seed_} << 40 ^ ++draws_) % 100 >= timing_.stall;
}

void AxiMemory::show_read(ToDevice& host) {
  host.m_axi_rvalid =
      !reads_.empty() && reads_.front().ready <= now() && read_free_ <= now();
  if (!host.m_axi_rvalid) return;
  const Burst& burst = reads_.front();
  const uint64_t line = burst.line + burst.done;
  Page& page = page_of(line);
  std::memcpy(host.m_axi_rdata, page.bytes[line % kPageLines], kLineBytes);
  host.m_axi_ruser = page.poison[line % kPageLines];
  host.m_axi_rid = burst.id;
  host.m_axi_rlast = burst.done + 1 == burst.beats;
}

void AxiMemory::clock(const FromDevice& device, ToDevice& host) {
  if (device.m_axi_awvalid && host.m_axi_awready) {
    writes_.push_back(take("AW", device.m_axi_awid, number(device.m_axi_awaddr), device.m_axi_awlen,
                           device.m_axi_awsize, device.m_axi_awburst));
  }
  if (device.m_axi_wvalid && host.m_axi_wready) {
    Beat& beat = beats_.emplace_back();
    std::memcpy(beat.bytes, device.m_axi_wdata, kLineBytes);
    beat.strobe = number(device.m_axi_wstrb);
    beat.last = device.m_axi_wlast & 1;
    beat.poison = device.m_axi_wuser & 1;
    write_free_ = now() + timing_.beat - 1;
  }
  take_write_beats();
  if (device.m_axi_arvalid && host.m_axi_arready) {
    reads_.push_back(take("AR", device.m_axi_arid, number(device.m_axi_araddr), device.m_axi_arlen,
                          device.m_axi_arsize, device.m_axi_arburst));
  }
  if (!host.m_axi_rvalid) {
    show_read(host);
  } else if (device.m_axi_rready) {
    ++figures_.memory_reads;
    read_free_ = now() + timing_.beat - 1;
    if (++reads_.front().done == reads_.front().beats) reads_.pop_front();
    show_read(host);
  }
  if (!host.m_axi_bvalid || device.m_axi_bready) {
    host.m_axi_bvalid = !answers_.empty() && answers_.front().ready <= now();
    if (host.m_axi_bvalid) {
      host.m_axi_bid = answers_.front().id;
      answers_.pop_front();
    }
  }
  host.m_axi_awready = takes();
  host.m_axi_wready = takes() && write_free_ <= now();
  host.m_axi_arready = takes();
}
