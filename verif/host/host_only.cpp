// SPDX-License-Identifier: Apache-2.0
// The host without a device, for tests that play the device themselves, a clock at a time.
#include "host.h"

extern "C" {

Host* nf_host_new(uint32_t mem_lines_log2, uint32_t grant, const nf_memory* memory) {
  return new Host(mem_lines_log2, 1, *memory, grant);
}
void nf_host_begin(Host* host, const nf_block* block) { host->begin(*block); }
int nf_host_busy(const Host* host) { return host->busy(); }
void nf_host_clock(Host* host, const FromDevice* from, ToDevice* to) { host->clock(*from, *to); }
const char* nf_host_fault(Host* host) { return host->fault().text().c_str(); }
void nf_host_figures(const Host* host, nf_figures* figures) { *figures = host->figures(); }
void nf_host_delete(Host* host) { delete host; }
}
