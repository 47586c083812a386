// SPDX-License-Identifier: Apache-2.0
#include "flit_packer.h"

namespace {

constexpr unsigned kAddressBits = wire::ADDR_BITS;
// Formats of slot 0 and of the others.
constexpr unsigned kReqFormat[] = {wire::M2S_H_REQ, wire::M2S_G_REQ};
constexpr unsigned kRwdFormat[] = {wire::M2S_H_RWD, wire::M2S_G_RWD};

}  // namespace

void FlitPacker::put_chunk(uint32_t* flit, unsigned slot) {
  std::memcpy(flit + kSlotWords * slot, chunks_[first_], kSlotBytes);
  first_ = (first_ + 1) % kRing;
  --owed_;
}

void FlitPacker::pack_data_flit(uint32_t* flit) {
  for (unsigned slot = 0; slot < kSlots; ++slot) put_chunk(flit, slot);
  ++state_.figures.data_flits_to_device;
}

// What operation `at` of a stream, which has `end` as its last, is if it may go into a free slot of
// a flit that holds so many headers of each kind.
FlitPacker::Kind FlitPacker::startable(uint32_t at, uint32_t end, unsigned writes, unsigned reads,
                                       bool room) const {
  const HostState& s = state_;
  if (!s.ready || at == end || at > s.prefix + kWindow) return Kind::kNothing;
  const nf_op& op = s.block.ops[at];
  return op.after > s.prefix ? Kind::kNothing : sendable(op, writes, reads, room);
}

// The same of an operation that waits for no other one.
FlitPacker::Kind FlitPacker::sendable(const nf_op& op, unsigned writes, unsigned reads,
                                      bool room) const {
  const HostState& s = state_;
  if (op.kind > NF_READ) return Kind::kNothing;
  if (op.kind == NF_WRITE) {
    return writes < wire::MAX_RWD && room && s.rwd_credits ? Kind::kWrite : Kind::kNothing;
  }
  return reads < wire::MAX_REQ && s.req_credits ? Kind::kRead : Kind::kNothing;
}

// The next operation: the streams take turns where both can go.
FlitPacker::Next FlitPacker::next(unsigned writes, unsigned reads, bool room) const {
  const HostState& s = state_;
  if (s.block.queues) return next_of_queues(writes, reads, room);
  const Kind own = startable(s.cursor, s.block.count, writes, reads, room);
  if (!s.block.beside) return {own, 0};
  const Kind other = startable(s.beside, s.block.beside, writes, reads, room);
  const bool beside = other != Kind::kNothing && (own == Kind::kNothing || !stream_);
  return {beside ? other : own, beside};
}

// The first queue after that of the last message whose next operation may go.
FlitPacker::Next FlitPacker::next_of_queues(unsigned writes, unsigned reads, bool room) const {
  const HostState& s = state_;
  for (uint32_t turn = 1; s.ready && turn <= s.block.queues; ++turn) {
    const uint32_t number = (stream_ + turn) % s.block.queues;
    const HostState::Queue& queue = s.queues[number];
    if (queue.next == queue.ops.size()) continue;
    const nf_op& op = s.block.ops[queue.ops[queue.next]];
    const Kind kind = sendable(op, writes, reads, room);
    if (kind != Kind::kNothing && s.needs_met(op)) return {kind, number};
  }
  return {Kind::kNothing, stream_};
}

// The header of the next operation, MemWr or MemRd; the chunks of a write are owed from now on.
Bits FlitPacker::start(Next next) {
  uint32_t index;
  if (state_.block.queues) {
    HostState::Queue& queue = state_.queues[next.stream];
    index = queue.ops[queue.next++];
  } else {
    index = next.stream ? state_.beside++ : state_.cursor++;
  }
  const nf_op& op = state_.block.ops[index];
  const uint32_t tag = tag_;
  stream_ = next.stream;
  tag_ = (tag_ + 1) % (1 << wire::req::tag.width);
  state_.started[tag] = {index, state_.figures.cycles};
  const bool read = next.kind == Kind::kRead;
  // Valid; Req and RwD differ in the place of the address alone (§5).
  const Bits header = 1 | wire::req::opcode.put(read ? wire::ReqOp::MEM_RD : wire::RwdOp::MEM_WR) |
                      wire::req::meta_field.put(wire::MetaField::NO_OP) | wire::req::tag.put(tag) |
                      wire::req::ldid.put(op.ldid);
  if (read) {
    --state_.req_credits;
    return header | wire::req::addr.put(op.address >> (kAddressBits - wire::req::addr.width));
  }
  --state_.rwd_credits;
  const uint8_t* line = state_.block.sent + size_t{kLineBytes} * op.line;
  for (unsigned i = 0; i < kChunks; ++i) {
    std::memcpy(chunks_[(first_ + owed_++) % kRing], line + kSlotBytes * i, kSlotBytes);
  }
  return header | wire::rwd::addr.put(op.address >> (kAddressBits - wire::rwd::addr.width));
}

uint32_t FlitPacker::pack_protocol_flit(uint32_t* flit, bool room) {
  unsigned writes = 0, reads = 0;
  Bits header = 0;
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    const unsigned row = slot ? 1 : 0;
    unsigned format = wire::DATA;
    if (slot && owed_) {
      put_chunk(flit, slot);
      ++state_.figures.slots_to_device[row][format];
    } else {
      const Next op = next(writes, reads, room);
      format = op.kind == Kind::kWrite ? kRwdFormat[row] : kReqFormat[row];
      if (op.kind != Kind::kNothing) {
        store_slot(flit, slot, slot ? start(op) : start(op) << kHeaderBits);
        ++(op.kind == Kind::kWrite ? writes : reads);
        ++state_.figures.slots_to_device[row][format];
      }
    }
    header |= wire::kFormat[slot].put(format);
  }
  return static_cast<uint32_t>(header | wire::header::sz.put(writes ? 1 : 0));
}
