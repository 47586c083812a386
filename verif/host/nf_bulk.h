// SPDX-License-Identifier: Apache-2.0
// C interface of a device under the host; c_interface.py says what a block is. Python hands over
// pointers into numpy arrays; nothing is copied.
#pragma once

#include "nf_types.h"

extern "C" {

struct nf_device;

// Opens a device, resets it and brings the link up. `seed` draws what flops hold before the reset
// and what memory holds before it is written.
nf_device* nf_open(uint32_t mem_lines_log2, uint32_t seed, const nf_memory* memory);
// Does a block; 0, or 1 when a rule was broken: nf_fault says which, and the device is of no use.
int nf_run(nf_device* device, const nf_block* block);
const char* nf_fault(const nf_device* device);
// A narrower link: one flit in so many clocks each way, from now on (1 or more).
void nf_set_flit_clocks(nf_device* device, uint32_t clocks);
// What the stage probe has seen since it was asked last, if there is room for all of it; how many
// events. A build without the probe sees nothing.
uint32_t nf_take_passed(nf_device* device, nf_passed_event* events, uint32_t room);
void nf_read_figures(const nf_device* device, nf_figures* figures);
void nf_close(nf_device* device);

}
