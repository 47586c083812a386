# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure capacity measure` and `clocks`: fitted coefficients, model against RTL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from models.modes import Mode
from neuron_fabric.capacity.cost_model import Traffic, low_seconds, result_lines
from neuron_fabric.capacity.substrate import read_substrate, shipped
from neuron_fabric.codec.routes import Route, elements_of_line
from scripts.benchmarks import bulk_loads, capacity_fit
from scripts.benchmarks.bulk_loads import BulkLoads
from scripts.benchmarks.capacity_clocks import WITHIN, BucketLoad, RandomBucket
from scripts.build import bulk_build
from scripts.cli.main import main
from verif.mem.memory_timing import MemoryTiming

KNOWN = shipped().coefficients
OTHER = replace(
    KNOWN,
    lines_in=0.7,
    lines_out=0.75,
    request=0.9,
    operation=1.1,
    store=2.5,
    fp32_line=0.5,
    overlap=64.0,
    beat=1.5,
    depth=32.0,
    turnaround=20.0,
    start=25.0,
    commit=99.0,
)


class Modelled:
    """Fake BulkLoads whose loads take exactly the clocks of the capacity model with ``known``."""

    known = OTHER

    def __init__(self, model: object, folder: Path, memory: MemoryTiming, lines: int) -> None:
        self.lines = lines
        self.now = replace(self.known, flit_s=1.0, memory_latency=memory.latency)

    def hits(self, write: bool) -> float:
        return self.now.lines_in if write else self.now.lines_out

    def bucket(self, mode: Mode, workers: int, read: Sequence[int], tile: int = 16) -> int:
        route = Route(mode.name)
        low = low_seconds(
            self.now,
            route,
            self.lines * elements_of_line(route),
            workers,
            traffic=Traffic.STREAM if tile == 16 else Traffic.APART,
            readers=workers if read else 0,
            planes=max(len(read) - result_lines(route, workers), 0),
        )
        return round(low.device)

    def misses(self, mode: Mode, workers: int) -> float:
        return self.now.miss(2)

    def commit(self) -> int:
        return round(self.now.commit)


class Slower(Modelled):
    """Fake BulkLoads that takes longer than the coefficients predict with some worker numbers."""

    known = KNOWN

    def bucket(self, mode: Mode, workers: int, read: Sequence[int], tile: int = 16) -> int:
        return super().bucket(mode, workers, read, tile) * (120 if workers == 9 else 100) // 100


class AsShipped(Modelled):
    known = KNOWN


class NoSimulator:
    def __init__(self, **_: object) -> None:
        pass

    def bulk(self, *_: object) -> None:
        pass


def test_coefficients_are_found_again() -> None:
    """Check that the fit finds the coefficients of a device that obeys the model."""

    def at(memory: MemoryTiming) -> Any:
        return Modelled(None, Path(), memory, 4096)

    found = capacity_fit.fitted(at, MemoryTiming(48), KNOWN.flit_s)
    assert asdict(found) == pytest.approx(asdict(OTHER), rel=0.05, abs=0.1)


@pytest.mark.nightly("builds the design and drives it for some minutes")
def test_the_shipped_file_is_of_this_rtl(tmp_path: Path) -> None:
    """Check that the shipped substrate file agrees within 5 % with a new measurement of the RTL.

    Otherwise it must be measured again (`substrate.SHIPPED` says how).
    """
    out = tmp_path / "s.toml"
    assert main(["measure", "capacity", "measure", "--device-only", "--out", str(out)]) == 0
    now, was = read_substrate(out), shipped()
    assert now.device == was.device
    assert asdict(now.coefficients) == pytest.approx(asdict(was.coefficients), rel=0.05)


@pytest.mark.nightly("360 buckets of every load take minutes; five are driven below")
@pytest.mark.parametrize("seed", [11, 12])
def test_random_buckets_are_within_a_tenth(seed: int) -> None:
    words = ["--buckets", "180", "--seed", str(seed), "--memory-latency", "3", "48", "100", "300"]
    assert main(["measure", "capacity", "clocks", *words]) == 0


@pytest.mark.parametrize(
    ("route", "load", "workers", "latency"),
    [
        (Route.G_BINARY, BucketLoad.CONTRIBUTIONS, 2, 300),
        (Route.G_BINARY, BucketLoad.RESULTS, 8, 48),
        (Route.G_TERNARY, BucketLoad.VIEWS, 5, 100),
        (Route.G_INT4, BucketLoad.RESULTS, 17, 100),
        (Route.FP32, BucketLoad.RESULTS, 6, 3),
    ],
)
def test_some_buckets_are_within_a_tenth(
    tmp_path: Path, route: Route, load: BucketLoad, workers: int, latency: int
) -> None:
    """Check that the model predicts clocks of the RTL within 10 % for some buckets.

    Their loads are contributions alone, votes, planes, sums of codes, FP32 sums.
    """
    one = RandomBucket(route, load, workers, 192, latency)
    bench = BulkLoads(bulk_build.build("verilator"), tmp_path, MemoryTiming(latency), one.lines)
    assert one.modelled(KNOWN) == pytest.approx(one.driven(bench), rel=WITHIN)


def test_a_substrate_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bulk_loads, "BulkLoads", Modelled)
    monkeypatch.setattr(bulk_loads, "Simulators", NoSimulator)
    out = tmp_path / "s.toml"
    assert main(["measure", "capacity", "measure", "--out", str(out), "--flit-ns", "4.25"]) == 0
    measured = read_substrate(out)
    known = measured.coefficients
    assert (known.lines_in, known.flit_s, known.memory_latency) == (0.7, 4.25e-9, 48)
    assert "verilator, 1024 lines a worker, memory latency 48" in measured.measured
    assert measured.date
    assert known.pack_rate > 1e6
    assert known.unpack_rate > 1e6
    assert "pack_rate" in capsys.readouterr().out
    words = ["measure", "capacity", "measure", "--device-only", "--out", str(tmp_path / "d.toml")]
    assert main(words) == 0
    device = read_substrate(tmp_path / "d.toml").coefficients
    assert device == replace(known, flit_s=2.125e-9, pack_rate=math.inf, unpack_rate=math.inf)
    assert "pack_rate" not in capsys.readouterr().out
    words = ["--bandwidth", "25", "--cells", "G_BINARY/8"]
    assert main(["measure", "capacity", "table", "--substrate", str(out), *words]) == 0
    ratio = float(capsys.readouterr().out.splitlines()[3].split()[1])
    assert 0.5 < ratio < 0.8  # twice the flit time, and a slower engine


def test_a_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", "capacity", "measure", "--out", "/nowhere/s.toml"]) == 2
    assert "its folder does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "code"), [(AsShipped, 0), (Slower, 1)])
def test_clocks_against_the_model(
    kind: type[Modelled],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Check the exit code of `nf measure capacity clocks` on a fake device.

    One bucket of many that is off by more than 10 % fails the command.
    """
    monkeypatch.setattr(bulk_loads, "BulkLoads", kind)
    monkeypatch.setattr(bulk_loads, "Simulators", NoSimulator)
    assert main(["measure", "capacity", "clocks", "--buckets", "200", "--seed", "3"]) == code
    out = capsys.readouterr().out
    assert ("16.7% off at most (goal 10%)" in out) == bool(code)
