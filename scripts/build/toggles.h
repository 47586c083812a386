// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "verilated_cov.h"
__attribute__((noinline, weak)) void nf_toggled(int width, uint32_t* counts, QData now,
                                                QData before) {
    for (QData changed = (now ^ before) & VL_MASK_Q(width); changed; changed &= changed - 1) {
        const int bit = __builtin_ctzll(changed);
        ++counts[2 * bit + ((now >> bit) & 1)];
    }
}
__attribute__((noinline, weak)) void nf_toggled_wide(int width, uint32_t* counts, WDataInP now,
                                                     WDataInP before) {
    for (int n = 0; width > 0; ++n, width -= 32)
        nf_toggled(width < 32 ? width : 32, counts + 64 * n, now[n], before[n]);
}
#define VL_COV_TOGGLE_CHG_ST_I nf_toggled
#define VL_COV_TOGGLE_CHG_ST_Q nf_toggled
#define VL_COV_TOGGLE_CHG_ST_W nf_toggled_wide
