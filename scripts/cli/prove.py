# SPDX-License-Identifier: Apache-2.0
"""`nf prove`: proves properties of the RTL; with `--mutants`, checks that broken RTL fails them.

examples:
  nf prove --list                            what is proved, how, and why
  nf prove 'fifo' 'retry*'                   some proofs, with all their sets of parameters
  nf prove --quick                           those that `make test` runs
  nf prove --mutants 'fifo*'                 mutants that must break these proofs
  nf prove --replay build/prove/FOLDER/stimulus.json --waves   a counterexample in a simulator
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuron_fabric.errors import say
from neuron_fabric.printable import one_line
from scripts.cli.completion import with_completer
from scripts.common import folder_locks, paths, process, secret_values
from scripts.common.arguments import add_flags, add_jobs
from scripts.common.errors import NfError
from scripts.common.git import revision
from scripts.common.paths import BUILD
from scripts.common.records import FailureKind, RunRecord, RunSpec
from scripts.farm import cluster
from scripts.farm.work import ProofRun
from scripts.history.database import Recorder
from scripts.plan.run_order import Memory
from scripts.prove import counterexample, proof, proving
from scripts.prove.proof import Broken, Method, Proof
from scripts.report import proofs as reported
from scripts.run import run_folders
from scripts.run.schedule import RunProgress

RUNS = BUILD / "prove"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf prove`."""
    add = parser.add_argument
    globs = add("globs", nargs="*", default=["*"], metavar="GLOB", help="proofs")
    with_completer(globs, lambda: (one.id for one in proof.read()))
    add_flags(
        parser,
        quick="leave out what takes long",
        list="show the proofs and stop",
        mutants="mutants: each must break its own proof",
    )
    add("--replay", type=Path, metavar="FILE", help="a counterexample, in a simulator")
    add_flags(parser, waves="with --replay: write waves")
    add_jobs(parser)
    add("--cluster", metavar="WHERE", help=cluster.HELP)


def run(args: argparse.Namespace) -> int:
    """List, replay, try the mutants, or prove; return 0 if all properties hold, or if every
    mutant breaks its proof."""
    folder_locks.writable(RUNS)
    if args.replay:
        return _replay(args.replay, args.waves)
    chosen = proof.chosen(proof.read(), args.globs)
    if args.quick:
        chosen = [one for one in chosen if one.quick]
    if args.list:
        for one in chosen:
            quick = " quick" if one.quick else ""
            say(f"{one.id:28} {one.how:16}{quick:6} {one.why}")
        return 0
    what = _mutants if args.mutants else _prove
    with cluster.if_named(args.cluster, args.jobs) as farm:
        return what(chosen, args, farm)


def _proved(farm: cluster.Farm | None, one: Proof, folder: Path, shown_as: str = "") -> RunRecord:
    """Execute a proof and return its record; its files are in a separate folder of ``folder``.

    `shown_as` is the name of the build in the record, for a mutant; "" for the default.
    """
    if farm is None:
        return proving.run(one, folder, shown_as)
    spec = replace(one.spec, build_name=shown_as) if shown_as else one.spec
    return farm.send(spec, ProofRun(one, shown_as), None, folder)


def _run_all(
    specs: Sequence[RunSpec],
    args: argparse.Namespace,
    farm: cluster.Farm | None,
    came: Callable[[RunRecord], None],
    tried: Callable[[RunSpec], RunRecord],
    **progress: Any,
) -> list[RunRecord]:
    """Try the proofs of specs here or on a cluster, with a bar; see `RunProgress`."""
    jobs, end = (farm.slots, farm.end) if farm else (args.jobs, process.kill_all)
    return RunProgress(specs, jobs, came, **progress).run(tried, end=end)


def result(one: Proof, record: RunRecord) -> str:
    """Return "proved", "bounded" (for the first k clocks), "broken" or "unknown" for a proof."""
    if record.passed:
        return "bounded" if one.method is Method.BMC else "proved"
    return "broken" if record.kind is FailureKind.ASSERTION else "unknown"


def _prove(chosen: Sequence[Proof], args: argparse.Namespace, farm: cluster.Farm | None) -> int:
    """Try all chosen proofs, the one with the longest time-out first; print and record each.

    The results of proofs that are not chosen stay in the file of the report.

    Returns:
        0 if all hold, 1 if one does not, 130 after an interruption.
    """
    start = time.monotonic()
    by_id = {one.spec.id: one for one in chosen}
    specs = {one.spec.id: one.spec for one in chosen}
    title = "nf prove --quick" if args.quick else "nf prove"
    command = secret_values.command()
    at = revision()
    recorder = Recorder(title, specs.values(), command, at)
    folder = folder_locks.folder(RUNS)
    records: list[RunRecord] = []

    def came(record: RunRecord) -> None:
        """Print and record a proof that has ended."""
        records.append(record)
        recorder.add(record)
        _show(by_id[record.id], record)

    def tried(spec: RunSpec) -> RunRecord:
        """Try the proof of a spec."""
        return _proved(farm, by_id[spec.id], folder)

    longest = sorted(chosen, key=lambda one: -one.timeout)
    memory, todo = Memory.read_if_any(), [one.spec for one in longest]
    expected = {one.id: took for one in todo if (took := memory.seconds(one)) is not None}
    _run_all(todo, args, farm, came, tried, seconds=expected, what="proofs")
    recorder.close()
    took = time.monotonic() - start
    used = sum(record.used_seconds for record in records)
    for record in records:
        if record.kind is FailureKind.ASSERTION and record.stimulus:
            _show_replay(Path(record.stimulus[0]))
    rows = [row for record in records for row in _rows(by_id[record.id], record, at)]
    before = reported.read() or reported.Proofs(command, ())
    reported.write(before.renewed(command, rows, {one.id for one in proof.read()}))
    counts = {word: sum(row.result == word for row in rows) for word in reported.RESULTS}
    say(
        f"nf prove: {len(rows)} properties of {len(records)} proofs: "
        + ", ".join(f"{count} {word}" for word, count in counts.items())
        + f" ({took:.1f} s, {used:.1f} s of processor time)"
    )
    if len(records) < len(specs):
        say(f"interrupted: {len(specs) - len(records)} of {len(specs)} proofs did not finish")
        return 130
    return 0 if all(record.passed for record in records) else 1


def _rows(one: Proof, record: RunRecord, at: str) -> list[reported.ProofRow]:
    """Return one row for each property of a proof. If some property failed, the others are
    `unknown`: nothing decided them."""
    whole = result(one, record)
    names = {case.name: case.status for case in record.cases} or {"-": record.status}
    some = any(status == "failed" for status in names.values())
    return [
        reported.ProofRow(
            proof=one.id,
            property=name,
            method=str(one.method),
            depth=one.depth,
            result=whole if status == "failed" or not some else "unknown",
            seconds=record.seconds,
            revision=at,
        )
        for name, status in names.items()
    ]


def _show(one: Proof, record: RunRecord) -> None:
    """Print the result of a proof; of a red one also its cause, log, reason, waves and rerun
    command."""
    word = result(one, record)
    names = ", ".join(case.name for case in record.cases)
    took = f"{record.seconds:6.1f} s, used {record.used_seconds:6.1f} s"
    say(f"{word:8} {one.id:28} {one.how:16} {took}  {one_line(names, 600)}")
    if not record.passed:
        say(f"  {record.kind}: {one_line(record.cause, 600)}", f"  log:   {record.log}")
        say(f"  why:   {one.why}")
        if record.waves:
            say(f"  waves: {record.waves}")
        if record.stimulus:
            say(f"  stimulus: {record.stimulus[0]}")
        say(f"  again: {record.rerun}", flush=True)
    sys.stdout.flush()


def _show_replay(stimulus: Path) -> None:
    """Replay a counterexample of a proof in the simulator and print the result."""
    try:
        kept = run_folders.kept(paths.ROOT / stimulus)  # the next proof empties its folder
        record = counterexample.replay(kept, folder_locks.folder(RUNS) / "replays")
    except NfError as error:
        say(f"  not replayed: {error}")
        return
    red = record.kind is FailureKind.ASSERTION
    shows = record.cause if red else f"shows nothing ({record.kind or 'green'}: {record.cause})"
    say(f"replay {record.build_name} under {record.sim}: {shows}", f"  rerun: {record.rerun}")


def _replay(path: Path, waves: bool) -> int:
    """Replay a counterexample in a simulator; return 0 if an assertion fails there, too, else 1."""
    place = path if path.is_absolute() else Path.cwd() / path
    record = counterexample.replay(place, folder_locks.folder(RUNS) / "replays", waves)
    say(f"{record.kind or 'passed'}: {record.cause}", f"log: {record.log}")
    if record.waves:
        say(f"waves: {record.waves}")
    return 0 if record.kind is FailureKind.ASSERTION else 1


def _mutants(chosen: Sequence[Proof], args: argparse.Namespace, farm: cluster.Farm | None) -> int:
    """Try each proof on the mutants that it must catch; return 1 if one is missed.

    A mutant that the solver cannot decide in time is missed, too."""
    by_id = {one.id: one for one in chosen}
    found = [mutant for mutant in proof.mutants() if mutant.proof in by_id]
    if not found:
        raise NfError("these proofs have no mutant of their own.")
    start = time.monotonic()
    folder = folder_locks.folder(RUNS) / "mutants"
    made = [(mutant, proof.broken(by_id[mutant.proof], mutant)) for mutant in found]
    specs = [replace(one.spec, build_name=mutant.id) for mutant, one in made]
    owner = {spec.id: one for spec, one in zip(specs, made, strict=True)}
    missed: list[Broken] = []

    def came(record: RunRecord) -> None:
        mutant, _ = owner[record.id]
        caught = record.kind is FailureKind.ASSERTION
        if not caught:
            missed.append(mutant)
        word = "caught" if caught else "MISSED"
        how = f"{record.kind}: {record.cause}" if record.kind else "proved all the same"
        say(f"{word} {mutant.id:30} {mutant.proof:20} {one_line(how, 110)}", flush=True)

    def tried(spec: RunSpec) -> RunRecord:
        mutant, one = owner[spec.id]
        return _proved(farm, one, folder, mutant.id)

    records = _run_all(specs, args, farm, came, tried, what="mutants")
    for mutant in missed:
        say(f"missed {mutant.id}: {mutant.why}")
    done = len(records) - len(missed)
    say(
        f"nf prove: {done} of {len(specs)} mutants broke their proof "
        f"({time.monotonic() - start:.1f} s)"
    )
    return 0 if done == len(specs) else 1
