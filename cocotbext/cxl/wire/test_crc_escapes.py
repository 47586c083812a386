# SPDX-License-Identifier: Apache-2.0
"""Tests of the CRC on errors beyond its guarantee, of which 1 in 2^16 is not detected."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from cocotbext.cxl.wire import crc

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
