# SPDX-License-Identifier: Apache-2.0
"""Counts of the low-bit modes: where a vote turns over, and what a count plane holds."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from models.line_packing import Mode
from models.reducers import LowBitResult
from models.regions import RegionConfig
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.value_classes import LOW_BIT, THRESHOLDS, threshold_class

# A count c of m contributions: 2c - m says which way the vote goes, and by how much.
COUNTS = ("0", "1", "half-1", "half", "half+1", "m-1", "m")
NETS = ("min", "-T-1", "-T", "-T+1", "0", "T-1", "T", "T+1", "max")
SHARES = ("0", "1", "some", "m-1", "m")
PLANES = tuple(str(plane) for plane in range(8))
CONTENTS = ("zeros", "mixed", "ones")
FILLS = ("part", "all")


class CountPoints:
    """Feed it with `result` and `plane`, once for each line that a host has read."""

    def __init__(self, model: CoverModel) -> None:
        cross = model.cross
        self.majority = cross(
            "majority",
            "each count beside the majority, with both ties, for even and odd numbers of "
            "contributions; half of an odd number is none",
            {"count": COUNTS, "parity": ("even", "odd"), "tie": ("PLUS", "MINUS"), "seen": FILLS},
            test="test_systematic::counts",
            at_least=CHEAP,
            ignore=lambda count, parity, tie, seen: count == "half" and parity == "odd",
        )
        self.unanimous = model.point(
            "unanimous line",
            "all elements of a line have the same count: carries go through every lane at once",
            [*(f"{mode} {sign}" for mode in LOW_BIT for sign in "+-"), "G_TERNARY 0"],
            test="test_systematic::counts",
        )
        self.net = cross(
            "net",
            "plus minus minus at each edge of the threshold; nobody can reach a T above W",
            {"net": NETS, "T": THRESHOLDS},
            test="test_systematic::counts",
            at_least=CHEAP,
            ignore=no_net,
        )
        self.shares = cross(
            "plus and minus",
            "both counts of a ternary element against the number of contributions m; their sum is "
            "at most m",
            {"plus": SHARES, "minus": SHARES},
            test="test_systematic::counts",
            at_least=CHEAP,
            ignore=_too_many,
        )
        self.planes = cross(
            "plane content",
            "every plane was seen with no bit, with some and with all of them; W = 64 does not "
            "reach plane 7, and not both counts of each ternary element reach 64",
            {"mode": LOW_BIT, "plane": PLANES, "content": CONTENTS},
            test="test_systematic::counts",
            ignore=lambda mode, plane, content: (
                (plane == "7" and content != "zeros")
                or (mode == Mode.G_TERNARY.name and plane == "6" and content == "ones")
            ),
        )

    def result(self, config: RegionConfig, reduced: LowBitResult) -> None:
        """A vote was read; `reduced` is the reference's, of one line."""
        m = int(reduced.contributions[0])
        if m == 0:
            return
        seen = "all" if m == config.workers else "part"
        if config.mode is Mode.G_BINARY:
            self._majority(config, reduced, m, seen)
        else:
            self._net(config, reduced, m)

    def _majority(self, config: RegionConfig, reduced: LowBitResult, m: int, seen: str) -> None:
        present = np.bincount(reduced.counts[0], minlength=m + 1)
        tie = "MINUS" if config.tie_minus else "PLUS"
        parity = "odd" if m & 1 else "even"
        below, above = (m - 1) // 2, m // 2 + 1  # the nearest counts that are no tie
        for name, count in zip(
            COUNTS, (0, 1, below, -1 if m & 1 else m // 2, above, m - 1, m), strict=True
        ):
            if 0 <= count <= m and present[count]:
                self.majority.hit(name, parity, tie, seen)
        if present[m] == len(reduced.counts[0]):
            self.unanimous.hit(f"{Mode.G_BINARY.name} +")
        elif present[0] == len(reduced.counts[0]):
            self.unanimous.hit(f"{Mode.G_BINARY.name} -")

    def _net(self, config: RegionConfig, reduced: LowBitResult, m: int) -> None:
        plus = reduced.counts[0, 0::2].astype(np.int32)
        minus = reduced.counts[0, 1::2].astype(np.int32)
        t = config.threshold
        present = np.bincount(plus - minus + m, minlength=2 * m + 1)
        kind = threshold_class(t, config.workers)
        values = (-m, -t - 1, -t, 1 - t, 0, t - 1, t, t + 1, m)
        for name, net in zip(NETS, values, strict=True):
            if -m <= net <= m and present[net + m]:
                self.net.hit(name, kind)
        table = _share_codes(m)
        pairs = np.bincount(table[plus] * len(SHARES) + table[minus], minlength=len(SHARES) ** 2)
        for index in np.flatnonzero(pairs).tolist():
            self.shares.hit(SHARES[index // len(SHARES)], SHARES[index % len(SHARES)])
        for sign, net in (("0", 0), ("+", m), ("-", -m)):
            if present[net + m] == len(plus):
                self.unanimous.hit(f"{Mode.G_TERNARY.name} {sign}")

    def plane(self, mode: Mode, plane: int, data: bytes) -> None:
        """A count plane was read as `data`."""
        ones = int.from_bytes(data, "little").bit_count()
        content = "zeros" if ones == 0 else "ones" if ones == 8 * len(data) else "mixed"
        self.planes.hit(mode.name, str(plane), content)


@functools.cache
def _share_codes(m: int) -> NDArray[np.intp]:
    """Index into SHARES of each count of m contributions."""
    codes = np.full(m + 1, SHARES.index("some"))
    codes[m - 1] = SHARES.index("m-1")
    codes[min(1, m)] = SHARES.index("1")
    codes[0], codes[m] = SHARES.index("0"), SHARES.index("m")
    return codes


def _too_many(plus: str, minus: str) -> bool:
    """Counts that add up to more than m."""
    if "m" in (plus, minus):
        return {plus, minus} != {"m", "0"}
    return (plus, minus) == ("m-1", "m-1") or {plus, minus} == {"m-1", "some"}


def no_net(net: str, threshold: str) -> bool:
    """Edges of T that no count can reach with so large a T."""
    beyond = {"W": ("-T-1", "T+1")}
    if threshold in ("W+1..64", "65..254", "255"):
        return net not in ("min", "0", "max") and not (
            threshold == "W+1..64" and net in ("T-1", "-T+1")
        )
    return net in beyond.get(threshold, ())
