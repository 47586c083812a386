// SPDX-License-Identifier: Apache-2.0
#include "flit_unpacker.h"

void FlitUnpacker::data_flit(const uint32_t* flit) {
  for (unsigned slot = 0; slot < kSlots; ++slot) take_chunk(flit + kSlotWords * slot);
  ++state_.figures.data_flits_from_device;
}

void FlitUnpacker::protocol_flit(const uint32_t* flit) {
  Fault& fault = state_.fault;
  const unsigned must = owed_;  // slots 1 .. must hold data (§6)
  Count total{};
  for (unsigned slot = 0; slot < kSlots && !fault; ++slot) {
    const unsigned format = wire::kFormat[slot].get(flit[0]);
    if (slot && format == wire::DATA) {
      if (!owed_) return fault.set("slot %u has data, none are owed", slot);
      take_chunk(flit + kSlotWords * slot);
      ++state_.figures.slots_from_device[1][wire::DATA];
      continue;
    }
    if (slot && slot <= must) {
      return fault.set("slot %u has format %u where %u data slots are owed", slot, format, must);
    }
    const Count found = take_slot(slot, format, flit);
    total.ndr += found.ndr;
    total.drs += found.drs;
  }
  if (total.drs > 1) fault.set("%u data headers in a flit", total.drs);
  if (total.ndr > wire::MAX_NDR) fault.set("%u NDR in a flit", total.ndr);
  state_.drs_granted -= static_cast<int>(total.drs);
  state_.ndr_granted -= static_cast<int>(total.ndr);
  if (state_.drs_granted < 0 || state_.ndr_granted < 0) {
    fault.set("the device spent credits that it did not have");
  }
  state_.drs_return += total.drs;
  state_.ndr_return += total.ndr;
}

FlitUnpacker::Count FlitUnpacker::take_slot(unsigned slot, unsigned format, const uint32_t* flit) {
  const unsigned row = slot ? 1 : 0;
  const SlotLayout& layout = wire::kS2mSlots[row][format];
  const Bits content = slot ? load_slot(flit, slot) : load_slot(flit, 0) >> kHeaderBits;
  Count found{};
  if (!layout.count) {
    state_.fault.set("slot %u has format %u", slot, format);
    return found;
  }
  if (content & ~layout.live) {
    state_.fault.set("a reserved bit of slot %u (format %u) is 1", slot, format);
    return found;
  }
  for (unsigned i = 0; i < layout.count; ++i) {
    const Part& part = layout.parts[i];
    Bits message = content >> part.offset;
    if (!(message & 1)) continue;  // Valid
    if (part.drs) {
      take_drs(message, flit[0]);
      ++found.drs;
      continue;
    }
    if (part.devload) {
      const Field& devload = wire::ndr::devload;
      message &= devload.put(1) - 1;
      message |= devload.put(Field{part.devload, devload.width}.get(content));
    }
    take_ndr(message);
    ++found.ndr;
  }
  if (found.drs || found.ndr) {
    ++state_.figures.slots_from_device[row][format];
  } else if (slot && format != wire::EMPTY_S2M_G) {
    state_.fault.set("slot %u is empty in format %u, not %u", slot, format, wire::EMPTY_S2M_G);
  }
  return found;
}

uint32_t FlitUnpacker::answered_op(const char* kind, uint32_t tag, uint32_t ldid, uint8_t wanted) {
  const uint32_t op = state_.started[tag].op;
  if (op == HostState::kNobody) {
    state_.fault.set("%s with tag %04X, which no request has", kind, tag);
    return op;
  }
  state_.started[tag].op = HostState::kNobody;
  const nf_op& asked = state_.block.ops[op];
  if (asked.kind == wanted && asked.ldid == ldid) return op;
  state_.fault.set("%s with tag %04X and LD-ID %u answers a %s of LD-ID %u", kind, tag, ldid,
                   asked.kind == NF_WRITE ? "write" : "read", asked.ldid);
  return HostState::kNobody;
}

void FlitUnpacker::take_ndr(Bits ndr) {
  const uint32_t opcode = wire::ndr::opcode.get(ndr), devload = wire::ndr::devload.get(ndr);
  const uint32_t field = wire::ndr::meta_field.get(ndr), value = wire::ndr::meta_value.get(ndr);
  const uint32_t tag = wire::ndr::tag.get(ndr), ldid = wire::ndr::ldid.get(ndr);
  const uint32_t op = answered_op("NDR", tag, ldid, NF_WRITE);
  if (op == HostState::kNobody) return;
  if (opcode != wire::NdrOp::CMP || field != wire::MetaField::NO_OP || value) {
    return state_.fault.set("NDR of opcode %u, MetaField %u, MetaValue %u answers a write", opcode,
                            field, value);
  }
  ++state_.figures.devload[devload];
  state_.answer(op, static_cast<uint64_t>(devload) << NF_DEVLOAD_SHIFT | state_.clocks(tag));
}

void FlitUnpacker::take_drs(Bits drs, uint32_t header) {
  const uint32_t sz = wire::header::sz.get(header), be = wire::header::be.get(header);
  if (!sz || be) {
    return state_.fault.set("a DRS in a flit with Sz = %u and BE = %u", sz, be);
  }
  const uint32_t opcode = wire::drs::opcode.get(drs), devload = wire::drs::devload.get(drs);
  const uint32_t field = wire::drs::meta_field.get(drs), value = wire::drs::meta_value.get(drs);
  const uint32_t tag = wire::drs::tag.get(drs), ldid = wire::drs::ldid.get(drs);
  const uint32_t op = answered_op("DRS", tag, ldid, NF_READ);
  if (op == HostState::kNobody) return;
  if (opcode != wire::DrsOp::MEM_DATA || field != wire::MetaField::NO_OP || value) {
    return state_.fault.set("DRS of opcode %u, MetaField %u, MetaValue %u", opcode, field, value);
  }
  ++state_.figures.devload[devload];
  // Not answered before its last chunk; what it said is kept till then.
  const uint64_t poison = wire::drs::poison.get(drs) ? NF_POISON : 0;
  state_.block.answers[op] =
      static_cast<uint64_t>(devload) << NF_DEVLOAD_SHIFT | poison | state_.clocks(tag);
  pending_[(first_ + count_++) % kMaxPending] = {op, 0};
  owed_ += kChunks;
}

void FlitUnpacker::take_chunk(const uint32_t* words) {
  Pending& entry = pending_[first_];
  const size_t line = state_.block.ops[entry.op].line;
  std::memcpy(state_.block.got + kLineBytes * line + kSlotBytes * entry.chunks, words, kSlotBytes);
  --owed_;
  if (++entry.chunks < kChunks) return;
  first_ = (first_ + 1) % kMaxPending;
  --count_;
  state_.answer(entry.op, state_.block.answers[entry.op]);
}
