# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure figures collectives`: bounds, rates and goals by hand, and a few runs."""

from __future__ import annotations

import argparse
from itertools import product

import pytest

from neuron_fabric.capacity.substrate import shipped as shipped_substrate
from neuron_fabric.codec.routes import Route
from neuron_fabric.collectives.schedule import Adder, Collective
from scripts.collectives.executor_runs import CollectiveKind
from scripts.common.errors import OptionError
from scripts.figures import baseline, collectives_figure
from scripts.figures.collectives_figure import (
    BARRIER,
    FOLLOWED_DEVICES,
    FOLLOWED_RANKS,
    KINDS,
    LATENCIES,
    PASSIVE,
    SUM,
    VOTES,
    PoolPlace,
    TimedCollective,
    bound,
    by_host_links,
)
from scripts.figures.result_file import Measured
from verif.replay.bulk.bulk_schedule import PoolRun

ACCEPTED = baseline.read()["collectives"]


def took(kind: CollectiveKind, each: float, devices: int = 1, latency: int = 48) -> TimedCollective:
    """Return a run of 8 ranks that took so many clocks a line."""
    place = PoolPlace(kind, FOLLOWED_RANKS, devices, latency)
    return TimedCollective(place, PoolRun([], round(each * place.lines), 1, 100, 200, 300))


@pytest.mark.parametrize(
    ("kind", "each"),
    [
        (VOTES, 2.1 * 8),
        (SUM, 3.15 * 8),
        (CollectiveKind(Collective.ALL_REDUCE, Adder.DEVICE, Route.G_INT8), 1.05 * 3 * 8),
        (CollectiveKind(Collective.BROADCAST), 1.05 * 8),
        (CollectiveKind(Collective.ALL_GATHER), 1.05 * 8),
        (PASSIVE, 1.05 * (14 + 8)),
    ],
)
def test_bounds_by_hand(kind: CollectiveKind, each: float) -> None:
    for devices in (1, 2, 4):
        place = PoolPlace(kind, 8, devices, 48)
        assert bound(place.schedule) / place.lines == pytest.approx(each / devices, rel=1e-6)


def test_links_of_the_hosts_by_hand() -> None:
    """Check computed rates of 8 hosts: a ring moves 2 (W - 1) / W of the bytes, codes more."""
    known = shipped_substrate().coefficients
    link = known.lines_in * 64 / known.flit_s / 1e9
    assert by_host_links(PoolPlace(SUM, 8, 1, 48)) == pytest.approx(link / 1.75)
    assert by_host_links(PoolPlace(VOTES, 8, 4, 48)) == pytest.approx(32 * link / 1.75)
    codes = CollectiveKind(Collective.ALL_REDUCE, Adder.DEVICE, Route.G_INT8)
    assert by_host_links(PoolPlace(codes, 8, 1, 48)) == pytest.approx(4 * link / (7 / 8 * 3))
    assert by_host_links(
        PoolPlace(CollectiveKind(Collective.BROADCAST), 8, 1, 48)
    ) == pytest.approx(link)
    assert by_host_links(PoolPlace(CollectiveKind(Collective.SCATTER), 8, 1, 48)) == pytest.approx(
        link * 8 / 7
    )
    assert by_host_links(PoolPlace(BARRIER, 8, 1, 48)) is None


def test_rates_by_hand() -> None:
    """Check bandwidths of nccl-tests: 16.8 clocks a line of 512 votes, 2,048 bytes of FP32."""
    one = took(VOTES, 16.8)
    rate = 2048 / (one.each * shipped_substrate().coefficients.flit_s) / 1e9
    row = one.row()
    assert row[8] == pytest.approx(rate)
    assert row[9] == pytest.approx(rate * 1.75)
    assert row[5] == pytest.approx(100 * 200 / 4 / one.run.clocks) or row[5]
    assert took(BARRIER, 41).row()[4] is None


@pytest.mark.parametrize("good", [True, False])
def test_goals(good: bool) -> None:
    """Check that each goal is met at its limit, and missed by a value that is 2 % worse."""
    worse = 1.0 if good else 1.02
    runs = [
        took(VOTES, 19.1 * worse),
        took(VOTES, 9.59 * worse, devices=2),
        took(SUM, 27.99 * worse),
        took(SUM, 43.99 * worse, latency=300),
        took(BARRIER, 45 * worse),
    ]
    goals = list(collectives_figure._goals({one.place: one for one in runs}))
    assert [one.good for one in goals if not one.least] == [good] * 5
    slow = took(VOTES, 19.1), took(VOTES, 19.1 / (1.91 if good else 1.87), devices=2)
    found = collectives_figure._goals({one.place: one for one in slow})
    assert [one.good for one in found if one.least] == [good]


def measured(*words: str) -> Measured:
    parser = argparse.ArgumentParser()
    collectives_figure.add_arguments(parser)
    return collectives_figure.run(parser.parse_args([*words]))


def test_some_are_measured() -> None:
    """Check that votes of 8 ranks have the accepted clocks, with a plot, goals and a table."""
    found = measured("--ranks", "8", "--devices", "1", "--latency", "48", "--only", VOTES.name)
    assert found.followed == {
        name: pytest.approx(ACCEPTED[name], rel=baseline.SLIP) for name in found.followed
    }
    assert len(found.followed) == 1
    assert [len(table.rows) for table in found.tables] == [1, 1]
    assert found.tables[0].rows[0][3] == "met"
    assert len(found.plots) == 2
    with pytest.raises(OptionError, match="no collective's name has that"):
        measured("--only", "all_to_all")


def test_sums_of_fp32_meet_their_goals() -> None:
    """Check the goals of FP32 sums of 8 ranks that the schedule decides; see docs/collectives.md.

    One device at a memory latency of 300 clocks is limited by the 64 completions that it may owe.
    """
    words = ("--ranks", "8", "--devices", "1", "2", "--only", SUM.name)
    found = measured(*words, "--lines", "300")
    assert found.followed == {}, "other vectors than those of the baseline"
    assert {name: met for name, _, _, met in found.tables[0].rows} == {
        PoolPlace(SUM, 8, 1, 48).key(): "met",
        PoolPlace(SUM, 8, 1, 300).key(): "MISSED",
        f"{SUM.name} at 48: 1 device / 2 devices": "met",
        f"{SUM.name} at 300: 1 device / 2 devices": "met",
    }


def test_the_baseline_has_every_collective() -> None:
    places = product(KINDS, FOLLOWED_DEVICES, LATENCIES)
    assert set(ACCEPTED) == {PoolPlace(k, FOLLOWED_RANKS, d, at).key() for k, d, at in places}
