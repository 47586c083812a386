# SPDX-License-Identifier: Apache-2.0
"""Tests of the MyHDL twin of the CRC against crccheck and the CRC of the agent."""

from __future__ import annotations

import random

import pytest
from crccheck.crc import Crc16Base

from cocotbext.cxl.wire.crc import COLUMNS, crc16
from models.myhdl.stepper import Stepper


class Reference(Crc16Base):  # type: ignore[misc]
    """CRC of crccheck with the polynomial of the link, most significant bit first, no inversion."""

    _poly = 0xF053
    _initvalue = 0
    _reflect_input = False
    _reflect_output = False
    _xor_output = 0
    _check_result = None


def twin_crc(stepper: Stepper, payload: int) -> int:
    return stepper.inputs("nf_crc16", {"en": 1, "payload": payload})["crc"]


def test_columns(crc: Stepper) -> None:
    """Check the CRC of payloads with one set bit; by the spec F053h for bit 0, C47Dh at bit 511."""
    rng = random.Random(1)
    for bit in (0, 511, *rng.sample(range(512), 30)):
        assert twin_crc(crc, 1 << bit) == COLUMNS[bit]
    assert (twin_crc(crc, 1), twin_crc(crc, 1 << 511)) == (0xF053, 0xC47D)


NIGHTLY = pytest.mark.nightly("1,000,000 flits, bit by bit in Python")


@pytest.mark.parametrize("count", [300, pytest.param(1_000_000, marks=NIGHTLY)])
def test_flits(crc: Stepper, count: int) -> None:
    """Check the CRC of random payloads, and that it is zero without `en`."""
    rng = random.Random(count)
    for _ in range(count):
        payload = rng.getrandbits(512) & rng.choice((rng.getrandbits(512), (1 << 512) - 1))
        want = Reference.calc(payload.to_bytes(64, "little")[::-1])
        assert twin_crc(crc, payload) == want == crc16(payload)
    assert crc.inputs("nf_crc16", {"en": 0})["crc"] == 0
