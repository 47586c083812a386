# SPDX-License-Identifier: Apache-2.0
"""Tests of the CRC: crccheck, the published mask, the specified error detection."""

import math
import random
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
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


def mask_of_crc_bit(bit: int) -> int:
    """Return the 512-bit mask for which CRC[bit] is the parity of (payload & mask)."""
    return sum((column >> bit & 1) << i for i, column in enumerate(crc.COLUMNS))


def test_published_facts() -> None:
    assert crc.COLUMNS[0] == 0xF053
    assert crc.COLUMNS[511] == 0xC47D
    assert mask_of_crc_bit(15) == PUBLISHED_MASK_15
    assert crc.seal(0) == 0


def test_against_an_independent_calculator() -> None:
    rng = random.Random(1)
    for _ in range(300):
        payload = rng.getrandbits(512)
        assert crc.crc16(payload) == Reference.calc(payload.to_bytes(64, "big"))


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


SYNDROMES: npt.NDArray[np.uint16] = np.array(
    [crc.syndrome_of_bit(bit) for bit in range(crc.FLIT_BITS)], dtype=np.uint16
)
SHARE = 2.0**-16


def syndromes(patterns: npt.NDArray[np.intp]) -> npt.NDArray[np.uint16]:
    """Return the syndromes uint16[n] of n error patterns, each a row of bit numbers [n, weight]."""
    out: npt.NDArray[np.uint16] = np.bitwise_xor.reduce(SYNDROMES[patterns], axis=1)
    return out


def test_linearity_against_the_crc_itself() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        flit = crc.seal(int.from_bytes(rng.bytes(64), "little"))
        bits = rng.choice(crc.FLIT_BITS, size=rng.integers(1, 9), replace=False)
        bad = flit ^ sum(1 << int(bit) for bit in bits)
        assert crc.crc_ok(bad) == (int(syndromes(bits[None, :])[0]) == 0)


@pytest.mark.parametrize("weight", [5, 8, 15, 64])
def test_escapes_beyond_the_guarantee(weight: int) -> None:
    """Check that random multi-bit errors escape as often as a random 16-bit word is 0 (5 sigma)."""
    rng = np.random.default_rng(weight)
    count = escapes = 0
    for _ in range(8):
        patterns = rng.integers(0, crc.FLIT_BITS, size=(250_000, weight))
        if weight <= 15:  # a bit drawn twice is no error of this weight
            ordered = np.sort(patterns, axis=1)
            patterns = patterns[(np.diff(ordered, axis=1) != 0).all(axis=1)]
        count += len(patterns)
        escapes += int((syndromes(patterns) == 0).sum())
    expected = count * SHARE
    print(f"weight {weight}: {count} errors, {escapes} escapes, expected {expected:.1f}")
    assert abs(escapes - expected) < 5 * math.sqrt(expected)


def test_the_count_would_see_a_weaker_crc() -> None:
    """Check that the bound fails for a CRC of 15 bits, of which twice as many errors escape."""
    rng = np.random.default_rng(9)
    patterns = rng.integers(0, crc.FLIT_BITS, size=(2_000_000, 8))
    escapes = int((syndromes(patterns) & 0x7FFF == 0).sum())
    expected = len(patterns) * SHARE
    assert abs(escapes - expected) > 5 * math.sqrt(expected)
