# SPDX-License-Identifier: Apache-2.0
"""Limits, time model and substrate files."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neuron_fabric.codec.routes import Route, elements_of_line
from neuron_fabric.runtime import capacity, capacity_command
from neuron_fabric.runtime.capacity import Coefficients, Device, LinkFit, Traffic
from neuron_fabric.runtime.substrate import (
    Substrate,
    SubstrateError,
    read_substrate,
    shipped,
    write_substrate,
)

# Section 5.2 of the specification: streaming, and at the rate of hits.
PRINTED = {
    1.25: [(0.01, 0.00), (0.02, 0.01), (0.03, 0.01), (0.11, 0.05), (0.03, 0.01)],
    25.0: [(0.19, 0.09), (0.32, 0.15), (0.60, 0.28), (2.28, 1.05), (0.64, 0.30)],
    300.0: [(2.24, 1.03), (3.85, 1.77), (7.2, 3.3), (27, 13), (7.7, 3.5)],
}
CELLS = [(Route(one.split("/")[0]), int(one.split("/")[1])) for one in capacity_command.CELLS]

OF_VOTES = Device(routes=(Route.FP32, Route.G_BINARY, Route.G_TERNARY))


def rounded(value: float, like: float) -> float:
    return round(value, 2 if like < 5 else 1 if like < 10 else 0)


def test_the_table_of_the_specification() -> None:
    known = Coefficients()
    for bandwidth, row in PRINTED.items():
        for (route, workers), both in zip(CELLS, row, strict=True):
            for traffic, printed in zip((Traffic.STREAM, Traffic.HITS), both, strict=True):
                value = capacity_command.ratio(known, bandwidth, route, workers, traffic)
                assert value == pytest.approx(printed, abs=0.051 if printed > 3 else 0.0051) or (
                    rounded(value, printed) == printed
                )
    other = Coefficients(flit_s=2.5e-9)  # the twin: another substrate, another table
    assert round(capacity_command.ratio(other, 25.0, *CELLS[1], Traffic.STREAM), 2) != 0.32


def test_the_printed_table() -> None:
    known = Substrate()
    lines = capacity_command.table_lines(known, capacity_command.BANDWIDTHS, CELLS)
    assert [line.split()[0] for line in lines[3:]] == ["1.25", "25", "300"]
    assert "0.32 (0.15)" in lines[4]
    assert [line.count("*") for line in lines[3:]] == [0, 1, 5]


def test_without_a_file_it_is_the_rtl_as_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Misses cost a fifth of what the specification was written with."""
    known = shipped().coefficients
    assert 0.7 < known.lines_in[Traffic.STREAM] < 1
    assert known.miss < Coefficients().miss / 3
    args = argparse.Namespace(what="table", substrate=None, bandwidth=[25.0], cells=CELLS)
    assert capacity_command.run(args) == 0
    wanted = capacity_command.table_lines(shipped(), [25.0], CELLS)
    assert capsys.readouterr().out.splitlines() == wanted
    assert "RTL (verilator" in wanted[0]


def test_memory_holds_what_the_specification_says() -> None:
    device = Device()
    assert capacity.most_elements(device, Route.G_BINARY, 8) == 67_108_864
    assert capacity.most_elements(device, Route.FP32, 8) == 1_048_576
    assert capacity.most_elements(device, Route.FP32, 64) == 131_072
    bucket = 25 * (1 << 20) // 4
    placed = capacity.place(device, Route.FP32, bucket, 8)
    assert placed is not None
    assert placed.rounds > 1  # in one piece it does not fit
    low = capacity.place(device, Route.G_BINARY, bucket, 8)
    assert low is not None
    assert low.rounds == 1


@pytest.mark.parametrize(
    ("device", "route", "workers", "job", "words"),
    [
        (Device(), Route.G_BINARY, 65, [], "65 workers: a region has 64"),
        (Device(cnt_w=3), Route.G_BINARY, 8, [], "counters of 3 bits end at 7"),
        (OF_VOTES, Route.G_INT4, 8, [], "G_INT4: the device has FP32, G_BINARY"),
        (
            Device(),
            Route.G_INT8,
            8,
            [Route.FP32, Route.G_BINARY, Route.G_TERNARY],
            "4 routes: a job has 3 at a time on one device, 6 of 8 regions",
        ),
        (Device(mem_lines_log2=2), Route.FP32, 8, [], "not one line fits"),
    ],
)
def test_every_hard_limit_has_its_line(
    device: Device, route: Route, workers: int, job: list[Route], words: str
) -> None:
    [line] = capacity.refusals(device, route, 1000, workers, job)
    assert words in line


def test_a_window_ends_with_the_address_space() -> None:
    [line] = capacity.refusals(Device(), Route.G_BINARY, 1 << 60, 8)
    assert "2^46 lines" in line
    assert not capacity.refusals(Device(), Route.G_BINARY, 1 << 20, 8)


@given(
    st.sampled_from([Route.FP32, Route.G_BINARY, Route.G_TERNARY]),
    st.integers(1, 1 << 28),
    st.integers(1, 64),
    st.integers(6, 24),
)
def test_what_is_placed_fits(route: Route, elements: int, workers: int, log2: int) -> None:
    device = Device(mem_lines_log2=log2)
    placed = capacity.place(device, route, elements, workers)
    if placed is None:
        assert capacity.refusals(device, route, elements, workers)
        return
    assert placed.state <= 1 << log2
    held = placed.rounds * elements_of_line(route) << placed.lines_log2
    assert held >= elements
    assert held - (elements_of_line(route) << placed.lines_log2) < elements  # no round too many


@given(st.floats(0, 2), st.floats(0.05, 1), st.floats(0, 1))
def test_admission_has_hysteresis(ratio: float, admit: float, wider: float) -> None:
    drop = admit + wider
    out, stays = (capacity.admits(one, ratio, admit, drop) for one in (False, True))
    assert out <= stays  # what would be admitted would stay
    assert (out != stays) == (admit < ratio <= drop)


@given(st.lists(st.tuples(st.integers(1, 1 << 30), st.floats(0, 10)), min_size=1, max_size=30))
def test_a_fit_is_no_negative_time(measured: list[tuple[int, float]]) -> None:
    fit = LinkFit()
    for size, seconds in measured:
        fit.add(size, seconds)
    line = fit.line()
    assert line is not None
    assert all(one >= 0 and math.isfinite(one) for one in line)


@given(st.floats(0, 1e-2), st.floats(1e-6, 1), st.lists(st.integers(1, 4096), min_size=2))
def test_a_fit_finds_the_line(latency: float, mib: float, sizes: list[int]) -> None:
    assume(len(set(sizes)) > 1)
    fit = LinkFit()
    for size in sizes:
        fit.add(size << 14, latency + mib * (size << 14) / (1 << 20))
    found = fit.line()
    assert found is not None
    assert found[0] == pytest.approx(latency, rel=1e-3, abs=1e-4 * mib + 1e-9)
    assert found[1] == pytest.approx(mib, rel=1e-3)


def test_a_fit_errs_by_shares() -> None:
    """A large all-reduce a fifth slower than the line does not hide what a small one takes."""
    fit = LinkFit()
    for kib, factor in ((64, 1.0), (1024, 1.0), (16_384, 1.0), (65_536, 1.2)):
        fit.add(kib << 10, factor * (4e-3 + 6e-3 * kib / 1024))
    found = fit.line()
    assert found is not None
    assert found[0] == pytest.approx(4e-3, rel=0.1)
    assert found[1] == pytest.approx(6e-3, rel=0.2)


def test_planes_are_read_too() -> None:
    """Four planes and the vote: five lines out for each that a vote alone takes."""
    vote, net = (
        capacity.low_seconds(
            Coefficients(), Route.G_BINARY, 1 << 22, 8, traffic=Traffic.HITS, planes=planes
        )
        for planes in (0, 4)
    )
    assert net.device == pytest.approx(5 * vote.device)


def test_devices_divide_the_row() -> None:
    one, four = (
        capacity.low_seconds(Coefficients(devices=n), Route.G_BINARY, 1 << 22, 8) for n in (1, 4)
    )
    assert four.device == one.device / 4
    assert four.commit == one.commit


def test_the_threshold_is_where_the_network_is_as_fast() -> None:
    known, elements = Coefficients(), 1 << 22
    window = 1024
    low = capacity.low_seconds(known, Route.G_BINARY, elements, 8, traffic=Traffic.HITS)
    last = 0
    for factor in (1.5, 2.0, 4.0, 8.0):
        t_fp32 = factor * low.total
        misses = capacity.cap_threshold(known, Route.G_BINARY, elements, 8, t_fp32, window)
        assert last < misses <= window
        last = misses
        lines = 8 * elements // 512
        at = [
            capacity.low_seconds(
                known, Route.G_BINARY, elements, 8, traffic=Traffic.HITS, misses=n * lines // window
            ).total
            for n in (misses, misses + 1)
        ]
        assert at[0] <= t_fp32 * 1.001
        assert at[1] > t_fp32 or misses == window


def test_a_substrate_file_comes_back(tmp_path: Path) -> None:
    known = Coefficients(pack_rate=1.5e9, miss=7.25, lines_in=dict.fromkeys(Traffic, 0.5))
    wanted = Substrate('a "b" \\ c', "by a test", Device(slots=8), known)
    write_substrate(tmp_path / "s.toml", wanted)
    assert read_substrate(tmp_path / "s.toml") == wanted
    write_substrate(tmp_path / "s.toml", Substrate())
    assert read_substrate(tmp_path / "s.toml") == Substrate()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "", "no substrate file"),
        (lambda text: "\0", "line 1"),
        (lambda text: text.replace("version = 1", "version = 2"), "version 2, this program reads"),
        (lambda text: text.replace("miss =", "mist ="), "coefficients: field 'mist' is not known"),
        (lambda text: text.replace("0.37", "'x'"), "lines_in.stream: 'x' is not a number"),
        (lambda text: text.replace("0.37", "0"), "above 0"),
        (lambda text: text.replace("0.37", "nan"), "not a number"),
        (lambda text: text.replace("apart = 0.067", ""), "lines_in.apart is missing"),
        (lambda text: text.replace('"FP32", ', ""), "FP32 is always there"),
        (lambda text: text.replace("cnt_w = 8", "cnt_w = 9"), "cnt_w is 1..8"),
        (lambda text: text.replace("commit = 39", "commit = -39"), "not negative"),
    ],
)
def test_a_bad_substrate_file_is_one_line(
    tmp_path: Path, change: Callable[[str], str], words: str
) -> None:
    path = tmp_path / "s.toml"
    write_substrate(path, Substrate())
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(SubstrateError, match=r"s\.toml: ") as caught:
        read_substrate(path)
    assert words in str(caught.value)
    with pytest.raises(SubstrateError, match="cannot be read"):
        read_substrate(tmp_path)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    capacity_command.add_arguments(parser)
    write_substrate(tmp_path / "s.toml", Substrate("mine", "now"))
    words = ["table", "--bandwidth", "25", "--cells", "G_BINARY/8"]
    args = parser.parse_args([*words, "--substrate", str(tmp_path / "s.toml")])
    assert capacity_command.run(args) == 0
    said = capsys.readouterr().out
    assert "mine (now)" in said
    assert "0.32 (0.15)" in said
    assert capacity_command.run(parser.parse_args(["fits", "25", "--workers", "70"])) == 0
    assert capsys.readouterr().out.count("refused: 70 workers") == len(Route)
    for bad in (
        ["table", "--cells", "FP32/8"],
        ["table", "--cells", "G_BINARY/1"],
        *(["fits", "-1"], ["fits", "x"]),
        *(["fits", "25", "--workers", "0"], ["fits", "25", "--workers", "-3"]),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(bad)
