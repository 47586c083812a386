# SPDX-License-Identifier: Apache-2.0
"""Replay of all pieces on each simulator: judge each epoch, keep the lines, write the result
files.
"""

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from models.line_packing import LINE_BYTES
from neuron_fabric.errors import CaptureError, say
from verif.replay.epoch import EpochLines, Key, extents
from verif.replay.job import Piece, Replay, Shard, StepPlan
from verif.replay.journal import Journal
from verif.replay.line_check import Mismatch, judge
from verif.replay.plan import ROUTE_ORDER
from verif.replay.result import check_steps, hold, out_path, write_step
from verif.replay.routing import route_lines

# -- interface of a simulator: drive epochs, return them with their answers ---------------------


class ReplayStop(Exception):
    """Stop of a replay on one simulator, on which no more epochs can be driven; the text says
    why.
    """


@dataclass(frozen=True)
class Driven:
    """Epoch that was driven through the device.

    Attributes:
        work: The epoch with its returned lines.
        figures: ``cycles`` from the first commit to the last answer, and the counters of
            `check.COST`. If only whole steps are measured, the last epoch of the step has them.
        problems: Errors reported by registers and responses; empty if there are none.
    """

    work: EpochLines
    figures: Counter[str] = field(default_factory=Counter)
    problems: Sequence[str] = ()


@dataclass
class Transport:
    """Way to drive epochs through the design in one simulator, and the results of its epochs.

    Args:
        replay: The replay.
        simulator: Name of the simulator.
        folder: Folder for the files of runs.

    Attributes:
        lines: Number of lines that were compared, per worker.
        faults: Texts of the faults, one each.
        seconds: Seconds of driving.
    """

    replay: Replay
    simulator: str
    folder: Path
    kept: Journal | None = field(default=None, init=False)
    """Store of returned lines."""
    figures: dict[int, Counter[str]] = field(default_factory=dict, init=False)
    """Figures by step."""
    cycles: Counter[int] = field(default_factory=Counter, init=False)
    """Cycles by number of the piece."""
    lines: int = field(default=0, init=False)
    wrong: Counter[int] = field(default_factory=Counter, init=False)
    """Number of wrong lines by step."""
    notes: list[str] = field(default_factory=list, init=False)
    """Lines to print after a session."""
    faults: list[str] = field(default_factory=list, init=False)
    kind: str = field(default="mismatch", init=False)
    """FailureKind of the faults, as in the record of a run."""
    hints: list[str] = field(default_factory=list, init=False)
    """Next steps, printed after a failed replay."""
    build_seconds: float = field(default=0.0, init=False)
    """Seconds of the build; 0 if it was cached."""
    seconds: float = field(default=0.0, init=False)
    peak: float = field(default=0.0, init=False)
    """Peak memory in MiB of other processes that drove a part."""

    def fault(self, *texts: str) -> None:
        """Add texts of faults, each as one line."""
        self.faults += [" ".join(text.split()) for text in texts]

    def count(self, piece: Piece, step: int, figures: Mapping[str, int]) -> None:
        """Add the figures of an epoch to those of its step and its piece."""
        self.figures.setdefault(step, Counter()).update(figures)
        self.cycles[piece.number] += figures["cycles"]

    def session(self, keys: Sequence[Key]) -> Generator[Driven, None, None]:
        """Drive epochs in order on a device after reset, and yield each with its results.

        Args:
            keys: (step, number of the epoch in the step) of each epoch.

        Raises:
            ReplayStop: It cannot continue.
        """
        raise NotImplementedError

    def stop(self, driven: Driven, found: Mismatch | None) -> None:
        """Handle an epoch with problems or a wrong line; by default do nothing.

        Args:
            driven: The epoch.
            found: Its first wrong line, or None.

        Raises:
            ReplayStop: The other epochs are not wanted.
        """

    def finish(self) -> None:
        """End the session after the last epoch; does nothing by default."""


# -- printed lines --------------------------------------------------------------------------------


def opening(replay: Replay) -> Iterator[str]:
    """Yield the lines that are printed before a replay: source, memory, and lines by route."""
    source, first = replay.source, replay.steps[0]
    what = f"{source.workers} workers, {len(source.steps)} step(s), {len(source.tensors)} tensors"
    lines = route_lines(source.tensors, first.routes)
    if replay.options.bulk:
        shard = replay.shard
        part = f", shard {shard.number} of {shard.of}" if shard.of > 1 else ""
        yield (
            f"bulk replay of {source.name}: {what}, {len(replay.own_keys())} rounds{part}, "
            f"{replay.options.memory}"
        )
        yield from (f"  {mode.name:9} {lines[mode]:10,} lines a worker" for mode in sorted(lines))
        return
    yield f"replay of {source.name} ({replay.model}): {what}, {replay.options.memory}"
    for mode in ROUTE_ORDER:
        own = [spec for spec in source.tensors if first.routes[spec.name] == mode]
        if own:
            elements = sum(spec.elements for spec in own)
            count = lines.get(mode, 0)
            yield f"  {mode.name:9} {len(own):4} tensors {elements:10,} elements {count:8,} lines"
    for one in replay.steps[1:]:
        moved = [name for name, mode in one.routes.items() if mode != first.routes[name]]
        if moved:
            yield f"  step {one.step} takes other routes for {len(moved)}: {', '.join(moved[:4])}"


def of_step(replay: Replay, one: StepPlan, done: Transport) -> str:
    """Return the line that is printed after a step on one simulator."""
    figures, plan = done.figures[one.step], one.plan
    lookups = max(1, figures["SLOT_HIT"] + figures["SLOT_MISS"])
    read = ""
    if not replay.options.bulk:
        read = f"{plan.reads:,} lines read back, {done.wrong[one.step]} mismatches, "
    return (
        f"{done.simulator:9} step {one.step}: {figures['lines']:,} lines x {plan.workers} workers, "
        f"{read}{figures['cycles']:,} cycles at {replay.options.memory}, "
        f"slot hits {figures['SLOT_HIT'] / lookups:.1%}, "
        f"flits {figures['RX_FLIT']:,} in {figures['TX_FLIT']:,} out"
    )


def traffic(replay: Replay, lines: Sequence[int]) -> Iterator[str]:
    """Yield two lines of text with the bytes to and from the device, compared with FP32.

    Nothing is yielded in bulk, or if a simulator did not drive all lines.

    Args:
        replay: The replay.
        lines: Number of lines per worker that each simulator drove.
    """
    plans = [one.plan for one in replay.steps]
    whole = sum(plan.lines for plan in plans)
    if replay.options.bulk or any(count != whole for count in lines):
        return
    to = sum(plan.writes for plan in plans) * LINE_BYTES
    back = sum(plan.results for plan in plans) * LINE_BYTES
    counts = sum(plan.reads for plan in plans) * LINE_BYTES - back
    fp32_back = replay.fp32_lines * len(plans) * LINE_BYTES
    fp32_to = fp32_back * replay.source.workers
    yield (
        f"traffic to the device {to:,} bytes, FP32 takes {fp32_to:,} "
        f"({fp32_to / max(1, to):.2f} times as many)"
    )
    yield (
        f"traffic from the device {back:,} bytes of results, FP32 takes {fp32_back:,} "
        f"({fp32_back / max(1, back):.2f} times as many); count planes read besides: {counts:,}"
    )


def closing_summary(replay: Replay, done: Sequence[Transport], start: float, failed: bool) -> str:
    """Return the last printed line of a replay: lines, mismatches, cycles and time.

    Args:
        replay: The replay.
        done: Results of each simulator.
        start: Time at which the command began.
        failed: Whether the replay failed.
    """
    bulk = replay.options.bulk
    cycles = sum(figures["cycles"] for one in done for figures in one.figures.values())
    built = sum(one.build_seconds for one in done)
    lines, speed, peak = f"{sum(one.lines for one in done):,} lines", "", ""
    shards = ""
    if bulk:
        writes = sum(one.lines for one in done) * replay.source.workers
        pieces = sum(len(one.cycles) for one in done)
        if pieces > 1:
            most_cycles = max(max(one.cycles.values(), default=0) for one in done)
            shards = f"{pieces:,} shards of at most {most_cycles:,} cycles, "
        lines = f"{writes:,} contributions"
        seconds = max(sum(one.seconds for one in done), 1e-9)
        speed = f"{writes / seconds:,.0f} lines/s, "
        most = max([peak_mebibytes(), *(one.peak for one in done)])
        peak = f", peak memory {most:,.0f} MiB"
    return (
        f"nf replay: {'FAILED, ' * failed}{lines}, "
        f"{sum(one.wrong.total() for one in done)} mismatches, "
        f"{cycles:,} cycles at {replay.options.memory}, {shards}{speed}"
        f"{time.monotonic() - start:.1f} s on "
        f"{' and '.join(one.simulator for one in done)}"
        f"{f' ({built:.1f} s of it to build)' * (built >= 1)}{peak}"
    )


def peak_mebibytes() -> float:
    """Return the peak resident memory of this process in MiB; a verilated model is part of it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# -- pieces: epochs are driven, judged, counted and kept ------------------------------------------

Came = Callable[[Piece], None]
OnLines = Callable[[int], None]
Spread = Callable[[Transport, Sequence[Piece], Came, OnLines], None]
Progress = Callable[[int, int], AbstractContextManager[OnLines]]
"""Shows how many of all contribution lines are finished, from those before this run on."""


def unseen(_whole: int, _before: int) -> AbstractContextManager[OnLines]:
    """Show nothing (a `Progress`)."""
    return nullcontext(lambda _lines: None)


"""(transport, pieces, called after each piece, called with finished contributions): drives every
piece, or all before the first that stops the replay."""


def in_turn(done: Transport, pieces: Sequence[Piece], came: Came, progress: OnLines) -> None:
    """Drive pieces one after the other in this process, until one stops the replay.

    Args:
        done: Transport.
        pieces: Pieces to drive.
        came: Called after each piece.
        progress: Called with the number of contributions of each finished epoch.
    """
    for piece in pieces:
        goes_on = drive(done, piece, progress)
        came(piece)
        if not goes_on:
            break


def drive(done: Transport, piece: Piece, progress: OnLines) -> bool:
    """Drive every epoch of a piece, judge it and keep its lines.

    Args:
        done: Transport.
        piece: Piece.
        progress: Called with the number of contributions of each finished epoch.

    Returns:
        False if the replay must stop; the reason is added to the faults.
    """
    try:
        with closing(done.session(piece.keys)) as driven:
            for one in driven:
                _take(done, piece, one)
                progress(one.work.writes)
    except ReplayStop as stop:
        done.fault(str(stop))
        return False
    return True


def _take(done: Transport, piece: Piece, driven: Driven) -> None:
    """Judge a driven epoch, count it, and append its lines to the journal if they are right.

    Raises:
        ReplayStop: See `Transport.stop`.
    """
    work, verdict = driven.work, judge(driven.work)
    first_of_step = not done.wrong[work.step]
    done.wrong[work.step] += verdict.wrong
    if verdict.wrong or driven.problems:
        done.stop(driven, verdict.first)
    if verdict.first is not None and first_of_step:
        done.fault(verdict.first.text[:600])
    done.fault(*driven.problems)
    done.count(piece, work.step, driven.figures)
    done.lines += verdict.lines
    # An interrupted piece is driven again as a whole; its first epochs may be in the journal.
    if done.kept is not None and not verdict.wrong and work.key not in done.kept.records:
        done.kept.append(work.key, driven.figures, work.returned)


Open = Callable[[str], Transport]
"""Returns the transport of a simulator; builds the design if needed."""


@dataclass
class Runner:
    """Run of one `nf replay` command, after all input has been checked.

    Attributes:
        replay: The replay.
        out: Name of the result file, or None.
        resume: Whether to go on with the journals of an earlier run.
        hints: Lines printed after a failed replay.
        start: Time at which the command began.
        spread: Function that drives the pieces.
        done: Results of each simulator.
    """

    replay: Replay
    out: Path | None
    resume: bool
    hints: Sequence[str] = ()
    """Lines printed after a failed replay."""
    start: float = field(default_factory=time.monotonic)
    spread: Spread = in_turn
    progress: Progress = unseen
    done: list[Transport] = field(default_factory=list)
    _held: ExitStack = field(default_factory=ExitStack)
    """Journals, and the locks of the journals of shards."""

    def run(self, simulators: Sequence[str], open_transport: Open) -> int:
        """Replay on each simulator, print the results and write the result files.

        Args:
            simulators: Names of the simulators.
            open_transport: Returns the transport of a simulator; builds the design if needed.

        Returns:
            Exit code: 0 if everything is right, else 1.

        Raises:
            CaptureError: A journal or result file cannot be used, or the capture changed.
        """
        replay = self.replay
        for line in opening(replay):
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
            keys = replay.own_keys()
            returned = {
                one.simulator: dict.fromkeys(keys, one.kept)
                for one in self.done
                if one.kept is not None
            }
            # But the shard of a small replay may be empty.
            if not faults and keys and not any(one.lines or one.figures for one in self.done):
                faults = ["no line was checked"]
            faults = faults or [" ".join(found) for found in differences(replay, returned)]
            for line in traffic(replay, [one.lines for one in self.done]):
                say(line)
            if not faults and self.out is not None and whole:
                cycles = {
                    one.simulator: {step: own["cycles"] for step, own in one.figures.items()}
                    for one in self.done
                }
                _write_steps(replay, self.out, returned[simulators[0]], cycles)
            for one in self.done:
                if one.kept is not None:
                    one.kept.close(delete=not faults and whole and replay.options.bulk)
        for text in faults:
            say(f"nf replay: {text}", file=sys.stderr)
        if faults:
            say(*self.hints, *(hint for one in self.done for hint in one.hints))
        say(closing_summary(replay, self.done, self.start, bool(faults)), flush=True)
        return 1 if faults else 0

    def _keep(self, sim: str) -> Journal | None:
        """Return the store of returned lines for a simulator.

        It is in memory at signal level, a journal file in bulk with --out, else None.
        """
        if not self.replay.options.bulk:
            journal = Journal.in_memory()
        elif self.out is None:
            return None
        else:
            path = journal_path(self.out, sim, self.replay.shard)
            if self.replay.shard.of > 1:
                self._held.enter_context(hold(path))
            make = Journal.open if self.resume else Journal.create
            journal = make(path, self.replay.identity(sim))
        self._held.callback(journal.close)
        return journal

    def _simulate(self, done: Transport) -> None:
        """Drive on one simulator every piece that is not complete in its journal."""
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
        whole = replay.writes(replay.own_keys())
        undone = Counter(step for piece in todo for step in _steps(piece))
        waiting = list(replay.steps)

        def show() -> None:
            """Print the line of each step whose last piece is done, in the order of the steps."""
            while waiting and undone[waiting[0].step] <= 0:
                one = waiting.pop(0)
                if one.step in done.figures:
                    say(of_step(replay, one, done), flush=True)

        show()
        started = time.monotonic()

        def came(piece: Piece) -> None:
            undone.subtract(_steps(piece))
            show()
            say(*done.notes)
            done.notes.clear()

        try:
            with self.progress(whole, whole - replay.writes(keys)) as count:
                self.spread(done, todo, came, count)
        finally:
            undone.clear()  # print the remaining steps that were driven
            show()
        done.finish()
        done.seconds = time.monotonic() - started


def _steps(piece: Piece) -> set[int]:
    return {step for step, _ in piece.keys}


def differences(
    replay: Replay, returned: Mapping[str, Mapping[Key, Journal]]
) -> Iterator[tuple[str, str]]:
    """Yield the first tensor of which a simulator returned other lines than the first simulator.

    Args:
        replay: The replay.
        returned: Journal of each epoch, by simulator.

    Yields:
        ("step N: NAME", "differs between A and B") for each simulator with a difference.
    """
    first = next(iter(returned), "")
    for other in list(returned)[1:]:
        for key, journal in returned[first].items():
            lines, peer = journal.lines(key), returned[other][key].lines(key)
            if lines.tobytes() == peer.tobytes():
                continue
            pairs = zip(*(extents(replay.uses(key), own) for own in (lines, peer)), strict=True)
            names = [one.tensor.name for (one, _, a), (_, _, b) in pairs if a.differ(b).any()]
            yield f"step {key[0]}: {names[0]}", f"differs between {first} and {other}"
            break


def journal_path(out: Path, sim: str, shard: Shard) -> Path:
    """Return the name of the journal of a simulator; each shard has a separate one.

    Args:
        out: Name of the result file; the journal lies in the same folder.
        sim: Name of the simulator.
        shard: Shard of the replay.
    """
    part = f".shard-{shard.number}-of-{shard.of}" if shard.of > 1 else ""
    return out.with_name(f"{out.name}.{sim}{part}.journal")


def _write_steps(
    replay: Replay,
    out: Path,
    returned: Mapping[Key, Journal],
    cycles: Mapping[str, Mapping[int, int]],
) -> None:
    """Write the result file of each step.

    Args:
        replay: The replay.
        out: Name given with --out.
        returned: Journal with the lines of each epoch.
        cycles: Cycles by simulator and step.
    """
    for one in replay.steps:
        path = out_path(out, one.step, len(replay.steps))
        clocks = {sim: by_step[one.step] for sim, by_step in cycles.items()}
        write_step(path, replay, one, returned, clocks)
        say(f"wrote {path}")


def merge(replay: Replay, out: Path, simulators: Sequence[str], shards: int) -> None:
    """Write the result files of a replay from the journals of all its shards.

    Args:
        replay: The replay.
        out: Name given with --out.
        simulators: Names of the simulators.
        shards: Number of shards.

    Raises:
        CaptureError: An epoch is missing, simulators differ, or a file cannot be used.
    """
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
        for where, what in differences(replay, owners):
            raise CaptureError(where, what, "replay it again")
        _write_steps(replay, out, owners[simulators[0]], cycles)
    say(f"nf replay: {shards} shards merged, {len(owners[simulators[0]])} rounds")


def _open_part(out: Path, sim: str, part: Replay) -> Journal:
    """Open the journal of a complete shard.

    Args:
        out: Name given with --out.
        sim: Name of the simulator.
        part: Replay of this shard.

    Raises:
        CaptureError: An epoch of the shard is missing.
    """
    path = journal_path(out, sim, part.shard)
    journal = Journal.open(path, part.identity(sim))
    missing = [key for key in part.own_keys() if key not in journal.records]
    if missing:
        journal.close()
        step, number = missing[0]
        what = f"{len(missing)} of its rounds are missing, first step {step} round {number}"
        raise CaptureError(path, what, "finish the shard with --resume")
    return journal
