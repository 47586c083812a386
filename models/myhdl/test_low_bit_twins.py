# SPDX-License-Identifier: Apache-2.0
"""Tests of the MyHDL twins of the low-bit datapath against the numpy reducers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

from models.int_sums import SUM8_WORKERS, reduce_int, sum8_lines, sum16_lines
from models.line_packing import LINE_BYTES, U8
from models.modes import Mode, Tie
from models.myhdl.conftest import Datapath
from models.votes import PLANES, reduce_binary, reduce_ternary

DRAWS = 6
"""Lines per mode in every change; each has several contributions to 512 counters, votes and
views.
"""
NIGHTLY = pytest.mark.nightly("a thousand lines a mode, minutes of element by element Python")
DRAWN = pytest.mark.parametrize(
    ("draws", "seed"), [(DRAWS, 1), pytest.param(1000, 3, marks=NIGHTLY)], ids=["few", "many"]
)


def contributions(rng: Generator, most: int) -> U8:
    """Return random contributions uint8[W, 64] of up to ``most`` workers.

    They agree to a varying degree, so that counts and sums reach their limits.
    """
    workers = int(rng.integers(0, most + 1))
    line = rng.integers(0, 256, LINE_BYTES, dtype=np.uint8)
    noise = rng.integers(0, 256, (workers, LINE_BYTES), dtype=np.uint8)
    kept = rng.integers(0, 256, (workers, LINE_BYTES), dtype=np.uint8)
    if rng.random() < 0.5:
        kept |= rng.integers(0, 256, (workers, LINE_BYTES), dtype=np.uint8)
    ends = rng.choice(np.array([0, 255], np.uint8), (workers, LINE_BYTES))
    return np.asarray(np.where(kept & 1, line, np.where(kept & 2, noise, ends)), np.uint8)


@DRAWN
@pytest.mark.parametrize("mode", [Mode.G_BINARY, Mode.G_TERNARY])
def test_votes(mode: Mode, draws: int, seed: int) -> None:
    """Check the twin's votes, planes and saturation on random lines, ties, thresholds, CNT_W."""
    rng = np.random.default_rng(seed)
    for cnt_w in (8, 4, 1):
        most = min((1 << cnt_w) + 4, 20)  # small counters saturate
        with Datapath(mode, cnt_w) as datapath:
            for _ in range(max(1, draws // 3)):
                sent = contributions(rng, most)
                datapath.clear()
                for line in sent:
                    datapath.contribute(line)
                lines, top = sent[:, None], 2**cnt_w - 1
                threshold = int(rng.choice([1, 1, 2, 5, 255]))
                tie = Tie(int(rng.integers(2)))
                if mode == Mode.G_BINARY:
                    want = reduce_binary(lines, tie=tie, cnt_max=top)
                else:
                    want = reduce_ternary(lines, threshold=threshold, cnt_max=top)
                assert datapath.saturated == want.saturated[0]
                for p in range(PLANES):
                    assert np.array_equal(datapath.plane(p), want.planes[p, 0]), f"plane {p}"
                p = int(rng.integers(PLANES))
                assert np.array_equal(datapath.shown_plane(p), want.planes[p, 0]), f"plane {p}"
                assert np.array_equal(datapath.vote(tie == Tie.MINUS, threshold), want.vote[0])


@DRAWN
@pytest.mark.parametrize("mode", [Mode.G_INT4, Mode.G_INT8])
def test_sums(mode: Mode, draws: int, seed: int) -> None:
    """Check the twin's count planes, SUM16 and SUM8 lines for random integer codes."""
    rng = np.random.default_rng(seed)
    with Datapath(mode) as datapath:
        for _ in range(max(1, draws // 3)):
            sent = contributions(rng, 20)
            datapath.clear()
            for line in sent:
                datapath.contribute(line)
            signed = bool(rng.integers(2))
            want = reduce_int(sent[:, None], mode, signed=signed)
            for p in range(PLANES):
                assert np.array_equal(datapath.plane(p), want.planes[p, 0]), f"plane {p}"
            for j in range(sum16_lines(mode)):
                assert np.array_equal(datapath.sums(j, signed), want.sum16[j, 0]), f"SUM16 {j}"
            # Unsigned sums of 16 codes may exceed an int8.
            small = signed and len(sent) <= SUM8_WORKERS
            for j in range(sum8_lines(mode, len(sent)) if small else 0):
                assert np.array_equal(datapath.sums(j, True, True), want.sum8[j, 0]), f"SUM8 {j}"
