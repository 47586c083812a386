# SPDX-License-Identifier: Apache-2.0
"""`nf cov`: merge coverage of many runs; print holes, ranks, goals and differences; write pages.

examples:
  nf cov merge 12 13                         merge commands of `nf history`
  nf cov merge build/runs a.cov -o all.cov   merge run folders with a merged file
  nf cov holes                               print holes of the last command, with their tests
  nf cov rank all.cov                        print the gain of each run per second
  nf cov smoke all.cov --rows rows.jsonl     choose the runs of smoke by bins, kills and seconds
  nf cov merge all.cov --lcov all.info       write lcov's format
  nf cov merge all.cov --cobertura all.xml   write Cobertura XML, for GitLab, Jenkins and Azure
  nf cov html all.cov                        write annotated source
  nf cov goals 12 13                         compare figures with goals; exit 1 below one
  nf cov diff before.cov after.cov           print bins gained and lost
An input is the number of a command, a folder of runs, or a merged file (default: the last command).
Code coverage exists if the runs were made with --cov (Verilator).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.cli import mutate_from, mutate_source
from scripts.common import folder_locks, paths
from scripts.common.arguments import REPEATED
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.records import RunRecord
from scripts.common.terminal import TextTable, many
from scripts.coverage import (
    code_coverage,
    code_waivers,
    functional_coverage,
    rank,
    suite_choice,
)
from scripts.coverage.code_coverage import CodeCoverage, Counted
from scripts.coverage.functional_coverage import Functional
from scripts.coverage.merged import SUFFIX, Merged, Merger, of_command, read, write
from scripts.coverage.places import TOGGLE
from scripts.coverage.run_counts import PACKED
from scripts.coverage.suite_choice import Place
from scripts.history.database import History
from scripts.mutation.run_mutants import UNKNOWN_S
from scripts.plan import listed_mutants, testplan
from scripts.plan.discover import discover
from scripts.plan.run_order import Memory
from scripts.report import recorded, source_page, xml_files

MERGED = f"merged{SUFFIX}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `nf cov` and their options."""
    table = {
        "merge": (_merge, "merge runs into one file; their order does not matter"),
        "holes": (_holes, "print holes with the tests that should hit them"),
        "rank": (_rank, "print the gain of each run per second, and the smallest set"),
        "smoke": (_smoke, "print which runs the smoke suite should add and leave out, and why"),
        "html": (_html, "write code coverage on the source as one offline page"),
        "goals": (_goals, "compare figures with the goals of the nightly suite"),
        "diff": (_diff, "print what only one of two inputs covers"),
    }
    files = {
        "merge": {
            "out": f"({MERGED} in build/coverage)",
            "lcov": "write lcov's format too",
            "cobertura": "write Cobertura XML too",
        },
        "html": {"out": f"({source_page.NAME} in build/report)"},
    }
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (action, text) in table.items():
        one = actions.add_parser(name, help=text)
        one.set_defaults(do=action)
        what = "command number, run folder or merged file"
        one.add_argument("inputs", nargs=2 if name == "diff" else "*", metavar="INPUT", help=what)
        for option, what in files.get(name, {}).items():
            words = ["-o"] * (option == "out") + [f"--{option}"]
            one.add_argument(*words, type=Path, metavar="FILE", help=what)
        if name == "smoke":
            what = "kills of `nf mutate --rows`, with those that verif/mutants lists"
            one.add_argument("--rows", **REPEATED, type=Path, help=what)


def run(args: argparse.Namespace) -> int:
    """Run the chosen action and return its exit code."""
    folder_locks.tree()
    code: int = args.do(args)
    return code


def collect(inputs: Sequence[str]) -> Merged:
    """Return the merged coverage of all inputs; of the last command if there is no input.

    An input is the number of a command, a folder of runs, or a merged file.

    Raises:
        NfError: No passed run measured coverage, or an input is damaged.
    """
    merger = Merger()
    for text in inputs or ["last"]:
        _add(merger, text)
    found = merger.result()
    if not found.runs:
        raise NfError(
            f"no green run measured any coverage in {' '.join(inputs) or 'the last command'}: "
            "`nf run --cov` does."
        )
    return found


def _add(merger: Merger, text: str) -> None:
    """Add an input to the merged coverage: `last`, the number of a command (its merged file, if it
    exists, or its runs), a folder of runs, or a merged file."""
    path, records = Path(text), None
    if text == "last" or _is_number(text):
        with History(write=False) as history:
            found = recorded.command(history, None if text == "last" else int(text)).id
            path = of_command(found)
            if not path.is_file():
                records = [run.record for run in history.runs(invocation=found)]
    elif path.is_dir():
        records = [_moved(*one) for one in recorded.of_folder(path).items()]
    if records is None:
        merger.merged(read(path))
    for record in records or ():
        merger.record(record, whole=True)


def _moved(path: Path, record: RunRecord) -> RunRecord:
    """Return the record with the present path of its coverage file: the folder may have moved."""
    return replace(record, coverage=record.coverage and str(path.parent.absolute() / PACKED))


def _judged(merged: Merged) -> tuple[Functional | None, Counted | None, CodeCoverage | None]:
    """Return functional coverage against the plan, counts of code coverage, and its figures."""
    waivers = functional_coverage.read_waivers()
    cover = (
        functional_coverage.judge(
            [merged.functional()], len(merged.runs), waivers=waivers, fixed=merged.fixed()
        )
        if merged.bins
        else None
    )
    counted = code_coverage.count(merged, code_waivers.read())
    return cover, counted, code_coverage.figures(counted)


def _needless(cover: Functional | None, code: CodeCoverage | None) -> list[str]:
    """Return an error line for each waiver that is not needed: its point or bin was reached."""
    hit = cover.waived_but_hit if cover else ()
    return [
        *(f"waiver not needed: {text}" for text in (code.unneeded if code else ())),
        *(f"waived but hit: {b.point} / {b.name}" for b in hit),
    ]


def _totals(cover: Functional | None, code: CodeCoverage | None) -> list[str]:
    """Return the totals of functional and code coverage as lines, and needless waivers."""
    totals = functional_coverage.lines(cover)[:1] + code_coverage.lines(code)[:1]
    return totals + functional_coverage.warnings(cover) + _needless(cover, code)


def _merge(args: argparse.Namespace) -> int:
    """Merge the inputs into one file; write code coverage in the formats that are asked for."""
    out = args.out or paths.BUILD / "coverage" / MERGED
    further = {"--lcov": args.lcov, "--cobertura": args.cobertura}
    _check_outputs(args.inputs, {"--out": args.out, **further}, out)
    merged = collect(args.inputs)
    write(merged, out)
    cover, counted, code = _judged(merged)
    for option, path in further.items():
        if path is None:
            continue
        if counted is None:
            raise NfError(f"{option}: none of these runs collected code coverage (`nf run --cov`).")
        lcov = option == "--lcov"
        made = (
            code_coverage.lcov_text(counted) if lcov else xml_files.cobertura(counted, time.time())
        )
        output.write_text(path, made)
    say(*_totals(cover, code))
    say(f"nf cov merge: {many(len(merged.runs), 'run')} in {shown(out)}")
    return 0


def _check_outputs(inputs: Sequence[str], given: Mapping[str, Path | None], out: Path) -> None:
    """Raise an error, before anything is read, if an output cannot be written or is an input.

    Args:
        inputs: Inputs as in `collect`.
        given: Output path by option; None if the option is not given.
        out: Main output, which may have a default path.
    """
    paths_by_option = {option: path for option, path in given.items() if path}
    for option, path in paths_by_option.items():
        output.check_output(path, option)
    for path in {out, *paths_by_option.values()}:
        for text in inputs if path.exists() else ():
            read_from = of_command(int(text)) if _is_number(text) else Path(text)
            if path.resolve().is_relative_to(read_from.resolve()):
                raise NfError(f"{shown(path)}: this command reads it; write to another file.")


def _is_number(text: str) -> bool:
    """Tell if an input is the number of a command; other digits of Unicode are no number."""
    return text.isascii() and text.isdecimal()


def _holes(args: argparse.Namespace) -> int:
    """Print holes with the tests that should hit them; return 1 if a waiver is needless.

    A hole of code names the test that executes most of its file: the best place to extend. Bits
    that do not toggle are too many for that hint."""
    merged = collect(args.inputs)
    cover, _, code = _judged(merged)
    for hole in cover.holes if cover else ():
        hits = f"{hole.hits} of {hole.at_least} hits"
        say(f"functional {hole.point} / {hole.name}: {hits}; {hole.test} ({hole.reason})")
    tests = _tests_by_file(merged) if code else {}
    for gap in code.holes if code else ():
        near = f"; {tests[gap.file]}" if gap.kind != TOGGLE and gap.file in tests else ""
        say(f"{gap.kind} {gap.file}:{gap.line}: {gap.what or 'not executed'}{near}")
    say(*_totals(cover, code))
    return 1 if _needless(cover, code) else 0


def _tests_by_file(merged: Merged) -> dict[str, str]:
    """Return for each file the test that executes most lines of it in the least time."""
    best: dict[str, tuple[int, float, str]] = {}
    for run, files in rank.lines_of_runs(merged):
        for file, lines in files.items():
            key = (-len(lines), run.seconds, run.name)
            best[file] = min(best.get(file, key), key)
    return {file: name for file, (_, _, name) in best.items()}


def _rank(args: argparse.Namespace) -> int:
    """Print the runs by what each adds per second to those before it, and a small set of runs
    with the same coverage, found by greedy set cover."""
    found = rank.reached(collect(args.inputs))
    seconds = sum(run.seconds for run in found.runs)
    ordered, few = rank.by_second(found), rank.smallest(found)
    total, spent = sum(one.adds for one in ordered), sum(one.run.seconds for one in ordered)
    covered = accumulate(one.adds for one in ordered)
    TextTable(
        "{:>9} {:>7} {:>7.1f} {:>6.2f} %  {}",
        [
            (one.bins, one.code, one.run.seconds, 100 * so_far / total, one.run.label)
            for one, so_far in zip(ordered, covered, strict=True)
        ],
        ("adds bins", "code", "s", "in sum", "run, by what it adds per second"),
    ).show()
    say(f"{len(ordered)} of {len(found.runs)} runs add something: {spent:.1f} of {seconds:.1f} s")
    say("smallest set with the same coverage (greedy set cover; the optimum may be smaller):")
    say(*(f"  {one.run.label}  {one.run.seconds:.1f} s" for one in few))
    spent = sum(one.run.seconds for one in few)
    say(f"{many(len(few), 'run')}, {spent:.1f} of {seconds:.1f} s")
    return 0


def _smoke(args: argparse.Namespace) -> int:
    """Print the places, a test on a build, that the smoke suite should leave out and add.

    A mutant of verif/mutants counts as killed by each test that it lists, one of `--rows` by the
    test that killed it; no run of smoke kills one that survived there. Builds that smoke does not
    compile are not proposed.
    """
    plan, tests, memory = testplan.read(), discover(), Memory.read_if_any()
    smoke, night = (suite_choice.places(plan, one, tests, memory) for one in ("smoke", "nightly"))
    bins: dict[Place, set[int]] = {}
    merged = collect(args.inputs)
    for run, row in zip(merged.runs, merged.bin_rows, strict=True):
        place = run.name.partition("/")[0], run.build
        bins.setdefault(place, set()).update(np.flatnonzero(np.unpackbits(row)).tolist())
    kills: dict[Place, set[str]] = {}
    mutants = [m for m in listed_mutants.read() if not m.survives]
    killers = [(m.id, f"{test} {m.build}") for m in mutants for test in m.tests]
    rows = [row for path in args.rows for row in mutate_from.read_rows(path)]
    killers += [(row.id, row.killed_by) for row in rows]
    lived = {row.id for row in rows if row.result == "survived"}
    for mutant, by in killers:
        test, _, build = by.partition(" ")
        if build:
            place = test.partition("/")[0], build.rpartition(mutate_source.LATER)[2]
            if place not in smoke or mutant not in lived:
                kills.setdefault(place, set()).add(mutant)
    known = {mutant for some in kills.values() for mutant in some}
    ways = {(build, sim) for (_, build), sims in smoke.items() for sim in sims}
    others = {
        place: min((took for took in usable if took), default=UNKNOWN_S)
        for place, sims in night.items()
        if place not in smoke
        and (usable := [took for sim, took in sims.items() if (place[1], sim) in ways])
    }
    now = {place: sum(took or 0.0 for took in sims.values()) for place, sims in smoke.items()}
    out = suite_choice.leaving(now, kills, bins)
    left = now.keys() - {one.place for one in out}
    into = suite_choice.joining(left, others, kills)
    have = {mutant for place in left for mutant in kills.get(place, ())}
    steps = [(-1, "out", one) for one in out] + [(1, "in", one) for one in into]
    times = accumulate(sign * one.seconds for sign, _, one in steps)
    TextTable(
        "{:3} {:>7.1f} {:>8.1f}  {}",
        [
            (word, one.seconds, so_far, f"{' '.join(one.place)}: {one.why}")
            for (_, word, one), so_far in zip(steps, times, strict=True)
        ],
        ("", "s", "in sum", "test and build, longest first; then by kills a second"),
    ).show()
    more = sum(len(one.kills) for one in into)
    shares = ", ".join(f"{n} ({100 * n / len(known):.1f} %)" for n in (len(have), len(have) + more))
    say(
        f"nf cov smoke: {many(len(out), 'run')} out, {len(into)} in; of {len(known)} mutants that"
        f" tests kill, smoke kills before and after: {shares}"
    )
    return 0


def _html(args: argparse.Namespace) -> int:
    """Write code coverage on the source as one offline page."""
    out = args.out or paths.REPORT / source_page.NAME
    _check_outputs(args.inputs, {"--out": args.out}, out)
    merged = collect(args.inputs)
    cover, counted, code = _judged(merged)
    if counted is None:
        raise NfError("none of these runs collected code coverage (`nf run --cov`).")
    out.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(out, source_page.text(counted, many(len(merged.runs), "run")))
    say(*_totals(cover, code))
    say(f"page: {shown(out)}")
    return 0


def _goals(args: argparse.Namespace) -> int:
    """Print the table of figures and goals; return 1 if one is missed or a waiver is not needed."""
    cover, _, code = _judged(collect(args.inputs))
    table, bad = code_coverage.missed_goals(cover.share if cover else None, code)
    say(*table)
    say(*functional_coverage.warnings(cover), *(wrong := _needless(cover, code)))
    say(f"nf cov goals: {len(code_coverage.GOALS) - bad} passed, {bad + len(wrong)} failed")
    return 1 if bad or wrong else 0


def _diff(args: argparse.Namespace) -> int:
    """Print bins and code points that only one of two inputs covers; return 1 if some were lost."""
    before, after = (collect([text]) for text in args.inputs)
    lost = 0
    for sign, one, other in (("-", before, after), ("+", after, before)):
        gone = _reached(one) - _reached(other)
        lost += len(gone) if sign == "-" else 0
        for text in sorted(gone):
            say(f"{sign} {text}")
    say(f"- {args.inputs[0]}: {', '.join(_totals(*_judged(before)[::2]))}")
    say(f"+ {args.inputs[1]}: {', '.join(_totals(*_judged(after)[::2]))}")
    return 1 if lost else 0


def _reached(merged: Merged) -> set[str]:
    """Return the covered functional bins and code points as texts, each bit of a signal singly."""
    found = {f"functional {point} / {name}" for point, name in merged.bins}
    counted = code_coverage.count(merged)
    for place, hits in counted.counts.items() if counted else ():
        if hits:
            found.add(f"{place.kind} {place.file}:{place.line} {place.name}".rstrip())
    return found
