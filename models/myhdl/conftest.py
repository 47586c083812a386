# SPDX-License-Identifier: Apache-2.0
"""Helpers that run MyHDL twins in MyHDL's simulator, with lines as in the reference models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from models.line_packing import LINE_BITS, LINE_BYTES, U8
from models.modes import Mode
from models.myhdl.convert import Twin
from models.myhdl.stepper import Stepper


def number(line: U8) -> int:
    """Return a line uint8[64] as the little-endian integer for a port."""
    return int.from_bytes(line.tobytes(), "little")


def line_of(value: int) -> U8:
    """Return the line uint8[64] of a port's value; inverts `number`."""
    return np.frombuffer(value.to_bytes(LINE_BYTES, "little"), np.uint8)


class Datapath(Stepper):
    """Counters of one line, with the twins nf_accumulate, nf_vote and nf_sum that use them."""

    def __init__(self, mode: Mode, cnt_w: int = 8) -> None:
        names = ("nf_accumulate", "nf_vote", "nf_sum")
        super().__init__([Twin(name, {"CNT_W": cnt_w}) for name in names])
        self._mode = mode
        self.clear()

    def clear(self) -> None:
        """Set all counters and the number of contributions to 0."""
        self.planes = self.contributions = 0
        self.saturated = False

    def contribute(self, line: U8) -> None:
        """Add one contribution uint8[64] to the counters."""
        got = self.inputs(
            "nf_accumulate",
            {
                "en": 1,
                "ternary": self._mode == Mode.G_TERNARY,
                "ones": self._mode.bits > 0,
                "data": number(line),
                "planes_in": self.planes,
            },
        )
        self.planes = got["planes_out"]
        self.saturated |= bool(got["saturated"])
        self.contributions += 1

    def plane(self, p: int) -> U8:
        """Return count plane p, uint8[64]."""
        return line_of(self.planes >> p * LINE_BITS & (1 << LINE_BITS) - 1)

    def vote(self, tie_minus: bool = False, threshold: int = 1) -> U8:
        """Return the line of votes, uint8[64], computed by `nf_vote`."""
        return self._counts({"vote": 1, "tie_minus": tie_minus, "threshold": threshold})

    def shown_plane(self, p: int) -> U8:
        """Return count plane p as read through `nf_vote`, uint8[64]."""
        return self._counts({"vote": 0, "plane": p})

    def _counts(self, asked: dict[str, int]) -> U8:
        values = {
            "en": 1,
            "ternary": self._mode == Mode.G_TERNARY,
            "planes": self.planes,
            "contributions": self.contributions,
            **asked,
        }
        self.inputs("nf_vote", values)
        self.clock()
        self.clock()
        return line_of(self.inputs("nf_vote", {})["line"])

    def sums(self, part: int, signed: bool, sum8: bool = False) -> U8:
        """Return line ``part`` of the sums (SUM8 if ``sum8``, else SUM16), uint8[64], by nf_sum."""
        values = {
            "en": 1,
            "wide": self._mode == Mode.G_INT8,
            "codes_signed": signed,
            "bytes": sum8,
            "part": part,
            "planes": self.planes,
        }
        self.inputs("nf_sum", values)
        self.clock()
        return line_of(self.inputs("nf_sum", {})["line"])


@pytest.fixture
def crc() -> Iterator[Stepper]:
    """Yield a simulation of the twin `nf_crc16`."""
    with Stepper([Twin("nf_crc16")]) as stepper:
        yield stepper


@pytest.fixture
def adder() -> Iterator[Stepper]:
    """Yield a simulation of the twin `nf_fp32_add`."""
    with Stepper([Twin("nf_fp32_add")]) as stepper:
        yield stepper
