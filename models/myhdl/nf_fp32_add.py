# SPDX-License-Identifier: Apache-2.0
"""Twin of `nf_fp32_add`: binary32 addition as one exact fixed-point sum, rounded once.

A finite binary32 number is a multiple of 2^-149, below 2^277 of them, so the sum of two is exact in
278 bits. There is no alignment and no guard bit: the exact sum is rounded. Spec: controller §4:
round to nearest even, subnormals kept, every NaN result 7FC00000h.
"""

from __future__ import annotations

from typing import Annotated, Any

from myhdl import Signal, always, always_comb, block, intbv

from models.myhdl.ports import Bit, Port

EXACT_BITS = 278
HALVES = 9
"""log2 of a power of two above the number of these bits."""
HIDDEN = 1 << 23
"""Leading one of a normal number."""
SPECIAL = 255
"""Exponent field of infinities and NaN."""


Word = Annotated[Any, Port(32)]


@block
def nf_fp32_add(
    clk: Any, en: Bit, a: Word, b: Word, sum: Annotated[Any, Port(32, output=True)]
) -> Any:
    """Add two binary32 numbers, with one clock of latency.

    `a`, `b` and `en` are sampled at the rising edge of `clk`; `sum` follows that edge. It is zero
    if `en` was low.
    """
    taken = Signal(bool(0))
    left = Signal(intbv(0)[32:])
    right = Signal(intbv(0)[32:])

    @always(clk.posedge)
    def take():
        taken.next = en
        left.next = a
        right.next = b

    @always_comb
    def add():
        left_size = intbv(0)[EXACT_BITS:]
        right_size = intbv(0)[EXACT_BITS:]
        size = intbv(0)[EXACT_BITS:]
        rest = intbv(0)[EXACT_BITS:]
        sum.next = 0
        if taken:
            left_exponent = int(left[31:23])
            left_fraction = int(left[23:])
            right_exponent = int(right[31:23])
            right_fraction = int(right[23:])
            if left_exponent == SPECIAL or right_exponent == SPECIAL:
                nan = False
                if left_exponent == SPECIAL and left_fraction != 0:
                    nan = True
                if right_exponent == SPECIAL and right_fraction != 0:
                    nan = True
                if left_exponent == right_exponent and left[31] != right[31]:
                    nan = True  # infinity less infinity
                if nan:
                    sum.next = 0x7FC00000
                elif left_exponent == SPECIAL:
                    sum.next = left
                else:
                    sum.next = right
            else:
                # Subnormal numbers have the exponent of the smallest normal ones.
                if left_exponent > 0:
                    left_fraction += HIDDEN
                    left_exponent -= 1
                if right_exponent > 0:
                    right_fraction += HIDDEN
                    right_exponent -= 1
                left_size[:] = left_fraction << left_exponent
                right_size[:] = right_fraction << right_exponent
                sign = left[31]
                if left[31] == right[31]:
                    size[:] = left_size + right_size
                elif left_size > right_size:
                    size[:] = left_size - right_size
                else:
                    size[:] = right_size - left_size
                    sign = right[31]
                    if left_size == right_size:
                        sign = False  # x - x is +0
                top = 0  # place of the leading one, found by halves
                rest[:] = size
                for i in range(HALVES):
                    half = (1 << (HALVES - 1)) >> i
                    if (rest >> half) != 0:
                        rest[:] = rest >> half
                        top += half
                dropped = 0
                if top > 23:
                    dropped = top - 23
                kept = int(size >> dropped)
                if dropped > 0:
                    rest[:] = (size >> (dropped - 1)) << (dropped - 1)
                    more = rest != size  # than the half
                    if size[dropped - 1] and (more or kept % 2 == 1):
                        kept += 1
                        if kept == 2 * HIDDEN:
                            kept = HIDDEN
                            dropped += 1
                exponent = 0
                if kept >= HIDDEN:
                    exponent = dropped + 1
                    kept -= HIDDEN
                if exponent >= SPECIAL:
                    exponent = SPECIAL
                    kept = 0
                sum.next[31] = sign
                sum.next[31:23] = exponent
                sum.next[23:] = kept

    return take, add
