# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure capacity`: fitted coefficients, model against RTL, choice and regret."""

from __future__ import annotations

import contextlib
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
from scripts.benchmarks.capacity_choice import Cell, cells_of, good, shares, summary
from scripts.benchmarks.capacity_clocks import WITHIN, BucketLoad, RandomBucket
from scripts.build import bulk_build
from scripts.cli.main import main
from scripts.ranks import node_network
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


@pytest.mark.nightly("360 runs of buckets of every load take minutes; five are driven below")
@pytest.mark.parametrize("seed", [11, 12])
def test_random_buckets_are_within_a_tenth(seed: int) -> None:
    words = ["--buckets", "90", "--seed", str(seed), "--memory-latency", "3", "48", "100", "300"]
    words += ["--devices", "1", "2"]
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
    model = bulk_build.build("verilator")
    bench = BulkLoads(model, tmp_path, MemoryTiming(latency), 192)
    every = [RandomBucket(route, load, workers, 192 * n, latency, n) for n in (1, 2)]
    clocks = every[0].driven(bench)  # of the share of one device, which is the same for both
    for one in every:
        assert one.share == 192
        assert one.modelled(KNOWN) == pytest.approx(clocks, rel=WITHIN)


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
    assert main(["measure", "capacity", "table", "--substrate", str(out)]) == 0
    ratio = float(capsys.readouterr().out.splitlines()[4].split()[3])  # 25 GB/s, G_BINARY W 8
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


# ---- choice of the faster way ------------------------------------------------------------------
SLOW = Cell("1gbit", 4, 1 << 20, fp32=0.100, low=0.010, model_fp32=0.090, model_low=0.012)
FAST = Cell("loopback", 4, 1 << 20, fp32=0.001, low=0.002, model_fp32=0.001, model_low=0.002)


def test_regret_is_what_the_better_way_had_saved() -> None:
    assert (SLOW.chosen, SLOW.regret) == (True, 0.0)
    assert (FAST.chosen, FAST.regret) == (False, 0.0)
    wrong = replace(SLOW, model_low=0.2)
    assert wrong.regret == pytest.approx(0.090)
    assert shares([SLOW, FAST]) == (1.0, 0.0)
    assert good([SLOW, FAST])
    right, regret = shares([wrong, FAST])
    assert right == 0.5
    assert regret == pytest.approx(0.090 / 0.011)
    assert not good([wrong, FAST])
    assert not good([])
    alike = replace(FAST, low=0.00115, model_low=0.0001)  # wrong, by less than 20 %
    assert shares([alike])[0] == 1.0


def test_both_ways_by_both_reducers() -> None:
    """Check the measured and modelled times of the cells of two buckets, computed by hand.

    FP32 takes 1 ms and 10 ms a MiB; the host packs a MiB in 1 ms and unpacks it in 2.
    """
    sizes = (1 << 16, 1 << 20)
    found = {
        "pack_rate": (1 << 20) / 1e-3,
        "unpack_rate": (1 << 20) / 2e-3,
        "waits": [0.5, 1e-4],
        "cells": [
            # One by luck, three that were late: the usual time counts.
            {
                "elements": n,
                "fp32": [9.0, 1e-3 + 1e-2 * 4 * n / (1 << 20), 0, 9, 9],
                "low": [1, 2, 3],
            }
            for n in sizes
        ],
    }
    known = replace(shipped().coefficients, flit_s=1e-6, memory_latency=48)
    clocks = dict.fromkeys(((4, n) for n in sizes), 1000)
    cells = cells_of("x", 4, found, known, clocks)
    assert [(one.reducer, one.elements) for one in cells] == [
        (reducer, n) for n in sizes for reducer in ("torch", "device")
    ]
    small, _, large, device = cells
    assert large.model_fp32 == device.model_fp32 == pytest.approx(0.041)
    # Packing and unpacking, two collectives in half the time of an all-reduce, a 32nd of the bytes.
    assert large.model_low == pytest.approx(0.012 + 0.0005 + 0.04 / 32)
    assert large.low == 2.0
    assert small.model_fp32 == pytest.approx(0.0035)
    assert small.chosen == (small.model_low <= 0.8 * small.model_fp32)
    assert device.low == pytest.approx(0.012 + 0.001 + 1e-6 * known.commit)
    # Four workers' 2,048 lines in and out, a clock and more each.
    assert 0.012 + 16_384e-6 < device.model_low < 0.012 + 20_480e-6
    assert summary([device], "all")[0].startswith("all: 100% of 1 decisions")


def test_what_cannot_be_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
    monkeypatch.setattr(node_network, "why_not", lambda: "network namespaces need root")
    monkeypatch.setattr("scripts.benchmarks.capacity_choice.device_clocks", lambda *_: {})
    assert main(["measure", "capacity", "table", "--measure", "--networks", "1gbit"]) == 1
    assert "1gbit: left out (network namespaces need root)" in capsys.readouterr().out
    for words in (
        ["--networks", "fast"],
        ["--workers", "1"],
        ["--kib", "0"],
        ["--flit-ns", "0"],
    ):
        with contextlib.suppress(SystemExit):
            assert main(["measure", "capacity", "table", "--measure", *words]) == 2


def test_options_that_would_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", "capacity", "table", "--flit-ns", "3"]) == 2
    assert "capacity table: --flit-ns requires --measure" in capsys.readouterr().err
    assert main(["measure", "capacity", "table", "--measure", "--substrate", "s.toml"]) == 2
    assert "leave out --substrate" in capsys.readouterr().err
    assert main(["measure", "capacity", "table"]) == 0


@pytest.mark.nightly("two processes import torch and reduce for some seconds")
def test_cells_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--networks", "loopback", "--workers", "2", "--kib", "64", "1024", "--runs", "3"]
    assert main(["measure", "capacity", "table", "--measure", *words]) in (0, 1)
    out = capsys.readouterr().out
    assert out.count("2 cells") == 2
    assert "4 cells" in out
    assert "by device: 100% of 2 decisions" in out
