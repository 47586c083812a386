// SPDX-License-Identifier: Apache-2.0
#include "toggles.h"
#include <cstdio>
int main() {
    uint32_t counts[202] = {};
    CData four = 0;
    VL_COV_TOGGLE_CHG_ST_I(4, counts, (IData)(four) - (IData)(0x3fU), four);  // dirty above bit 3
    QData all = ~0ULL;
    VL_COV_TOGGLE_CHG_ST_Q(64, counts + 8, all, (QData)(0));
    EData now[2] = {0, ~0U}, before[2] = {1, 0};
    VL_COV_TOGGLE_CHG_ST_W(33, counts + 136, now, before);
    for (uint32_t one : counts) printf("%u", one);
}
