# SPDX-License-Identifier: Apache-2.0
"""Scoreboard of the CXL memory device, usable without a simulator.

It receives what monitors decode: requests and responses from the pins of the link, transfers on the
register bus, beats of the device-memory port. A response is matched to the oldest open request of
the same channel (NDR or DRS), tag and LD-ID; no order between channels or addresses is required.
The device model gives the expected response. Each deviation becomes a `Finding`.
"""

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from cocotbext.cxl.wire import messages
from models.access_decode import READ_KINDS, Access, Kind
from models.device import DeviceModel
from models.device_state import COUNTERS
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.mem.memory_config import MemBeat
from verif.scoreboard.checkers_off import switched_off
from verif.scoreboard.control_requests import ControlRequests
from verif.scoreboard.devload import CapacityCheck, DevLoadRule
from verif.scoreboard.error_capture import ErrorCapture
from verif.scoreboard.finding import APART, Finding
from verif.scoreboard.line_judge import LineJudge
from verif.scoreboard.linearize import Failure
from verif.scoreboard.memory_port import COUNTED, MemoryPort
from verif.scoreboard.observer import Observer
from verif.scoreboard.operations import Op, describe, describe_near, window_of
from verif.scoreboard.pending import Commit
from verif.scoreboard.possible_effects import potential
from verif.scoreboard.ram_faults import RamFaults
from verif.scoreboard.ranges import Cleared, Span
from verif.scoreboard.region_status import RegionStatusRanges, RegionViews

MAX_ERRORS = 10
UNJUDGED_SHARE = 0.005
ENGINE_KINDS = (Kind.CONTRIBUTION, *READ_KINDS, Kind.INFO)
REGISTERS = "registers"
"""The checker, by its name in NF_CHECKERS_OFF, that the register predictor is."""
_REGISTERS = REG_MAP.expand()
RESET_CAPACITY = (_REGISTERS["CAP_WINDOW"].reset, _REGISTERS["CAP_THRESHOLD"].reset)


class Scoreboard:
    """Checker of the device against the device model.

    The methods record events of monitors: `request`, `response`, `memory_beat`, `commit_begin`,
    `commit_end` and so on; nothing is sent to the device. `finish` does the checks of the end of a
    test. Findings are kept in `errors` (MAX_ERRORS at most) and passed to `on_error`.
    """

    judge_type: type[LineJudge] = LineJudge
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
        """Start with the state of the device after reset.

        Args:
            model: Device model, which gives the expected responses.
            regions: Number of regions.
            budget: Steps after which the search for an order of racing operations gives up.
            clock: Returns the present cycle; by default every event counts as one cycle.
            observer: Receives the results, for coverage.
            on_error: Called with each finding.
            memory_busy: Returns whether a transfer on the memory port is in progress.
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
        self.judge = self.judge_type(
            model, budget, self._mismatch, self._committed, self._doubted, self.observer.judged
        )
        self.configs: list[RegionConfig | None] = [None] * regions
        self.memory = MemoryPort(model, self.judge, self.configs, self.clock, self.may_poison)
        self.capture = ErrorCapture()
        self.control = ControlRequests(model)
        self.races = CommitRaces(self.judge, self.observer.raced)
        self.ram = RamFaults(model.params)
        self.capacity = CapacityCheck(regions, *RESET_CAPACITY)
        self.status = RegionStatusRanges(model, self.judge, self.configs)
        self.fallback = [Cleared(partial(self._times_fallen, one)) for one in range(regions)]
        """FALLBACK of each region since software cleared it."""
        self.views = RegionViews(
            model, self.judge, self.status, self.fallback, self.observer.status_read
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
    def error(
        self,
        text: str,
        key: str = "",
        data: str = "",
        checker: str = "scoreboard",
        line: Hashable = None,
    ) -> None:
        """Record a finding and pass it to `on_error`, which ends the test at the first one.

        Args:
            text: What is wrong.
            key: Key of the cause; by default `Finding` derives it from the text.
            data: Values, which come last in the finding.
            checker: Name of the checker; nothing is recorded if NF_CHECKERS_OFF disables it.
            line: Key of the line whose check failed.
        """
        if checker in self.off:
            return
        found = Finding(text, key, data, line)
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(found)
        self.on_error(found)

    def reset(self) -> None:
        """Follow a reset of the device: counters, flags and thresholds get their reset values.

        A reset with a request in flight, or after a commit, is reported as an error of the
        testbench: only device memory outlives a reset, and what it then holds is unknown. The
        device model and the pending lines are not changed.
        """
        waiting = sum(1 for _ in self.judge.ops())
        commits = sorted({*self.codes, *filter(self.judge.pending, range(len(self.configs)))})
        if self.busy or commits:
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
        """Return the name of the mode of an access's region, or "plain memory", for the key of a
        finding.
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
            line=op.key,
        )

    # -- link ---------------------------------------------------------------------------------
    def request(self, msg: messages.M2SMessage, misframed: bool = False) -> None:
        """Record a request that was received whole at the pins, and decode it with the device
        model.

        A request to which no response is due is only counted.

        Args:
            msg: Decoded message.
            misframed: Whether the Sz or BE bit of the flit did not fit the opcode.
        """
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
        self.devload.request(self.now, self.capacity.on and not op.read)
        self.judge.add(op)
        if op.access.region is not None:
            self.status.request(op.access.region)
        self.views.request(op)
        self.observer.requested(op)

    def response(self, msg: messages.S2MMessage) -> None:
        """Record a response at the pins, match it to its request and check it.

        DevLoad is checked at once; the content is judged as soon as no request on the line is in
        flight.
        """
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
        self.judge.done(op)
        if op.access.region is not None:
            self.status.judged(op.access.region)
        self.views.response(op, self.error)
        self.observer.answered(op, self.configs[op.window] if op.window is not None else None)

    def _looked_up(self, op: Op) -> None:
        """Count an answered operation of the engine for the prediction of FALLBACK.

        A contribution to a region in a low-bit mode is also recorded for the capacity check.
        """
        region = op.access.region
        if op.access.kind not in ENGINE_KINDS or region is None:
            return
        self.capacity.operation()
        config = self.configs[region]
        if op.access.kind is Kind.CONTRIBUTION and config is not None and config.mode.low_bit:
            self.capacity.contribution(region)

    def _doubted(self, op: Op) -> None:
        """Record a request of which it stays unknown whether it was refused.

        The range of ENGINE widens by one, and the error capture is not compared until it is armed
        again.
        """
        self._engine_doubts += 1
        self.capture.doubtful()

    def _hint(self, msg: messages.S2MMessage) -> str:
        close = [key for key in self._waiting if key[1] == msg.tag or key[2] == msg.ldid]
        text = ", ".join(f"{'NDR' if n else 'DRS'} tag={t:#x} ldid={d}" for n, t, d in close[:3])
        return f"waiting: {text}" if text else "nothing like it is waiting"

    # -- register bus -------------------------------------------------------------------------
    def commit_begin(self, region: int, config: RegionConfig, epoch: int) -> Commit:
        """Record the start of a write of EPOCH, which commits the shadow descriptor of a region.

        The commit takes effect at some time until its response.

        Args:
            region: Number of the region.
            config: Descriptor in the shadow registers.
            epoch: Value written.

        Returns:
            The pending commit, to be ended by `commit_end`.
        """
        self.now += 1
        self._commit_traffic[region] = (len(self._waiting), self.requests)
        commit = self.judge.commit_begin(region, config, epoch, self.now)
        self.status.commit_begin(region)
        self.views.commit_begin(region)
        self.observer.begun(region, False)
        return commit

    def commit_end(self, region: int, strict: bool = True, commit: Commit | None = None) -> None:
        """Record the response to a write of EPOCH or CTRL.CLOSE.

        Args:
            region: Number of the region.
            strict: See `Commit.strict`.
            commit: What `commit_begin` or `close_begin` returned; by default the last one of the
                region.
        """
        self.now += 1
        self.judge.commit_end(region, self.now, strict, commit)

    def close_begin(self, region: int) -> Commit | None:
        """Record the start of a write of 1 to CTRL.CLOSE, which ends the round of a region.

        Nothing is sent to the device; `commit_end` records the response.

        Returns:
            The pending write, to be ended by `commit_end`; also for a region already closed. None,
            and no `commit_end` is due, for a region without a round (uncommitted, or in mode
            IDENTITY) and without a pending write of EPOCH or CLOSE.
        """
        self.now += 1
        self._close_traffic[region] = bool(self._waiting)
        commit = self.judge.close_begin(region, self.epochs.get(region, 0), self.now)
        if commit is not None:
            self.status.commit_begin(region)
            self.views.commit_begin(region)
            self.observer.begun(region, True)
        return commit

    def _committed(self, region: int, commit: Commit, code: int) -> None:
        if commit.closes:
            self.status.closed(region)
            self.observer.closed(region, self._close_traffic[region])
            return
        self.codes[region] = code
        if code == 0:
            params, memory = self.model.params, self.memory
            refused = memory.ports["MEM_WRITE_ERROR"].total
            trusted = params.gen_w == 32 and not refused and not memory.may_poison()
            memory.initialiser.committed(
                region, self.configs[region], commit.config, params.cnt_w, trusted
            )
            self.configs[region] = commit.config
            self.epochs[region] = commit.epoch
            self.capacity.regions[region].restart(self._commit_alone(region))
        self.status.committed(region, code == 0)
        self.views.committed(region, code == 0)
        traffic = self._commit_traffic.get(region, (0, 0))[0] > 0
        self.observer.committed(region, commit.config, commit.epoch, code, traffic)

    def _commit_alone(self, region: int) -> bool:
        """Return whether no request was in flight at any time of the last commit of a region."""
        return self._commit_traffic.get(region) == (0, self.requests)

    def clear_counters_begin(self) -> None:
        """Record the start of a write of 1 to CTRL.CLEAR_COUNTERS; each counter may now be
        cleared.
        """
        for counter in self.counters.values():
            counter.clear_begin()

    def clear_counters_end(self) -> None:
        """Record the response to a write of 1 to CTRL.CLEAR_COUNTERS; each counter is now
        cleared.
        """
        for counter in self.counters.values():
            counter.clear_end()
        self.capacity.counters_cleared(self.waiting == 0)

    def clear_counters(self) -> None:
        """Record a write of 1 to CTRL.CLEAR_COUNTERS that starts and ends at once."""
        self.clear_counters_begin()
        self.clear_counters_end()

    # -- memory port --------------------------------------------------------------------------
    def may_poison(self) -> bool:
        """Return whether a damaged RAM of the device may be the reason for poison in data that it
        writes.

        False here; `LenientScoreboard` overrides it.
        """
        return False

    def memory_beat(self, beat: MemBeat) -> None:
        """Check a beat on the device-memory port with `MemoryPort`, and report an illegal one."""
        if self.memory.beat(beat):
            self.now += 1
        if self.memory.wrong is not None:
            key = f"MEMORY: {self.memory.rule}"
            self.error(f"MEMORY {self.memory.wrong}", key, checker="memory")

    # -- end of test --------------------------------------------------------------------------
    @property
    def waiting(self) -> int:
        """Return the number of requests on the link without a response."""
        return sum(len(queue) for queue in self._waiting.values())

    def oldest(self) -> Op | None:
        """Return the request that has waited longest for its response, or None."""
        ops = [queue[0] for queue in self._waiting.values()]
        return min(ops, key=lambda op: op.start, default=None)

    def events(self, name: str) -> Span:
        """Return the range of the number of events of a counter since the start of the test.

        Clears by software do not count here; `counters` subtracts them.

        Args:
            name: Key of `counters`: a counter register, or ENGINE for SLOT_HIT + SLOT_MISS.
        """
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
        judge = self.judge
        value = self.model.counters[name]
        more = sum(potential(op, judge.mode_of(op)).get(name, 0) for op in judge.ops())
        return Span(value - judge.below[name], value + judge.above[name] + more)

    def busy_regions(self) -> set[int]:
        """Return the numbers of the regions with requests that are not judged yet."""
        ops = self.judge.ops()
        return {op.access.region for op in ops if op.access.region is not None}

    def _times_fallen(self, region: int) -> Span:
        return self.capacity.times(region, self.busy_regions())

    def _engine_waiting(self) -> int:
        ops = (op for queue in self._waiting.values() for op in queue)
        return sum(op.access.kind in ENGINE_KINDS for op in ops)

    @property
    def busy(self) -> bool:
        """Return whether the device or its memory has work to do.

        True while a request is unanswered, a memory transfer is in progress or the record
        initialiser runs.
        """
        return bool(self._waiting) or self.memory_busy() or self.memory.initialising

    def counter_range(self, name: str) -> tuple[int, int]:
        """Return the least and the most that a counter register may show now, since its last
        clear.
        """
        return self.counters[name].span()[:2]

    def compare_counters(self, got: dict[str, int]) -> None:
        """Check values of counter registers that were read with nothing in flight.

        Args:
            got: Value by name of the counter; counters that are missing here are not checked.
        """
        for name in self.counters:
            if name in got:
                self.compare_counter(name, got[name], self.counters[name].span())
        if "SLOT_HIT" in got and "SLOT_MISS" in got:
            self.compare_lookups(got["SLOT_HIT"], got["SLOT_MISS"])

    def compare_counter(self, name: str, got: int, want: Span) -> None:
        """Report a finding if a counter register does not lie in its range.

        Args:
            name: Name of the counter.
            got: Value read.
            want: Allowed range.
        """
        if got not in want:
            text = f"COUNTER {name} is {got}, expected {want}"
            self.error(text, f"COUNTER {name}", checker=REGISTERS)

    def compare_lookups(self, hits: int, misses: int) -> None:
        """Check that SLOT_HIT + SLOT_MISS is the number of engine operations; nothing may be in
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
        """Check status values of a region, read at once, against their present ranges.

        Args:
            region: Number of the region.
            got: Value by name (`committed`, `done`, ...), see `RegionStatusRanges.end`.
        """
        self.compare_status(region, got, self.status.end(region, self.status.begin(region)))

    def compare_status(self, region: int, got: dict[str, Any], want: dict[str, Span]) -> None:
        """Report a finding for each status value of a region that lies outside its range.

        Args:
            region: Number of the region.
            got: Values read, by name.
            want: Allowed ranges, by name.
        """
        for name, value in got.items():
            if value not in want[name]:
                config = self.configs[region]
                self.error(
                    f"REGION {region} {name} is {value}, expected {want[name]}",
                    f"REGION, {config.mode.name if config else 'uncommitted'}: {name}",
                    checker=REGISTERS,
                )

    def finish(self) -> None:
        """Check at the end of a test that every request was answered and nearly every one judged.

        A test without any request or response fails as well, as does one in which more than
        UNJUDGED_SHARE of the operations could not be judged.
        """
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
        total = self.judge.judged + self.judge.unjudged
        if self.judge.unjudged > UNJUDGED_SHARE * total:
            self.error(f"{self.judge.unjudged} of {total} operations could not be judged")

    def summary(self) -> str:
        """Return the number of requests, responses, judged and unjudged operations as one line of
        text.
        """
        lines = self.judge
        return (
            f"{self.requests} requests, {self.responses} responses, {lines.judged} judged "
            f"({lines.raced} in races), {lines.unjudged} unjudged, {self.engine_ops} engine ops"
        )


class CommitRaces:
    """Races between two writes that end a round of one region: two commits, or a commit and a
    close.

    One comes by AXI4-Lite, the other through the control window. The register bus takes one access
    at a time, so each of the two is wholly before or wholly after the other (spec: controller,
    second edition, section 9). The pins do not show which comes first; a read after both does:
    EPOCH returns the value of the later commit, and STATUS.CLOSED is 1 if the close was the later.
    Until then nothing of the region is judged; from then on everything is, in that order alone.
    """

    def __init__(self, judge: LineJudge, settled: Callable[[Commit, Commit], None]) -> None:
        """Start without races.

        Args:
            judge: Holder of the unsettled commits of each region.
            settled: Called with the first and the last of two racing commits once a read has shown
                their order.
        """
        self.judge = judge
        self.settled = settled

    def begun(
        self, region: int, commit: Commit, before: RegionConfig, after: RegionConfig
    ) -> str | None:
        """Record that a commit or a close of a region was accepted, and detect a race with another
        one.

        Args:
            region: Number of the region.
            commit: The commit, already among the pending ones of the region; its `before`, `after`
                and `rival` are set here.
            before: Descriptor in the shadow registers before the words of this write.
            after: Descriptor in the shadow registers after them.

        Returns:
            Text of a finding if no read could show the order of the commits, else None.
        """
        pending = self.judge.pending(region)
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
        """Settle the race of two commits of a region by the value that a read of EPOCH returned.

        Args:
            region: Number of the region.
            epoch: Value read; the commit that wrote it was the last.
            since: Time at which the read began; both commits must have been answered by then.

        Returns:
            Text of a finding if neither commit wrote this value, else None (also without a race, or
            for a race with a close).
        """
        pair = self._decided(region, since)
        if len(pair) < 2 or any(one.closes for one in pair):
            return None
        pair.sort(key=lambda one: one.epoch == epoch)
        if pair[-1].epoch != epoch:
            return f"REGISTER EPOCH of region {region} reads {epoch:#x}, which neither commit wrote"
        self._settle(region, *pair)
        return None

    def told_closed(self, region: int, closed: bool, since: int) -> None:
        """Settle the race of a commit with a close by a read of STATUS.CLOSED that began at
        `since`.

        The close was the last one if the region is closed. After a refused commit the region is
        closed in either order. Nothing happens without such a race, or if one of the two was
        unanswered at `since`.
        """
        pair = self._decided(region, since)
        if any(one.closes for one in pair):
            self._settle(region, *sorted(pair, key=lambda one: one.closes == closed))

    def _decided(self, region: int, since: int) -> list[Commit]:
        """Return the two racing commits of a region if both were answered by `since`, else []."""
        pair = [one for one in self.judge.pending(region) if one.rival is not None]
        return [] if any(one.end < 0 or one.end > since for one in pair) else pair

    def _settle(self, region: int, first: Commit, last: Commit) -> None:
        """Put two racing commits into their order, report it to `settled`, and judge the region.

        A commit by AXI4-Lite gets the descriptor that the write through the window left for it.
        """
        pending = self.judge.pending(region)
        places = [at for at, one in enumerate(pending) if one in (first, last)]
        window, axil = (first, last) if first.in_band else (last, first)
        if not axil.closes:  # it writes EPOCH alone: the descriptor is what it finds
            config = window.after if axil is last else window.before
            assert config is not None
            axil.config = config
        for at, one in zip(places, (first, last), strict=True):
            pending[at], one.rival = one, None
        self.settled(first, last)
        self.judge.resolve(region)

    def unsettled(self) -> list[int]:
        """Return the numbers of the regions with two racing commits whose order no read has
        shown.
        """
        return [
            region
            for region in range(self.judge.model.params.regions)
            if any(one.rival is not None for one in self.judge.pending(region))
        ]
