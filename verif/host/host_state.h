// SPDX-License-Identifier: Apache-2.0
// What the sender, the receiver and the register manager of the host share.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "cxl_wire.h"
#include "fault.h"
#include "nf_bulk.h"

struct HostState {
  static constexpr uint32_t kNobody = UINT32_MAX;

  nf_figures figures{};
  Fault fault{figures.cycles};

  // The block that is being done.
  nf_block block{};
  uint32_t cursor = 0;    // the next operation to start
  uint32_t beside = 0;    // the same of the stream beside it
  uint32_t prefix = 0;    // every operation before it has been answered
  struct Queue {
    std::vector<uint32_t> ops;  // indices of its operations
    uint32_t next = 0;          // the next one to start, at its place in `ops`
    uint32_t done = 0;          // so many are answered, or light
  };
  std::vector<Queue> queues;  // of a block with queues
  uint64_t progress = 0;      // clock of the last answer
  struct Started {
    uint32_t op = kNobody;
    uint64_t clock = 0;
  };
  std::vector<Started> started = std::vector<Started>(1 << wire::req::tag.width);  // by tag

  // Initialisation (§8): a good flit has come, INIT.Param has left, has come.
  bool clean_seen = false, param_sent = false, param_received = false;
  bool ready = false;  // the link has been up, with credits of both kinds, once

  // Acknowledgements (§9).
  uint32_t free_buffer = wire::LinkConfig::retry_depth;  // NumFreeBuf: places in the retry buffer
  uint32_t num_ack = 0;                      // NumAck: flits of the device to acknowledge

  // Credits (§3): what the host may spend, what it has to return, what the device may spend.
  uint32_t req_credits = 0, rwd_credits = 0;
  uint32_t ndr_return = 0, drs_return = 0;
  int ndr_granted = 0, drs_granted = 0;

  // This clock, and how many since the request with that tag, at their places in an answer.
  uint64_t clocks(uint32_t tag) const {
    return std::min(figures.cycles - started[tag].clock, NF_MAX_CLOCKS) << NF_CLOCKS_SHIFT |
           (figures.cycles & NF_MAX_ENDED) << NF_ENDED_SHIFT;
  }
  bool block_done() const { return prefix == block.count; }

  void answer(uint32_t op, uint64_t value) {
    block.answers[op] = value | NF_ANSWERED;
    while (prefix < block.count && (block.answers[prefix] & NF_ANSWERED)) ++prefix;
    if (block.queues) advance(queues[block.ops[op].queue]);
    progress = figures.cycles;
  }

  bool needs_met(const nf_op& op) const {
    uint32_t need;
    for (uint32_t number = 0; number < block.queues; ++number) {
      const uint8_t* at = block.sent + size_t{kLineBytes} * op.after + sizeof need * number;
      std::memcpy(&need, at, sizeof need);
      if (queues[number].done < need) return false;
    }
    return true;
  }

  void advance(Queue& queue) {
    for (; queue.done < queue.ops.size(); ++queue.done) {
      const uint32_t op = queue.ops[queue.done];
      if (!block.ops[op].light && !(block.answers[op] & NF_ANSWERED)) return;
    }
  }
};
