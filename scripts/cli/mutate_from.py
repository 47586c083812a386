# SPDX-License-Identifier: Apache-2.0
"""`nf mutate --from FILE`: mutants of a list outside the tree against the tests of a suite."""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, as_object, parse_json, read_text
from neuron_fabric.errors import say
from neuron_fabric.typed import typed
from scripts.build.filelist import FileList, read_filelist
from scripts.cli import mutate_source
from scripts.common.arguments import add_flags, given
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, shown
from scripts.common.records import FILELIST, TOP
from scripts.farm import cluster
from scripts.mutation import find_mutants
from scripts.mutation.edited_source import Placed, place
from scripts.mutation.mutant_outcome import FOLDER, MutantOutcome, State
from scripts.mutation.run_mutants import Candidate
from scripts.plan import listed_mutants, testplan
from scripts.plan.discover import discover
from scripts.plan.listed_mutants import ForeignMutant
from scripts.prove import proof

_SUITES = {"smoke": ("smoke",), "nightly": ("smoke", "nightly")}
_ROWS = FOLDER / "rows.jsonl"
_PROOF = "proof"  # in place of the build
_PROOF_S = 30.0
_RESULTS = {
    State.KILLED: "killed",
    State.SURVIVED: "survived",
    State.UNSEEN: "survived",
    State.EQUIVALENT: "proved",
}
_NOT_HERE = ("sample", "all", "id", "waves", "floor")  # options of mutants from the source
_NOT_LISTED = ("part", "seed", "sim")  # options of those in verif/mutants


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for mutants of a list outside the tree."""
    listed = parser.add_argument_group("mutants of a list outside the tree")
    add, what = listed.add_argument, "YAML list, as verif/mutants"
    add("--from", dest="list_file", type=Path, metavar="FILE", help=what)
    what = "tests that may kill: of smoke, or of smoke and nightly (smoke)"
    add("--suite", choices=tuple(_SUITES), help=what)
    add_flags(listed, prove="proofs of hdl/formal that hold the module kill, too")
    what = f"write one JSON object for each mutant here ({shown(_ROWS)})"
    add("--rows", type=Path, default=_ROWS, metavar="FILE", help=what)


def wanted(args: argparse.Namespace) -> bool:
    """Return whether the command line names a list; NfError for an option that needs one."""
    unused = given(args, add_arguments)
    if unused and args.list_file is None:
        raise NfError(f"--{min(unused)}: of a list outside the tree; add --from FILE.")
    return bool(unused)


@dataclass(frozen=True)
class Row:
    """Result of one mutant, as it is written.

    Attributes:
        id: Name in the list.
        result: "killed", "survived", "proved" (equivalent), "broken" (it does not compile, or a run
            says nothing) or "open" (it was not finished).
        killed_by: "TEST BUILD", or "PROOF proof"; "" if it was not killed.
        runs: Number of runs on it.
        seconds: Their processor time.
    """

    id: str
    result: str = "open"
    killed_by: str = ""
    runs: int = 0
    seconds: float = 0.0


def read_rows(path: Path) -> list[Row]:
    """Read a file that `--rows` has written; NfError in one line if it cannot be read."""
    try:
        return [typed(Row, as_object(parse_json(line))) for line in read_text(path).splitlines()]
    except (OSError, DataError) as error:
        raise NfError(f"{shown(path)}: no rows of `nf mutate --rows`: {error}.") from error


def run(args: argparse.Namespace) -> int:
    """List the mutants of a file, or run tests on them.

    Returns:
        0 if all are killed or proved equivalent, else 1; 130 after an interruption.

    Raises:
        NfError: An option, the list or an edit is wrong.
    """
    _check(args)
    listed = _read(args.list_file, args.globs)
    files = read_filelist(ROOT, FILELIST)
    sources = {name: (ROOT / name).read_bytes().decode("latin-1") for name in files.sources}
    placed = place(listed, sources, files, TOP)
    if args.list:
        for number, mutant in placed.mutants.items():
            one = listed[number - 1]
            how = placed.illegal.get(number) or ("separate build" if number in placed.alone else "")
            say(f"{one.id:32} {mutant.file}:{mutant.line:<6} {one.why} {how}".rstrip())
    alone = len(placed.alone) - len(placed.illegal)
    say(
        f"nf mutate: {len(listed) - len(placed.alone)} mutants share a build, {alone} have "
        f"separate builds, {len(placed.illegal)} are no SystemVerilog"
    )
    return 0 if args.list else _run(listed, placed, sources, files, args)


def _check(args: argparse.Namespace) -> None:
    """Raise an error for an option that does not fit; complete the others."""
    args.suite = args.suite or "smoke"  # not by default: `wanted` must see that it was given
    made = given(args, mutate_source.add_arguments) & {*_NOT_HERE}
    for name in sorted({*made, *(one for one in _NOT_LISTED if getattr(args, one))}):
        raise NfError(f"--{name}: of other mutants; leave out --from.")
    if args.prove and args.cluster is not None:
        raise NfError("--prove runs on this machine alone; leave out --cluster.")
    if args.rows == _ROWS:
        _ROWS.parent.mkdir(parents=True, exist_ok=True)
    output.check_output(args.rows, "--rows")


def _run(
    listed: Sequence[ForeignMutant],
    placed: Placed,
    sources: dict[str, str],
    files: FileList,
    args: argparse.Namespace,
) -> int:
    """Run tests, and proofs, on the mutants of a list; arguments and result as in `run`."""
    start = time.monotonic()
    rows = {n: Row(one.id) for n, one in enumerate(listed, 1)}
    causes = {**placed.illegal}
    rows |= {n: Row(rows[n].id, "broken") for n in causes}
    mutants = {n: one for n, one in placed.mutants.items() if n not in placed.illegal}
    numbers = {one.id: n for n, one in mutants.items()}

    def judged(outcome: MutantOutcome) -> None:
        """Add the row of an outcome, and write all rows."""
        n = numbers[outcome.id]
        by = f"{outcome.test} {outcome.build}" if outcome.test else ""
        result = _RESULTS[outcome.state]
        rows[n] = Row(rows[n].id, result, by, len(outcome.tests), outcome.seconds)
        _write(args.rows, rows.values())

    _write(args.rows, rows.values())
    tests = [
        one
        for one in (*mutate_source.candidates(args, _SUITES[args.suite]), *_proofs(args.prove))
        if any(one.holds(mutant.module) for mutant in mutants.values())
    ]
    first = {
        n: {(test.partition("/")[0], one.build) for test in one.tests}
        for n, one in enumerate(listed, 1)
    }
    whole: bool | None = True
    if mutants and not tests:
        raise NfError("no test of the suite has a module of these mutants in its design.")
    if mutants:
        with cluster.if_named(args.cluster, args.jobs) as farm:
            runs, whole = mutate_source.chase(
                *(mutants, sources, tests, files, args, farm, judged),
                edits=placed.edits,
                alone=placed.alone,
                first=first,
                effort=args.effort or math.inf,
            )
        causes |= runs.faults
        rows |= {n: Row(rows[n].id, "broken") for n in causes}
        _write(args.rows, rows.values())
    for n, row in rows.items():
        if row.result not in ("killed", "proved"):
            say(f"{row.result} {row.id} {causes.get(n, '')}".rstrip())
    return _report([*rows.values()], args, whole, time.monotonic() - start)


def _read(path: Path, globs: Sequence[str]) -> list[ForeignMutant]:
    """Read a list; return those of its mutants whose name matches a glob.

    Raises:
        NfError: The list is wrong, a mutant cannot be run, or none matches.
    """
    listed = listed_mutants.read_foreign(path)
    wrong = listed_mutants.problems(listed, testplan.read(), discover())
    if wrong:
        raise NfError(f"{shown(path)}: {wrong[0]}")
    found = [one for one in listed if any(fnmatch.fnmatch(one.id, glob) for glob in globs)]
    if not found:
        raise NfError(f"{shown(path)}: no mutant matches {' '.join(globs)!r}.")
    return found


def _proofs(wanted: bool) -> list[Candidate]:
    """Return all proofs of the RTL as candidates that run after all tests; [] if not wanted."""
    files = read_filelist(ROOT, proof.FILELIST)
    return [
        Candidate(
            replace(one.spec, build_name=_PROOF),
            find_mutants.modules(ROOT, one.top, files, one.parameters),
            _PROOF_S,
            rank=2,
        )
        for one in (proof.read() if wanted else ())
    ]


def _write(path: Path, rows: Iterable[Row]) -> None:
    """Write all rows, one JSON object a line, whole or not at all."""
    output.write_text(path, "".join(f"{json.dumps(asdict(row))}\n" for row in rows))


def _report(rows: Sequence[Row], args: argparse.Namespace, whole: bool | None, took: float) -> int:
    """Print the score of each step, and return the exit code.

    Mutants that are broken, open or proved equivalent count for no percentage.
    """
    counts = Counter(row.result for row in rows)
    judged, killed = counts["killed"] + counts["survived"], 0
    steps = Counter(_step(row, args.suite) for row in rows if row.result == "killed")
    score: list[str] = []
    for step in (*_SUITES[args.suite], *([_PROOF] if args.prove else [])):
        killed += steps[step]
        percent = f"{100 * killed / judged:.0f} %" if judged else "no score"
        score.append(f"{'and ' * bool(score)}{step}{'s' * (step == _PROOF)} {killed} ({percent})")
    rest = ", ".join(f"{counts[name]} {name}" for name in ("proved", "broken", "open"))
    say(
        f"nf mutate: of {judged} mutants killed by {', '.join(score)}; {rest} "
        f"({took:.0f} s; {shown(args.rows)})"
    )
    if not whole:
        return 130
    return 0 if judged and killed == judged and not counts["broken"] + counts["open"] else 1


def _step(row: Row, suite: str) -> str:
    """Return the suite, or "proof", by which a mutant was killed."""
    build = row.killed_by.rpartition(" ")[2]
    return _PROOF if build == _PROOF else suite if mutate_source.LATER in build else "smoke"
