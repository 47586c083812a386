# SPDX-License-Identifier: Apache-2.0
"""Tests of damaged and hostile monitor logs: the readable part or one line, in bounded time."""

from __future__ import annotations

import json
import lzma
import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric.errors import MonitorError
from neuron_fabric.monitor import bench, log
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor.log import replay
from neuron_fabric.monitor.page import page
from neuron_fabric.monitor.recordings import SUFFIX, record, signal_lines
from neuron_fabric.monitor.signals import Signal

STEPS = 60
LINES: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a log of a short run with a fault, whose lines the tests change; return its folder."""
    folder = tmp_path_factory.mktemp("run")
    bench.trained(3, "flipped_vote", [Signal.AGREEMENT], steps=STEPS, folder=folder)
    LINES[:] = (folder / monitor_log.NAME).read_text(encoding="utf-8").splitlines()
    return folder


def used(path: Path) -> None:
    """Do all that the package does with a log; an error other than MonitorError fails."""
    with suppress(MonitorError):
        segments, left_out = monitor_log.read(path)
        assert all(len(one.splitlines()) == 1 for one in left_out)
        assert log.lines(segments)
        ET.fromstring(page(segments))
        for segment in segments[:3]:
            with suppress(MonitorError):
                replay(segment)
            with suppress(MonitorError):
                signal_lines("x", segment)


RUN = '{"kind":"run","format":"neuron-fabric-monitor","version":1}\n'
LARGE = {
    "empty lines": "\n",
    "no records": "{}\n",
    "ends": '{"kind":"end","why":""}\n',
    "kinds of a newer version": '{"kind":"x"}\n',
    "runs that are none": RUN,
    "samples": '{"kind":"sample","step":1,"cosines":{}}\n',
}


def bounded(path: Path, name: str, size: int, seconds: float) -> None:
    """Check the processor time for a recording of ``size`` bytes of one repeated record.

    It is small when compressed.
    """
    first, line = LINES[0] + "\n", LARGE[name]
    text = first + line * ((size - len(first)) // len(line))
    path.write_bytes(lzma.compress(text.encode(), preset=1))
    assert path.stat().st_size < 30_000
    start = time.process_time()
    used(path)
    assert time.process_time() - start < seconds


WHOLE = pytest.param(1, marks=pytest.mark.nightly("20 s; by day an eighth of the size is read"))


@pytest.mark.parametrize("part", [8, WHOLE])
@pytest.mark.parametrize("name", LARGE)
def test_time_is_bounded(tmp_path: Path, name: str, part: int) -> None:
    """Check that reading a recording of the greatest size takes at most 20 s of processor time.

    The quick run reads an eighth of the size in an eighth of the time.
    """
    bounded(tmp_path / f"x{SUFFIX}", name, monitor_log.MOST_PLAIN // part, 20 / part)


def test_a_recording_that_is_too_large(tmp_path: Path, recorded: Path) -> None:
    """Check that a recording above the size limit is neither read nor written."""
    path = tmp_path / f"x{SUFFIX}"
    path.write_bytes(lzma.compress(b"\n" * (1 << 25), preset=0))
    start = time.process_time()
    with pytest.raises(MonitorError, match=r"x.jsonl.xz: holds more than 8,388,608 bytes; give a"):
        monitor_log.read(path)
    assert time.process_time() - start < 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monitor_log, "MOST_PLAIN", 1000)
        with pytest.raises(MonitorError, match="bytes without compression; record a run of 1,000"):
            record(recorded, tmp_path)


def test_a_decoder_that_wants_much_memory(tmp_path: Path) -> None:
    path = tmp_path / f"x{SUFFIX}"
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    path.write_bytes(lzma.compress(b"\n", filters=filters))
    with pytest.raises(MonitorError, match=r"is damaged \(Memory usage limit exceeded"):
        monitor_log.read(path)


def test_many_runs_and_broken_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for lines, what in (
        ([LINES[0]] * (monitor_log.MOST_RUNS + 1), "it has more than 1,000 run records"),
        ([LINES[0], *["x"] * (monitor_log.MOST_BROKEN + 1)], "more than 1,000 lines are no rec"),
    ):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with pytest.raises(MonitorError, match=what):
            monitor_log.read(path)
        path.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
        assert monitor_log.read(path)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside of JSON data, as tuples of keys and indices."""
    below = list(value.items()) if isinstance(value, dict) else []
    below += list(enumerate(value[:3])) if isinstance(value, list) else []
    return [at] * bool(at) + [more for key, one in below for more in places(one, (*at, key))]


TEXTS = ["", "\x1b[31m</svg>\u202e", "x" * 2000, "FALLBACK", "nan"]
NUMBERS = [0, -1, 1e308, -1e308, 5e-324, 1 << 62, -(1 << 63), 1 << 63, 10**39]
OTHERS: list[object] = [None, True, [], {}, [[]], [{}], {"x": 1}, [1, 2]]
HOSTILE = st.sampled_from([*TEXTS, *NUMBERS, *OTHERS])
CHANGES = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), HOSTILE), min_size=1, max_size=3
)


def changed(path: Path, changes: list[tuple[int, int, Any]]) -> None:
    """Replace values in some lines of the log, most often in the first line, and use the result."""
    lines = list(LINES)
    for number, place, new in changes:
        row = number % len(lines) if number % 2 else 0
        record = json.loads(lines[row])
        if not (all_places := places(record)):
            continue
        *above, last = all_places[place % len(all_places)]
        inner = record
        for key in above:
            inner = inner[key]
        inner[last] = new
        lines[row] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    used(path)


NIGHTLY = pytest.mark.nightly("2,000 examples, two minutes; by day there are 40")


@pytest.mark.parametrize("examples", [40, pytest.param(2000, marks=NIGHTLY)])
def test_any_value_may_be_another(tmp_path: Path, examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(CHANGES)
    def hostile(changes: list[tuple[int, int, Any]]) -> None:
        changed(tmp_path / "log", changes)

    hostile()


@settings(max_examples=40, deadline=None)
@given(st.booleans(), st.integers(0, 10**6), st.binary(max_size=8), st.integers(0, 30))
def test_any_bytes_of_a_log_or_recording(
    tmp_path_factory: pytest.TempPathFactory, packed: bool, at: int, new: bytes, cut: int
) -> None:
    text = "\n".join([*LINES[:20], ""]).encode()
    data = lzma.compress(text) if packed else text
    at %= len(data)
    path = tmp_path_factory.mktemp("log") / (f"x{SUFFIX}" if packed else "x")
    path.write_bytes(data[:at] + new + data[at + cut :])
    used(path)
