# SPDX-License-Identifier: Apache-2.0
"""Twin of `nf_accumulate`: adds one contribution to the counters of a line, counter by counter.

Spec: controller §3 (G_BINARY, G_TERNARY), second edition §7 (codes: the ones of each bit).
"""

from __future__ import annotations

from typing import Any

from myhdl import always_comb, block

from models.line_packing import LINE_BITS
from models.myhdl.ports import Bit, BitOut, Line, Planes, PlanesOut


@block
def nf_accumulate(
    en: Bit,
    ternary: Bit,
    ones: Bit,
    data: Line,
    planes_in: Planes,
    planes_out: PlanesOut,
    saturated: BitOut,
    cnt_w: int = 8,
) -> Any:
    """Add a contribution `data` to the counters `planes_in`, combinationally.

    The mode is G_TERNARY with `ternary`, integer codes with `ones` (counts ones), else G_BINARY
    (counts zeros). `saturated`: some counter was full and an increment is lost. Without `en` the
    counters pass unchanged and nothing saturates.
    """
    most = 2**cnt_w - 1

    @always_comb
    def add():
        planes_out.next = planes_in
        lost = False
        if en:
            for column in range(LINE_BITS):
                voted = False
                if ternary:
                    # Element e is {gate, sign} at columns 2 e + 1 and 2 e; its counter of +1 is
                    # column 2 e, its counter of -1 column 2 e + 1.
                    sign = data[column - column % 2]
                    gate = data[column - column % 2 + 1]
                    if column % 2 == 0:
                        voted = gate and not sign
                    else:
                        voted = gate and sign
                elif ones:
                    voted = data[column]
                else:
                    voted = not data[column]
                if voted:
                    count = 1
                    for p in range(cnt_w):
                        if planes_in[p * LINE_BITS + column]:
                            count += 1 << p
                    if count > most:
                        lost = True
                    else:
                        for p in range(cnt_w):
                            planes_out.next[p * LINE_BITS + column] = (count >> p) & 1
        saturated.next = lost

    return add
