# SPDX-License-Identifier: Apache-2.0
"""Scoreboard without a simulator: requests and responses in, findings out.

Everything it knows comes from monitors: requests and responses decoded from the link's pins, and
transfers seen on the register bus. Per (channel, tag, LD-ID) a response is matched to its request;
no order is asked for between channels or addresses. The device model says what the answer must be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from cocotbext.cxl.wire import messages
from models.device import DeviceModel
from models.device_state import COUNTERS
from models.nf_regs import REG_MAP
from models.regions import READ_KINDS, Access, Kind, RegionConfig
from verif.mem.memory_config import MemBeat
from verif.scoreboard.capacity_check import CapacityCheck
from verif.scoreboard.checkers_off import switched_off
from verif.scoreboard.control_requests import ControlRequests
from verif.scoreboard.devload import DevLoadRule
from verif.scoreboard.error_capture import ErrorCapture
from verif.scoreboard.finding import APART, Finding
from verif.scoreboard.linearize import Failure
from verif.scoreboard.memory_port import COUNTED, MemoryPort
from verif.scoreboard.observer import Observer
from verif.scoreboard.operations import Op, describe, describe_near, window_of
from verif.scoreboard.pending import Commit
from verif.scoreboard.possible_effects import potential
from verif.scoreboard.quiescence import Quiescence
from verif.scoreboard.ram_faults import RamFaults
from verif.scoreboard.ranges import Cleared, Span
from verif.scoreboard.region_status import RegionStatusRanges, RegionViews

# Two writes that end a round of one region at once: by AXI4-Lite, and through the control window.
#
# Both are commits, or one of them is a CLOSE. The register bus takes one access at a time, so
# each of the two is wholly before or wholly after the other (spec: controller, second edition,
# section 9). The pins do not show which comes first; a read after both does: EPOCH returns the
# value of the later commit, and STATUS.CLOSED is 1 if the close was the later. Until then nothing
# of the region is judged; from then on everything is, in that order alone.


class CommitRaces:
    """Races between two commits, or a commit and a close, of one region; reads of EPOCH and CLOSED
    settle them.
    """

    def __init__(self, quiescence: Quiescence, settled: Callable[[Commit, Commit], None]) -> None:
        """Start without races; `settled` is called with the first and the last commit once their
        order is known.
        """
        self.quiescence = quiescence
        self.settled = settled

    def begun(
        self, region: int, commit: Commit, before: RegionConfig, after: RegionConfig
    ) -> str | None:
        """Begin a commit or a close; `before`, `after`: the shadow descriptor before and after the
        words of its write.
        """
        pending = self.quiescence.pending(region)
        rivals = [
            one
            for one in pending
            if one.end < 0
            and one.in_band != commit.in_band
            and not (one.closes and commit.closes)  # in either order they do the same
        ]
        commit.before, commit.after = before, after
        unsettled = any(one.rival is not None for one in pending)
        if not rivals and not unsettled:
            return None
        alike = bool(rivals) and not (commit.closes or rivals[0].closes)
        if unsettled or len(rivals) > 1 or (alike and rivals[0].epoch == commit.epoch):
            return f"bench: the order of the commits of region {region} cannot be observed"
        commit.rival, rivals[0].rival = rivals[0], commit
        return None

    def told_epoch(self, region: int, epoch: int, since: int) -> str | None:
        """Settle a race by a read of EPOCH that began at `since`; return the error or None."""
        pair = self._decided(region, since)
        if len(pair) < 2 or any(one.closes for one in pair):
            return None
        pair.sort(key=lambda one: one.epoch == epoch)
        if pair[-1].epoch != epoch:
            return f"REGISTER EPOCH of region {region} reads {epoch:#x}, which neither commit wrote"
        self._settle(region, *pair)
        return None

    def told_closed(self, region: int, closed: bool, since: int) -> None:
        """Settle a race by a read of STATUS.CLOSED that began at `since`.

        (After a commit that is refused the region is closed in either order.)
        """
        pair = self._decided(region, since)
        if any(one.closes for one in pair):
            self._settle(region, *sorted(pair, key=lambda one: one.closes == closed))

    def _decided(self, region: int, since: int) -> list[Commit]:
        """Return the two commits of a race that were answered at `since`; else an empty list."""
        pair = [one for one in self.quiescence.pending(region) if one.rival is not None]
        return [] if any(one.end < 0 or one.end > since for one in pair) else pair

    def _settle(self, region: int, first: Commit, last: Commit) -> None:
        """Apply the order of two racing commits."""
        pending = self.quiescence.pending(region)
        places = [at for at, one in enumerate(pending) if one in (first, last)]
        window, axil = (first, last) if first.in_band else (last, first)
        if not axil.closes:  # it writes EPOCH alone: the descriptor is what it finds
            config = window.after if axil is last else window.before
            assert config is not None
            axil.config = config
        for at, one in zip(places, (first, last), strict=True):
            pending[at], one.rival = one, None
        self.settled(first, last)
        self.quiescence.resolve(region)

    def unsettled(self) -> list[int]:
        """Return the regions with a race whose order no read has told."""
        return [
            region
            for region in range(self.quiescence.model.params.regions)
            if any(one.rival is not None for one in self.quiescence.pending(region))
        ]


MAX_ERRORS = 10
UNJUDGED_SHARE = 0.005
ENGINE_KINDS = (Kind.CONTRIBUTION, *READ_KINDS, Kind.INFO)
REGISTERS = "registers"
"""The checker, by its name in NF_CHECKERS_OFF, that the register predictor is."""
_REGISTERS = REG_MAP.expand()
RESET_CAPACITY = (_REGISTERS["CAP_WINDOW"].reset, _REGISTERS["CAP_THRESHOLD"].reset)


class Scoreboard:
    """Checker of the device, by `request`, `response`, `commit_begin`, `commit_end` and so on; end
    with `finish`.
    """

    quiescence_type: type[Quiescence] = Quiescence
    """A negative twin puts a subclass with a fault here."""

    def __init__(
        self,
        model: DeviceModel,
        regions: int,
        budget: int = 4000,
        clock: Callable[[], int] | None = None,
        observer: Observer | None = None,
        on_error: Callable[[str], None] = lambda _text: None,
        memory_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start with the state after reset.

        Args:
            model: device model, which gives the expected answers.
            regions: number of regions.
            budget: steps after which the search for an order of racing operations gives up.
            clock: returns the present clock; by default every event counts as one clock.
            observer: receives the results, for coverage.
            on_error: called with each finding.
            memory_busy: returns whether a transfer on the memory port is in progress.
        """
        self.model = model
        self.now = 0
        self.clock = clock or (lambda: self.now)
        self.off = switched_off()
        self.errors: list[Finding] = []
        self.on_error = on_error
        self.observer = observer or Observer()
        self.memory_busy = memory_busy
        self.devload = DevLoadRule()
        self.quiescence = self.quiescence_type(
            model, budget, self._mismatch, self._committed, self._doubted, self.observer.judged
        )
        self.configs: list[RegionConfig | None] = [None] * regions
        self.memory = MemoryPort(model, self.quiescence, self.configs, self.clock, self.may_poison)
        self.capture = ErrorCapture()
        self.control = ControlRequests(model)
        self.races = CommitRaces(self.quiescence, self.observer.raced)
        self.ram = RamFaults(model.params)
        self.capacity = CapacityCheck(regions, *RESET_CAPACITY)
        self.status = RegionStatusRanges(model, self.quiescence, self.configs)
        self.fallback = [Cleared(partial(self._times_fallen, one)) for one in range(regions)]
        """FALLBACK of each region since software cleared it."""
        self.views = RegionViews(
            model, self.quiescence, self.status, self.fallback, self.observer.status_read
        )
        self.counters = {
            name: Cleared(partial(self.events, name))
            for name in (*COUNTERS, *COUNTED, "ENGINE", "EVICTION", "FILL", *self.ram.counters)
        }
        self.codes: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.requests = 0
        self.responses = 0
        self.engine_ops = 0
        self._engine_doubts = 0
        self._waiting: dict[tuple[bool, int, int], deque[Op]] = {}
        self._commit_traffic: dict[int, tuple[int, int]] = {}
        self._close_traffic: dict[int, bool] = {}

    # -- errors -------------------------------------------------------------------------------
    def error(self, text: str, key: str = "", data: str = "", checker: str = "scoreboard") -> None:
        """Record an error of a checker (see Finding); the first one stops the test."""
        if checker in self.off:
            return
        found = Finding(text, key, data)
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(found)
        self.on_error(found)

    def reset(self) -> None:
        """Follow a reset of the device; an error unless it is idle and has committed no region.

        Only memory outlives a reset, and what it holds is known then: of requests in flight it is
        not, nor of the records of a region. So the model and its pending lines stay as they are.
        """
        waiting = sum(1 for _ in self.quiescence.ops())
        commits = sorted({*self.codes, *filter(self.quiescence.pending, range(len(self.configs)))})
        if self.busy or waiting or commits:
            self.error(
                f"bench: rst_n fell with {waiting} requests in flight and commits of regions "
                f"{commits}: such a reset inside a test is not supported; end the test, the next "
                "one begins with a reset",
                "bench: reset inside a test",
                checker="bench",
            )
        self.ram.reset()  # before the counters that begin again from it
        for counter in (*self.counters.values(), *self.fallback):
            counter.reset()
        self.control.reset()
        self.capture = ErrorCapture()
        self.devload = DevLoadRule()
        self.capacity.reset(*RESET_CAPACITY)

    def mode_of(self, access: Access) -> str:
        """Return the mode of the region of an access, or "plain memory": a part of a cause's
        key.
        """
        config = None if access.region is None else self.configs[access.region]
        return config.mode.name if config else "plain memory"

    def _mismatch(self, failure: Failure) -> None:
        op, want, first = failure.op, failure.expected.response, failure.differences[0]
        near = next((one.byte for one in failure.differences if one.byte is not None), None)
        access = failure.expected.access
        part = ", ".join(filter(None, (first.extent, access.kind.name)))
        race = " (no order of the racing requests explains it)" if op.overlapped else ""
        self.error(
            f"MISMATCH{race}: {'; '.join(one.text for one in failure.differences)}; "
            f"model: {' / '.join(failure.explain.splitlines())}",
            f"scoreboard, {self.mode_of(access)}: {first.field}{APART}{part}",
            f"got {describe_near(op.response, near)}, expected {describe_near(want, near)}\n"
            f"  request {describe(op.msg)}\n"
            f"  got {describe(op.response)}\n  expected {describe(want)}",
        )

    # -- link ---------------------------------------------------------------------------------
    def request(self, msg: messages.M2SMessage, misframed: bool = False) -> None:
        """Follow a whole request on the receive pins; `misframed`: its Sz / BE was illegal."""
        self.now += 1
        self.requests += 1
        completion = messages.completion_of(msg)
        if completion is messages.Completion.NONE:
            return
        access = self.model.decode(msg, misframed)
        op = Op(msg, self.now, access, read=isinstance(msg, messages.M2SReq), misframed=misframed)
        op.window = window_of(msg.addr, self.configs)
        op.key = ("inert", self.now) if op.inert else self.model.line_key(msg)
        if op.access.kind in ENGINE_KINDS:
            self.engine_ops += 1
        elif op.access.kind is Kind.REFUSED:
            self.capture.refused(op)
        self.control.request(op)
        key = (completion is messages.Completion.NDR, msg.tag, msg.ldid)
        self._waiting.setdefault(key, deque()).append(op)
        self.devload.request(self.now)
        self.quiescence.add(op)
        if op.access.region is not None:
            self.status.request(op.access.region)
        self.views.request(op)

    def response(self, msg: messages.S2MMessage) -> None:
        """Follow a response on the transmit pins."""
        self.now += 1
        self.responses += 1
        key = (isinstance(msg, messages.S2MNDR), msg.tag, msg.ldid)
        if not (waiting := self._waiting.get(key)):
            self.error(
                f"response without request: {self._hint(msg)}",
                "scoreboard: response without request",
                describe(msg),
            )
            return
        op = waiting.popleft()
        if not waiting:
            del self._waiting[key]
        op.end = self.now
        op.response = msg
        wrong = self.devload.check(op, op.window, msg.devload)
        self.devload.answered()
        if wrong is not None:
            self.error(
                f"DEVLOAD {int(msg.devload)}: {wrong}",
                Finding(f"DEVLOAD: {wrong}").key,
                f"{describe(msg)} to {describe(op.msg)}",
            )
        self._looked_up(op)
        self.control.response(op)
        if not self._waiting:
            self.capacity.idle()
        self.views.raced(op)
        self.quiescence.done(op)
        if op.access.region is not None:
            self.status.judged(op.access.region)
        self.views.response(op, self.error)
        self.observer.answered(op, self.configs[op.window] if op.window is not None else None)

    def _looked_up(self, op: Op) -> None:
        """Count an answered operation of the engine."""
        region = op.access.region
        if op.access.kind not in ENGINE_KINDS or region is None:
            return
        self.capacity.operation()
        config = self.configs[region]
        if op.access.kind is Kind.CONTRIBUTION and config is not None and config.mode.low_bit:
            self.capacity.contribution(region)

    def _doubted(self, op: Op) -> None:
        """Record a request of unknown decoding."""
        self._engine_doubts += 1
        self.capture.doubtful()

    def _hint(self, msg: messages.S2MMessage) -> str:
        close = [key for key in self._waiting if key[1] == msg.tag or key[2] == msg.ldid]
        text = ", ".join(f"{'NDR' if n else 'DRS'} tag={t:#x} ldid={d}" for n, t, d in close[:3])
        return f"waiting: {text}" if text else "nothing like it is waiting"

    # -- register bus -------------------------------------------------------------------------
    def commit_begin(self, region: int, config: RegionConfig, epoch: int) -> Commit:
        """Begin a write of EPOCH; it takes effect before its response."""
        self.now += 1
        self._commit_traffic[region] = (len(self._waiting), self.requests)
        commit = self.quiescence.commit_begin(region, config, epoch, self.now)
        self.status.commit_begin(region)
        return commit

    def commit_end(self, region: int, strict: bool = True, commit: Commit | None = None) -> None:
        """End the write of EPOCH or CLOSE: its response was seen (`strict`: see `Commit`)."""
        self.now += 1
        self.quiescence.commit_end(region, self.now, strict, commit)

    def close_begin(self, region: int) -> Commit | None:
        """Begin a write of CLOSE; return None if the region has no round to end."""
        self.now += 1
        self._close_traffic[region] = bool(self._waiting)
        commit = self.quiescence.close_begin(region, self.epochs.get(region, 0), self.now)
        if commit is not None:
            self.status.commit_begin(region)
        return commit

    def _committed(self, region: int, commit: Commit, code: int) -> None:
        if commit.closes:
            self.status.closed(region)
            self.observer.closed(region, self._close_traffic[region])
            return
        self.codes[region] = code
        if code == 0:
            self.memory.initialiser.committed(
                region, self.configs[region], commit.config, self.model.params.cnt_w
            )
            self.configs[region] = commit.config
            self.epochs[region] = commit.epoch
            self.capacity.regions[region].restart(self._commit_alone(region))
        self.status.committed(region, code == 0)
        self.views.committed(region, code == 0)
        traffic = self._commit_traffic.get(region, (0, 0))[0] > 0
        self.observer.committed(region, commit.config, commit.epoch, code, traffic)

    def _commit_alone(self, region: int) -> bool:
        """Return whether nothing was in flight when a region was committed."""
        return self._commit_traffic.get(region) == (0, self.requests)

    def clear_counters_begin(self) -> None:
        """Begin a write of CTRL.CLEAR_COUNTERS."""
        for counter in self.counters.values():
            counter.clear_begin()

    def clear_counters_end(self) -> None:
        """End a write of CTRL.CLEAR_COUNTERS."""
        for counter in self.counters.values():
            counter.clear_end()
        self.capacity.counters_cleared(self.waiting == 0)

    def clear_counters(self) -> None:
        """Clear the counters by CTRL.CLEAR_COUNTERS."""
        self.clear_counters_begin()
        self.clear_counters_end()

    # -- memory port --------------------------------------------------------------------------
    def may_poison(self) -> bool:
        """Return whether a damaged RAM of the device may have poisoned data to be written."""
        return False

    def memory_beat(self, beat: MemBeat) -> None:
        """Follow a beat on the device-memory port."""
        if self.memory.beat(beat):
            self.now += 1
        if self.memory.wrong is not None:
            key = f"MEMORY: {self.memory.rule}"
            self.error(f"MEMORY {self.memory.wrong}", key, checker="memory")

    # -- end of test --------------------------------------------------------------------------
    @property
    def waiting(self) -> int:
        """Return the number of requests without a response."""
        return sum(len(queue) for queue in self._waiting.values())

    def oldest(self) -> Op | None:
        """Return the request that has waited longest."""
        ops = [queue[0] for queue in self._waiting.values()]
        return min(ops, key=lambda op: op.start, default=None)

    def events(self, name: str) -> Span:
        """Return the least and most events of a counter since the start."""
        if name in self.memory.ports:  # every response was seen, also those that cost a record
            return self.memory.ports[name].span()
        if name == "ENGINE":
            doubt = self._engine_doubts
            answered = self.engine_ops - self._engine_waiting()
            return Span(max(0, answered - doubt), self.engine_ops + doubt)
        if name == "EVICTION":  # counted when a slot is emptied; what is to be written may wait
            done = self.memory.evictions.span()
            return Span(done.low, self.model.params.slots + done.high if self.busy else done.high)
        if name == "FILL":
            return self.memory.fills.span()
        if name in self.ram.counters:
            return self.ram.counters[name]()
        quiescence = self.quiescence
        value = self.model.counters[name]
        more = sum(potential(op, quiescence.mode_of(op)).get(name, 0) for op in quiescence.ops())
        return Span(value - quiescence.below[name], value + quiescence.above[name] + more)

    def busy_regions(self) -> set[int]:
        """Return the regions with requests that are not judged yet."""
        ops = self.quiescence.ops()
        return {op.access.region for op in ops if op.access.region is not None}

    def _times_fallen(self, region: int) -> Span:
        return self.capacity.times(region, self.busy_regions())

    def _engine_waiting(self) -> int:
        ops = (op for queue in self._waiting.values() for op in queue)
        return sum(op.access.kind in ENGINE_KINDS for op in ops)

    @property
    def busy(self) -> bool:
        """Return whether the device or its memory has work to do."""
        return bool(self._waiting) or self.memory_busy() or self.memory.initialising

    def counter_range(self, name: str) -> tuple[int, int]:
        """Return the least and most that a counter register may show."""
        return self.counters[name].span()[:2]

    def compare_counters(self, got: dict[str, int]) -> None:
        """Compare counter registers, read with nothing in flight, with the model."""
        for name in self.counters:
            if name in got:
                self.compare_counter(name, got[name], self.counters[name].span())
        if "SLOT_HIT" in got and "SLOT_MISS" in got:
            self.compare_lookups(got["SLOT_HIT"], got["SLOT_MISS"])

    def compare_counter(self, name: str, got: int, want: Span) -> None:
        """Compare one counter register."""
        if got not in want:
            text = f"COUNTER {name} is {got}, expected {want}"
            self.error(text, f"COUNTER {name}", checker=REGISTERS)

    def compare_lookups(self, hits: int, misses: int) -> None:
        """Compare the sum of SLOT_HIT and SLOT_MISS with the number of operations, with nothing in
        flight.
        """
        want = self.counters["ENGINE"].span()
        if hits + misses not in want:
            self.error(
                f"COUNTER SLOT_HIT {hits} + SLOT_MISS {misses} is not the number of engine "
                f"operations, {want}",
                checker=REGISTERS,
            )

    def compare_region(self, region: int, got: dict[str, Any]) -> None:
        """Compare the status of a region (`committed`, `done`, ...) with its present range."""
        self.compare_status(region, got, self.status.end(region, self.status.begin(region)))

    def compare_status(self, region: int, got: dict[str, Any], want: dict[str, Span]) -> None:
        """Compare the status of a region with the ranges of its read."""
        for name, value in got.items():
            if value not in want[name]:
                config = self.configs[region]
                self.error(
                    f"REGION {region} {name} is {value}, expected {want[name]}",
                    f"REGION, {config.mode.name if config else 'uncommitted'}: {name}",
                    checker=REGISTERS,
                )

    def finish(self) -> None:
        """Check that no request is left, and that nearly all were judged."""
        oldest = self.oldest()
        if oldest is not None:
            self.error(
                f"{self.waiting} request(s) never answered",
                f"scoreboard, {self.mode_of(oldest.access)}: answer",
                f"first: {describe(oldest.msg)}",
            )
        if self.requests == 0 or self.responses == 0:
            seen = f"{self.requests} requests, {self.responses} responses"
            self.error(f"zero transactions: nothing was checked: {seen}")
        total = self.quiescence.judged + self.quiescence.unjudged
        if self.quiescence.unjudged > UNJUDGED_SHARE * total:
            self.error(f"{self.quiescence.unjudged} of {total} operations could not be judged")

    def summary(self) -> str:
        """Return one line for the log."""
        lines = self.quiescence
        return (
            f"{self.requests} requests, {self.responses} responses, {lines.judged} judged "
            f"({lines.raced} in races), {lines.unjudged} unjudged, {self.engine_ops} engine ops"
        )
