// SPDX-License-Identifier: Apache-2.0
#include "link_tx.h"

#include "crc16.h"
#include "credits.h"

namespace {

constexpr uint32_t kAkFlits = 8;  // what one Ak bit acknowledges
// NumFreeBuf below which a new flit must wait, must acknowledge something, must owe no data flit.
constexpr uint32_t kNeverLast = 2, kOnlyWithAck = 3, kDataFits = 4;
// An LLCRD carries bit 3 of its count in Ak, the others in the payload (§7).
constexpr uint32_t kAckInHeader = 1 << 3, kMaxAck = 255;
constexpr Field kLlcrdAck{64, 8};

}  // namespace

void LinkTx::clock(ToDevice& to, bool flit_time) {
  ++flush_;
  uint32_t flit[kFlitWords] = {};
  to.rx_valid = flit_time && choose(flit);
  if (!to.rx_valid) return;
  flit[kPayloadWords] = crc16::of(flit);
  std::memcpy(to.rx_flit, flit, sizeof flit);
  to.rx_protocol_id = wire::PROTOCOL_ID;
  ++state_.figures.flits_to_device;
}

bool LinkTx::choose(uint32_t* flit) {
  if (!state_.clean_seen || (state_.param_sent && !state_.param_received)) {
    store_slot(flit, 0, wire::kRetryIdle);
    return true;
  }
  const bool room = state_.free_buffer >= kDataFits;
  if (!state_.param_sent) {
    store_slot(flit, 0, wire::kInitParam | wire::init::wrap.put(wire::LinkConfig::retry_depth - 1));
    state_.param_sent = true;
  } else if (packer_.owes_data_flit()) {  // which nothing may delay
    packer_.pack_data_flit(flit);
  } else if (may_pack() && packer_.has_work(room)) {
    Bits header = packer_.pack_protocol_flit(flit, room) | take_credits();
    if (state_.num_ack >= kAkFlits) {
      header |= wire::header::ak.put(1);
      state_.num_ack -= kAkFlits;
    }
    flit[0] = static_cast<uint32_t>(header);
    flush_ = 0;
  } else if (llcrd_is_due()) {
    make_llcrd(flit);
  } else {
    return false;
  }
  --state_.free_buffer;
  return true;
}

bool LinkTx::may_pack() const {
  const bool acknowledges = state_.num_ack >= kAkFlits;
  return state_.free_buffer >= (acknowledges ? kNeverLast : kOnlyWithAck);
}

uint32_t LinkTx::take_credits() {
  const uint32_t ndr = credits::encode(state_.ndr_return);
  const uint32_t drs = credits::encode(state_.drs_return);
  state_.ndr_return -= credits::decode(ndr);
  state_.drs_return -= credits::decode(drs);
  state_.ndr_granted += static_cast<int>(credits::decode(ndr));
  state_.drs_granted += static_cast<int>(credits::decode(drs));
  if (!state_.ndr_return && !state_.drs_return) initial_ = false;
  return static_cast<uint32_t>(wire::header::rsp_crd.put(ndr) | wire::header::data_crd.put(drs));
}

bool LinkTx::llcrd_is_due() {
  if (state_.free_buffer < (state_.num_ack ? kNeverLast : kOnlyWithAck)) return false;
  if (initial_ || state_.num_ack >= wire::LinkConfig::ack_force_threshold) return true;
  if (state_.num_ack > 1 || state_.ndr_return || state_.drs_return) {
    return flush_ >= wire::FLUSH_RETIMER_CLOCKS;
  }
  flush_ = 0;
  return false;
}

void LinkTx::make_llcrd(uint32_t* flit) {
  const uint32_t ack = state_.num_ack < kMaxAck ? state_.num_ack : kMaxAck;
  state_.num_ack -= ack;
  store_slot(flit, 0, wire::kLlcrd | kLlcrdAck.put(ack & ~kAckInHeader) |
                          wire::header::ak.put(ack & kAckInHeader ? 1 : 0) | take_credits());
  flush_ = 0;
}
