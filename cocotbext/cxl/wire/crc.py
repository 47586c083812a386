# SPDX-License-Identifier: Apache-2.0
"""CRC-16 of a link-layer flit (spec: link spec §2).

A flit is a 528-bit int: 512 payload bits, then the CRC in bits [527:512]. The CRC is linear over
GF(2), so one table per payload byte (64 of them) reduces it to 64 look-ups and XORs.
"""

from functools import lru_cache, reduce
from operator import getitem, xor
from typing import Final

POLY: Final = 0x1F053
PAYLOAD_BITS: Final = 512
FLIT_BITS: Final = 528
PAYLOAD_MASK: Final = (1 << PAYLOAD_BITS) - 1


def _make_columns() -> tuple[int, ...]:
    columns = [POLY & 0xFFFF]
    while len(columns) < PAYLOAD_BITS:
        column = columns[-1] << 1  # times x
        columns.append(column ^ POLY if column >> 16 else column)
    return tuple(columns)


COLUMNS: Final = _make_columns()
"""COLUMNS[i] = CRC of the payload whose only set bit is i."""


def _make_tables() -> tuple[tuple[int, ...], ...]:
    tables = []
    for byte in range(PAYLOAD_BITS // 8):
        table = [0]
        for column in COLUMNS[8 * byte : 8 * byte + 8]:
            table += [entry ^ column for entry in table]
        tables.append(tuple(table))
    return tuple(tables)


_TABLES: Final = _make_tables()


# Sender, receiver and monitor compute the CRC of the same flit: keep the last few results.
@lru_cache(maxsize=256)
def crc16(payload: int) -> int:
    """Return the CRC of a 512-bit payload. Raise OverflowError for bits above 511."""
    if not payload:
        return 0
    return reduce(xor, map(getitem, _TABLES, payload.to_bytes(64, "little")))


def seal(payload: int) -> int:
    """Return the 528-bit flit of a 512-bit payload: the payload with its CRC above it."""
    return payload | crc16(payload) << PAYLOAD_BITS


def crc_ok(flit: int) -> bool:
    """Return True if the CRC of a 528-bit flit matches its payload."""
    return crc16(flit & PAYLOAD_MASK) == flit >> PAYLOAD_BITS


def syndrome_of_bit(bit: int) -> int:
    """Return how an error in flit bit 0..527 changes (received CRC xor computed CRC), 16 bits."""
    return COLUMNS[bit] if bit < PAYLOAD_BITS else 1 << bit - PAYLOAD_BITS
