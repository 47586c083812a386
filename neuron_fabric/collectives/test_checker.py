# SPDX-License-Identifier: Apache-2.0
"""Tests of the checker: shipped schedules pass; each rule refuses a schedule that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from neuron_fabric.codec import Route
from neuron_fabric.collectives import schedule_file, shipped
from neuron_fabric.collectives.checker import ScheduleError, check
from neuron_fabric.collectives.schedule import (
    Add,
    Adder,
    Buffer,
    Close,
    Collective,
    Commit,
    Copy,
    Op,
    Place,
    Ready,
    Result,
    Schedule,
    Signal,
    Wait,
    Write,
)
from neuron_fabric.collectives.shipped import views_of

IN, OUT, SCRATCH = (Place(buffer, 0) for buffer in Buffer)


def small(collective: Collective, adder: Adder | None = None, **more: Any) -> Schedule:
    """Return a shipped schedule of 3 ranks, 2 devices and 9 lines, with granule 4 and tile 2."""
    route = Route.FP32 if adder else None
    values: dict[str, Any] = {"lines": 9, "granule": 4, "tile": 2, "adder": adder, "route": route}
    return shipped.shipped(collective, 3, 2, **{**values, **more})


def edited(schedule: Schedule, rank: int, name: str, edit: Callable[[list[Op]], Any]) -> Schedule:
    """Return the schedule after ``edit`` of the operations of a stream."""
    ops = [op for one in schedule.streams[rank] if one.name == name for op in one.ops]
    edit(ops)
    return schedule.with_ops(rank, name, ops)


def first(ops: Sequence[Op], kind: type[Op]) -> int:
    """Return the index of the first operation of a kind."""
    return next(at for at, op in enumerate(ops) if isinstance(op, kind))


def drop(kind: type[Op]) -> Callable[[list[Op]], Any]:
    """Return an edit that drops the first operation of a kind."""
    return lambda ops: ops.pop(first(ops, kind))


def change(kind: type[Op], **fields: Any) -> Callable[[list[Op]], Any]:
    """Return an edit that changes fields of the first operation of a kind."""

    def edit(ops: list[Op]) -> None:
        at = first(ops, kind)
        ops[at] = replace(ops[at], **fields)

    return edit


def swap(at: int) -> Callable[[list[Op]], Any]:
    """Return an edit that swaps operation ``at`` with the next one."""
    return lambda ops: ops.insert(at, ops.pop(at + 1))


def append(op: Op) -> Callable[[list[Op]], Any]:
    """Return an edit that appends an operation."""
    return lambda ops: ops.append(op)


@pytest.mark.parametrize("collective", Collective)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_shipped_schedules_are_right(
    collective: Collective, ranks: int, devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check shipped schedules of one chunk and of several, and with all views of all routes."""
    sums = collective in shipped.SUMS
    variants: list[dict[str, Any]] = [{}]
    if sums:
        variants = [
            {"adder": adder, "route": route, "views": views}
            for adder in Adder
            for route in Route
            for views in (None, views_of(route, ranks))
        ]
    if collective in shipped.ROOTED:
        variants = [{**one, "root": ranks - 1} for one in variants]
    monkeypatch.setattr(shipped, "CHUNK", 6)
    for lines in (1, 9, 60) if collective is not Collective.BARRIER else [0]:
        for variant in variants:
            check(shipped.shipped(collective, ranks, devices, lines, granule=4, tile=2, **variant))


GATHER, BROADCAST = small(Collective.ALL_GATHER), small(Collective.BROADCAST)
DEVICE, PASSIVE = (small(Collective.ALL_REDUCE, adder) for adder in (Adder.DEVICE, Adder.PASSIVE))
PAIR = shipped.shipped(Collective.BROADCAST, 2, 1, 1)
BARRIER = small(Collective.BARRIER, lines=0)
CYCLE = edited(BARRIER, 0, "publish", swap(0))
ADD = PASSIVE.streams[0][1].ops[first(PASSIVE.streams[0][1].ops, Add)]
REDUCE = small(Collective.REDUCE, Adder.DEVICE)
EDITS: list[tuple[Schedule, int, str, Callable[[list[Op]], Any], str]] = [
    # races and signals
    (GATHER, 1, "consume", drop(Wait), r"consume \d+ \(read .* races with rank 2 publish \d+ \(wr"),
    (PAIR, 0, "publish", swap(0), r"consume .* races with rank 0 publish 1 \(write"),
    (PAIR, 0, "publish", append(Write(0, 0, 1, IN)), "1 .read .* races with rank 0 publish 2"),
    (PASSIVE, 0, "publish", append(Copy(1, OUT, SCRATCH)), "rank 0 .* races with rank 0"),
    (PAIR, 1, "consume", append(Write(0, 0, 1, OUT)), "writes a line of .* one writer"),
    (DEVICE, 1, "publish", drop(Wait), "races with rank|is more than"),
    (REDUCE, 1, "publish", drop(Wait), "is more than two tiles ahead of rank"),
    (BROADCAST, 1, "consume", change(Wait, number=5), "rank 0 never gives signal 5"),
    (BROADCAST, 1, "consume", change(Wait, ranks=()), "no such rank"),
    (BROADCAST, 1, "consume", change(Wait, ranks=(3,)), "no such rank"),
    (BROADCAST, 0, "consume", append(Signal(1)), "given twice"),
    (BROADCAST, 0, "publish", append(Signal(1)), "does not ascend"),
    (CYCLE, 1, "publish", swap(0), "wait cycle: .* <- "),
    (DEVICE, 0, "control", change(Wait, back=0), "wait cycle: "),
    (DEVICE, 0, "control", change(Wait, back=2), "back must be 0"),
    # regions
    (DEVICE, 1, "publish", drop(Ready), "may not be committed yet; add `ready"),
    (DEVICE, 1, "publish", swap(0), "may not be committed yet; add `ready"),
    (DEVICE, 0, "control", drop(Wait), r"0 \(close device=0\) races with .* results of rank 0"),
    (DEVICE, 0, "control", change(Wait, ranks=(0, 1)), "races with .* results of rank 2"),
    (DEVICE, 0, "control", swap(1), r"\(commit device=0\) races with .*\(close device=0\)"),
    (DEVICE, 0, "control", drop(Commit), "no commit device=0"),
    (DEVICE, 0, "control", drop(Close), "no close device=0"),
    (DEVICE, 0, "control", append(Commit(2)), "no such device"),
    (DEVICE, 0, "control", append(Commit(0)), "repeats rank 0 control 2"),
    (DEVICE, 1, "publish", append(DEVICE.streams[1][0].ops[1]), "contributes a line twice"),
    # outputs
    (PASSIVE, 0, "consume", drop(Add), "of out of rank . is not written, not view 0 of sum"),
    (PASSIVE, 0, "consume", change(Add, sources=(IN, IN, IN)), "lacks a rank or mixes lines"),
    (GATHER, 0, "consume", append(Copy(9, IN, OUT)), "was written by rank 0"),
    (GATHER, 0, "consume", drop(Copy), "0 of out of rank 0 is not written, not line 0 of rank 0"),
    (GATHER, 0, "consume", change(Copy, target=IN), "writes the input"),
    (BARRIER, 2, "publish", drop(Wait), "rank 2 may leave before rank 0 enters"),
    (BARRIER, 2, "publish", change(Wait, ranks=(0,)), "rank 2 may leave before rank 1 enters"),
    # operations
    (PASSIVE, 0, "publish", append(Ready(0)), "no device adds"),
    (DEVICE, 0, "publish", append(ADD), "the ranks do not add"),
    (DEVICE, 0, "publish", change(Result, view="vote"), "no such view"),
    (DEVICE, 0, "publish", change(Ready, device=-1), "no such device"),
    (GATHER, 0, "publish", change(Write, device=2), "no such device"),
    (GATHER, 0, "publish", change(Write, line=GATHER.room), "outside the .* lines there"),
    (GATHER, 0, "publish", change(Write, count=0), "outside"),
    (GATHER, 0, "publish", change(Write, source=Place(Buffer.IN, 8)), "outside the 9 lines of in"),
]  # fmt: skip
DOUBLE = tuple((one[0], *one) for one in GATHER.streams)
UNEVEN = shipped.shipped(Collective.BROADCAST, 2, 1, 8192)
HEADERS: list[tuple[Schedule, dict[str, Any], str]] = [
    (GATHER, {"ranks": 0}, "ranks is 0; set it to at least 1"),
    (GATHER, {"granule": 0}, "granule is 0; set it to at least 1"),
    (DEVICE, {"tile": 0}, "tile is 0; set it to at least 1"),
    (GATHER, {"ranks": 4}, "streams of other ranks"),
    (GATHER, {"streams": DOUBLE}, "streams publish,publish,consume; use each of"),
    (GATHER, {"room": 1 << 40}, "more than 67,108,864 lines"),
    (BROADCAST, {"root": None}, "its root is None"),
    (BROADCAST, {"root": 3}, "its root is 3"),
    (DEVICE, {"adder": None}, "adder or route do not fit"),
    (DEVICE, {"views": ("vote",)}, "its views are vote; use sum"),
    (UNEVEN, {"devices": 2}, "device 0 has 2.00 x the mean of lines written"),
]


@pytest.mark.parametrize(("schedule", "rank", "name", "edit", "message"), EDITS)
def test_each_rule_refuses_a_broken_stream(
    schedule: Schedule, rank: int, name: str, edit: Callable[[list[Op]], Any], message: str
) -> None:
    """Check that each fault of a stream is refused in one line that names the operations."""
    refused(edited(schedule, rank, name, edit), message)


@pytest.mark.parametrize(("schedule", "fields", "message"), HEADERS)
def test_each_rule_refuses_a_broken_header(
    schedule: Schedule, fields: dict[str, Any], message: str
) -> None:
    """Check that each fault of the header is refused in one line."""
    refused(replace(schedule, **fields), message)


def refused(schedule: Schedule, message: str) -> None:
    """Check that the checker refuses a schedule with ``message``."""
    with pytest.raises(ScheduleError, match=message) as error:
        check(schedule)
    where = f"{schedule.collective} of {schedule.ranks} ranks and {schedule.devices} devices: "
    assert str(error.value).startswith(where)
    assert "\n" not in str(error.value)


def test_load_is_reported_from_64_granules_a_device_on() -> None:
    """Check the ratio of loads at 64 granules a device, and its absence below."""
    assert check(shipped.shipped(Collective.BROADCAST, 2, 2, 64 * 128)).uneven == 1.0
    few = check(shipped.shipped(Collective.BROADCAST, 2, 2, 64 * 128 - 1))
    assert few.uneven is None
    assert few.written.tolist() == [4096, 4095]


# -- JSON form ------------------------------------------------------------------------------------


def test_a_schedule_survives_its_file(tmp_path: Path) -> None:
    """Check that a schedule read from its JSON text equals the original."""
    path = tmp_path / "one.json"
    for one in (DEVICE, PASSIVE, BROADCAST, BARRIER):
        path.write_text(schedule_file.to_text(one), "utf-8")
        assert schedule_file.read(path) == one


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"op": "wait"',
            '"op": "wiat"',
            r"streams\[0\]\[0\].ops\[\d+\].op is not one of write, read",
        ),
        ('"number": 2', '"number": "x"', "number: 'x' is not an integer"),
        ('"count"', '"cuont"', "field 'cuont' is not known here"),
        ('"granule": 4', '"granule": 4.5', "granule: 4.5 is not an integer"),
        ('"all_reduce"', '"all_reduced"', "collective: 'all_reduced' is not "),
        ("schedule-1", "schedule-9", "format is not neuron-fabric-schedule-1"),
        ('"name": "publish"', '"nome": "publish"', "field 'nome' is not known here"),
        ("{", "[", "malformed JSON"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """Check that an error of a file names the file and the field."""
    path = tmp_path / "one.json"
    path.write_text(schedule_file.to_text(DEVICE).replace(old, new, 1), "utf-8")
    with pytest.raises(ScheduleError, match=message) as error:
        schedule_file.read(path)
    assert str(error.value).startswith(str(path))
    with pytest.raises(ScheduleError, match="No such file"):
        schedule_file.read(tmp_path / "none.json")


# -- arguments of shipped -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collective", "ranks", "more", "message"),
    [
        (Collective.ALL_REDUCE, 2, {}, "all_reduce adds; give adder and route"),
        (Collective.GATHER, 2, {"route": Route.FP32}, "gather does not add"),
        (Collective.GATHER, 2, {"root": 2}, "gather of 2 ranks has no root 2"),
        (Collective.ALL_GATHER, 2, {"root": 0}, "all_gather of 2 ranks has no root 0"),
        (Collective.ALL_GATHER, 0, {}, "ranks must be at least 1, got 0"),
        (Collective.ALL_GATHER, 2, {"granule": 0}, "granule must be at least 1, got 0"),
        (
            Collective.REDUCE,
            65,
            {"adder": Adder.DEVICE, "route": Route.FP32},
            "a device adds for up to 64 ranks, got 65",
        ),
    ],
)
def test_shipped_refuses_wrong_arguments(
    collective: Collective, ranks: int, more: dict[str, Any], message: str
) -> None:
    """Check the error of each argument that does not fit."""
    with pytest.raises(ValueError, match=message):
        shipped.shipped(collective, ranks, 1, 1, **more)
