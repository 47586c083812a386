# SPDX-License-Identifier: Apache-2.0
"""`nf capacity measure`: what is measured ends in a file that `nf capacity table` reads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from models.line_packing import Mode
from neuron_fabric.runtime.capacity import Traffic
from neuron_fabric.runtime.substrate import read_substrate, shipped
from scripts.benchmarks import bench_capacity, bench_clocks
from scripts.cli import replay
from scripts.cli.main import main


class Measured:
    """A device that answers at once."""

    def __init__(self, model: object, folder: Path, memory: object, lines: int) -> None:
        self.lines = lines

    def hits(self, write: bool) -> float:
        return 0.75 if write else 0.5

    def stream(self, tile: int = 16) -> float:
        return 0.4 if tile == 16 else 0.05

    def misses(self, mode: Mode, workers: int) -> float:
        return 20.0

    def contributions(self, mode: Mode, workers: int) -> int:
        return round(max(workers / 0.4, 20) * self.lines)


class NoSimulator:
    def __init__(self, **_: Any) -> None:
        pass

    def bulk(self, *_: Any) -> None:
        pass


@pytest.mark.nightly("builds the design and drives it for some minutes")
def test_the_shipped_file_is_of_this_rtl(tmp_path: Path) -> None:
    """Within 10 %; else it is to be measured anew (`substrate.SHIPPED` says how)."""
    out = tmp_path / "s.toml"
    assert main(["capacity", "measure", "--device-only", "--out", str(out)]) == 0
    now, was = read_substrate(out), shipped()
    assert now.device == was.device
    assert dict(now.coefficients.lines_in) == pytest.approx(was.coefficients.lines_in, rel=0.1)
    for name in ("lines_out", "miss"):
        wanted = pytest.approx(getattr(was.coefficients, name), rel=0.1)
        assert getattr(now.coefficients, name) == wanted, name


def test_a_substrate_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_capacity, "Bench", Measured)
    monkeypatch.setattr(replay, "Simulators", NoSimulator)
    out = tmp_path / "s.toml"
    assert main(["capacity", "measure", "--out", str(out), "--flit-ns", "4.25"]) == 0
    known = read_substrate(out).coefficients
    assert known.lines_in == {Traffic.HITS: 0.75, Traffic.STREAM: 0.4, Traffic.APART: 0.05}
    assert (known.lines_out, known.miss, known.flit_s) == (0.5, 20.0, 4.25e-9)
    assert known.pack_rate > 1e6
    assert known.unpack_rate > 1e6
    words = ["capacity", "measure", "--device-only", "--out", str(tmp_path / "d.toml")]
    assert main(words) == 0
    device = read_substrate(tmp_path / "d.toml").coefficients
    assert (device.pack_rate, device.unpack_rate) == (math.inf, math.inf)
    assert device.lines_in == known.lines_in
    assert "pack" not in capsys.readouterr().out.split("a miss")[-1]
    capsys.readouterr()
    words = ["--bandwidth", "25", "--cells", "G_BINARY/8"]
    assert main(["capacity", "table", "--substrate", str(out), *words]) == 0
    assert "0.59 (0.32)" in capsys.readouterr().out  # twice the flit time, 0.4 lines and not 0.37


def test_a_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capacity", "measure", "--out", "/nowhere/s.toml"]) == 2
    assert "its folder does not exist" in capsys.readouterr().err


class Slower(Measured):
    """The twin: a device that takes longer with some workers than the coefficients say."""

    def contributions(self, mode: Mode, workers: int) -> int:
        return super().contributions(mode, workers) * (120 if workers == 9 else 100) // 100


@pytest.mark.parametrize(("kind", "code"), [(Measured, 0), (Slower, 1)])
def test_clocks_against_the_model(
    kind: type[Measured],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Many buckets, of all numbers of workers: one that is off by more than a tenth counts."""
    monkeypatch.setattr(bench_clocks, "Bench", kind)
    monkeypatch.setattr(replay, "Simulators", NoSimulator)
    assert main(["capacity", "clocks", "--buckets", "200", "--seed", "3"]) == code
    out = capsys.readouterr().out
    assert ("200 buckets, 0.0% off at most" in out) == (not code)
    assert ("16.7% off at most (goal 10%)" in out) == bool(code)


def test_drawn_buckets() -> None:
    found = list(bench_clocks.drawn(500, 1))
    assert {workers for _, workers, _ in found} == set(range(2, 17))
    assert all(128 <= lines <= 2048 for _, _, lines in found)
    assert found == list(bench_clocks.drawn(500, 1))
