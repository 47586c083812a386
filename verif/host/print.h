// SPDX-License-Identifier: Apache-2.0
// Included before everything in Verilator's run time: what the design prints is kept, not printed.
#pragma once

#ifdef __cplusplus
extern "C"
#endif
__attribute__((format(printf, 1, 2))) int nf_print(const char* format, ...);

#define VL_PRINTF nf_print
#define VL_USER_STOP
#define VL_USER_FINISH
#define VL_USER_FATAL
