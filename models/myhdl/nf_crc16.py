# SPDX-License-Identifier: Apache-2.0
"""Twin of `nf_crc16`: CRC-16 over a flit, as a long division bit by bit.

Spec: link §2: F(x) x^16 mod 1F053h, initial value 0, flit bit 511 first.
"""

from __future__ import annotations

from typing import Annotated, Any

from myhdl import always_comb, block

from models.myhdl.ports import Bit, Line, Port

PAYLOAD_BITS = 512
CRC_BITS = 16
POLYNOMIAL = 0x1F053


@block
def nf_crc16(en: Bit, payload: Line, crc: Annotated[Any, Port(16, output=True)]) -> Any:
    """Compute the CRC of slots 0 to 3 of a flit, which is its last two bytes; zero without `en`."""

    @always_comb
    def divide():
        remainder = 0
        if en:
            for i in range(PAYLOAD_BITS + CRC_BITS):
                remainder = 2 * remainder
                if i < PAYLOAD_BITS:
                    if payload[PAYLOAD_BITS - 1 - i]:
                        remainder += 1
                if remainder >= 1 << CRC_BITS:
                    remainder ^= POLYNOMIAL
        crc.next = remainder

    return divide
