# SPDX-License-Identifier: Apache-2.0
"""A replay: epochs through each simulator, judged, kept, and made into tensors at the end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from neuron_fabric.errors import CaptureError
from neuron_fabric.text import say
from verif.replay import summary
from verif.replay.drive import Spread, in_turn
from verif.replay.epoch import Key, extents
from verif.replay.job import Piece, Replay, Shard
from verif.replay.journal import Journal
from verif.replay.progress import Progress
from verif.replay.result import check_steps, hold, out_path, write_step
from verif.replay.transport import Kept, Transport

Open = Callable[[str], Transport]
"""Simulator -> its transport, the design built where it has to be."""


@dataclass
class Runner:
    """One call of `nf replay` after everything has been checked."""

    replay: Replay
    out: Path | None
    resume: bool
    hints: Sequence[str] = ()
    """Shown at the end of a replay that failed."""
    start: float = field(default_factory=time.monotonic)
    spread: Spread = in_turn
    done: list[Transport] = field(default_factory=list)
    _held: ExitStack = field(default_factory=ExitStack)
    """Journals, and the locks of those that belong to a shard."""

    def run(self, simulators: Sequence[str], open_transport: Open) -> int:
        """Replay; the exit code is 1 when anything was wrong. CaptureError."""
        replay = self.replay
        for line in summary.opening(replay):
            say(line, flush=True)
        for line in replay.warnings:
            say(f"nf replay: warning: {line}", file=sys.stderr)
        whole = replay.shard.of == 1
        with self._held:
            memories = [self._keep(sim) for sim in simulators]
            for sim, kept in zip(simulators, memories):
                self.done.append(open_transport(sim))
                self.done[-1].kept = kept
                self._simulate(self.done[-1])
            faults = [f"{one.simulator}: {text}" for one in self.done for text in one.faults]
            faults = faults or self._missing()
            for line in summary.traffic(replay, [one.lines for one in self.done]):
                say(line)
            if not faults and self.out is not None and whole:
                self._write(self.out)
            for one in self.done:
                if one.kept is not None:
                    one.kept.close(delete=not faults and whole)
        for text in faults:
            say(f"nf replay: {text}", file=sys.stderr)
        if faults:
            say(*self.hints, *(hint for one in self.done for hint in one.hints))
        say(summary.closing(replay, self.done, self.start, bool(faults)), flush=True)
        return 1 if faults else 0

    def _keep(self, sim: str) -> Journal | Kept | None:
        """What remembers the lines that come back."""
        if not self.replay.options.bulk:
            return Kept()
        if self.out is None:
            return None
        path = journal_path(self.out, sim, self.replay.shard)
        if self.replay.shard.of > 1:
            self._held.enter_context(hold(path))
        make = Journal.open if self.resume else Journal.create
        journal = make(path, self.replay.identity(sim))
        self._held.callback(journal.close)
        return journal

    def _simulate(self, done: Transport) -> None:
        """Every piece on one simulator, but for those that are there as a whole."""
        replay, pieces = self.replay, self.replay.pieces()
        records = done.kept.records if done.kept is not None else {}
        todo = [piece for piece in pieces if any(key not in records for key in piece.keys)]
        for piece in pieces if records else ():
            if piece not in todo:
                for key in piece.keys:
                    done.count(piece, key[0], records[key].figures)
        keys = [key for piece in todo for key in piece.keys]
        if records:
            every = len(replay.own_keys())
            say(f"{done.simulator}: {every - len(keys)} rounds are there, {len(keys)} to go")
        progress = _progress(replay, keys)
        shown = _Shown(done, todo)
        started = time.monotonic()

        def came(piece: Piece) -> None:
            if progress is not None:
                progress.finish()
            shown.came(piece)
            say(*done.notes)
            done.notes.clear()

        try:
            self.spread(done, todo, came, progress.add if progress is not None else _no_progress)
        finally:
            if progress is not None:
                progress.finish()
            shown.rest()
        done.finish()
        done.seconds = time.monotonic() - started

    # -- the end ------------------------------------------------------------------------------
    def _missing(self) -> list[str]:
        """Something must have been checked, and the simulators must have returned the same."""
        if not any(one.lines or one.figures for one in self.done) and self.replay.own_keys():
            return ["no line was checked"]  # a shard of a small replay may be empty
        first, *others = self.done
        out = []
        for other in others:
            if first.kept is not None and other.kept is not None:
                names = f"{first.simulator} and {other.simulator}"
                what = differences(self.replay, self.replay.own_keys(), first.kept, other.kept)
                out += [f"{text} differs between {names}" for text in what]
        return out

    def _write(self, out: Path) -> None:
        kept = self.done[0].kept
        assert kept is not None
        for one in self.replay.steps:
            clocks = {each.simulator: each.figures[one.step]["cycles"] for each in self.done}
            _write_step(
                self.replay, out, one.step, dict.fromkeys(self.replay.own_keys(), kept), clocks
            )


def _progress(replay: Replay, keys: Sequence[Key]) -> Progress | None:
    if not replay.options.bulk:
        return None
    whole = replay.writes(replay.own_keys())
    return Progress(whole, whole - replay.writes(keys))


def _no_progress(_lines: int) -> None:
    """At signal level a session says by itself how far it is."""


class _Shown:
    """Shows each step once its last piece has come, in the order of the steps."""

    def __init__(self, done: Transport, todo: Sequence[Piece]) -> None:
        self._done = done
        self._open = Counter(step for piece in todo for step in _steps(piece))
        self._steps = list(done.replay.steps)
        self._show()

    def came(self, piece: Piece) -> None:
        """A piece is done."""
        self._open.subtract(_steps(piece))
        self._show()

    def rest(self) -> None:
        """Nothing more will come."""
        self._open.clear()
        self._show()

    def _show(self) -> None:
        while self._steps and self._open[self._steps[0].step] <= 0:
            one = self._steps.pop(0)
            if one.step in self._done.figures:
                say(summary.of_step(self._done.replay, one, self._done), flush=True)


def _steps(piece: Piece) -> set[int]:
    return {step for step, _ in piece.keys}


def differences(
    replay: Replay, keys: Sequence[Key], first: Journal | Kept, other: Journal | Kept
) -> list[str]:
    """The first tensor of which two simulators returned different lines, or nothing."""
    for key in keys:
        lines, peer = first.lines(key), other.lines(key)
        if lines.tobytes() == peer.tobytes():
            continue
        uses = replay.step(key[0]).plan.epoch(key[1])
        for (extent, _, a), (_, _, b) in zip(
            extents(uses, lines), extents(uses, peer), strict=True
        ):
            if a.differ(b).any():
                return [f"step {key[0]}: {extent.tensor.name}"]
    return []


def journal_path(out: Path, sim: str, shard: Shard) -> Path:
    """Where a simulator's journal lies, beside the results; a shard has its own."""
    part = f".shard-{shard.number}-of-{shard.of}" if shard.of > 1 else ""
    return out.with_name(f"{out.name}.{sim}{part}.journal")


def _write_step(
    replay: Replay,
    out: Path,
    step: int,
    returned: Mapping[Key, Journal | Kept],
    cycles: Mapping[str, int],
) -> None:
    path = out_path(out, step, len(replay.steps))
    write_step(path, replay, replay.step(step), returned, cycles)
    say(f"wrote {path}")


def merge(replay: Replay, out: Path, simulators: Sequence[str], shards: int) -> None:
    """Result files from the journals of all shards; CaptureError when a line is missing."""
    parts = [replace(replay, shard=Shard(number, shards)) for number in range(1, shards + 1)]
    check_steps(out, [one.step for one in replay.steps])
    owners: dict[str, dict[Key, Journal]] = {}
    cycles: dict[str, Counter[int]] = {}
    with ExitStack() as stack:
        for sim in simulators:
            owners[sim], cycles[sim] = {}, Counter()
            for part in parts:
                if shards > 1:
                    stack.enter_context(hold(journal_path(out, sim, part.shard)))
                journal = _open_part(out, sim, part)
                stack.callback(journal.close)
                for key, record in journal.records.items():
                    owners[sim][key] = journal
                    cycles[sim][key[0]] += record.figures["cycles"]
        first, *others = owners
        for key, journal in owners[first].items():
            for other in others:
                for text in differences(replay, [key], journal, owners[other][key]):
                    what = f"differs between {first} and {other}"
                    raise CaptureError(text, what, "replay it again")
        for one in replay.steps:
            clocks = {sim: by_step[one.step] for sim, by_step in cycles.items()}
            _write_step(replay, out, one.step, owners[first], clocks)
    say(f"nf replay: {shards} shards merged, {len(owners[first])} rounds")


def _open_part(out: Path, sim: str, part: Replay) -> Journal:
    """The journal of a shard; CaptureError where it lacks an epoch."""
    path = journal_path(out, sim, part.shard)
    journal = Journal.open(path, part.identity(sim))
    missing = [key for key in part.own_keys() if key not in journal.records]
    if missing:
        journal.close()
        step, number = missing[0]
        what = f"{len(missing)} of its rounds are missing, first step {step} round {number}"
        raise CaptureError(path, what, "finish the shard with --resume")
    return journal
