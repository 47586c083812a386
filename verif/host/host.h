// SPDX-License-Identifier: Apache-2.0
// Everything outside the device: the host's end of the link, the manager of its registers, memory.
//
// Written from the link spec; link-level retry is left out, because nothing here damages a flit: a
// RETRY.Req, or a flit that would need one, is a fault. Every rule that a device can break on the
// link is checked for every flit.

#ifndef NF_HOST_H
#define NF_HOST_H

#include <cstring>
#include <vector>

#include "fault.h"
#include "memory.h"
#include "nf_bulk.h"
#include "pins.h"

class Host {
 public:
  // `grant`: credits of each kind that the device gets.
  Host(unsigned mem_lines_log2, uint32_t seed, uint32_t grant = 64);

  // Starts a block; its arrays must live until busy() is false.
  void begin(const nf_block& block);
  // The block is not done, or the link is not up.
  bool busy() const { return !fault_ && (prefix_ < block_.count || !ready_); }
  // One rising edge: `device` as it was before, `to` what the device was shown then and, on return,
  // what it is shown next.
  void clock(const FromDevice& device, ToDevice& to);

  Fault& fault() { return fault_; }
  const nf_figures& figures() const { return figures_; }
  uint64_t now() const { return figures_.cycles; }

 private:
  static constexpr uint32_t kDepth = 64;          // retry buffer: flits without acknowledgement
  static constexpr uint32_t kForceAck = 16;       // acknowledgements that force an LLCRD
  static constexpr uint32_t kFlushClocks = 32;    // clocks that force one
  static constexpr uint32_t kWindow = 1 << 15;    // operations without answer: tags stay unique
  static constexpr uint64_t kPatience = 20000;    // clocks without any answer
  static constexpr uint32_t kNobody = UINT32_MAX;

  struct Slot {  // 128 bits
    uint64_t low, high;
    uint32_t bits(unsigned from, unsigned count) const {
      const uint64_t mask = (UINT64_C(1) << count) - 1;
      if (from >= 64) return static_cast<uint32_t>(high >> (from - 64) & mask);
      uint64_t value = low >> from;
      if (from + count > 64) value |= high << (64 - from);
      return static_cast<uint32_t>(value & mask);
    }
  };
  struct Pending {  // a read whose data are on their way
    uint32_t op;
    unsigned chunks;
  };

  // Sending: host_send.cpp
  void send(ToDevice& to);
  bool choose(uint32_t* flit);
  bool pack(uint32_t* flit);
  void put_chunk(uint32_t* slot);
  enum class Next { kNothing, kWrite, kRead };
  Next next(unsigned writes, unsigned reads, bool room) const;
  void put_header(uint32_t* flit, unsigned slot, Next kind);
  uint32_t take_credits();
  bool llcrd_is_due();
  void make_llcrd(uint32_t* flit);
  void stored() { --free_; }

  // Receiving: host_receive.cpp
  void receive(const FromDevice& device);
  void receive_control(const uint32_t* flit);
  void receive_data(const uint32_t* flit);
  void receive_protocol(const uint32_t* flit);
  unsigned receive_slot(unsigned position, unsigned code, const Slot& slot, uint32_t header);
  void take_chunk(const uint32_t* words);
  void take_ndr(uint32_t ndr);
  void take_drs(uint64_t drs, uint32_t header);
  uint32_t answered_op(const char* kind, uint32_t tag, uint32_t ldid, uint8_t wanted);
  void answer(uint32_t op, uint64_t value);
  void acknowledged(uint32_t count);
  void credited(uint32_t header);

  void registers(const FromDevice& device, ToDevice& to);

  nf_figures figures_{};
  Fault fault_;
  Memory memory_;
  uint32_t grant_;
  nf_block block_{};
  uint32_t cursor_ = 0;  // the next operation to start
  uint32_t prefix_ = 0;  // every operation before it has been answered
  uint32_t sent_ = 0;    // tag of the next message
  uint64_t progress_ = 0;
  bool ready_ = false;   // the link has been up, with credits of both kinds, once
  std::vector<uint32_t> op_of_tag_;

  // Sender
  uint32_t free_ = kDepth;
  uint32_t num_ack_ = 0, flush_ = 0;
  uint32_t plain_credits_ = 0, data_credits_ = 0;  // ours to spend: Req, RwD
  uint32_t plain_return_ = 0, data_return_ = 0;    // to give back: NDR, DRS
  bool initial_ = false;                           // part of the first grant has not left
  bool clean_seen_ = false, param_sent_ = false, param_received_ = false;
  bool device_up_ = false;                         // it has sent more than its initialisation
  uint8_t chunks_[8][16];                          // data slots owed, a ring
  unsigned chunk_first_ = 0, chunk_count_ = 0;

  // Receiver
  int plain_granted_ = 0, data_granted_ = 0;       // the device's to spend: NDR, DRS
  Pending pending_[4];                             // a ring: one header a flit, R at most 7
  unsigned pending_first_ = 0, pending_count_ = 0, owed_ = 0;

  enum class Register { kIdle, kWrite, kRead } register_ = Register::kIdle;
};

#endif
