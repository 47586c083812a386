// SPDX-License-Identifier: Apache-2.0
#include "link_rx.h"

#include "crc16.h"
#include "credits.h"

namespace {

constexpr Field kType{0, 1};              // 1: control flit (§3)
constexpr Field kLlctrl{32, 4}, kSubtype{36, 4}, kKind{32, 8};
constexpr Field kLlcrdAck{64, 8};         // without bit 3, which travels in Ak (§7)
constexpr uint32_t kAkFlits = 8;          // what Ak acknowledges in a protocol flit

}  // namespace

void LinkRx::receive(const FromDevice& device) {
  const uint32_t* flit = device.tx_flit;
  Fault& fault = state_.fault;
  ++state_.figures.flits_from_device;
  const uint32_t id = device.tx_protocol_id, crc = crc16::of(flit);
  if (id != wire::PROTOCOL_ID && id != wire::PROTOCOL_ID_EDS) {
    return fault.set("a flit has the Protocol ID %04X", id);
  }
  if (crc != flit[kPayloadWords]) {
    return fault.set("a flit has the CRC %04X, its payload gives %04X", flit[kPayloadWords], crc);
  }
  state_.clean_seen = true;
  if (unpacker_.owes_data_flit()) {
    unpacker_.data_flit(flit);
    ++state_.num_ack;
  } else if (kType.get(flit[0])) {
    control_flit(flit);
  } else if (!state_.param_received) {
    fault.set("a protocol flit before INIT.Param");
  } else if (flit[0] & wire::HEADER_RESERVED) {
    fault.set("a reserved bit of flit header %08X is 1", flit[0]);
  } else {
    active_ = true;
    acknowledged(kAkFlits * wire::header::ak.get(flit[0]));
    credited(flit[0]);
    unpacker_.protocol_flit(flit);
    ++state_.num_ack;
  }
}

void LinkRx::acknowledged(uint32_t count) {
  state_.free_buffer += count;
  if (state_.free_buffer > wire::LinkConfig::retry_depth) {
    state_.fault.set("%u flits acknowledged, fewer are outstanding", count);
  }
}

void LinkRx::credited(uint32_t header) {
  const uint32_t req = wire::header::req_crd.get(header), rwd = wire::header::data_crd.get(header);
  const uint32_t rsp = wire::header::rsp_crd.get(header);
  if (rsp || credits::is_cache(req) || credits::is_cache(rwd)) {
    state_.fault.set("credits that a memory device does not return (header %08X)", header);
  }
  state_.req_credits += credits::decode(req);
  state_.rwd_credits += credits::decode(rwd);
}

void LinkRx::control_flit(const uint32_t* flit) {
  const Bits slot = load_slot(flit, 0);
  const uint32_t kind = kKind.get(slot);
  Bits live;  // bits that may be 1; everything behind slot 0 is 0
  if (kind == kKind.get(wire::kLlcrd)) {
    live = wire::kLlcrdLive;
  } else if (kind == kKind.get(wire::kInitParam)) {
    live = wire::kInitParamLive;
  } else if (kind == kKind.get(wire::kRetryIdle)) {
    live = wire::kRetryIdle;
  } else {
    return state_.fault.set("control flit LLCTRL %X SubType %X where nothing was damaged",
                            kLlctrl.get(slot), kSubtype.get(slot));
  }
  Bits wrong = slot & ~live;
  for (unsigned i = 1; i < kSlots; ++i) wrong |= load_slot(flit, i);
  if (wrong) return state_.fault.set("a static bit of control flit %02X is 1", kind);
  if (kind == kKind.get(wire::kRetryIdle)) {
    if (active_) state_.fault.set("RETRY.Idle while no retry goes on");
    return;
  }
  if (kind == kKind.get(wire::kInitParam)) {
    init_param(slot);
  } else if (!state_.param_received) {
    return state_.fault.set("LLCRD before INIT.Param");
  } else {
    active_ = true;
    acknowledged(kLlcrdAck.get(slot) | wire::header::ak.get(slot) << 3);
    credited(flit[0]);
  }
  ++state_.num_ack;
}

void LinkRx::init_param(Bits slot) {
  const uint32_t version = wire::init::version.get(slot);
  if (state_.param_received) return state_.fault.set("a second INIT.Param");
  if (version != wire::InitParam::version) state_.fault.set("INIT.Param of version %u", version);
  state_.param_received = true;
}
