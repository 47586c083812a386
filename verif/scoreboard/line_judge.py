# SPDX-License-Identifier: Apache-2.0
"""Judge of each memory line: decides when its operations can be judged, and keeps ambiguity open.

A request that is alone on its line is judged at once. Requests that overlap wait until none of them
is in flight. A commit of a region makes all requests of that region wait, until those that overlap
it are answered: each of them is wholly before or wholly after the commit.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from models.aggregated_line import AggregatedLine
from models.device import MEMORY_KEY, DeviceModel
from models.device_state import COUNTERS
from models.expected_response import ExpectedResponse
from models.memory import UNKNOWN_LINE, MemoryLine
from models.modes import Mode
from models.regions import RegionConfig, state_lines
from verif.scoreboard import linearize
from verif.scoreboard.control_requests import either
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit, Doubt, Item, PendingLine, doubt_of, marks, of_region
from verif.scoreboard.possible_effects import potential

# What a commit leaves in the memory that the region owned, or now owns.
#
# An FP32 region's data lie in its state area as ordinary memory does; when the round ends, and
# more so when the region moves away, a line holds what was stored there. Where racing stores
# leave that open, the line's content is unknown. In an area that is claimed for records nothing
# is known.

Ambiguous = Mapping[int, Sequence[linearize.State]]
"""States that each line of a region may have had at the end of a round; none: any."""


def stored(config: RegionConfig, ambiguous: Ambiguous) -> dict[int, MemoryLine]:
    """Return the content of the ambiguous lines in an FP32 region's state area after a round.

    Args:
        config: Descriptor of the region in that round.
        ambiguous: Possible states of ambiguous lines, by line index in the region; [] for any
            state.

    Returns:
        Content by memory line, for each worker; UNKNOWN_LINE where the states differ. A line that
        no worker has stored to in any state is left out.
    """
    out: dict[int, MemoryLine] = {}
    for index, states in ambiguous.items():
        lines = [state.snap.line for state in states]
        for worker in range(config.workers):
            held = {
                (line.data.get(worker), worker in line.marked) for line in lines if line is not None
            }
            place = config.state_line + worker * config.lines + index
            data, marked = next(iter(held), (None, False))
            if len(held) == 1 and data is not None:
                out[place] = MemoryLine(data, marked)
            elif len(held) != 1:
                out[place] = UNKNOWN_LINE
    return out


def settle(
    model: DeviceModel,
    before: RegionConfig | None,
    after: RegionConfig,
    ambiguous: Ambiguous,
    uncertain: Iterable[Hashable],
) -> list[Hashable]:
    """Update device memory in the model after an accepted commit of a region.

    Data of an FP32 round stay in memory as they were stored; an area that is claimed for the
    records of a low-bit mode holds unknown content.

    Args:
        model: Device model, whose memory is changed.
        before: Descriptor of the round that ended, or None.
        after: Committed descriptor.
        ambiguous: Possible states of the ambiguous lines of the old round.
        uncertain: Keys of lines with several possible states or an unknown one.

    Returns:
        Those keys of `uncertain` that are memory lines settled by this commit.
    """
    ended: set[int] = set()
    if before is not None and before.mode is Mode.FP32:
        for place, line in stored(before, ambiguous).items():
            model.memory.store(place, line)
            ended.add(place)
    start, size = after.state_line, state_lines(after, model.params.cnt_w)
    over: list[Hashable] = []
    for key in uncertain:
        if not (isinstance(key, tuple) and key[0] == MEMORY_KEY):
            continue
        line = key[1]
        if line in ended or (after.mode.low_bit and start <= line < start + size):
            over.append(key)
    return over


class RecordTrust:
    """Trust in the records of each region, which ends with a refused write of a record to memory.

    From such a refusal to the next commit the device takes nothing that it reads from the region's
    records for state (hdl/README.md, Trust): a line that is not in a slot on chip has lost its
    state. Slots cannot be seen, so each answer must fit its line as it was, or lost. Seen are the
    write-backs, and that nobody has asked for a line: such a line is in no slot, and lost for
    certain. A key is (region, line).
    """

    def __init__(self) -> None:
        self._refused: dict[int, bool] = {}
        """Regions with a refused write; False once a commit has begun since."""
        self._certain: set[int] = set()
        """Those of them whose refusal cannot be one of the round before, or of the next."""
        self._on_chip: set[Hashable] = set()
        """Lines that may be in a slot."""

    def __contains__(self, region: int | None) -> bool:
        """Return whether any line of the region may have lost its state since a refused write."""
        return region in self._refused

    def refused(self, region: int, committing: bool) -> None:
        """Record that memory refused the write of a record.

        Args:
            region: Region of the record.
            committing: Whether a commit of the region is pending, so that the record may be one of
                the old round or of the new one.
        """
        self._refused[region] = True
        if not committing:
            self._certain.add(region)

    def requested(self, key: Hashable, region: int | None) -> bool:
        """Record a request for a line with no other request in flight, which brings the line on
        chip.

        Args:
            key: Key of the line.
            region: Its region; None for ordinary memory.

        Returns:
            True if the state of the line is certainly lost: a record was refused in this round, and
            the line was not on chip.
        """
        lost = region in self._certain and key not in self._on_chip
        self._on_chip.add(key)
        return lost

    def evicted(self, key: Hashable) -> None:
        """Record that the record of a line without a request in flight was written back: it left
        its slot.
        """
        self._on_chip.discard(key)

    def commit_begun(self, region: int) -> None:
        """Record the start of a write of EPOCH: a refusal so far is one of the old round."""
        self._certain.discard(region)
        if region in self._refused:
            self._refused[region] = False

    def committed(self, region: int, busy: Iterable[Hashable]) -> None:
        """Record an accepted commit of a region, which restores trust unless a write was refused
        since it began.

        Args:
            region: Number of the region.
            busy: Keys of lines with requests that the commit may have overtaken; these may be on
                chip.
        """
        if self._refused.get(region) is False:  # no refusal since the commit began
            del self._refused[region]
        old = {key for key in self._on_chip if isinstance(key, tuple) and key[0] == region}
        self._on_chip -= old
        self._on_chip.update(busy)


@dataclass(eq=False)
class LineJudge:
    """Judge of the operations on each line; a line is judged once no request on it is in flight.

    Verdicts and settled commits are passed to the callbacks.

    Args:
        model: Device model, whose lines the judged operations change.
        budget: Number of steps after which the search for an order gives up.
        mismatch: Called with a response that no order explains.
        committed: Called with region, commit and code of each settled commit.
        doubted: Called with a request of which the decoding stays unknown.
        observed: Called with each operation on a line, see `Observer.judged`.
    """

    model: DeviceModel
    budget: int
    mismatch: Callable[[linearize.Failure], None]
    committed: Callable[[int, Commit, int], None]
    doubted: Callable[[Op], None]
    observed: Callable[[Op, AggregatedLine, AggregatedLine, ExpectedResponse], None]
    judged: int = 0
    raced: int = 0
    unjudged: int = 0
    below: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    above: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    unknown: set[Hashable] = field(default_factory=set)
    record_trust: RecordTrust = field(default_factory=RecordTrust)
    _losing: set[Hashable] = field(default_factory=set)
    """Lines whose record was lost before or after any of their requests in flight."""
    _lines: dict[Hashable, PendingLine] = field(default_factory=dict)
    _alternatives: dict[Hashable, list[linearize.State]] = field(default_factory=dict)
    _commits: dict[int, list[Commit]] = field(default_factory=dict)
    _open: dict[int, int] = field(default_factory=dict)

    # -- events -------------------------------------------------------------------------------
    def add(self, op: Op) -> None:
        """Record the start of a request, whose `access` and `key` are set; mark requests that it
        overlaps.
        """
        region = op.access.region
        line = self._lines.get(op.key)
        if line is None:
            line = self._lines[op.key] = PendingLine(op.key, region)
            line.gone = not op.inert and self.record_trust.requested(op.key, region)
        elif line.open:
            op.overlapped = True
            for other in line.ops:
                if other.end < 0:
                    other.overlapped = True
        line.ops.append(op)
        line.open += 1
        if region is not None:
            self._open[region] = self._open.get(region, 0) + 1
            op.commit_raced = region in self._commits

    def done(self, op: Op) -> None:
        """Record the response to a request, and judge its line or region if nothing on it is in
        flight.
        """
        line = self._lines[op.key]
        line.open -= 1
        region = op.access.region
        if region is not None:
            self._open[region] -= 1
            if region in self._commits:
                op.commit_raced = True
                self.resolve(region)
                return
        if line.open == 0:
            self._close(line)

    def commit_begin(self, region: int, config: RegionConfig, epoch: int, now: int) -> Commit:
        """Record the start of a write of EPOCH.

        Args:
            region: Number of the region.
            config: Descriptor in the shadow registers.
            epoch: Value written.
            now: Present time.

        Returns:
            The pending commit, to be ended by `commit_end`.
        """
        self._commits.setdefault(region, []).append(Commit(config, epoch, now))
        losing = of_region(self._losing, region)
        if losing:
            self._losing.difference_update(losing)
            self.distrust(region)
        self.record_trust.commit_begun(region)
        return self._commits[region][-1]

    def close_begin(self, region: int, epoch: int, now: int) -> Commit | None:
        """Record the start of a write of 1 to CTRL.CLOSE.

        Args:
            region: Number of the region.
            epoch: Epoch of the region, if no commit or close is pending.
            now: Present time.

        Returns:
            The pending write, to be ended by `commit_end`; also for a region already closed. None,
            and no `commit_end` is due, for a region without a round (uncommitted, or in mode
            IDENTITY) and without a pending write of EPOCH or CLOSE.
        """
        config, waiting = self.model.config(region), self.pending(region)
        if waiting:
            config, epoch = waiting[-1].config, waiting[-1].epoch
        elif config is None or config.mode is Mode.IDENTITY:
            return None
        self._commits.setdefault(region, []).append(Commit(config, epoch, now, closes=True))
        return self._commits[region][-1]

    def commit_end(
        self, region: int, now: int, strict: bool = True, commit: Commit | None = None
    ) -> None:
        """Record the response to a write of EPOCH or CLOSE, and judge the region if nothing is in
        flight.

        Args:
            region: Number of the region.
            now: Present time.
            strict: See `Commit.strict`.
            commit: Pending write that was answered; by default the last one of the region.
        """
        commit = commit or self._commits[region][-1]
        commit.end, commit.strict = now, strict
        self.resolve(region)

    # -- results ------------------------------------------------------------------------------
    def _lose(self, key: Hashable, ops: Sequence[Op]) -> None:
        self.unknown.add(key)
        for op in ops:
            self._unjudged(op)

    def _unjudged(self, op: Op) -> None:
        """Give up on a request: the most that it may have added to each counter stays possible."""
        self.unjudged += 1
        for name, most in potential(op, self.mode_of(op)).items():
            self.above[name] += most

    def mode_of(self, op: Op) -> Mode | None:
        """Return the mode of a request's region; None for ordinary memory or an uncommitted
        region.
        """
        config = None if op.access.region is None else self.model.config(op.access.region)
        return config.mode if config else None

    def _close(self, line: PendingLine) -> None:
        """Judge the operations on a line without a request in flight; its region has no pending
        commit.
        """
        key, ops = line.key, line.ops
        del self._lines[key]
        if line.gone:
            self._lose_record(key)
        states = self._alternatives.pop(key, None)
        if key in self.unknown:
            self._lose(key, ops)
            return
        losing = key in self._losing
        may_lose = losing or (line.region in self.record_trust and not (line.gone or ops[0].inert))
        if states is None and len(ops) == 1 and not may_lose:
            self._single(ops[0])
            return
        linearizer = linearize.Linearizer(self.model, key, ops, self.budget, may_lose)
        self._linearize(linearizer, {0: states or [linearize.State(self.model.snapshot(key))]})
        if losing:  # if not before, then by now
            self._losing.discard(key)
            self._lose_record(key)

    def _linearize(self, linearizer: linearize.Linearizer, start: linearize.Reached) -> None:
        """Find an order of all operations on a line that explains the responses; keep the states it
        leaves.

        Without such an order `mismatch` is called. If the search exceeds its budget, the operations
        stay unjudged and the state of the line becomes unknown.
        """
        model, key, count = self.model, linearizer.key, len(linearizer.ops)
        self.raced += count
        full = (1 << count) - 1
        before = model.snapshot(key)
        try:
            result = linearizer.run(start, full, full)
        except linearize.OverBudget:
            model.restore(key, before)
            self._lose(key, linearizer.ops)
            return
        if full not in result:
            assert linearizer.failure is not None
            self.mismatch(linearizer.failure)
            return
        self.judged += count
        for step in result[full][0].steps():
            self.observed(*step)
        self._settle(key, result[full])

    def _single(self, op: Op) -> None:
        model = self.model
        if op.windows:
            self._either(op, either(model, op))
            return
        before = None if op.inert else model.snapshot(op.key)
        with linearize.failing(model, op.failed):
            expected = model.step_result(op.msg, op.misframed)
        differences = expected.differences(op.response)
        if not differences:
            self.judged += 1
            if before is not None and before.line is not None:
                after = model.line_state(op.access.region, op.access.line)
                self.observed(op, before.line, after or before.line, expected)
            return
        if before is not None:
            model.restore(op.key, before)
        self.mismatch(
            linearize.Failure(op, expected, differences, model.explain(op.msg, op.misframed))
        )

    def _either(self, op: Op, wrong: linearize.Failure | None) -> None:
        """Judge a request that a change of the control window may have overtaken.

        Args:
            op: The request.
            wrong: Mismatch under each possible window, or None if one of them explains the
                response.
        """
        if wrong is not None:
            self.mismatch(wrong)
            return
        self.judged += 1
        self.above["REFUSED"] += 1
        self.above["UNMAPPED"] += 1
        self.doubted(op)

    def _settle(self, key: Hashable, states: list[linearize.State]) -> None:
        """Put the model into the first of the possible states of a line, and keep all as
        alternatives.

        Counters are known in a range, if the states differ in them.
        """
        first = states[0]
        self.model.restore(key, first.snap)
        for index, name in enumerate(COUNTERS):
            own = first.own[index]
            self.below[name] += own - min(state.low[index] for state in states)
            self.above[name] += max(state.high[index] for state in states) - own
        if len(states) > 1:
            # The counters stand as after the first one, whichever of them turns out to be true.
            tally = first.snap.tally
            self._alternatives[key] = [
                linearize.State(replace(s.snap, tally=tally)) for s in states
            ]

    def lose(self, region: int, line: int, written: bool = False) -> None:
        """Record that a line of a region lost its record: it is empty and poisoned for the rest of
        the epoch.

        A failed read of the record was made for the request that waits for it. With more requests
        in flight (or at least one, for a refused write) the loss may lie anywhere among them; with
        a pending commit the region is distrusted.

        Args:
            region: Number of the region.
            line: Index of the line in the region.
            written: Whether a refused write was the reason, not a failed read.
        """
        key = (region, line)
        pending = self._lines.get(key)
        if region in self._commits:
            self.distrust(region)
        elif pending is not None and len(pending.ops) > (not written):
            self._losing.add(key)
        else:
            self._lose_record(key)

    def _lose_record(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        self._change(key, lambda: self.model.lose_line(*key))

    def failed(self, key: Hashable, memory_line: int) -> None:
        """Record that memory answered with an error at a line that holds the data of `key`.

        The error may be the reason for the response of each request on `key` in flight.

        Args:
            key: Key of the line of the region, or of the ordinary line.
            memory_line: Number of the line of device memory.
        """
        pending = self._lines.get(key)
        for op in pending.ops if pending is not None else ():
            if op.end < 0:
                op.failed.add(memory_line)

    def poison(self, memory_line: int) -> None:
        """Mark a line of device memory as poisoned in the model, in each of its possible states.

        Exact only if no request on the line is in flight.
        """
        self.model.poison_line(memory_line)
        for key in list(self._alternatives):
            self._change(key, lambda: self.model.poison_line(memory_line))

    def _change(self, key: Hashable, change: Callable[[], None]) -> None:
        """Apply a change to every state that a line can be in.

        Args:
            key: Key of the line.
            change: Function that changes the line in the model.
        """
        model = self.model
        states = self._alternatives.pop(key, None)
        if states is None:
            change()
            return
        bucket = linearize.Bucket()
        commits = model.snapshot(key).commits
        for state in states:
            model.restore(key, replace(state.snap, commits=commits))
            change()
            bucket.add(replace(state, snap=model.snapshot(key)))
        left = list(bucket.states.values())
        model.restore(key, left[0].snap)
        if len(left) > 1:
            self._alternatives[key] = left

    def distrust(self, region: int) -> None:
        """Record that memory refused the write of a record of a region; see `RecordTrust`."""
        self.record_trust.refused(region, region in self._commits)

    def evicted(self, region: int, line: int) -> None:
        """Record that the record of a line of a region was written back; ignored with a request in
        flight.
        """
        if (region, line) not in self._lines:
            self.record_trust.evicted((region, line))

    def pending(self, region: int) -> list[Commit]:
        """Return the commits and closes of a region that are not settled, in order of their start.

        Unsettled are those without a response, in a race whose order is unknown, or with requests
        in flight that they overlap.
        """
        return self._commits.get(region, [])

    def ops(self, region: int | None = None) -> Iterator[Op]:
        """Yield the requests that are not judged yet: those of a region, or for None all."""
        for line in self._lines.values():
            if region is None or line.region == region:
                yield from line.ops

    def alternatives(self, region: int) -> Iterator[list[linearize.State]]:
        """Yield, for each ambiguous line of a region, its possible states; the first is that of the
        model.
        """
        for key in of_region(self._alternatives, region):
            yield self._alternatives[key]

    def doubt(self, region: int) -> Doubt:
        """Return by how much counts of lines of a region may differ from those of the model.

        Doubtful are lines with several possible states, or with an unknown state. The model holds
        one state of an unknown line; the true one may count less, if there were several before.
        """
        out = doubt_of(self._alternatives, self.unknown, region)
        for key in of_region(self.unknown, region):
            line = self.model.line_state(*key)
            if line is not None:
                for index, counts in enumerate(marks(line)):
                    out.fewer[index] += counts
        return out

    # -- commits ------------------------------------------------------------------------------
    def resolve(self, region: int) -> None:
        """Settle the pending commits of a region and judge its requests, if all are answered.

        Nothing happens while a request of the region is in flight, or a commit is unanswered or in
        a race whose order is unknown. Each request is taken as wholly before or wholly after each
        commit.
        """
        commits = self._commits[region]
        if self._open.get(region, 0) or any(commit.open for commit in commits):
            return
        del self._commits[region]
        lines = [line for line in self._lines.values() if line.region == region]
        items: list[Item] = []
        inert: list[Op] = []
        for line in lines:
            del self._lines[line.key]
            if line.ops[0].inert:
                inert += line.ops
                continue
            states = self._alternatives.pop(line.key, None)
            may_lose = region in self.record_trust
            linearizer = linearize.Linearizer(self.model, line.key, line.ops, self.budget, may_lose)
            start = {0: states or [linearize.State(self.model.snapshot(line.key))]}
            items.append(Item(line, linearizer, start, line.key in self.unknown))
        for commit in commits:
            inert = self._inert_before(inert, commit)
            for item in items:
                item.before_commit(self.model, commit)
            if commit.closes:
                self.model.close(region)
                self.committed(region, commit, 0)
                continue
            before, ambiguous = self.model.config(region), self._ambiguous(region, items)
            code = int(self.model.commit(region, commit.config, commit.epoch))
            if code == 0:
                kept = (*self._alternatives, *self.unknown)
                for key in settle(self.model, before, commit.config, ambiguous, kept):
                    self._alternatives.pop(key, None)
                    self.unknown.discard(key)
                self.record_trust.committed(region, [item.line.key for item in items])
                self._forget(region, commit)
            for item in items if code == 0 else ():
                item.after_commit(self.model, commit.config)
            self.committed(region, commit, code)
        for op in inert:
            self._inert(op)
        for item in items:
            self._finish(item)

    def _ambiguous(self, region: int, items: Sequence[Item]) -> dict[int, list[linearize.State]]:
        """Return the possible states of the ambiguous lines of a region at a commit.

        Args:
            region: Number of the region.
            items: Lines whose requests race with the commit.

        Returns:
            States by line index; [] for a line of unknown state.
        """
        out = {key[1]: self._alternatives[key] for key in of_region(self._alternatives, region)}
        for item in items:
            for _, line in of_region([item.line.key], region):
                reached = [state for states in item.states.values() for state in states]
                out[line] = [] if item.lost else reached
        return out | {line: [] for _, line in of_region(self.unknown, region)}

    def _forget(self, region: int, commit: Commit) -> None:
        """Drop the ambiguity of a region's lines after an accepted commit: the new round starts
        untouched.

        Nothing is dropped for a commit to mode IDENTITY, where lines keep their content.
        """
        if commit.config.mode is Mode.IDENTITY:
            return
        for key in of_region(self._alternatives, region):
            del self._alternatives[key]
        self.unknown.difference_update(of_region(self.unknown, region))

    def _finish(self, item: Item) -> None:
        if item.lost:
            self._lose(item.line.key, item.line.ops)
            for op in item.line.ops if item.moved else ():
                self.doubted(op)
        else:
            self._linearize(item.linearizer, item.states)

    def _inert_before(self, ops: list[Op], commit: Commit) -> list[Op]:
        """Judge the requests without effect that were answered before a commit began.

        Args:
            ops: Requests without effect (see `Op.inert`).
            commit: Commit or close.

        Returns:
            The other requests, which may be after the commit.
        """
        for op in ops:
            if op.end < commit.start:
                self._inert(op)
        return [op for op in ops if op.end >= commit.start]

    def _inert(self, op: Op) -> None:
        """Judge a request without effect; give up if the commits that it raced with change its
        decoding.
        """
        now, then = self.model.decode(op.msg, op.misframed), op.access
        if op.windows or (now.kind, now.cause) == (then.kind, then.cause):
            self._single(op)
            return
        self._unjudged(op)
        self.doubted(op)
        key = self.model.line_key(op.msg)
        if key is not None and not op.read:
            self.unknown.add(key)
