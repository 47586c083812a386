# SPDX-License-Identifier: Apache-2.0
"""Tests of the CRC: its definition, crccheck, the published mask, the specified error detection."""

import random
from itertools import combinations

from crccheck.crc import Crc16Base

from cocotbext.cxl.wire import crc

PUBLISHED_MASK_15 = int(
    "EF9CD9F9C4BBB83A3E84A97CD7AEDA13FAEB01B85B204A4CAE1E79D977535D21"
    "DC7FDD6A38F03E77F5F52A2C636DB05C3978EA30CD50E0D99B0693D4746B2431",
    16,
)


class Reference(Crc16Base):  # type: ignore[misc]
    """CRC of crccheck with the polynomial of the link, most significant bit first, no inversion."""

    _poly = 0xF053
    _initvalue = 0
    _reflect_input = False
    _reflect_output = False
    _xor_output = 0
    _check_result = None


def _payloads(count: int) -> list[int]:
    rng = random.Random(1)
    return [rng.getrandbits(512) for _ in range(count)]


def crc16_serial(payload: int) -> int:
    """Return the CRC of a 512-bit payload by its definition: bit 511 first, one shift per bit."""
    value = 0
    for bit in range(crc.PAYLOAD_BITS - 1, -1, -1):
        top = value >> 15 ^ payload >> bit & 1
        value = (value << 1 & 0xFFFF) ^ (crc.POLY & 0xFFFF if top else 0)
    return value


def mask_of_crc_bit(bit: int) -> int:
    """Return the 512-bit mask for which CRC[bit] is the parity of (payload & mask)."""
    return sum((column >> bit & 1) << i for i, column in enumerate(crc.COLUMNS))


def test_published_facts() -> None:
    assert crc.COLUMNS[0] == 0xF053
    assert crc.COLUMNS[511] == 0xC47D
    assert mask_of_crc_bit(15) == PUBLISHED_MASK_15
    assert crc.seal(0) == 0


def test_against_independent_calculators() -> None:
    for payload in _payloads(300):
        assert crc.crc16(payload) == Reference.calc(payload.to_bytes(64, "big"))
    for payload in _payloads(20):
        assert crc.crc16(payload) == crc16_serial(payload)


def test_every_1_2_and_3_bit_error_is_detected() -> None:
    # An error pattern is undetected exactly if its syndromes XOR to 0: no syndrome is 0, no two are
    # equal, and no two XOR to a third.
    syndromes = [crc.syndrome_of_bit(bit) for bit in range(528)]
    known = set(syndromes)
    assert 0 not in known
    assert len(known) == 528
    assert not any(a ^ b in known for a, b in combinations(syndromes, 2))


def _span_is_detected(start: int, length: int) -> bool:
    """Return True if every non-zero error within flit bits [start, start + length) is detected."""
    basis: list[int] = []
    for bit in range(start, start + length):
        value = crc.syndrome_of_bit(bit)
        for entry in basis:
            value = min(value, value ^ entry)
        if not value:
            return False
        basis.append(value)
    return True


def test_bursts() -> None:
    assert all(_span_is_detected(start, 16) for start in range(512 - 16 + 1))
    assert all(_span_is_detected(start, 14) for start in range(512 - 14, 512))
    assert all(_span_is_detected(start, 16) for start in range(512, 513))


def test_crc_ok_rejects_flips() -> None:
    for payload in _payloads(50):
        flit = crc.seal(payload)
        assert crc.crc_ok(flit)
        assert not crc.crc_ok(flit ^ 1 << random.Random(payload).randrange(528))
