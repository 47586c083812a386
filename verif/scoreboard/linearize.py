# SPDX-License-Identifier: Apache-2.0
"""Linearization: search for an order of racing operations that explains every response.

Operations on a line that do not overlap in time keep their order; of those that overlap either may
have taken effect first. The search walks the linear extensions of that partial order, merges equal
states, and takes commuting operations in one order only. Its result is every state that the line
can be in. The condition is linearizability (Herlihy and Wing 1990), the search that of Wing and
Gong (1993): docs/references.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from models.access_decode import Kind
from models.aggregated_line import AggregatedLine
from models.device import DeviceModel, Snapshot
from models.device_state import COUNTERS
from models.expected_response import Difference, ExpectedResponse
from verif.scoreboard.operations import Op

Counts = tuple[int, ...]
ZERO: Counts = (0,) * len(COUNTERS)


class OverBudget(Exception):
    """Failure of a search that took more steps than its budget allows."""


def identity(snap: Snapshot) -> Hashable:
    """Return a hashable value that is equal for equal states of a line; device counters are left
    out.
    """
    line = snap.line
    if line is None:
        return snap.memory
    data = tuple(sorted(line.data.items()))
    flags = (line.poisoned, line.lost, line.counted_complete, line.saturated, line.illegal)
    counts = (line.counted_poisoned, line.late, frozenset(line.times_seen.items()), line.kept)
    return data, frozenset(line.marked), flags, counts


@dataclass(slots=True)
class State:
    """Possible state of a line after a set of operations.

    Attributes:
        snap: Snapshot of the model with the line in this state.
        own: Increase of each counter that `snap` contains, in order of COUNTERS.
        low: Least increase of each counter over all orders that lead to this state.
        high: Greatest increase of each counter over these orders.
        came: On one of these orders: the state before the last operation, that operation, and its
            expected result. None for a start state.
    """

    snap: Snapshot
    own: Counts = ZERO
    low: Counts = ZERO
    high: Counts = ZERO
    came: tuple[State, Op, ExpectedResponse] | None = None

    def steps(self) -> list[tuple[Op, AggregatedLine, AggregatedLine, ExpectedResponse]]:
        """Return the operations on one order that leads to this state, the first one first.

        Returns:
            Tuples of the operation, the aggregated line before it, the line after it, and its
            expected result. Operations on ordinary memory are left out.
        """
        out: list[tuple[Op, AggregatedLine, AggregatedLine, ExpectedResponse]] = []
        state = self
        while state.came is not None:
            before, op, expected = state.came
            if before.snap.line is not None and state.snap.line is not None:
                out.append((op, before.snap.line, state.snap.line, expected))
            state = before
        return out[::-1]


@dataclass(slots=True)
class Bucket:
    """Set of possible states after the same operations, with equal states merged."""

    states: dict[Hashable, State] = field(default_factory=dict)

    def add(self, new: State) -> None:
        """Add a state; if an equal one is present, only widen its counter range."""
        old = self.states.setdefault(identity(new.snap), new)
        if old is not new:
            old.low = tuple(map(min, old.low, new.low))
            old.high = tuple(map(max, old.high, new.high))


@dataclass(slots=True)
class Failure:
    """Operation whose response no order explains, with the most operations applied before it.

    Attributes:
        op: The operation.
        expected: Result that the model gives in the order that explained most operations.
        differences: Differences of the response from `expected`.
        explain: Text of the model on how it came to `expected`.
        applied: Number of operations applied before `op`.
    """

    op: Op
    expected: ExpectedResponse
    differences: list[Difference]
    explain: str
    applied: int = 0


Reached = dict[int, list[State]]


def commute(a: Op, b: Op) -> bool:
    """Return whether two operations on a line give the same responses and state in either order.

    Two reads do, operations without effect, and contributions of different workers.
    """
    if (a.read and b.read) or a.inert or b.inert:
        return True
    if a.read or b.read:
        return False
    if a.access.kind is not Kind.CONTRIBUTION or b.access.kind is not Kind.CONTRIBUTION:
        return False
    return bool(a.access.selector != b.access.selector)


@contextmanager
def failing(model: DeviceModel, lines: set[int]) -> Iterator[None]:
    """Make the model's reads and writes of some lines of device memory fail within a `with`
    block.
    """
    if not lines:
        yield
        return
    kept = model.read_errors, model.write_errors
    model.read_errors, model.write_errors = kept[0] | lines, kept[1] | lines
    try:
        yield
    finally:
        model.read_errors, model.write_errors = kept


@dataclass(eq=False)
class Linearizer:
    """Search for the orders of a set of operations on one line.

    Args:
        model: Device model; its state changes during the search.
        key: Key of the line.
        ops: Operations, each with its response.
        budget: Number of steps after which OverBudget is raised.
        may_lose: Whether the line may have lost its state before any of the operations.

    Attributes:
        failure: First response that no order explained so far, or None.
    """

    model: DeviceModel
    key: Hashable
    ops: Sequence[Op]
    budget: int
    may_lose: bool = False
    failure: Failure | None = None
    steps: int = 0

    def __post_init__(self) -> None:
        count = len(self.ops)
        self.before = [0] * count
        self.conflict = [0] * count
        for i, op in enumerate(self.ops):
            for j, other in enumerate(self.ops):
                if i == j:
                    continue
                if 0 <= other.end < op.start:
                    self.before[i] |= 1 << j
                if not commute(op, other):
                    self.conflict[i] |= 1 << j
        self.after = [
            sum(1 << j for j in range(count) if self.before[j] >> i & 1) for i in range(count)
        ]

    def run(self, start: Reached, allowed: int, must: int, commit_follows: bool = False) -> Reached:
        """Apply operations in every order that their times allow and that explains their responses.

        A set of operations is a bit mask: bit i for `ops[i]`.

        Args:
            start: Possible states by the set of operations applied so far.
            allowed: Operations that may be applied.
            must: Operations that have to be applied.
            commit_follows: Whether operations of `allowed` outside `must` may be left for after a
                commit; if False, all of `allowed` have to be applied.

        Returns:
            Possible states by the set of applied operations; empty if no order explains the
            responses.

        Raises:
            OverBudget: The search took more than `budget` steps.
        """
        layers: dict[int, Bucket] = {}
        for mask, states in start.items():
            layers[mask] = self._rebased(states)
        result: Reached = {}
        while layers:
            mask = min(layers, key=int.bit_count)
            states = list(layers.pop(mask).states.values())
            if mask & must == must and (commit_follows or mask & allowed == allowed):
                result[mask] = states
            for i in self._choices(mask, allowed, must, commit_follows):
                for state in self._starts(states):
                    for failed in self._failures(self.ops[i]):
                        moved = self._apply(state, i, mask, failed)
                        if moved is not None:
                            layers.setdefault(mask | 1 << i, Bucket()).add(moved)
        return result

    def _rebased(self, states: Iterable[State]) -> Bucket:
        """Return states as a bucket whose snapshots the model can restore in any order.

        The model refuses a snapshot from before a commit (here commits of other regions do not
        matter), and restores only the counters in the snapshot's tally: so all counters are put
        into it.
        """
        commits = self.model.snapshot(self.key).commits
        bucket = Bucket()
        for state in states:
            tally = {name: state.snap.tally.get(name, 0) for name in COUNTERS}
            bucket.add(replace(state, snap=replace(state.snap, commits=commits, tally=tally)))
        return bucket

    def _choices(self, mask: int, allowed: int, must: int, commit_follows: bool) -> list[int]:
        """Return the numbers of the operations to apply next.

        One that commutes with every operation it could race with is returned alone: its place in
        the order makes no difference.

        Args:
            mask: Operations applied so far.
            allowed: See `run`.
            must: See `run`.
            commit_follows: See `run`.
        """
        rest = allowed & ~mask
        enabled = [i for i in range(len(self.ops)) if rest >> i & 1 and self.before[i] & ~mask == 0]
        for i in enabled:
            if commit_follows and not must >> i & 1:
                continue
            if self.conflict[i] & rest & ~(1 << i) & ~self.after[i] == 0:
                return [i]
        return enabled

    def _starts(self, states: Sequence[State]) -> list[State]:
        """Return the states in which the next operation may find the line.

        With `may_lose` these are the given states and each of them after the loss of the line.
        """
        if not self.may_lose or not isinstance(self.key, tuple):
            return list(states)
        bucket = Bucket()
        for state in states:
            bucket.add(state)
            self.model.restore(self.key, state.snap)
            self.model.lose_line(*self.key)
            bucket.add(replace(state, snap=self.model.snapshot(self.key)))
        return list(bucket.states.values())

    def _failures(self, op: Op) -> list[set[int]]:
        """Return the alternatives for the memory lines that failed for an operation.

        Of racing operations each may have met the errors or not; one without rivals met them all.
        """
        if not op.failed:
            return [set()]
        return [op.failed] if len(self.ops) == 1 else [set(), op.failed]

    def _counts(self) -> Counts:
        counters = self.model.counters
        return tuple(counters[name] for name in COUNTERS)

    def _apply(self, state: State, index: int, mask: int, failed: set[int]) -> State | None:
        self.steps += 1
        if self.steps > self.budget:
            raise OverBudget
        model, op = self.model, self.ops[index]
        model.restore(self.key, state.snap)
        base = self._counts()
        with failing(model, failed):
            expected = model.step_result(op.msg, op.misframed)
        differences = expected.differences(op.response)
        if differences:
            depth = mask.bit_count()
            if self.failure is None or depth > self.failure.applied:
                model.restore(self.key, state.snap)
                explain = model.explain(op.msg, op.misframed)
                self.failure = Failure(op, expected, differences, explain, depth)
            return None
        delta = tuple(map(int.__sub__, self._counts(), base))
        return State(
            model.snapshot(self.key),
            tuple(map(int.__add__, state.own, delta)),
            tuple(map(int.__add__, state.low, delta)),
            tuple(map(int.__add__, state.high, delta)),
            (state, op, expected),
        )
