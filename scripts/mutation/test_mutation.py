# SPDX-License-Identifier: Apache-2.0
"""Tests of mutants made from the source: search, rewriting, runs, outcomes and score."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.build import registry, slang
from scripts.build.filelist import FileList, read_filelist
from scripts.common import process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, VARIANTS
from scripts.common.records import (
    FILELIST,
    TOP,
    BuildSpec,
    Edit,
    FailureKind,
    RunRecord,
    RunSpec,
)
from scripts.mutation import equivalence, find_mutants, mutant_outcome
from scripts.mutation.mutant_outcome import ALIVE, MutantOutcome, State, Store
from scripts.mutation.run_mutants import Candidate, MutantRuns, write_variant
from scripts.mutation.source_mutant import OPERATORS, SourceMutant, sample
from scripts.plan import listed_mutants
from scripts.run import simulate
from scripts.run.schedule import Runner

Design = tuple[list[SourceMutant], dict[str, str]]
Tally = tuple[Path, list[SourceMutant], dict[str, str]]
BUILDS_MUTANTS = [one.name for one in registry.simulators() if one.links_c]
DESIGN = """
    module tally #(parameter int TOP = 5) (
      input wire logic clk, input wire logic rst_n,
      input wire logic up, input wire logic clear, input wire logic quiet,
      output logic [3:0] count, output logic full
    );
      logic [3:0] count_q;
      always_ff @(posedge clk or negedge rst_n) begin
        if (!rst_n) begin
          count_q <= 4'd0;
        end else begin
          if (clear) count_q <= 4'd0;
          else if (up && !full) count_q <= count_q + 4'd1;
        end
      end
      assign full  = (count_q >= 4'(TOP));
      assign count = (quiet && full && !full) ? 4'd0 : count_q;
    endmodule
"""
BENCH = """
    import cocotb
    from cocotb.clock import Clock
    from cocotb.triggers import RisingEdge, Timer

    async def start(dut):
        Clock(dut.clk, 10, "ns").start()
        dut.up.value = dut.clear.value = dut.quiet.value = 0
        dut.rst_n.value = 0
        await RisingEdge(dut.clk)
        await Timer(1, "ns")
        dut.rst_n.value = 1

    @cocotb.test()
    async def counts(dut):
        await start(dut)
        dut.up.value = 1
        for n in range(1, 9):
            await RisingEdge(dut.clk)
            await Timer(1, "ns")
            assert int(dut.count.value) == min(n, 5), "the count is wrong"

    @cocotb.test()
    async def rests(dut):
        await start(dut)
        await RisingEdge(dut.clk)
        assert int(dut.full.value) == 0, "full at once"
"""


def errors(files: Sequence[Path]) -> list[str]:
    """Return "FILE:LINE CODE" for every error that slang finds in the elaborated controller."""
    compilation = slang.elaborate(TOP, FileList(tuple(map(str, files)), ("hdl/common",)))
    manager = compilation.sourceManager
    return [
        f"{manager.getFileName(one.location)}:{manager.getLineNumber(one.location)} {one.code}"
        for one in compilation.getAllDiagnostics()
        if one.isError()
    ]


@pytest.fixture(scope="module")
def design() -> Design:
    """Return all mutants of the controller, and its sources."""
    return find_mutants.find(ROOT, TOP, read_filelist(ROOT, FILELIST), find_mutants.shapes())


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    """Write a small design with a testbench, and find its mutants.

    Returns:
        The folder, the mutants and the sources.
    """
    (tmp_path / "tally.sv").write_text(textwrap.dedent(DESIGN), encoding="utf-8")
    (tmp_path / "tally.f").write_text("tally.sv\n", encoding="utf-8")
    (tmp_path / "tally_bench.py").write_text(textwrap.dedent(BENCH), encoding="utf-8")
    return tmp_path, *find_mutants.find(tmp_path, "tally", FileList(("tally.sv",), ()))


def test_every_operator_and_every_module_has_mutants(
    design: Design,
) -> None:
    found, sources = design
    assert {mutant.operator for mutant in found} == set(OPERATORS)
    files = {mutant.file for mutant in found}
    without = {name.rpartition("/")[2] for name in sources if name not in files}
    cells = {"CCU2C.sv", *(f"nf_ecp5_{one}.sv" for one in ("chain", "accumulate", "vote"))}
    assert without <= {"nf_wave_pkg.sv", "nf_controller.sv"} | cells  # hdl/formal/mutants.yaml
    assert {"nf_secded", "nf_tern5_add"} <= {m.module for m in found if m.extra}
    assert len({mutant.id for mutant in found}) == len(found)


def test_ids_outlive_an_edit_elsewhere(
    tally: Tally,
) -> None:
    folder, before, _ = tally
    path = folder / "tally.sv"
    text = path.read_text(encoding="utf-8")
    text = text.replace("  logic [3:0] count_q;", "  // one more line\n  logic [3:0] count_q;")
    path.write_text(text, encoding="utf-8")
    after, _ = find_mutants.find(folder, "tally", FileList(("tally.sv",), ()))
    assert [m.id for m in after] == [m.id for m in before]
    assert [m.line - 1 for m in after if m.line > 7] == [m.line for m in before if m.line > 6]


def test_a_sample_hardly_changes_with_the_mutants(
    design: Design,
) -> None:
    found, _ = design
    drawn = {mutant.id for mutant in sample(found, 100, 7)}
    assert len(drawn) == 100
    assert drawn != {mutant.id for mutant in sample(found, 100, 8)}
    fewer = {mutant.id for mutant in sample(found[:-100], 100, 7)}
    assert len(drawn & fewer) >= 90


def test_all_mutants_together_are_legal(design: Design) -> None:
    """Check sources with all mutants: slang accepts them, and they have no `no_inline_task`.

    Verilator refuses a function that is kept apart and reads the number of the mutant.
    """
    found, sources = design
    folder = VARIANTS / write_variant(dict(enumerate(found, 1)), sources)
    files = [folder / n if (folder / n).is_file() else ROOT / n for n in sources]
    assert errors(files) == []
    texts = [file.read_text("latin-1") for file in folder.rglob("*.sv")]
    assert any("no_inline_task" in source for source in sources.values())
    assert not any("no_inline_task" in text for text in texts)


@pytest.mark.nightly("5 s: the build that holds all mutants is the quick part")
def test_each_mutant_alone_is_legal(tmp_path: Path) -> None:
    files = read_filelist(ROOT, FILELIST)
    found, sources = find_mutants.find(ROOT, TOP, files, find_mutants.shapes())
    for number, mutant in enumerate(sample(found, 12, 5)):
        changed = tmp_path / str(number) / Path(mutant.file).name
        changed.parent.mkdir()
        changed.write_bytes(mutant.mutated(sources[mutant.file]).encode("latin-1"))
        paths = [changed if name == mutant.file else ROOT / name for name in sources]
        assert errors(paths) == [], mutant.diff(sources[mutant.file])


def test_bounds_of_slices_keep_their_parameters(
    design: Design,
) -> None:
    """Check that a changed bound of a slice keeps the names of parameters.

    A bound in digits would be that of the default build, and would widen the expression in a
    smaller one, also without an active mutant.
    """
    found, sources = design
    parts = [(m.file, p) for m in found if m.operator in ("slice", "index") for p in m.parts]
    sized = [p.new for f, p in parts if "[ADDR_W" in sources[f][p.start : p.end]]
    assert sized
    assert all("ADDR_W" in new for new in sized), sized


def runs_of(
    tally: Tally, store: Path, runner: Runner, sim: str = BUILDS_MUTANTS[0], **more: Any
) -> MutantRuns:
    """Return the MutantRuns of the small design with both of its tests.

    Args:
        tally: The design, its mutants and sources.
        store: File of outcomes.
        runner: Executes a run.
        sim: Simulator.
        more: Further fields of MutantRuns.
    """
    folder, found, sources = tally
    build = BuildSpec(sim, "tally", "tally.f", root=folder, opt="-O0")
    specs = [RunSpec(build, "tally_bench", (t,), timeout_s=300.0) for t in ("counts", "rests")]
    tests = [Candidate(spec) for spec in specs]
    mutants = more.pop("mutants", dict(enumerate(found, 1)))
    return MutantRuns(mutants, sources, tests, runner, Store(store), folder / "runs", **more)


def noting(runs: list[str], record: Callable[..., RunRecord], **fields: Any) -> Runner:
    """Return a runner that notes the test of each run, and returns a record with these fields."""

    def runner(spec: RunSpec) -> RunRecord:
        runs.append(spec.tests[0])
        return record(id=spec.id, **fields)

    return runner


def finish(made: MutantRuns) -> list[MutantOutcome]:
    """Run the mutants to the end and return their outcomes; no run may be faulty."""
    outcomes: list[MutantOutcome] = []
    assert made.run(1, outcomes.append, process.kill_all)
    assert not made.broken
    return outcomes


@pytest.mark.parametrize("sim", BUILDS_MUTANTS)
def test_faults_are_killed(sim: str, tally: Tally, tmp_path: Path) -> None:
    """Check the outcomes of all mutants of a small design.

    Without a mutant tests pass, most mutants are killed, some live, and a second command runs
    nothing again.
    """
    folder, found, sources = tally
    runs: list[str] = []

    def runner(spec: RunSpec) -> RunRecord:
        runs.append(spec.name)
        return simulate.run(spec, folder / "runs", folder / "sim")

    def command() -> list[MutantOutcome]:
        made = runs_of(tally, tmp_path / "results.jsonl", runner, sim)
        made.prove = equivalence.prover(FileList(("tally.sv",), ()), sources)
        if any(made.known(m) is None for m in found):
            made.probe(1, process.kill_all)
        return finish(made)

    outcomes = command()
    by_place = {(o.operator, o.diff.splitlines()[-2].strip("+ ")): o for o in outcomes}
    changed = "else if (up && !full) count_q <= (count_q) - (4'd1);"
    assert by_place["arithmetic", changed].state is State.KILLED
    assert mutant_outcome.score_of(outcomes).killed > len(outcomes) / 2
    assert any(o.state in ALIVE for o in outcomes)  # no test clears
    assert len(runs) < 2 + 2 * len(found)  # the probe spares runs
    done = len(runs)
    assert {o.id: o.state for o in command()} == {o.id: o.state for o in outcomes}
    assert len(runs) == done


@pytest.mark.parametrize("sim", BUILDS_MUTANTS)
def test_tests_that_are_red_without_a_mutant_stop_the_command(
    sim: str, tally: Tally, tmp_path: Path
) -> None:
    folder = tally[0]
    bench = folder / "tally_bench.py"
    bench.write_text(bench.read_text(encoding="utf-8").replace("min(n, 5)", "n"), encoding="utf-8")
    ran: list[str] = []

    def runner(spec: RunSpec) -> RunRecord:
        ran.append(spec.name)
        return simulate.run(spec, folder / "runs", folder / "sim")

    made = runs_of(tally, tmp_path / "results.jsonl", runner, sim)
    made.candidates = [*made.candidates, *list(made.candidates[1:]) * 12]
    with pytest.raises(NfError, match="green without a mutant: tally_bench::counts"):
        made.probe(1, process.kill_all)
    assert len(ran) <= 5  # some may have begun before the first was judged, on a busy machine


def test_no_run_begins_once_it_is_late(
    tally: Tally, tmp_path: Path, record: Callable[..., RunRecord]
) -> None:
    runs: list[str] = []

    def runner(spec: RunSpec) -> RunRecord:
        """Return a record that kills the mutant in every second run."""
        runs.append(spec.id)
        if len(runs) == 4:
            made.deadline = 0.0
        return record(id=spec.id, passed=len(runs) % 2 == 0, kind=FailureKind.MISMATCH)

    made = runs_of(tally, tmp_path / "results.jsonl", runner)
    outcomes = finish(made)
    assert len(runs) == 4
    assert {outcome.state for outcome in outcomes} == {State.KILLED}
    assert 2 <= len(outcomes) < len(tally[1])


def test_a_test_that_watches_the_line_runs_first(
    tally: Tally, tmp_path: Path, record: Callable[..., RunRecord]
) -> None:
    _, found, sources = tally
    text = sources["tally.sv"]
    start = text.index("if (clear)")
    edit = Edit("tally.sv", text[start : text.index("up && !full")], "if (")
    listed = [
        listed_mutants.Mutant("id", "why", (edit,), (test,))
        for test in ("tally_bench::rests", "tally_bench::counts/w=3")
    ]
    line = text[:start].count("\n") + 1
    names = {"tally_bench::rests default", "tally_bench::counts default"}
    watchers = listed_mutants.watchers(listed, sources)
    assert watchers == dict.fromkeys([("tally.sv", line), ("tally.sv", line + 1)], names)
    runs: list[str] = []
    runner = noting(runs, record, passed=False, kind=FailureKind.MISMATCH)
    one = next(mutant for mutant in found if mutant.line == line)
    one = dataclasses.replace(one, feeds="inner")
    watchers = listed_mutants.watchers(listed[:1], sources)
    meant = {("inner", "tally_bench::rests"): 1}  # the module whose input it changes
    options: tuple[dict[str, Any], ...] = ({"watchers": watchers}, {"meant": meant}, {})
    for number, more in enumerate(options):
        finish(runs_of(tally, tmp_path / f"{number}.jsonl", runner, mutants={1: one}, **more))
    assert runs == ["rests", "rests", "counts"]


def test_effort_spares_no_test_that_is_meant(
    tally: Tally, tmp_path: Path, record: Callable[..., RunRecord]
) -> None:
    runs: list[str] = []
    runner = noting(runs, record, sim_seconds=20.0, used_seconds=2.0)
    meant = {("tally", f"tally_bench::{test}"): 1 for test in ("counts", "rests")}
    for number, known in enumerate((meant, {})):
        one = {1: tally[1][0]}
        store = tmp_path / f"{number}.jsonl"
        finish(runs_of(tally, store, runner, mutants=one, meant=known, effort=3.0))
    assert sorted(runs[:2]) == ["counts", "rests"]
    assert len(runs) == 3  # without `meant`, the first test alone


def _outcome(id: str, state: State) -> MutantOutcome:
    return MutantOutcome(id, "a.sv", "a", "reset", 1, "", state, "")


def test_inputs_name_the_module_of_their_instance(
    design: Design,
) -> None:
    """Check `feeds` of mutants at inputs of an instance.

    Signals that nothing or only an assertion reads have no mutants.
    """
    found, sources = design
    assert {m.module for m in found if m.feeds == "nf_capacity"} == {"nf_core"}
    assert any("assign unused" in source for source in sources.values())
    lines = [sources[m.file].splitlines()[m.line - 1] for m in found]
    assert not [line for line in lines if "assign unused" in line or "gave_q" in line]


def test_waivers_that_are_not_needed(design: Design) -> None:
    found, _ = design
    one, two = found[0].id, found[1].id
    waived = dict.fromkeys((one, two, "gone.reset.00000000"), "a reason of twenty letters")
    (unmatched,) = mutant_outcome.unmatched_waivers(waived, found)
    assert "no mutant gone.reset.00000000" in unmatched
    outcomes = [_outcome(one, State.KILLED), _outcome(two, State.SURVIVED)]
    (needless,) = mutant_outcome.needless_waivers(waived, outcomes)
    assert f"{one} needs no waiver" in needless


def test_the_waivers_match_mutants(design: Design) -> None:
    assert mutant_outcome.unmatched_waivers(mutant_outcome.read_waivers(), design[0]) == []


def test_score_leaves_out_what_is_proved_or_waived() -> None:
    states = [State.KILLED] * 3 + [State.SURVIVED, State.EQUIVALENT, State.WAIVED]
    found = mutant_outcome.score_of([_outcome(str(n), state) for n, state in enumerate(states)])
    assert (found.killed, found.alive, found.percent) == (3, 1, 75.0)
