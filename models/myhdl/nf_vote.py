# SPDX-License-Identifier: Apache-2.0
"""Twin of `nf_vote`: the reduced line from the counters of a line, element by element

spec: controller §3.
"""

from __future__ import annotations

from typing import Any

from myhdl import always_comb, block

from models.line_packing import LINE_BITS
from models.myhdl.ports import Ports


def ports(cnt_w: int = 8) -> Ports:
    """`contributions` is m, `threshold` is T; without `en` the line has no meaning."""
    return Ports(
        {
            "en": 1,
            "ternary": 1,
            "planes": cnt_w * LINE_BITS,
            "contributions": 7,
            "tie_minus": 1,
            "threshold": 8,
        },
        {"line": LINE_BITS},
    )


@block
def nf_vote(
    en: Any,
    ternary: Any,
    planes: Any,
    contributions: Any,
    tie_minus: Any,
    threshold: Any,
    line: Any,
    cnt_w: int = 8,
) -> Any:
    """G_TERNARY: {gate, sign} of element e at bits 2 e + 1 and 2 e. G_BINARY: 1 is negative."""

    @always_comb
    def decide():
        line.next = 0
        if en and ternary:
            for e in range(LINE_BITS // 2):
                net = 0
                for p in range(cnt_w):
                    if planes[p * LINE_BITS + 2 * e]:
                        net += 1 << p
                    if planes[p * LINE_BITS + 2 * e + 1]:
                        net -= 1 << p
                if net >= threshold:
                    line.next[2 * e + 1] = True
                elif net + threshold <= 0:
                    line.next[2 * e + 1] = True
                    line.next[2 * e] = True
        elif en and contributions > 0:
            for e in range(LINE_BITS):
                count = 0
                for p in range(cnt_w):
                    if planes[p * LINE_BITS + e]:
                        count += 1 << p
                if 2 * count < contributions:
                    line.next[e] = True
                elif 2 * count == contributions:
                    line.next[e] = tie_minus

    return decide
