// SPDX-License-Identifier: Apache-2.0
// The host's sender: packing, credits, acknowledgements, initialisation (link spec, sections 3 to 9).
#include "crc16.h"
#include "host.h"

namespace {

constexpr uint32_t kProtocolId = 0x5555;
constexpr unsigned kData = 0, kHRwd = 4, kHReq = 5, kGReq = 4, kGRwd = 5;
constexpr uint32_t kSz = 1u << 4, kAk = 1u << 2;

// The largest code that does not exceed `count`, which it takes away; 0 for none.
uint32_t credit_nibble(uint32_t& count) {
  if (!count) return 0;
  uint32_t code = 1;
  while (code < 7 && count >> code) ++code;
  count -= 1u << (code - 1);
  return 8 | code;
}

void control(uint32_t* flit, uint32_t llctrl, uint32_t subtype, uint32_t payload) {
  flit[0] = 1;
  flit[1] = llctrl | subtype << 4;
  flit[2] = payload;
}

}  // namespace

void Host::send(ToDevice& to) {
  ++flush_;
  uint32_t flit[kFlitWords] = {};
  to.rx_valid = choose(flit);
  if (!to.rx_valid) return;
  flit[16] = crc16::of(flit);
  std::memcpy(to.rx_flit, flit, sizeof flit);
  to.rx_protocol_id = kProtocolId;
  ++figures_.flits_to_device;
}

bool Host::choose(uint32_t* flit) {
  const bool idle = !clean_seen_ || (param_sent_ && !param_received_);
  if (idle) {
    control(flit, 1, 0, 0);  // RETRY.Idle
    return true;
  }
  if (!param_sent_) {
    control(flit, 0xC, 8, 2 | (kDepth - 1) << 24);  // INIT.Param
    param_sent_ = true;
    stored();
    return true;
  }
  if (pack(flit)) {
    stored();
    return true;
  }
  if (!llcrd_is_due()) return false;
  make_llcrd(flit);
  stored();
  return true;
}

Host::Next Host::next(unsigned writes, unsigned reads, bool room) const {
  if (!ready_ || cursor_ == block_.count || cursor_ - prefix_ >= kWindow) return Next::kNothing;
  const nf_op& op = block_.ops[cursor_];
  if (op.kind == NF_WRITE) return !writes && room && data_credits_ ? Next::kWrite : Next::kNothing;
  if (op.kind != NF_READ || op.after > prefix_) return Next::kNothing;
  return reads < 2 && plain_credits_ ? Next::kRead : Next::kNothing;
}

void Host::put_chunk(uint32_t* slot) {
  std::memcpy(slot, chunks_[chunk_first_], 16);
  chunk_first_ = (chunk_first_ + 1) % 8;
  --chunk_count_;
}

void Host::put_header(uint32_t* flit, unsigned slot, Next kind) {
  const uint32_t index = cursor_++;
  const nf_op& op = block_.ops[index];
  uint32_t tag = sent_++ & 0xFFFF;
  op_of_tag_[tag] = index;
  // Valid, opcode (MemWr = MemRd = 1), MetaField No-Op (11), Tag, the address from bit 28 on.
  const bool write = kind == Next::kWrite;
  const uint64_t low = 1 | 1 << 1 | 3 << 8 | static_cast<uint64_t>(tag) << 12;
  const uint64_t address = write ? op.address >> 6 : op.address >> 5;
  uint32_t words[3] = {};
  const uint64_t first = low | address << 28;
  const uint64_t second = address >> 36 | static_cast<uint64_t>(op.ldid) << 13;
  words[0] = static_cast<uint32_t>(first);
  words[1] = static_cast<uint32_t>(first >> 32);
  words[2] = static_cast<uint32_t>(second);
  std::memcpy(slot ? flit + 4 * slot : flit + 1, words, sizeof words);
  if (!write) {
    --plain_credits_;
    return;
  }
  --data_credits_;
  const uint8_t* line = block_.sent + UINT64_C(64) * op.line;
  for (unsigned i = 0; i < 4; ++i) {
    std::memcpy(chunks_[(chunk_first_ + chunk_count_++) % 8], line + 16 * i, 16);
  }
}

bool Host::pack(uint32_t* flit) {
  if (chunk_count_ > 3) {  // an all-data flit, which nothing may delay
    for (unsigned slot = 0; slot < 4; ++slot) put_chunk(flit + 4 * slot);
    ++figures_.data_flits_to_device;
    return true;
  }
  // With two places left in the retry buffer only a flit that acknowledges something may leave, and
  // a data header only if its all-data flit fits as well.
  if (free_ < 2 || (free_ == 2 && num_ack_ < 8)) return false;
  const bool room = free_ >= 4;
  unsigned writes = 0, reads = 0;
  if (!chunk_count_ && next(0, 0, room) == Next::kNothing) return false;
  uint32_t header = 0;
  for (unsigned slot = 0; slot < 4; ++slot) {
    unsigned code;
    if (slot && chunk_count_) {
      put_chunk(flit + 4 * slot);
      code = kData;
      ++figures_.slots_to_device[1][code];
    } else {
      const Next kind = next(writes, reads, room);
      code = kind == Next::kWrite ? (slot ? kGRwd : kHRwd) : (slot ? kGReq : kHReq);
      if (kind != Next::kNothing) {
        put_header(flit, slot, kind);
        ++(kind == Next::kWrite ? writes : reads);
        ++figures_.slots_to_device[slot ? 1 : 0][code];
      }
    }
    header |= code << (5 + 3 * slot);
  }
  if (writes) header |= kSz;
  if (num_ack_ >= 8) {
    header |= kAk;
    num_ack_ -= 8;
  }
  flit[0] = header | take_credits();
  flush_ = 0;
  return true;
}

uint32_t Host::take_credits() {
  const uint32_t plain = plain_return_, data = data_return_;
  const uint32_t nibbles = credit_nibble(plain_return_) << 20 | credit_nibble(data_return_) << 28;
  plain_granted_ += static_cast<int>(plain - plain_return_);
  data_granted_ += static_cast<int>(data - data_return_);
  if (!plain_return_ && !data_return_) initial_ = false;
  return nibbles;
}

bool Host::llcrd_is_due() {
  if (free_ < 2 || (free_ == 2 && !num_ack_)) return false;
  if (initial_ || num_ack_ >= kForceAck) return true;
  if (num_ack_ > 1 || plain_return_ || data_return_) return flush_ >= kFlushClocks;
  flush_ = 0;
  return false;
}

void Host::make_llcrd(uint32_t* flit) {
  const uint32_t ack = num_ack_ < 255 ? num_ack_ : 255;
  num_ack_ -= ack;
  control(flit, 0, 1, ack & 0xF7);
  flit[0] |= (ack >> 3 & 1) << 2 | take_credits();
  flush_ = 0;
}
