# SPDX-License-Identifier: Apache-2.0
"""Fuzz cases of files that are data: captures, stimuli, histories, records, tables, traces, builds.

A value in a file is replaced by each odd value, or the file as a whole is damaged or replaced. The
command reads it, or refuses it in one line.
"""

from __future__ import annotations

from scripts.fuzz import setup
from scripts.fuzz.fuzz_case import FuzzCase, group
from scripts.fuzz.setup import DAMAGES, OUT, REPLAY, undamaged
from scripts.fuzz.values import JSON, YAML

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
    """Split a list of names."""
    return text.split()


@group(
    "bad input",
    take=90,
    always=["tensors/0/name, escape"],
    at=words(
        "format version model world_size steps steps/0 tensors tensors/0 tensors/0/name "
        "tensors/0/shape tensors/0/shape/0 tensors/0/dtype note created"
    ),
    value=JSON,
)
def test_manifest_value(case: FuzzCase, at: str, value: str) -> None:
    """Any value in capture.json is read or refused in one line."""
    setup.capture(case.folder)
    setup.json_value(case.folder, "c/capture.json", at, value)
    case.run("capture", "check", "c")


@group("bad input", how=DAMAGES)
def test_manifest_file(case: FuzzCase, how: str) -> None:
    """A damaged capture.json, or something else in its place."""
    setup.capture(case.folder)
    setup.damage(case.folder, case.random, "c/capture.json", how)
    case.run("capture", "check", "c")


@group(
    "bad input",
    take=60,
    at=words(
        "__metadata__ __metadata__/step conv.weight conv.weight/dtype conv.weight/shape "
        "conv.weight/shape/0 conv.weight/data_offsets conv.weight/data_offsets/1"
    ),
    value=JSON,
)
def test_header_value(case: FuzzCase, at: str, value: str) -> None:
    """Any value in the header of a safetensors file."""
    setup.capture(case.folder)
    setup.json_value(case.folder, WORKER, at, value)
    case.run("capture", "check", "c")


@group("bad input", length=[-1, 0, 1, 7, 4294967296, 99999999999])
def test_header_length(case: FuzzCase, length: int) -> None:
    """A header length that the file does not have."""
    setup.capture(case.folder)
    setup.header_length(case.folder, WORKER, length)
    case.run("capture", "check", "c", exit=[2], says="worker-000.safetensors: ")


@group("bad input", always=["fifo"], how=DAMAGES)
def test_worker_file(case: FuzzCase, how: str) -> None:
    """A damaged worker file, or something else in its place."""
    setup.capture(case.folder)
    setup.damage(case.folder, case.random, WORKER.replace("000.s", "001.s"), how)
    case.run("capture", "check", "c")


@group("bad input", file=["c/capture.json", WORKER], how=DAMAGES)
def test_replay_of_damage(case: FuzzCase, file: str, how: str) -> None:
    """A damaged capture is refused before anything is driven."""
    setup.capture(case.folder)
    setup.damage(case.folder, case.random, file, how)
    case.run(*REPLAY, "--out", OUT, build=True, absent=[OUT])


@group("bad input")
def test_many_tensors(case: FuzzCase) -> None:
    """50,000 tensors, two of one name, are refused in seconds."""
    setup.many_tensors(case.folder, 50000)
    says = "tensor 't49998' stands twice"
    case.run("capture", "check", "c", exit=[2], says=says, seconds=20)


@group(
    "bad input",
    take=80,
    at=words(
        "format version note parameters seed operations operations/0 operations/0/write "
        "operations/0/ldid operations/0/data operations/1/read operations/1/expect"
    ),
    value=JSON,
)
def test_stimulus_value(case: FuzzCase, at: str, value: str) -> None:
    """Any value in a stimulus is driven or refused in one line."""
    setup.stimulus(case.folder)
    setup.json_value(case.folder, "s.json", at, value)
    case.run("replay", "--stimulus", "s.json", "--sim", "icarus", build=True)


@group("bad input", how=DAMAGES)
def test_stimulus_file(case: FuzzCase, how: str) -> None:
    """A damaged stimulus, or something else in its place."""
    setup.stimulus(case.folder)
    setup.damage(case.folder, case.random, "s.json", how)
    case.run("replay", "--stimulus", "s.json", "--sim", "icarus", build=True, exit=[0, 1, 2])


@group(
    "bad input",
    take=50,
    at=words(
        "invocation invocation/title invocation/tools invocation/seeds invocation/seconds point "
        "point/when point/durations"
    ),
    value=JSON,
    verb=["history", "report"],
)
def test_history_facts(case: FuzzCase, at: str, value: str, verb: str) -> None:
    """Any value in the recorded facts of a command."""
    setup.history(case.folder)
    setup.json_value(case.folder, "invocation.facts", at, value)
    case.run(verb)


@group(
    "bad input",
    take=40,
    at=words(
        "module tests tests/0 seed timeout_s build build/sim build/root build/parameters env "
        "window_ns"
    ),
    value=JSON,
)
def test_history_spec(case: FuzzCase, at: str, value: str) -> None:
    """Any value in the recorded specification of a run."""
    setup.history(case.folder)
    setup.json_value(case.folder, "run.spec", at, value)
    case.run("run", "test_regs::unmapped", "--failed", "--dry-run", "--sim", "icarus")


@group(
    "bad input",
    take=50,
    always=["cause, line break, report"],
    at=words(
        "name sim seed passed kind cause seconds cases cases/0/seconds cases/0/name metrics "
        "metrics/cycles log parameters coverage"
    ),
    value=JSON,
    verb=["history", "report"],
)
def test_history_record(case: FuzzCase, at: str, value: str, verb: str) -> None:
    """Any value in the record of a run in the history."""
    setup.history(case.folder)
    setup.json_value(case.folder, "run.record", at, value)
    case.run(verb)


@group(
    "bad input",
    take=30,
    column=words("finished name sim seed result seconds fingerprint spec record cause"),
    value=CELLS,
)
def test_history_rows(case: FuzzCase, column: str, value: object) -> None:
    """Any value in a column of recorded runs."""
    setup.history(case.folder)
    setup.row(case.folder, "run", column, value)
    case.run("history", "--of", "1")


@group(
    "bad input",
    take=30,
    column=words("started finished title command revision expected"),
    value=CELLS,
    verb=["history", "report"],
)
def test_history_commands(case: FuzzCase, column: str, value: object, verb: str) -> None:
    """Any value in a column of recorded commands."""
    setup.history(case.folder)
    setup.row(case.folder, "invocation", column, value)
    case.run(verb)


@group("bad input", take=20, column=words("test sim build seed result seconds"), value=CELLS)
def test_history_trend(case: FuzzCase, column: str, value: object) -> None:
    """Any value in a column of recorded tests."""
    setup.history(case.folder)
    setup.row(case.folder, "result", column, value)
    case.run("history", "--trend")


@group("bad input", how=DAMAGES, verb=["history", "report"])
def test_history_file(case: FuzzCase, how: str, verb: str) -> None:
    """A damaged history, or something else in its place."""
    setup.history(case.folder)
    setup.damage(case.folder, case.random, "build/history.sqlite", how)
    case.run(verb)


@group(
    "bad input",
    take=40,
    at=words(
        "id name sim seed passed kind cause seconds cases cases/0 cases/0/sim_time_ns metrics "
        "flaky waves coverage"
    ),
    value=JSON,
)
def test_record_value(case: FuzzCase, at: str, value: str) -> None:
    """Any value in the record of a run folder."""
    setup.records(case.folder)
    setup.json_value(case.folder, "runs/*/record.json", at, value)
    case.run("report", "--runs", "runs")


@group("bad input", how=DAMAGES)
def test_record_file(case: FuzzCase, how: str) -> None:
    """A damaged record, or something else in its place."""
    setup.records(case.folder)
    setup.damage(case.folder, case.random, "runs/*/record.json", how)
    case.run("report", "--runs", "runs")


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
    """Anything that YAML can write, in a file of the testplan."""
    setup.tree(case.folder)
    setup.text(case.folder, "tree/verif/testplan/x.yaml", holds.replace("$VALUE", value))
    case.run("list", "--suites")


@group("bad input", value=YAML)
def test_mutants_value(case: FuzzCase, value: str) -> None:
    """Anything that YAML can write, in the list of mutants."""
    setup.tree(case.folder)
    rest = "file: f, old: a, new: b, tests: ['test_a::b']}]\n"
    text = f"mutants: [{{id: x, why: {value}, {rest}"
    setup.text(case.folder, "tree/verif/mutants/basics.yaml", text)
    case.run("mutate", "--list")


@group("bad input", how=DAMAGES)
def test_testplan_file(case: FuzzCase, how: str) -> None:
    """A damaged testplan, or something else in its place."""
    setup.tree(case.folder)
    setup.damage(case.folder, case.random, "tree/verif/testplan/suites.yaml", how)
    case.run("list", "--suites")


@group(
    "bad input",
    take=20,
    file=["tree/hdl/nf_controller.f", "tree/verif/tests/test_regs.py"],
    how=DAMAGES,
)
def test_source_file(case: FuzzCase, file: str, how: str) -> None:
    """A damaged source, or something else in its place."""
    setup.tree(case.folder)
    setup.damage(case.folder, case.random, file, how)
    case.run("run", "test_regs::unmapped", "--sim", "icarus", "--dry-run")


@group("bad input", value=JSON)
def test_trace_text(case: FuzzCase, value: str) -> None:
    """Any text in a link trace."""
    setup.text(case.folder, "t", f"{TRACE}{value}\n")
    case.run("report", "flits", "t")


@group("bad input", always=["device"], how=DAMAGES)
def test_trace_file(case: FuzzCase, how: str) -> None:
    """A damaged link trace, or something else in its place."""
    setup.text(case.folder, "t", TRACE)
    setup.damage(case.folder, case.random, "t", how)
    case.run("report", "flits", "t")


def _built_again(case: FuzzCase, file: str, how: str) -> None:
    """Replay, damage a file of the build, and replay with the same result."""
    setup.capture(case.folder)
    first = case.execute(*REPLAY, build=False, seconds=120)
    assert first.code == 0, first.error
    setup.damage(case.folder, case.random, f"build/sim/bulk-icarus-*/{file}", how)
    case.run(*REPLAY, "--out", OUT, exit=[0], same={OUT: undamaged()}, seconds=120)


@group(
    "fault",
    how=["empty", "garbage", "zeros", "not UTF-8", "twice", "fifo", "folder", "device", "loop"]
    + ["missing"],
)
def test_build_stamp(case: FuzzCase, how: str) -> None:
    """A build with a damaged stamp is made again."""
    _built_again(case, "build.json", how)


@group("fault", file=["nf_bulk.vpi", "nf_bulk.vvp"], how=["empty", "cut", "missing"])
def test_build_library(case: FuzzCase, file: str, how: str) -> None:
    """A build with a damaged part is made again."""
    _built_again(case, file, how)
