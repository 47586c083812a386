# SPDX-License-Identifier: Apache-2.0
"""Twin of `nf_sum`: a line of exact sums of integer codes, element by element.

Spec: controller, second edition §7.
"""

from __future__ import annotations

from typing import Annotated, Any

from myhdl import always, block

from models.line_packing import LINE_BITS
from models.myhdl.ports import Bit, LineOut, Planes, Port


@block
def nf_sum(
    clk: Any,
    en: Bit,
    wide: Bit,
    codes_signed: Bit,
    bytes: Bit,
    part: Annotated[Any, Port(2)],
    planes: Planes,
    line: LineOut,
    cnt_w: int = 8,
) -> Any:
    """Return one SUM8 or SUM16 line of the sums of integer codes, one clock after the inputs.

    `planes` are the counters of ones of each bit of the codes. `wide`: codes of 8 bits, else of 4;
    `bytes`: a SUM8 line, else SUM16; `part` is its number. Only existing views are requested:
    `wide` and `bytes` exclude each other. Without `en` the line is zero.
    """

    @always(clk.posedge)
    def show():
        line.next = 0
        if en:
            code_bits = 4
            if wide:
                code_bits = 8
            sum_bits = 16
            shown = LINE_BITS // 16
            if bytes:
                sum_bits = 8
                shown = LINE_BITS // 8
            for place in range(LINE_BITS // 8):
                element = part * shown + place
                if place < shown and element * code_bits < LINE_BITS:
                    total = 0
                    for b in range(8):
                        if b < code_bits:
                            weight = 1 << b
                            if codes_signed and b == code_bits - 1:
                                weight = -weight  # two's complement
                            for p in range(cnt_w):
                                if planes[p * LINE_BITS + element * code_bits + b]:
                                    total += weight << p
                    for b in range(16):
                        if b < sum_bits:
                            line.next[place * sum_bits + b] = (total >> b) & 1

    return show
