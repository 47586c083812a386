# SPDX-License-Identifier: Apache-2.0
"""Tests of merged coverage: the sum is the same in any order and grouping, and quick."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric import output
from neuron_fabric.data import DataError
from scripts.common import paths
from scripts.common.errors import NfError
from scripts.common.records import FailureKind
from scripts.conftest import RECORD, record
from scripts.coverage import run_counts
from scripts.coverage.conftest import key, run, text
from scripts.coverage.merged import Merged, Merger, merge, read, write
from verif.coverage.cover_model import FUNCTIONAL

BUILDS = (
    [key("line", "hdl/a.sv", 1, "block", "1-3"), key("toggle", "hdl/a.sv", 2, "q:0->1")],
    [key("branch", "hdl/a.sv", 1, "if", "1"), key("line", "hdl/b.sv", 9, "block", "9")],
)


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")


def points(build: int, *counts: int) -> list[tuple[str, int]]:
    """Return (key, hits) pairs of a build for these hits."""
    return list(zip(BUILDS[build], counts, strict=True))


RUN = st.tuples(
    st.integers(0, 1),
    st.lists(st.integers(0, 3), min_size=2, max_size=2),
    st.dictionaries(
        st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 4))
    ),
    st.integers(1, 3),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("merged")


@settings(deadline=None, max_examples=40)
@given(st.lists(RUN, max_size=6), st.randoms(use_true_random=False))
def test_any_order_and_grouping_gives_the_same_file(
    folder: Path,
    runs: list[tuple[int, list[int], dict[str, dict[str, int]], int]],
    rng: random.Random,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "BUILD", folder / "build")
        records = [
            run(folder / f"run{number}", replace(RECORD, seed=seed), points(which, *counts), hits)
            for number, (which, counts, hits, seed) in enumerate(runs)
        ]
        write(merge(records), folder / "whole.cov")
        rng.shuffle(records)
        cut = rng.randint(0, len(records))
        parts = [merge(records[:cut]), merge(records[cut:])]
        rng.shuffle(parts)
        write(parts[0], folder / "part.cov")  # one of them by way of a file
        write(merge([], [parts[1], read(folder / "part.cov")]), folder / "parts.cov")
    assert (folder / "whole.cov").read_bytes() == (folder / "parts.cov").read_bytes()


def test_sums_and_rows(tmp_path: Path) -> None:
    first = run(tmp_path / "1", record(seed=1), points(0, 2, 0), {"p": {"x": 3}})
    second = run(tmp_path / "2", record(seed=2), points(0, 5, 1), {"p": {"y": 1}})
    third = run(tmp_path / "3", record(seed=3), points(1, 0, 7))
    plain = record(seed=4, metrics={FUNCTIONAL: {"p": {"x": 1}}})
    red = replace(first, passed=False, kind=FailureKind.MISMATCH)
    found = merge([third, red, plain, second, first, record()])
    assert [one.seed for one in found.runs] == [1, 2, 3, 4]
    assert found.functional() == {"p": {"x": 4, "y": 1}}
    assert found.fixed() == frozenset([("p", "x")])
    assert merge([second]).fixed() is None
    assert sorted(code.counts.tolist() for code in found.code.values()) == [[0, 7], [7, 1]]
    assert np.unpackbits(found.bin_rows[0], count=2).tolist() == [1, 0]
    whole = found.code[found.runs[0].table]
    assert [np.unpackbits(row, count=2).tolist() for row in whole.rows] == [[1, 0], [1, 1]]
    assert found.runs[3].table == ""


def test_a_run_takes_little_room_and_keeps_its_counts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 2**32, 1000) * rng.integers(0, 2, 1000)
    made_points = [
        (key("toggle", "/elsewhere/hdl/a.sv", n, "q:0->1"), c) for n, c in enumerate(counts)
    ]
    made = run(tmp_path / "1", record(), made_points)
    assert sorted(path.suffix for path in (tmp_path / "1").iterdir()) == [
        ".counts",
        ".json",
        ".keys",
    ]
    found = run_counts.read(Path(str(made.coverage)))
    assert found.counts.tolist() == counts.tolist()
    table = run_counts.read_table(found.table)
    assert b"elsewhere" not in table  # the same wherever the checkout lies
    again = run(tmp_path / "2", record(), made_points)  # the table is there already
    assert sorted(path.suffix for path in (tmp_path / "2").iterdir()) == [".counts", ".json"]
    assert run_counts.read(Path(str(again.coverage))).table == found.table


def test_a_table_comes_along_from_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(tmp_path / "1", record(), points(0, 2, 0))
    monkeypatch.setattr(paths, "BUILD", tmp_path / "other")
    assert merge([made]).runs  # found next to the counts
    run_counts.adopt(tmp_path / "1")
    table = run_counts.read(Path(str(made.coverage))).table
    (tmp_path / "1" / f"{table}.keys").unlink()
    assert merge([made]).runs
    (tmp_path / "other" / "coverage" / f"{table}.keys").unlink()
    with pytest.raises(NfError, match=r"run with --cov again"):
        merge([made])


@pytest.mark.parametrize("raw", ["", "C 'x", "C 'x' y\n", "C '\x01f\x02a' 1\nC 'half"])
def test_a_damaged_text_counts_for_nothing(tmp_path: Path, raw: str) -> None:
    (tmp_path / run_counts.RAW).write_text(raw, encoding="utf-8")
    run_counts.pack(tmp_path, Path("/elsewhere"))
    assert [path.name for path in tmp_path.iterdir()] == [run_counts.RAW]


def test_damaged_counts_count_for_nothing(tmp_path: Path) -> None:
    made = run(tmp_path / "1", record(), points(0, 2, 0))
    path = Path(str(made.coverage))
    whole = path.read_bytes()
    for data in (whole[:-3], b"", b"\n", whole[:20], b"nf coverage 1 zz\n"):
        output.write_bytes(path, data)
        if data:
            with pytest.raises(DataError):
                run_counts.read(path)
            assert merge([made]).runs == ()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write the coverage of one run to a file."""
    path = tmp_path / "a.cov"
    write(merge([run(tmp_path / "1", record(), points(0, 2, 0), {"p": {"x": 3}})]), path)
    return path


def test_damaged_files_are_one_line(path: Path) -> None:
    whole = path.read_bytes()
    assert read(path).runs
    for data in (b"", b"PK", whole[:200], text([]).encode(), whole[:-30]):
        output.write_bytes(path, data)
        with pytest.raises(NfError, match=r"a\.cov is no merged coverage, or damaged") as error:
            read(path)
        assert "\n" not in str(error.value)
    with pytest.raises(NfError, match="cannot read"):
        read(path.with_name("none.cov"))


def test_flipped_bytes_are_one_line(path: Path) -> None:
    whole = path.read_bytes()

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(1, 255)), max_size=3))
    def check(flips: list[tuple[int, int]]) -> None:
        data = bytearray(whole)
        for place, change in flips:
            data[place] ^= change
        path.write_bytes(data)
        try:
            read(path)
        except NfError as error:
            said = str(error)
        else:
            said = ""
        assert "\n" not in said

    check()


@pytest.mark.nightly("half a minute; what is measured does not change often")
def test_2000_runs_of_real_size_take_less_than_20_s(tmp_path: Path) -> None:
    """Check that 2,000 runs are merged and written in less than 20 s of processor time.

    A run has 240,000 points, as many as the controller has, and 300 bins.
    """
    rng = np.random.default_rng(2)
    keys = [
        key("toggle", f"hdl/m{n % 50}.sv", n // 50, f"q[{n % 64}]:0->1") for n in range(240_000)
    ]
    base = run(tmp_path / "base", record(), [(one, 0) for one in keys])
    table = run_counts.read(Path(str(base.coverage))).table
    hits = {f"point {p}": {f"bin {b}": p + b for b in range(10)} for p in range(30)}
    made = []
    for number in range(20):  # a hundred times each: writing them is not what is measured
        counts = (rng.integers(0, 300, len(keys)) * (rng.random(len(keys)) < 0.7)).astype(np.uint32)
        path = tmp_path / f"{number}.counts"
        head = run_counts.MAGIC + table.encode() + b"\n"
        output.write_bytes(path, head + run_counts.packed(counts))
        made.append(record(coverage=str(path), metrics={FUNCTIONAL: hits}))
    merger, start = Merger(), time.process_time()
    for number in range(2000):
        assert merger.record(replace(made[number % 20], seed=number))
    found: Merged = merger.result()
    write(found, tmp_path / "all.cov")
    seconds = time.process_time() - start
    assert len(found.runs) == 2000
    assert found.functional()["point 29"]["bin 9"] == 2000 * 38
    assert seconds < 20, f"{seconds:.1f} s"
