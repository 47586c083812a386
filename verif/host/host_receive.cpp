// SPDX-License-Identifier: Apache-2.0
// The host's receiver: every flit of the device against the rules of the link spec.
#include "crc16.h"
#include "host.h"

namespace {

constexpr uint32_t kProtocolId = 0x5555, kProtocolIdEds = 0x8787;
constexpr uint32_t kReservedHeader = 1u << 1 | 7u << 17;
constexpr unsigned kData = 0;
constexpr unsigned kMetaNoOp = 3;

// Bits of a slot that its format may set, [position][format]; 0: a format that no memory device
// sends without multi-headers.
struct Live {
  uint64_t low, high;
};

constexpr uint64_t ones(unsigned count) {
  return count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

// DRS: 31 live bits of 40. A 28-bit NDR has its DevLoad elsewhere.
constexpr Live kLive[2][8] = {
    {{}, {}, {},
     {ones(31) | ones(24) << 40, ones(6)},               // H3: DRS, NDR at 40
     {ones(60), 0},                                      // H4: NDR, NDR at 28, DevLoad at 58
     {}, {}, {}},
    {{}, {}, {}, {},
     {ones(31) | ones(24) << 40, ones(4) | ones(32) << 4},  // G4: DRS, NDR at 40 and 68, DevLoad 98
     {ones(60), 0},                                      // G5: as H4
     {}, {}},
};

uint32_t credits_of(uint32_t nibble) {
  const uint32_t code = nibble & 7;
  return code ? 1u << (code - 1) : 0;
}

}  // namespace

void Host::receive(const FromDevice& device) {
  const uint32_t* flit = device.tx_flit;
  ++figures_.flits_from_device;
  if (kChecks) {
    if (device.tx_protocol_id != kProtocolId && device.tx_protocol_id != kProtocolIdEds) {
      return fault_.set(now(), "a flit has the Protocol ID %04X", device.tx_protocol_id);
    }
    const uint32_t crc = crc16::of(flit);
    if (crc != flit[16]) {
      return fault_.set(now(), "a flit has the CRC %04X, its payload gives %04X", flit[16], crc);
    }
  }
  clean_seen_ = true;
  if (owed_ > 3) {
    receive_data(flit);
  } else if (flit[0] & 1) {
    receive_control(flit);
  } else if (!param_received_) {
    fault_.set(now(), "a protocol flit before INIT.Param");
  } else {
    receive_protocol(flit);
  }
}

void Host::acknowledged(uint32_t count) {
  free_ += count;
  if (free_ > kDepth) fault_.set(now(), "%u flits acknowledged, fewer are outstanding", count);
}

void Host::credited(uint32_t header) {
  const uint32_t request = header >> 24 & 15, data = header >> 28;
  const uint32_t response = header >> 20 & 15;
  if (kChecks && (response || (request & 7 && !(request & 8)) || (data & 7 && !(data & 8)))) {
    fault_.set(now(), "credits that a memory device does not return (header %08X)", header);
  }
  plain_credits_ += credits_of(request);
  data_credits_ += credits_of(data);
}

void Host::receive_control(const uint32_t* flit) {
  const uint32_t kind = flit[1] & 255;
  uint32_t live0 = 1, live2 = 0;
  if (kind == 0x10) {  // LLCRD.Ack
    live0 |= 1u << 2 | 0xFFFu << 20;
    live2 = 0xF7;
  } else if (kind == 0x8C) {  // INIT.Param
    live2 = 0xFF00000F;
  } else if (kind != 0x01) {  // RETRY.Idle
    return fault_.set(now(), "control flit LLCTRL %X SubType %X where nothing was damaged",
                      kind & 15, kind >> 4);
  }
  uint32_t wrong = (flit[0] & ~live0) | (flit[1] & ~255u) | (flit[2] & ~live2);
  for (unsigned i = 3; i < 16; ++i) wrong |= flit[i];
  if (wrong) return fault_.set(now(), "a static bit of control flit %02X is 1", kind);
  if (kind == 0x01) {
    if (device_up_) fault_.set(now(), "RETRY.Idle while no retry goes on");
    return;
  }
  if (kind == 0x8C) {
    if (param_received_) return fault_.set(now(), "a second INIT.Param");
    if ((flit[2] & 15) != 2) return fault_.set(now(), "INIT.Param of version %u", flit[2] & 15);
    param_received_ = true;
    plain_return_ = data_return_ = grant_;
    initial_ = true;
  } else {
    if (!param_received_) return fault_.set(now(), "LLCRD before INIT.Param");
    device_up_ = true;
    acknowledged((flit[2] & 0xF7) | (flit[0] >> 2 & 1) << 3);
    credited(flit[0]);
  }
  ++num_ack_;
}

void Host::receive_data(const uint32_t* flit) {
  for (unsigned slot = 0; slot < 4; ++slot) take_chunk(flit + 4 * slot);
  ++figures_.data_flits_from_device;
  ++num_ack_;
}

void Host::receive_protocol(const uint32_t* flit) {
  const uint32_t header = flit[0];
  if (kChecks && (header & kReservedHeader)) {
    return fault_.set(now(), "a reserved bit of flit header %08X is 1", header);
  }
  device_up_ = true;
  acknowledged(8 * (header >> 2 & 1));
  credited(header);
  const unsigned must = owed_;
  unsigned headers = 0, plain = 0;
  for (unsigned position = 0; position < 4 && !fault_; ++position) {
    const unsigned code = header >> (5 + 3 * position) & 7;
    if (position && code == kData) {
      if (!owed_) return fault_.set(now(), "slot %u has data, none are owed", position);
      take_chunk(flit + 4 * position);
      ++figures_.slots_from_device[1][kData];
      continue;
    }
    if (position && position <= must) {
      return fault_.set(now(), "slot %u has format %u where %u data slots are owed", position, code,
                        must);
    }
    Slot slot;
    if (position) {
      std::memcpy(&slot, flit + 4 * position, 16);
    } else {
      slot = {flit[1] | static_cast<uint64_t>(flit[2]) << 32, flit[3]};
    }
    const unsigned found = receive_slot(position, code, slot, header);
    headers += found & 1;
    plain += found >> 1;
  }
  if (headers > 1) fault_.set(now(), "%u data headers in a flit", headers);
  if (plain > 2) fault_.set(now(), "%u NDR in a flit", plain);
  data_granted_ -= static_cast<int>(headers);
  plain_granted_ -= static_cast<int>(plain);
  if (data_granted_ < 0 || plain_granted_ < 0) {
    fault_.set(now(), "the device spent credits that it did not have");
  }
  data_return_ += headers;
  plain_return_ += plain;
  ++num_ack_;
}

// Bit 0 of the result: a data header; from bit 1 on, the number of NDR.
unsigned Host::receive_slot(unsigned position, unsigned code, const Slot& slot, uint32_t header) {
  const unsigned row = position ? 1 : 0;
  const Live& live = kLive[row][code];
  if (!live.low) {
    fault_.set(now(), "slot %u has format %u", position, code);
    return 0;
  }
  if (kChecks && ((slot.low & ~live.low) | (slot.high & ~live.high))) {
    fault_.set(now(), "a reserved bit of slot %u (format %u) is 1", position, code);
    return 0;
  }
  unsigned headers = 0, plain = 0;
  const bool pair = position ? code == 5 : code == 4;  // two NDR alone
  if (pair) {
    if (slot.low & 1) {
      take_ndr(slot.bits(0, 28) | slot.bits(58, 2) << 28);
      ++plain;
    }
    if (slot.low >> 28 & 1) {
      take_ndr(slot.bits(28, 30));
      ++plain;
    }
  } else {
    if (slot.low & 1) {
      take_drs(slot.low & ones(40), header);
      ++headers;
    }
    if (slot.low >> 40 & 1) {
      take_ndr(position ? slot.bits(40, 28) | slot.bits(98, 2) << 28 : slot.bits(40, 30));
      ++plain;
    }
    if (position && (slot.high >> 4 & 1)) {
      take_ndr(slot.bits(68, 30));
      ++plain;
    }
  }
  if (headers || plain) {
    ++figures_.slots_from_device[row][code];
  } else if (kChecks && position && code != 5) {
    fault_.set(now(), "slot %u is empty in format %u, not 5", position, code);
  }
  return headers | plain << 1;
}

uint32_t Host::answered_op(const char* kind, uint32_t tag, uint32_t ldid, uint8_t wanted) {
  const uint32_t op = op_of_tag_[tag];
  if (op == kNobody) {
    fault_.set(now(), "%s with tag %04X, which no request has", kind, tag);
    return kNobody;
  }
  op_of_tag_[tag] = kNobody;
  if (block_.ops[op].kind != wanted || block_.ops[op].ldid != ldid) {
    fault_.set(now(), "%s with tag %04X and LD-ID %u answers a %s of LD-ID %u", kind, tag, ldid,
               block_.ops[op].kind == NF_WRITE ? "write" : "read", block_.ops[op].ldid);
    return kNobody;
  }
  return op;
}

void Host::take_ndr(uint32_t ndr) {
  const uint32_t opcode = ndr >> 1 & 7, meta = ndr >> 4 & 15, devload = ndr >> 28 & 3;
  const uint32_t op = answered_op("NDR", ndr >> 8 & 0xFFFF, ndr >> 24 & 15, NF_WRITE);
  if (op == kNobody) return;
  if (opcode || meta != kMetaNoOp) {
    return fault_.set(now(), "NDR of opcode %u and MetaField/Value %X answers a write", opcode, meta);
  }
  ++figures_.devload[devload];
  answer(op, static_cast<uint64_t>(devload) << NF_DEVLOAD_SHIFT);
}

void Host::take_drs(uint64_t drs, uint32_t header) {
  if (kChecks && (header >> 3 & 3) != 2) {
    return fault_.set(now(), "a DRS in a flit with Sz = %u and BE = %u", header >> 4 & 1,
                      header >> 3 & 1);
  }
  const auto word = static_cast<uint32_t>(drs);
  const uint32_t opcode = word >> 1 & 7, meta = word >> 4 & 15, devload = word >> 29 & 3;
  const uint32_t op = answered_op("DRS", word >> 8 & 0xFFFF, word >> 25 & 15, NF_READ);
  if (op == kNobody) return;
  if (opcode || meta != kMetaNoOp) {
    return fault_.set(now(), "DRS of opcode %u and MetaField/Value %X", opcode, meta);
  }
  ++figures_.devload[devload];
  // Not answered before its last chunk; what it said is kept till then.
  block_.answers[op] = static_cast<uint64_t>(devload) << NF_DEVLOAD_SHIFT | (word >> 24 & 1);
  pending_[(pending_first_ + pending_count_++) % 4] = {op, 0};
  owed_ += 4;
}

void Host::take_chunk(const uint32_t* words) {
  Pending& entry = pending_[pending_first_];
  const uint64_t line = block_.ops[entry.op].line;
  std::memcpy(block_.got + 64 * line + 16 * entry.chunks, words, 16);
  --owed_;
  if (++entry.chunks < 4) return;
  pending_first_ = (pending_first_ + 1) % 4;
  --pending_count_;
  answer(entry.op, block_.answers[entry.op]);
}
