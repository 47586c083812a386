# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure capacity table --measure`: choice of the model, regret, verdict."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from neuron_fabric.capacity.substrate import shipped
from scripts.benchmarks.capacity_choice import Cell, cells_of, good, shares, summary
from scripts.cli.main import main
from scripts.ranks import node_network

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
