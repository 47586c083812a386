// SPDX-License-Identifier: Apache-2.0
// C interface of the bulk transport. Python hands over pointers into numpy arrays; nothing is copied.
//
// A block is an array of operations, done in order: writes and reads of lines over the CXL link, and
// register accesses over AXI4-Lite. A write or a read leaves as soon as credits allow; a read waits
// until every operation before `after` has been answered. A register access waits until everything
// before it has been answered, and nothing behind it starts before it has been answered itself.

#ifndef NF_BULK_H
#define NF_BULK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nf_kind { NF_WRITE = 0, NF_READ = 1, NF_REG_WRITE = 2, NF_REG_READ = 3 };

typedef struct {
  uint64_t address;  // byte address of a line, or of a register
  uint32_t line;     // write: line of `sent`; read: line of `got`; register write: the value
  uint32_t after;    // read: operations that must have been answered before it may leave
  uint8_t kind;      // nf_kind
  uint8_t ldid;      // 0..15
  uint8_t unused[6];
} nf_op;

// Answer of an operation: the value of a register read, or NF_POISON and the DevLoad of a response.
#define NF_ANSWERED (UINT64_C(1) << 63)
#define NF_POISON (UINT64_C(1) << 0)
#define NF_DEVLOAD_SHIFT 1

typedef struct {
  const nf_op* ops;
  const uint8_t* sent;  // sent_lines x 64 bytes
  uint8_t* got;         // got_lines x 64 bytes
  uint64_t* answers;    // one an operation
  uint32_t count, sent_lines, got_lines, unused;
} nf_block;

// What was counted since the device was opened.
typedef struct {
  uint64_t cycles;
  uint64_t flits_to_device, flits_from_device;   // control flits included
  uint64_t data_flits_to_device, data_flits_from_device;  // all-data flits
  uint64_t slots_to_device[2][8];    // valid headers and data by position (0: slot 0) and format
  uint64_t slots_from_device[2][8];
  uint64_t devload[4];
  uint64_t memory_reads, memory_writes, memory_partial_writes, memory_poisoned_writes;
} nf_figures;

typedef struct nf_device nf_device;

// Opens a device, resets it and brings the link up. `seed` draws what flops hold before the reset
// and what memory holds before it is written.
nf_device* nf_open(uint32_t mem_lines_log2, uint32_t seed);
// Does a block; 0, or 1 when a rule was broken: nf_fault says which, and the device is of no use.
int nf_run(nf_device* device, const nf_block* block);
const char* nf_fault(const nf_device* device);
void nf_read_figures(const nf_device* device, nf_figures* figures);
void nf_close(nf_device* device);

#ifdef __cplusplus
}
#endif
#endif
