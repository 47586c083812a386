# SPDX-License-Identifier: Apache-2.0
"""Tests of hard limits, cost model and substrate files."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neuron_fabric.capacity import capacity_command, cost_model
from neuron_fabric.capacity.cost_model import Coefficients, Device, Traffic
from neuron_fabric.capacity.network_times import FREE, LAST, HostRate, NetworkRate, fit_line
from neuron_fabric.capacity.substrate import (
    Substrate,
    SubstrateError,
    read_substrate,
    shipped,
    write_substrate,
)
from neuron_fabric.codec.routes import Route, elements_of_line

SPECIFICATION = Path(__file__).parents[2] / "docs" / "spec" / "runtime.md"
BANDWIDTHS, CELLS = capacity_command.BANDWIDTHS, capacity_command.CELLS
KNOWN = shipped().coefficients


@pytest.mark.skipif(not SPECIFICATION.is_file(), reason="the wheel holds no specification")
def test_the_table_of_the_specification() -> None:
    """Check that section 5.2 of runtime.md prints the table that the shipped coefficients give.

    A star is a rejection.
    """
    text = SPECIFICATION.read_text(encoding="utf-8").replace("**", "")
    for bandwidth in BANDWIDTHS:
        [row] = re.findall(rf"^\| {bandwidth:g} GB/s.*", text, re.MULTILINE)
        [line] = capacity_command.table_lines(shipped(), [bandwidth], CELLS)[3:]
        shown = [one.strip() for one in row.split("|")[2:-1]]
        assert shown == re.findall(r"[\d.]+\*? \([\d.]+\)", line)


def test_coefficients_have_a_source() -> None:
    """Check that the shipped substrate names commit, date and set-up.

    No coefficient of the device may have a default.
    """
    measured = shipped()
    assert re.fullmatch(r"[0-9a-f]{12}(, changed)?", measured.revision)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", measured.date)
    assert "1024 lines a worker, memory latency 48" in measured.measured
    typed = {one.name for one in fields(Coefficients) if one.default is not MISSING}
    assert typed == {"pack_rate", "unpack_rate", "devices"}


@pytest.mark.parametrize(
    ("workers", "rtl"), [(2, 4723), (8, 17_177), (32, 74_202)], ids=["W 2", "W 8", "W 32"]
)
def test_votes_share_the_engine_with_contributions(workers: int, rtl: int) -> None:
    """Check the model's clocks for 1,024 lines and their votes against those of the RTL.

    The votes are read in the tile in which they were written. The busier direction of the link
    alone gave 10,616 for W 8.
    """
    known = replace(KNOWN, flit_s=1.0)
    low = cost_model.low_seconds(known, Route.G_BINARY, 1024 * 512, workers)
    assert low.device == pytest.approx(rtl, rel=0.1)


def test_memory_holds_what_the_specification_says() -> None:
    device = Device()
    assert cost_model.most_elements(device, Route.G_BINARY, 8) == 67_108_864
    assert cost_model.most_elements(device, Route.FP32, 8) == 1_048_576
    assert cost_model.most_elements(device, Route.FP32, 64) == 131_072
    bucket = 25 * (1 << 20) // 4
    placed = cost_model.place(device, Route.FP32, bucket, 8)
    assert placed is not None
    assert placed.rounds > 1  # in one piece it does not fit
    low = cost_model.place(device, Route.G_BINARY, bucket, 8)
    assert low is not None
    assert low.rounds == 1


def test_a_window_ends_with_the_addresses() -> None:
    """Check the largest bucket; `hook/test_attachment.py` has a case for each other limit."""
    [line] = cost_model.refusals(Device(), Route.G_BINARY, 1 << 60, 8)
    assert "2^46 lines" in line
    assert not cost_model.refusals(Device(), Route.G_BINARY, 1 << 20, 8)


@given(
    st.sampled_from([Route.FP32, Route.G_BINARY, Route.G_TERNARY]),
    st.integers(1, 1 << 28),
    st.integers(1, 64),
    st.integers(6, 24),
)
def test_what_is_placed_fits(route: Route, elements: int, workers: int, log2: int) -> None:
    device = Device(mem_lines_log2=log2)
    placed = cost_model.place(device, route, elements, workers)
    if placed is None:
        assert cost_model.refusals(device, route, elements, workers)
        return
    assert placed.state <= 1 << log2
    held = placed.rounds * elements_of_line(route) << placed.lines_log2
    assert held >= elements
    assert held - (elements_of_line(route) << placed.lines_log2) < elements  # no round too many


@given(st.floats(0, 2), st.floats(0.05, 1), st.floats(0, 1))
def test_admission_has_hysteresis(ratio: float, admit: float, wider: float) -> None:
    drop = admit + wider
    out, stays = (cost_model.admits(one, ratio, admit, drop) for one in (False, True))
    assert out <= stays  # what would be admitted would stay
    assert (out != stays) == (admit < ratio <= drop)


@given(st.lists(st.tuples(st.integers(1, 1 << 30), st.floats(0, 10)), min_size=1, max_size=30))
def test_a_fit_is_no_negative_time(measured: list[tuple[int, float]]) -> None:
    line = fit_line(measured)
    assert line is not None
    assert all(one >= 0 and math.isfinite(one) for one in line)


@given(st.floats(0, 1e-2), st.floats(1e-6, 1), st.lists(st.integers(1, 4096), min_size=2))
def test_a_fit_finds_the_line(latency: float, mib: float, sizes: list[int]) -> None:
    assume(len(set(sizes)) > 1)
    found = fit_line((size << 14, latency + mib * (size << 14) / (1 << 20)) for size in sizes)
    assert found is not None
    assert found[0] == pytest.approx(latency, rel=1e-3, abs=1e-4 * mib + 1e-9)
    assert found[1] == pytest.approx(mib, rel=1e-3)


def test_a_fit_errs_by_shares() -> None:
    """Check that a large all-reduce a fifth slower than the line does not distort the latency."""
    sizes = ((64, 1.0), (1024, 1.0), (16_384, 1.0), (65_536, 1.2))
    found = fit_line((kib << 10, factor * (4e-3 + 6e-3 * kib / 1024)) for kib, factor in sizes)
    assert found is not None
    assert found[0] == pytest.approx(4e-3, rel=0.1)
    assert found[1] == pytest.approx(6e-3, rel=0.2)


def test_planes_are_read_too() -> None:
    """Check that reading four count planes costs at least the time of four lines per vote.

    The link and the engine have no slack left.
    """
    vote, net = (
        cost_model.low_seconds(KNOWN, Route.G_BINARY, 1 << 22, 8, planes=planes)
        for planes in (0, 4)
    )
    lines = 4 * 8 * (1 << 22) // 512
    assert lines * KNOWN.flit_s < net.device - vote.device < 1.3 * lines * KNOWN.flit_s


@given(st.sampled_from(list(Route)), st.integers(1, 64), st.integers(1, 1 << 24))
def test_more_work_takes_longer(route: Route, workers: int, elements: int) -> None:
    def low(**words: Any) -> float:
        return cost_model.low_seconds(KNOWN, route, elements, workers, **words).device

    assert 0 < low(readers=0) <= low(readers=1) <= low() <= low(planes=1)
    assert low(traffic=Traffic.HITS) <= low() <= low(traffic=Traffic.APART)
    assert low() <= cost_model.low_seconds(KNOWN, route, 2 * elements, workers).device
    assert low() <= cost_model.low_seconds(KNOWN, route, elements, workers + 1).device


def test_two_workers_wait_for_write_backs() -> None:
    """Check the model's clocks for two workers at a memory latency of 300 against the RTL.

    512 lines in tiles of 16 took 1,940 clocks, 1,290 of them on the link.
    """
    known = replace(KNOWN, flit_s=1.0, memory_latency=300)
    low = cost_model.low_seconds(known, Route.G_BINARY, 512 * 512, 2, readers=0)
    assert low.device == pytest.approx(1940, rel=0.05)


def test_results_of_codes_are_sums() -> None:
    """Check the lines of sums: SUM8 up to 16 workers of G_INT4, else SUM16 (2nd edition §7)."""
    sums = [cost_model.result_lines(Route.G_INT4, workers) for workers in (2, 16, 17, 64)]
    assert sums == [2, 2, 4, 4]
    assert [cost_model.result_lines(one, 64) for one in Route if not one.codes] == [1, 1, 1]
    assert cost_model.result_lines(Route.G_INT8, 2) == 2


def test_devices_divide_the_row() -> None:
    one, four = (
        cost_model.low_seconds(replace(KNOWN, devices=n), Route.G_BINARY, 1 << 22, 8)
        for n in (1, 4)
    )
    start = KNOWN.start * KNOWN.flit_s  # of each device
    assert four.device == pytest.approx(one.device / 4 + 3 / 4 * start, rel=0.01)
    assert four.commit == one.commit


def test_lines_of_a_device() -> None:
    """Check the lines of the device that has most: tiles of 16 lines are dealt in turn."""
    assert [cost_model.most_lines(n, 2) for n in (0, 5, 16, 20, 40, 64)] == [0, 5, 16, 16, 24, 32]
    assert [cost_model.most_lines(20, n) for n in (1, 2, 3)] == [20, 16, 16]


def test_the_threshold_is_where_the_network_is_as_fast() -> None:
    known, elements = KNOWN, 1 << 22
    window = 1024
    low = cost_model.low_seconds(known, Route.G_BINARY, elements, 8, traffic=Traffic.HITS)
    last = 0
    for factor in (1.1, 1.3, 1.6, 2.0):
        t_fp32 = factor * low.total
        misses = cost_model.cap_threshold(known, Route.G_BINARY, elements, 8, t_fp32, window)
        assert last < misses <= window
        last = misses
        lines = 8 * elements // 512
        at = [
            cost_model.low_seconds(
                known, Route.G_BINARY, elements, 8, traffic=Traffic.HITS, misses=n * lines // window
            ).total
            for n in (misses, misses + 1)
        ]
        assert at[0] <= t_fp32 * (1 + 1e-9)
        assert at[1] > t_fp32 or misses == window


def test_a_substrate_file_comes_back(tmp_path: Path) -> None:
    known = replace(KNOWN, pack_rate=1.5e9, beat=7.25)
    wanted = Substrate('a "b" \\ c', "by a test", known, Device(slots=8))
    write_substrate(tmp_path / "s.toml", wanted)
    assert read_substrate(tmp_path / "s.toml") == wanted
    write_substrate(tmp_path / "s.toml", shipped())
    assert read_substrate(tmp_path / "s.toml") == shipped()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "", "no substrate file"),
        (lambda text: "\0", "line 1"),
        (lambda text: text.replace("version = 2", "version = 1"), "version 1, this program reads"),
        (lambda text: text.replace("beat =", "beet ="), "coefficients: field 'beet' is not known"),
        (lambda text: text.replace("lines_in = ", "lines_in = 'x' #"), "lines_in: 'x' is not a"),
        (lambda text: text.replace("lines_in = ", "lines_in = 0 #"), "above 0"),
        (lambda text: text.replace("lines_in = ", "lines_in = nan #"), "not a number"),
        (lambda text: text.replace("store = ", "#"), "coefficients: field 'store' is missing"),
        (lambda text: text.replace('"FP32", ', ""), "FP32 is always there"),
        (lambda text: text.replace("cnt_w = 8", "cnt_w = 9"), "cnt_w is 1..8"),
        (lambda text: text.replace("commit = ", "commit = -"), "not negative"),
    ],
)
def test_a_bad_substrate_file_is_one_line(
    tmp_path: Path, change: Callable[[str], str], words: str
) -> None:
    path = tmp_path / "s.toml"
    write_substrate(path, shipped())
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(SubstrateError, match=r"s\.toml: ") as caught:
        read_substrate(path)
    assert words in str(caught.value)
    with pytest.raises(SubstrateError, match="cannot be read"):
        read_substrate(tmp_path)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    capacity_command.add_arguments(parser)
    write_substrate(tmp_path / "s.toml", Substrate("mine", "now", KNOWN))
    args = parser.parse_args(["table", "--substrate", str(tmp_path / "s.toml")])
    assert capacity_command.run(args) == 0
    said = capsys.readouterr().out
    assert "mine (now)" in said
    assert capacity_command.run(parser.parse_args(["table"])) == 0  # without a file: the RTL
    assert "RTL (verilator" in capsys.readouterr().out
    assert capacity_command.table_lines(shipped(), BANDWIDTHS, CELLS)[3] in said
    assert capacity_command.run(parser.parse_args(["fits", "25", "--workers", "70"])) == 0
    assert capsys.readouterr().out.count("refused: 70 workers") == len(Route)
    for bad in (
        *(["fits", "-1"], ["fits", "x"]),
        *(["fits", "25", "--workers", "0"], ["fits", "25", "--workers", "-3"]),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(bad)


def test_the_rate_of_the_network_is_a_median() -> None:
    """Check that a step's all-reduces count as one, one after the other, and outliers do not."""
    now = 0.0
    rate = NetworkRate(lambda: now)
    assert rate.seconds() == {}
    for step in range(2 * LAST):
        start = now
        for _ in range(2):  # in flight together: the second one takes as long as it adds
            now += 1e-3 if step % 5 else 1.0
            rate.ended(step, 1 << 19, start)
    assert rate.seconds() == {"link_latency": 0.0, "link_mib": pytest.approx(2e-3)}


def test_a_tenth_of_a_step_is_free() -> None:
    host = HostRate(4 << 20)
    host.work({"pack": 1.0}, 0)  # no gradients were packed
    assert host.seconds() == {}
    host.work({"pack": 0.02, "submit": 0.01, "count": 0.01, "decode": 0.02, "agree": 9.0}, 2 << 20)
    assert host.seconds() == {"host_mib": pytest.approx(0.03)}
    for seconds in (0.4, 0.4, 90.0):
        host.step(seconds)
    assert host.seconds() == {"host_mib": pytest.approx(0.03 - FREE * 0.1)}
    host.step(90.0)
    host.step(90.0)
    assert host.seconds() == {"host_mib": 0.0}
