# SPDX-License-Identifier: Apache-2.0
"""Fuzz cases of data files: captures, stimuli, histories, records, tables, traces, builds.

A value in a file is replaced by each odd value, or the file as a whole is damaged or replaced. The
command reads it, or refuses it in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from scripts.fuzz import case_files
from scripts.fuzz.case_files import DAMAGES, OUT, REPLAY, undamaged
from scripts.fuzz.fuzz_case import JSON, YAML, FuzzCase, group

WORKER = "c/step-000001/worker-000.safetensors"
TRACE = "# link trace 1\nreset\n"
COLUMN = ("null", "zero", "minus", "fraction", "large", "text", "escape", "line break", "megabyte")
CELLS: dict[str, object] = {name: JSON[name] for name in (*COLUMN, "digits")} | {
    "null": None,
    "zero": 0,
    "minus": -1,
    "fraction": 1.5,
    "large": float(JSON["large"]),
}
"""Odd values of a column of SQLite, which takes any in any column."""


def words(text: str) -> list[str]:
    """Split a text at white space into a list of names."""
    return text.split()


class Source(NamedTuple):
    """A data file of a fuzz case: how it is written, its command, and the places of its values.

    Places are paths such as "a/0/b".
    """

    write: Callable[[Path], object]
    file: str
    command: str
    places: str = ""


STIMULUS = "replay --stimulus s.json --sim icarus"
DRY_RUN = "run test_regs::unmapped --sim icarus --dry-run"
FACTS = (
    "invocation invocation/title invocation/tools invocation/seeds invocation/seconds point "
    "point/when point/durations"
)
RECORD = (
    "name sim seed passed kind cause seconds cases cases/0/seconds cases/0/name metrics "
    "metrics/cycles log parameters coverage"
)
SOURCES = {
    "manifest": Source(
        case_files.capture,
        "c/capture.json",
        "capture check c",
        "format version model world_size steps steps/0 tensors tensors/0 tensors/0/name "
        "tensors/0/shape tensors/0/shape/0 tensors/0/dtype note created",
    ),
    "header": Source(
        case_files.capture,
        WORKER,
        "capture check c",
        "__metadata__ __metadata__/step conv.weight conv.weight/dtype conv.weight/shape "
        "conv.weight/shape/0 conv.weight/data_offsets conv.weight/data_offsets/1",
    ),
    "stimulus": Source(
        case_files.stimulus,
        "s.json",
        STIMULUS,
        "format version note parameters seed operations operations/0 operations/0/write "
        "operations/0/ldid operations/0/data operations/1/read operations/1/expect",
    ),
    "facts in history": Source(case_files.history, "invocation.facts", "history", FACTS),
    "facts in report": Source(case_files.history, "invocation.facts", "report", FACTS),
    "spec": Source(
        case_files.history,
        "run.spec",
        f"{DRY_RUN} --failed",
        "module tests tests/0 seed timeout_s build build/sim build/root build/parameters env "
        "window_ns",
    ),
    "history": Source(case_files.history, "run.record", "history", RECORD),
    "report": Source(case_files.history, "run.record", "report", RECORD),
    "record": Source(
        case_files.records,
        "runs/*/record.json",
        "report --runs runs",
        "id name sim seed passed kind cause seconds cases cases/0 cases/0/sim_time_ns metrics "
        "flaky waves coverage",
    ),
}
"""Files with values, by the name that a case begins with."""
WHOLE = {
    "manifest": SOURCES["manifest"],
    "worker": Source(case_files.capture, WORKER.replace("000.s", "001.s"), "capture check c"),
    "stimulus": SOURCES["stimulus"],
    "history": Source(case_files.history, "build/history.sqlite", "history"),
    "report": Source(case_files.history, "build/history.sqlite", "report"),
    "record": SOURCES["record"],
    "testplan": Source(case_files.tree, "tree/verif/testplan/suites.yaml", "list --suites"),
    "file list": Source(case_files.tree, "tree/hdl/nf_controller.f", DRY_RUN),
    "test": Source(case_files.tree, "tree/verif/tests/test_regs.py", DRY_RUN),
    "trace": Source(lambda folder: case_files.text(folder, "t", TRACE), "t", "report flits t"),
}
"""Files that are damaged as a whole."""


@group(
    "bad input",
    take=410,
    always=["manifest tensors/0/name, escape", "report cause, line break"],
    at={f"{name} {at}": (one, at) for name, one in SOURCES.items() for at in words(one.places)},
    value=JSON,
)
def test_value(case: FuzzCase, at: tuple[Source, str], value: str) -> None:
    """Any value in a JSON file, a header or a recorded column is read or refused in one line."""
    source, place = at
    source.write(case.folder)
    case_files.json_value(case.folder, source.file, place, value)
    case.run(*words(source.command), build=source.command == STIMULUS)


@group("bad input", always=["worker, fifo", "trace, device"], file=WHOLE, how=DAMAGES)
def test_damage(case: FuzzCase, file: Source, how: str) -> None:
    """A damaged file, or another thing in its place, is read or refused in one line."""
    file.write(case.folder)
    case_files.damage(case.folder, case.random, file.file, how)
    driven = file.command == STIMULUS
    case.run(*words(file.command), build=driven, exit=[0, 1, 2] if driven else [0, 2])


@group("bad input", file=["c/capture.json", WORKER], how=DAMAGES)
def test_replay_of_damage(case: FuzzCase, file: str, how: str) -> None:
    """A damaged capture is refused before anything is driven, and leaves no result."""
    case_files.capture(case.folder)
    case_files.damage(case.folder, case.random, file, how)
    case.run(*REPLAY, "--out", OUT, build=True, absent=[OUT])


@group("bad input", length=[-1, 0, 1, 7, 4294967296, 99999999999])
def test_header_length(case: FuzzCase, length: int) -> None:
    """A wrong header length in a capture's file is refused with the name of the file."""
    case_files.capture(case.folder)
    case_files.header_length(case.folder, WORKER, length)
    case.run("capture", "check", "c", exit=[2], says="worker-000.safetensors: ")


@group("bad input")
def test_many_tensors(case: FuzzCase) -> None:
    """A manifest of 50,000 tensors, two of one name, is refused in seconds."""
    case_files.many_tensors(case.folder, 50000)
    says = "tensor 't49998' stands twice"
    case.run("capture", "check", "c", exit=[2], says=says, seconds=20)


COLUMNS = {
    "run": ("finished name sim seed result seconds fingerprint spec record cause", "--of 1"),
    "invocation": ("started finished title command revision expected", ""),
    "result": ("test sim build seed result seconds", "--trend"),
}
"""Columns of the tables of the history, and the option of `nf history` that prints them."""


@group(
    "bad input",
    take=80,
    column={f"{t}.{c}": (t, c) for t, (columns, _) in COLUMNS.items() for c in words(columns)},
    value=CELLS,
)
def test_column(case: FuzzCase, column: tuple[str, str], value: object) -> None:
    """Any value in a column of the history is read or refused in one line."""
    table, name = column
    case_files.history(case.folder)
    case_files.row(case.folder, table, name, value)
    case.run("history", *words(COLUMNS[table][1]))
    if table == "invocation":
        case.run("report")


@group(
    "bad input",
    take=36,
    holds={
        "seeds": "suites: {x: {reason: ten characters, seeds: $VALUE, tests: ['*']}}\n",
        "reason": "suites: {x: {reason: $VALUE, seeds: 1, tests: ['*']}}\n",
        "all": "$VALUE\n",
    },
    value=YAML,
)
def test_testplan_value(case: FuzzCase, holds: str, value: str) -> None:
    """Any YAML value in a file of the testplan is read or refused in one line."""
    case_files.tree(case.folder)
    case_files.text(case.folder, "tree/verif/testplan/x.yaml", holds.replace("$VALUE", value))
    case.run("list", "--suites")


@group("bad input", value=YAML)
def test_mutants_value(case: FuzzCase, value: str) -> None:
    """Any YAML value in the list of mutants is read or refused in one line."""
    case_files.tree(case.folder)
    rest = "file: f, old: a, new: b, tests: ['test_a::b']}]\n"
    text = f"mutants: [{{id: x, why: {value}, {rest}"
    case_files.text(case.folder, "tree/verif/mutants/basics.yaml", text)
    case.run("mutate", "--list")


@group("bad input", value=JSON)
def test_trace_text(case: FuzzCase, value: str) -> None:
    """Any text in a link trace is read or refused in one line."""
    case_files.text(case.folder, "t", f"{TRACE}{value}\n")
    case.run("report", "flits", "t")


@group(
    "fault",
    file=["build.json", "nf_bulk.vpi", "nf_bulk.vvp"],
    how=words("empty cut garbage zeros twice fifo folder device loop missing") + ["not UTF-8"],
)
def test_build(case: FuzzCase, file: str, how: str) -> None:
    """A build with a damaged stamp or product is made again, and gives the same tensors."""
    case_files.capture(case.folder)
    first = case.execute(*REPLAY, build=False, seconds=120)
    assert first.code == 0, first.error
    case_files.damage(case.folder, case.random, f"build/sim/bulk-icarus-*/{file}", how)
    case.run(*REPLAY, "--out", OUT, exit=[0], same={OUT: undamaged()}, seconds=120)
