# SPDX-License-Identifier: Apache-2.0
"""Which rule compares the read of which register; a register without one must not be read.

A rule notes what is known when a read begins (`begin`), and says at its end what is wrong with the
value (`end`). `UNCOMPARED` is the list of registers that nobody can predict, each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from models.nf_regs import REG_MAP
from models.register_map import Access, Counts, Register
from verif.scoreboard.ranges import Before, Span
from verif.scoreboard.scoreboard import REGISTERS

if TYPE_CHECKING:
    from verif.scoreboard.register_predictor import RegisterPredictor

LOOKUPS = ("SLOT_HIT", "SLOT_MISS")
ALL_LOOKUPS = "ENGINE"
LINK = REG_MAP.counters(Counts.LINK, Counts.RETRY)
SETTLED = 8
"""Clocks around a read within which a commit under way must show in STATUS.COMMIT_BUSY."""
UNCOMPARED: dict[str, str] = {}


class Rule(NamedTuple):
    """`begin(name)` gives what `end(register, data, that)` compares with."""

    begin: Callable[[str], Any]
    end: Callable[[Register, int, Any], str | None]


def own_value(register: Register) -> bool:
    """The hardware changes the register by itself (a pulse reads 0)."""
    return any(one.volatile and one.access is not Access.PULSE for one in register.fields)


class Rules:
    """The rule of each register, by its name without the number of the region."""

    def __init__(self, predictor: RegisterPredictor) -> None:
        self.predictor = predictor
        self.scoreboard = predictor.scoreboard
        self._committing: list[tuple[int, int, int]] = []
        """Reads of STATUS during a commit: begin, end, and COMMIT_BUSY."""
        self._link_captured = False
        registers = (*REG_MAP.registers, *REG_MAP.region_registers)
        stored = Rule(self._stored_before, self._stored)
        counted = Rule(lambda name: self._counter(name).begin(), self._counted)
        region = Rule(self._region_begins, self._region)
        error = Rule(self._error_begins, self._error)
        self.rules = {
            **{one.name: stored for one in registers if not own_value(one)},
            **dict.fromkeys(REG_MAP.counters(), counted),
            **dict.fromkeys(LOOKUPS, Rule(self._lookups_begin, self._looked_up)),
            **dict.fromkeys(("ERR_INFO", "ERR_ADDR_LO", "ERR_ADDR_HI", "ERR_TAG"), error),
            **dict.fromkeys(("STATUS", "COMPLETE_LINES", "EPOCH"), region),
        }
        device = {
            "CTRL_WINDOW_LO": stored,
            "STATUS": Rule(self._status_begins, self._status),
            "IRQ_STATUS": Rule(lambda _name: predictor.interrupts.begin(), self._irq),
            "DONE": Rule(self._done_begins, self._done),
            "FALLBACK": Rule(lambda _name: self._fallback_begins(), self._fallback),
            "RAS_ERROR": Rule(lambda _name: None, self._ram_error),
            "LINK_STATE": Rule(lambda _name: None, self._link_state),
            "LINK_ERR_INFO": Rule(lambda _name: self._link_errors(), self._link_error),
        }
        self.device = device

    def _rule(self, name: str) -> Rule | None:
        if name in self.device:
            return self.device[name]
        return self.rules.get(name.rpartition(".")[2])

    def report(self, text: str, key: str = "") -> None:
        """Says what is wrong with a register."""
        self.scoreboard.error(text, key, checker=REGISTERS)

    # -- reads --------------------------------------------------------------------------------
    def begin(self, name: str) -> Any:
        """A read begins."""
        rule = self._rule(name)
        return None if rule is None else rule.begin(name)

    def end(self, register: Register, data: int, before: Any) -> None:
        """A read has returned `data`."""
        rule, name = self._rule(register.name), register.name
        if rule is None:
            if name not in UNCOMPARED:
                self.report(f"bench: no rule compares register {name}")
            return
        wrong = rule.end(register, data, before)
        if wrong is not None:
            self.report(wrong, f"register {name.rpartition('.')[2]}")
        if data & ~register.mask():
            text = f"REGISTER {name} reads {data:#x}, reserved bits are not 0"
            self.report(text, "REGISTER: reserved bits")

    # -- written by software ------------------------------------------------------------------
    def _stored_before(self, name: str) -> set[int]:
        predictor = self.predictor
        return {predictor.values[name]} | predictor.others.get(name, set())

    def _stored(self, register: Register, data: int, before: set[int]) -> str | None:
        predictor, name = self.predictor, register.name
        earlier = predictor.before.get(name, set())
        later = predictor.others.get(name, set())
        allowed = before | {predictor.values[name]} | earlier | later
        if data in allowed:
            if not earlier and later == before - {predictor.values[name]}:
                predictor.settled(name, data)
            return None
        return f"REGISTER {name} reads {data:#x}, expected {' or '.join(map(hex, allowed))}"

    # -- counters -----------------------------------------------------------------------------
    def _counter(self, name: str) -> Any:
        if name in self.predictor.link_counters:
            return self.predictor.link_counters[name]
        return self.scoreboard.counters.get(name, _Anything())

    def _counted(self, register: Register, data: int, before: Any) -> str | None:
        name = register.name
        self.scoreboard.compare_counter(name, data, self._counter(name).end(before))
        self.predictor.counters[name] = (self.scoreboard.now, data)
        return None

    def _lookups_begin(self, _name: str) -> tuple[int, Any]:
        return self.scoreboard.now, self.scoreboard.counters[ALL_LOOKUPS].begin()

    def _looked_up(self, register: Register, data: int, before: tuple[int, Any]) -> str | None:
        """Each lookup hits or misses: neither count is above their number."""
        scoreboard = self.scoreboard
        since, counted = before
        most = scoreboard.counters[ALL_LOOKUPS].end(counted).high
        scoreboard.compare_counter(register.name, data, Span(0, most))
        counters = self.predictor.counters
        counters[register.name] = (scoreboard.now, data)
        quiet = scoreboard.waiting == 0 and scoreboard.now == since
        if quiet and register.name == "SLOT_MISS":
            scoreboard.capacity.saw_misses(data)
        if quiet and all(counters.get(name, (-1, 0))[0] == since for name in LOOKUPS):
            scoreboard.compare_lookups(*(counters[name][1] for name in LOOKUPS))
        return None

    # -- the device ---------------------------------------------------------------------------
    def _committing_now(self, tight: bool = True) -> bool:
        """A commit is under way: one of AXI4-Lite that waits for no close through the window, or
        any if its time need not be `tight`."""
        quiescence = self.scoreboard.quiescence
        pending = (quiescence.pending(region) for region in range(self.predictor.regions))
        open_ = [one for commits in pending for one in commits if one.end < 0]
        if tight and any(one.closes and one.in_band for one in open_):
            return False
        return any(not (one.closes or (tight and one.in_band)) for one in open_)

    def _status_begins(self, _name: str) -> tuple[int, bool, int, Span]:
        commits = -1 if self._committing_now(tight=False) else self.scoreboard.status.commits
        return self.scoreboard.clock(), self._committing_now(), commits, self._init_busy()

    def _init_busy(self) -> Span:
        memory = self.scoreboard.memory
        low, high = memory.initialiser.busy()[:2]
        fresh = memory.initialised.span()
        pending = self._unsettled()
        return Span(0 if pending else low, int(high or pending or fresh.low < fresh.high))

    def _status(
        self, register: Register, data: int, before: tuple[int, bool, int, Span]
    ) -> str | None:
        began, committing, commits, initialising = before
        value, now = register.unpack(data), self._init_busy()
        none = commits == self.scoreboard.status.commits  # nor one that ended within this read
        low, high = min(now.low, initialising.low), max(now.high, initialising.high)
        busy = Span(low, high if none else 1)
        if value["INIT_BUSY"] not in busy:
            return f"STATUS.INIT_BUSY is {value['INIT_BUSY']}, expected {busy}"
        committed = self._committing_now()
        if value["COMMIT_BUSY"] and none and not self._committing_now(tight=False):
            return "STATUS.COMMIT_BUSY is 1 without a commit"
        if committing and committed:
            self._committing.append((began, self.scoreboard.clock(), value["COMMIT_BUSY"]))
        link = self.predictor.link
        if link is not None and not value["LINK_UP"] and not link.faulty and link.up:
            return "STATUS.LINK_UP is 0 although the link has initialised"
        return None

    def committed(self) -> None:
        """A commit was answered: reads well before must have seen COMMIT_BUSY."""
        reads, self._committing = self._committing, []
        if not reads:
            return
        first = reads[0][0]
        for began, ended, busy in reads:
            # The first clocks bring the write to the registers, the last ones its response back.
            inside = began > first + SETTLED and ended < self.scoreboard.clock() - SETTLED
            if inside and not busy:
                self.report("register STATUS.COMMIT_BUSY is 0 during a commit")

    def _irq(self, _register: Register, data: int, before: Any) -> str | None:
        return self.predictor.interrupts.check(data, before)

    def _fallback_begins(self) -> list[Before]:
        return [region.begin() for region in self.predictor.fallback]

    def _fallback_bits(self, before: list[Before]) -> list[Span]:
        spans = [one.end(old) for one, old in zip(self.predictor.fallback, before, strict=True)]
        return [Span(int(span.low > 0), int(span.high > 0)) for span in spans]

    def _fallback(self, _register: Register, data: int, before: list[Before]) -> str | None:
        regions = self.predictor.regions
        self.scoreboard.devload.saw_fallback(self.scoreboard.now, data, regions)
        for region, want in enumerate(self._fallback_bits(before)):
            if data >> region & 1 not in want:
                return f"FALLBACK of region {region} is {data >> region & 1}, expected {want}"
        return None

    def _error_begins(self, _name: str) -> tuple[bool, Any]:
        return self._unsettled(), self.scoreboard.capture.begin(self.scoreboard.now)

    def _unsettled(self) -> bool:
        """A commit under way decides what is refused."""
        regions = range(self.predictor.regions)
        return any(self.scoreboard.quiescence.pending(region) for region in regions)

    def _error(self, register: Register, data: int, before: tuple[bool, Any]) -> str | None:
        unsettled, known = before
        if unsettled or self._unsettled():
            return None
        return self.scoreboard.capture.check(register.name, register.unpack(data), known)

    # -- regions ------------------------------------------------------------------------------
    def _done_begins(self, _name: str) -> list[Any]:
        return [self.scoreboard.status.begin(r) for r in range(self.predictor.regions)]

    def _done(self, _register: Register, data: int, before: list[Any]) -> str | None:
        for region, glimpse in enumerate(before):
            want = self.scoreboard.status.end(region, glimpse)
            self.scoreboard.compare_status(region, {"done": data >> region & 1}, want)
        return None

    def _region_begins(self, name: str) -> tuple[Any, list[Before], int]:
        region = self.predictor.region_of(name)
        return self.scoreboard.status.begin(region), self._fallback_begins(), self.scoreboard.now

    def _region(
        self, register: Register, data: int, before: tuple[Any, list[Before], int]
    ) -> str | None:
        region, leaf = self.predictor.region_of(register.name), register.name.rpartition(".")[2]
        got = {name.lower(): value for name, value in register.unpack(data).items()}
        races, since = self.scoreboard.races, before[2]
        if leaf == "STATUS":
            races.told_closed(region, bool(got["closed"]), since)
        wrong = races.told_epoch(region, data, since) if leaf == "EPOCH" else None
        if wrong is not None:
            return wrong
        want = self.scoreboard.status.end(region, before[0])
        if leaf != "STATUS":
            self.scoreboard.compare_status(region, {leaf.lower(): data}, want)
            return None
        want["fallback"] = self._fallback_bits(before[1])[region]
        self.scoreboard.compare_status(region, got, want)
        return None

    def _ram_error(self, register: Register, data: int, _before: None) -> str | None:
        return self.scoreboard.ram.captured(register.unpack(data))

    # -- link ---------------------------------------------------------------------------------
    def _link_state(self, register: Register, data: int, _before: None) -> str | None:
        link = self.predictor.link
        state = register.unpack(data)
        if link is None or link.faulty:
            return None
        known = [value for name, value in state.items() if name != "RRSM" or not link.asked]
        return f"LINK_STATE is {state} on a link without faults" if any(known) else None

    def _link_errors(self) -> int:
        link = self.predictor.link
        return 0 if link is None else link.errors().low

    def link_armed(self, ones: int) -> None:
        """LINK_ERR_INFO was written."""

    def _link_error(self, register: Register, data: int, _before: int) -> str | None:
        link = self.predictor.link
        if link is None:
            return None
        value = register.unpack(data)
        possible = link.errors().high or link.faulty
        if value["VALID"] and not possible:
            return "LINK_ERR_INFO.VALID is 1, the link has had no error"
        if value["VALID"] and not value["KIND"]:
            return "LINK_ERR_INFO.KIND is 0 although an error is captured"
        return None


class _Anything:
    """A counter of which nothing is known: the link's, in a bench that does not watch it."""

    def begin(self) -> None:
        """A read begins."""

    def end(self, _before: None) -> Span:
        """Every value."""
        return Span(0, (1 << 32) - 1)
