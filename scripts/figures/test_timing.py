# SPDX-License-Identifier: Apache-2.0
"""`nf figures timing`: its stimuli and stages by hand, and a few of its runs on the RTL."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from scripts.benchmarks.miss_loads import run_block, write_block
from scripts.build import bulk_build
from scripts.figures import timing_alone, timing_loads
from scripts.figures.timing_bench import ACCESSES, LAST, READ, SECOND, Bench
from scripts.figures.timing_loads import LOW_BIT, MODES, PLAIN, Setting, Timed
from scripts.figures.timing_stages import ALONE, IN_ORDER, percentiles, split, split_alone
from verif.host.bulk_device import VerilatedDevice, VerilatedModel
from verif.host.c_interface import PASSED, WRITES, Stage

SMALL = Setting(workers=3, lines=4)


def test_stimuli_by_hand() -> None:
    second = timing_loads.nth_worker(SMALL, 1)
    assert second.before == ((0, 0), (0, 1), (0, 2), (0, 3))
    assert second.counted == ((1, 0), (1, 1), (1, 2), (1, 3))
    assert timing_loads.tiles(SMALL, 3).counted == (
        *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)),
        *((0, 3), (1, 3), (2, 3)),
    )
    assert timing_loads.skewed(SMALL, 2).counted == (
        *((0, 0), (0, 1), (0, 2), (1, 0), (0, 3), (1, 1), (1, 2), (2, 0)),
        *((1, 3), (2, 1), (2, 2), (2, 3)),
    )


@pytest.mark.parametrize("amount", [0, 1, 3, 100])
def test_every_order_has_every_contribution_once(amount: int) -> None:
    whole = sorted((w, i) for w in range(3) for i in range(4))
    assert sorted(timing_loads.skewed(SMALL, amount).counted) == whole
    assert sorted(timing_loads.tiles(SMALL, max(1, amount)).counted) == whole


def made(events: list[tuple[int, int, int]], each: list[int], ended: list[int]) -> Timed:
    """A run of which only times are known."""
    passed = np.array(events, PASSED)
    answers = np.array(each, np.uint64), np.array(ended, np.uint64)
    return Timed(0, *answers, 0, 0, 0, 0, passed)


def test_stages_by_hand() -> None:
    """One access from clock 100 to 130; what evictions and the initialiser do is not its own."""
    events: list[tuple[int, int, int]] = [
        (104, Stage.CORE_IN, 7),
        (105, Stage.UNIT_IN, 7),
        (106, Stage.MEMORY_ASKED, WRITES),
        (107, Stage.MEMORY_ASKED, 0),
        (110, Stage.MEMORY_ANSWERED, WRITES + 3),
        (117, Stage.MEMORY_ANSWERED, 0),
        (119, Stage.MEMORY_ANSWERED, 0),
        (122, Stage.UNIT_OUT, 7),
        (124, Stage.CORE_OUT, 7),
    ]
    came = made(events, [30], [130])
    alone = {name: int(clocks[0]) for name, clocks in split_alone(came).items()}
    assert tuple(alone) == ALONE
    assert list(alone.values()) == [4, 1, 2, 10, 2, 3, 2, 6]
    whole = {name: int(clocks[0]) for name, clocks in split(came).items()}
    assert tuple(whole) == IN_ORDER
    assert list(whole.values()) == [4, 1, 17, 2, 6]
    lacking = made([event for event in events if event[1] != Stage.UNIT_OUT], [30], [130])
    with pytest.raises(ValueError, match="access 0 has not passed UNIT_OUT"):
        split(lacking)


def test_percentiles_and_formula_by_hand() -> None:
    assert percentiles(np.arange(1, 101)) == (1, 50, 95, 100)
    assert timing_alone.formula(SECOND, 300) == pytest.approx(100 * 3 / 311)
    assert timing_alone.formula(READ, 100) == pytest.approx(100 * 7 / 111)


def test_a_narrow_link_takes_its_clocks(tmp_path: Path) -> None:
    """A line is 5 slots, a flit 4: on a link of a flit in n clocks a line takes 1.25 n at least."""
    model = bulk_build.build("verilator")
    took = []
    for flit_clocks in (1, 2, 4):
        with closing(model.open(tmp_path, 20, 1, timing_loads.AT_300.at(3))) as device:
            assert isinstance(device, VerilatedDevice)
            device.set_flit_clocks(flit_clocks)
            took.append(run_block(device, write_block(None, [(0, i) for i in range(400)])) / 400)
            assert not len(device.passed())  # no probe in this build
    assert all(clocks >= 1.25 * n for clocks, n in zip(took, (1, 2, 4), strict=True))
    assert took[2] < 1.1 * 1.25 * 4
    assert all(less < more for less, more in pairwise(took))


@pytest.mark.nightly("a build of the model with its stage probe; the arithmetic is tested above")
def test_overhead_is_what_the_formula_says(tmp_path: Path) -> None:
    """Every low-bit mode and kind of access; the stages of each access add up to its clocks."""
    model = bulk_build.build("verilator", stages=True)
    assert isinstance(model, VerilatedModel)
    bench = Bench(model, tmp_path)
    for access in ACCESSES:
        where = timing_alone.setting(access)
        for name in LOW_BIT:
            found = bench.exposed(name, where, access.stimulus(where))
            assert found == pytest.approx(timing_alone.formula(access, 300), rel=0.02)
    for name in MODES:
        where = timing_alone.setting(LAST)
        came = bench.run(name, where, LAST.stimulus(where))
        for parts in (split_alone(came), split(came)):
            assert np.array_equal(np.sum(list(parts.values()), axis=0), came.each)
        assert (came.misses > 0) == (name not in (PLAIN, "IDENTITY"))
        assert came.hits == 0
