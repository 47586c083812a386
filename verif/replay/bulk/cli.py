# SPDX-License-Identifier: Apache-2.0
"""What `nf replay` does when it replays in bulk: options that belong to it, merging of shards."""

from __future__ import annotations

import argparse
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from models.regions import MAX_WORKERS
from neuron_fabric.errors import CaptureError
from neuron_fabric.text import say, telling
from verif.replay.backend import Backend
from verif.replay.bulk.job import BulkJob, Shard, make_job
from verif.replay.bulk.journal import Journal, Key
from verif.replay.bulk.run import BulkRunner, journal_path, write_one
from verif.replay.bulk.source import NETWORKS
from verif.replay.options import ReplayOptions
from verif.replay.result import check_steps, hold


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that bulk replay alone has."""
    group = parser.add_argument_group("bulk transport")
    add = group.add_argument
    add("--synthetic", choices=sorted(NETWORKS), help="in place of CAPTURE: drawn from --seed")
    add("--workers", type=_workers, default=8, metavar="W", help="of the synthetic step (8)")
    add("--shard", type=parse_shard, metavar="I/N", help="part I (1..N) of the lines; needs --out")
    add("--merge", type=_parts, metavar="N", help="make --out from the N shards that lie beside it")
    add("--resume", action="store_true", help="go on where a replay with this --out was ended")


def run(args: argparse.Namespace, options: ReplayOptions, backend: Backend, start: float) -> int:
    """Replay or merge; the exit code. CaptureError for what cannot be done."""
    needs_out = [name for name in ("shard", "merge", "resume") if getattr(args, name)]
    if needs_out and args.out is None:
        todo = "add --out FILE: what has come back is kept beside it"
        raise CaptureError(f"--{needs_out[0]}", "nothing is kept without --out", todo)
    if args.merge and (args.shard or args.resume):
        raise CaptureError("--merge", "it drives nothing", "leave --shard and --resume out")
    if args.merge:
        return merge(args, options, backend)
    with telling(f"nf replay: reading {args.capture or args.synthetic}"):
        job = make_job(args, options, args.shard or Shard())
    if args.out is not None:
        check_steps(Path(args.out), [one.step for one in job.steps])
    return BulkRunner(args, backend, job, start).run()


def merge(args: argparse.Namespace, options: ReplayOptions, backend: Backend) -> int:
    """Result files from the journals of all shards; CaptureError when a line is missing."""
    parts = [Shard(number, args.merge) for number in range(1, args.merge + 1)]
    job = make_job(args, options, parts[0])
    out = Path(args.out)
    check_steps(out, [one.step for one in job.steps])
    cycles: dict[str, dict[int, int]] = {}
    owners: dict[str, dict[Key, Journal]] = {}
    with ExitStack() as stack:
        for sim in backend.simulators(args.sim)[0]:
            owners[sim], cycles[sim] = {}, {}
            for part in parts:
                one = replace(job, shard=part)
                if part.of > 1:
                    stack.enter_context(hold(journal_path(out, sim, one)))
                journal = _open_part(out, sim, one)
                stack.callback(journal.close)
                for key, record in journal.records.items():
                    owners[sim][key] = journal
                    sums = cycles[sim]
                    sums[key[0]] = sums.get(key[0], 0) + record.figures["cycles"]
        return _write(args, job, out, owners, cycles)


def _write(
    args: argparse.Namespace,
    job: BulkJob,
    out: Path,
    owners: dict[str, dict[Key, Journal]],
    cycles: dict[str, dict[int, int]],
) -> int:
    first, *others = owners
    for key, journal in owners[first].items():
        for other in others:
            if journal.lines(key).tobytes() != owners[other][key].lines(key).tobytes():
                what = f"differs between {first} and {other}"
                raise CaptureError(f"step {key[0]} round {key[1]}", what, "replay it again")
    for one in job.steps:
        rounds = {n: owners[first][one.step, n] for n in range(one.plan.rounds)}
        sums = {sim: by_step[one.step] for sim, by_step in cycles.items()}
        write_one(job, out, one, rounds, sums)
    say(f"nf replay: {args.merge} shards merged, {len(owners[first])} rounds")
    return 0


def _open_part(out: Path, sim: str, job: BulkJob) -> Journal:
    """The journal of a shard; CaptureError where it lacks a round."""
    path = journal_path(out, sim, job)
    journal = Journal.open(path, job.identity(sim))
    missing = [key for key in job.rounds() if key not in journal.records]
    if missing:
        journal.close()
        step, number = missing[0]
        what = f"{len(missing)} of its rounds are missing, first step {step} round {number}"
        raise CaptureError(path, what, "finish the shard with --resume")
    return journal


def parse_shard(text: str) -> Shard:
    """`I/N` with I from 1 to N."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return Shard(int(match[1]), int(match[2]))


def _parts(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 9999:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of shards")
    return int(text)


def _workers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_WORKERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_WORKERS}")
    return int(text)
