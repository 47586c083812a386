# SPDX-License-Identifier: Apache-2.0
"""Prediction of register reads from the register bus: shadow descriptors, commits, status.

Only transfers seen on the pins come in here. Every register has a rule (`register_rules`), by which
every read is compared: with one value while nothing is in flight, else with what the race allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, M2SRwD
from models.commit_check import check_move
from models.control_window import LINE_OF_BYTES, OUT_OF_BAND, written_words
from models.nf_regs import REG_MAP
from models.parameters import DeviceParams
from models.regions import CommitCode, RegionConfig, is_partial
from models.register_map import (
    WORD_BYTES,
    WORD_MASK,
    Counts,
    Field,
    FieldAccess,
    Register,
    byte_mask,
)
from models.views import unpack_words
from verif.axi import Resp
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.link_state import LinkState
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit
from verif.scoreboard.ranges import Before, Cleared, Span
from verif.scoreboard.scoreboard import REGISTERS, Scoreboard

# IRQ_STATUS, IRQ_ENABLE and the interrupt pin (spec: controller §5, §7).
#
# Each bit of IRQ_STATUS is sticky: it is 1 if there was an event of its source since it was
# cleared. The pin is 1 while a bit is set that is enabled.


class Interrupts:
    """Sticky interrupt bits by name; each source returns least and most events since the start."""

    def __init__(
        self, status: Register, enable: Register, sources: Mapping[str, Callable[[], Span]]
    ) -> None:
        self.status = status
        self.enable = enable
        self.bits = {field.name: Cleared(sources[field.name]) for field in status.fields}
        self._enabled = enable.reset
        self._enabling: int | None = None
        """Value that is being written to IRQ_ENABLE."""

    # -- writes -------------------------------------------------------------------------------
    def _chosen(self, ones: int) -> list[Cleared]:
        return [bit for name, bit in self.bits.items() if self.status.field(name).extract(ones)]

    def clear_begin(self, ones: int) -> None:
        """Begin a write of IRQ_STATUS."""
        for bit in self._chosen(ones):
            bit.clear_begin()

    def clear_end(self, ones: int) -> None:
        """End a write of IRQ_STATUS."""
        for bit in self._chosen(ones):
            bit.clear_end()

    def enable_begin(self, data: int, lanes: int) -> None:
        """Begin a write of IRQ_ENABLE."""
        self._enabling = self.enable.stored(self._enabled, data, lanes)

    def enable_end(self) -> None:
        """End a write of IRQ_ENABLE."""
        if self._enabling is not None:
            self._enabled, self._enabling = self._enabling, None

    def reset(self) -> None:
        """Follow a reset of the device."""
        self._enabled, self._enabling = self.enable.reset, None
        for bit in self.bits.values():
            bit.reset()

    # -- reads --------------------------------------------------------------------------------
    def begin(self) -> dict[str, Before]:
        """Begin a read of IRQ_STATUS."""
        return {name: bit.begin() for name, bit in self.bits.items()}

    def check(self, data: int, before: Mapping[str, Before]) -> str | None:
        """Return the error in the value read, or None."""
        for name, bit in self.bits.items():
            events = bit.end(before[name])
            got = self.status.field(name).extract(data)
            if got not in (int(events.low > 0), int(events.high > 0)):
                return f"IRQ_STATUS.{name} is {got} after {events} such events"
        return None

    # -- the pin ------------------------------------------------------------------------------
    def pin(self) -> Span:
        """Return the expected range of the pin."""
        low = high = 0
        if not self._enabled | (self._enabling or 0):
            return Span(0, 0)
        for name, bit in self.bits.items():
            field = self.enable.field(name)
            on = [field.extract(self._enabled)]
            if self._enabling is not None:
                on.append(field.extract(self._enabling))
            events = bit.span()
            low |= events.low > 0 and all(on)
            high |= events.high > 0 and any(on)
        return Span(int(low), int(high))


# Which rule compares the read of which register; a register without one must not be read.
#
# A rule notes what is known when a read begins (`begin`), and says at its end what is wrong with
# the value (`end`). `UNCOMPARED` is the list of registers that nobody can predict, each with its
# reason.

LOOKUPS = ("SLOT_HIT", "SLOT_MISS")
ALL_LOOKUPS = "ENGINE"
LINK = REG_MAP.counters(Counts.LINK, Counts.RETRY)
SETTLED = 8
"""Clocks around a read within which a commit under way must show in STATUS.COMMIT_BUSY."""
UNCOMPARED: dict[str, str] = {}


class Rule(NamedTuple):
    """Check of a read: `end(register, data, that)` compares with the result of `begin(name)`."""

    begin: Callable[[str], Any]
    end: Callable[[Register, int, Any], str | None]


def own_value(register: Register) -> bool:
    """Return whether the hardware changes the register; a pulse reads 0 and does not count."""
    return any(one.volatile and one.access is not FieldAccess.PULSE for one in register.fields)


class Rules:
    """Read rule of each register, by its name without the number of the region."""

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
        """Report a wrong register."""
        self.scoreboard.error(text, key, checker=REGISTERS)

    # -- reads --------------------------------------------------------------------------------
    def begin(self, name: str) -> Any:
        """Begin a read."""
        rule = self._rule(name)
        return None if rule is None else rule.begin(name)

    def end(self, register: Register, data: int, before: Any) -> None:
        """End a read that returned `data`."""
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
        """Check a lookup counter: each lookup hits or misses, so neither count exceeds their
        number.
        """
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
        """Return whether a commit by AXI4-Lite is in progress that waits for no close through the
        window; with `tight` false, any commit.
        """
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
        """Follow an answered commit: reads well before must have returned COMMIT_BUSY."""
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
        return [region.begin() for region in self.scoreboard.fallback]

    def _fallback_bits(self, before: list[Before]) -> list[Span]:
        spans = [one.end(old) for one, old in zip(self.scoreboard.fallback, before, strict=True)]
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
        """Return whether a commit is in progress, which decides the refusals."""
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
    """Counter with an unknown value: the link's, in a bench that does not watch it."""

    def begin(self) -> None:
        """Begin a read."""

    def end(self, _before: None) -> Span:
        """Return the range of all values."""
        return Span(0, (1 << 32) - 1)


COUNTERS = REG_MAP.counters(Counts.ACCESS, Counts.SLOTS, Counts.RAM)
"""The event counters of the scoreboard, which stand still while nothing is in flight."""


@dataclass(frozen=True, slots=True)
class RegisterWrite:
    """Write of a register: its data, the mask of written bits, and the access that writes."""

    register: Register
    data: int
    lanes: int
    who: AxiLiteAccess | Op

    @property
    def name(self) -> str:
        return self.register.name

    @property
    def rule(self) -> str:
        """Return the name of the register without the number of a region: the key of
        `WriteRule`s.
        """
        return re.sub(r"\[\d+\]", "", self.register.name)

    @property
    def ones(self) -> int:
        """Return the written bits that are 1."""
        return self.data & self.lanes

    @property
    def in_band(self) -> bool:
        """Return whether the write came through the control window."""
        return isinstance(self.who, Op)

    def sets(self, field: str) -> bool:
        """Return whether the write has 1 in a field."""
        return bool(self.register.field(field).extract(self.ones))


class WriteRule(NamedTuple):
    """Effect of a write: `begin` when it is accepted, `end` when it is answered."""

    begin: Callable[[RegisterWrite], None] | None
    end: Callable[[RegisterWrite], None] | None


class RegisterPredictor:
    """Predictor of registers: follows writes and judges reads.

    Without `link` the link's registers are unknown.
    """

    def __init__(
        self, scoreboard: Scoreboard, params: DeviceParams, link: LinkState | None = None
    ) -> None:
        self.scoreboard = scoreboard
        self.regions = params.regions
        self.link = link
        self.by_name: dict[str, Register] = REG_MAP.expand(params)
        self.by_address = {register.address: register for register in self.by_name.values()}
        self.values = {name: register.reset for name, register in self.by_name.items()}
        self.before: dict[str, set[int]] = {}
        """Registers with a write under way: what they may have held before."""
        self.others: dict[str, set[int]] = {}
        """Other values that registers may hold, because writes of them raced."""
        self._writing: dict[str, list[bool]] = {}
        """Writes under way, by register: whether they came through the control window."""
        self._commits: dict[tuple[AxiLiteAccess | Op, str], Commit] = {}
        """Commits in flight, by the access that writes and the register."""
        scoreboard.control.connect(self._window_begins, self._window_ends)
        self.counters: dict[str, tuple[int, int]] = {}
        self.reads = 0
        self.interrupts = Interrupts(
            self.by_name["IRQ_STATUS"],
            self.by_name["IRQ_ENABLE"],
            {
                "DONE": scoreboard.status.times_done,
                "FALLBACK": self._fallbacks,
                "ACCESS_ERROR": lambda: self._sum("REFUSED", "UNMAPPED", "UNSUPPORTED"),
                "LINK_ERROR": lambda: link.errors() if link else Span(0, 1 << 32),
                "MEM_ERROR": scoreboard.memory.errors.span,
                "POISON": self._poison,
                "RAM_ERROR": scoreboard.ram.bad,
            },
        )
        self.link_counters = {
            name: Cleared(lambda name=name: link.span(name))  # type: ignore[misc]
            for name in REG_MAP.counters(Counts.LINK, Counts.RETRY)
            if link is not None
        }
        self.rules = Rules(self)
        self.writes = self._write_rules()

    def find(self, name: str) -> tuple[Register, Field | None]:
        """Return the register of "IRQ_STATUS" or "REGION[2].STATUS", and the field that may follow
        after a dot.

        KeyError if there is none.
        """
        if name in self.by_name:
            return self.by_name[name], None
        leaf, _, field = name.rpartition(".")
        if leaf not in self.by_name:
            raise KeyError(f"{name} is no register or field")
        return self.by_name[leaf], self.by_name[leaf].field(field)

    def field(self, name: str, field: str = "VALUE") -> int:
        """Return a field as last written."""
        return self.by_name[name].field(field).extract(self.values[name])

    def config(self, region: int) -> RegionConfig:
        """Return the descriptor in the shadow registers."""
        prefix = f"REGION[{region}]."
        leaves = {n.removeprefix(prefix): v for n, v in self.values.items() if n.startswith(prefix)}
        return RegionConfig.from_registers(leaves)

    @staticmethod
    def region_of(name: str) -> int:
        """Return the region number of a register."""
        return int(name[name.index("[") + 1 : name.index("]")])

    # -- sources of interrupts ----------------------------------------------------------------
    def _sum(self, *names: str) -> Span:
        spans = [self.scoreboard.events(name) for name in names]
        return Span(sum(span.low for span in spans), sum(span.high for span in spans))

    def _poison(self) -> Span:
        low, high = self.scoreboard.memory.poisoned.span()[:2]
        more = self._sum("POISON_RECEIVED")
        return Span(low + more.low, high + more.high)

    def _fallbacks(self) -> Span:
        return self.scoreboard.capacity.all_times(self.scoreboard.busy_regions())

    def reset(self) -> None:
        """Follow a reset of the device, with the scoreboard: registers have their reset values."""
        self.scoreboard.reset()
        self.values = {name: register.reset for name, register in self.by_name.items()}
        for known in (self.before, self.others, self._writing, self._commits, self.counters):
            known.clear()
        self.interrupts.reset()
        for counter in self.link_counters.values():
            counter.reset()
        if self.link is not None:
            self.link.reset()

    # -- accesses, as the monitor of the register bus publishes them --------------------------
    def begin(self, access: AxiLiteAccess) -> None:
        """Begin an access that the device has accepted; a write may take effect from now on."""
        register = self.by_address.get(access.address & ~3)
        if register is None:
            return
        if access.write:
            self._write_begins(register, access.data, byte_mask(access.strobe), access)
        else:
            access.since = self.rules.begin(register.name)

    def end(self, access: AxiLiteAccess) -> None:
        """End an access that the device has answered; a refused one has no effect and is not
        compared.
        """
        register = self.by_address.get(access.address & ~3)
        if register is None:
            if access.resp is not Resp.SLVERR or (not access.write and access.data):
                self.rules.report(
                    f"REGISTER address {access.address:#x} is none, answered {access.resp.name}",
                    "REGISTER: answer of an address that is no register",
                )
            return
        if access.resp is not Resp.OKAY:
            self.rules.report(
                f"REGISTER {register.name} answered {access.resp.name}",
                "REGISTER: answer of a register",
            )
        elif access.write:
            self._written(register, access.data, byte_mask(access.strobe), access)
        else:
            self.reads += 1
            self.rules.end(register, access.data, access.since)

    # -- the control window -------------------------------------------------------------------
    def _window_words(self, op: Op) -> list[tuple[Register, int]]:
        """Return the registers and words that a write through the window changes."""
        msg = op.msg
        assert isinstance(msg, M2SRwD)
        words = written_words(op.access.line, msg.data, msg.be if is_partial(msg) else BE_ALL)
        found = [(self.by_address.get(address), word) for address, word in sorted(words.items())]
        return [
            (register, word)
            for register, word in found
            if register is not None and register.name.rpartition(".")[2] not in OUT_OF_BAND
        ]

    def _window_registers(self, op: Op) -> list[Register | None]:
        first = op.access.line * LINE_OF_BYTES
        return [self.by_address.get(first + at) for at in range(0, LINE_OF_BYTES, WORD_BYTES)]

    def _window_begins(self, op: Op) -> None:
        """Begin a request to the control window."""
        if op.read:
            registers = self._window_registers(op)
            op.since = [None if one is None else self.rules.begin(one.name) for one in registers]
            return
        words = self._window_words(op)
        if words and "[" in words[0][0].name:
            op.since = self.config(self.region_of(words[0][0].name))
        for register, word in words:
            self._write_begins(register, word, WORD_MASK, op)

    def _window_ends(self, op: Op) -> None:
        """End a request to the control window."""
        if not op.read:
            for register, word in self._window_words(op):
                self._written(register, word, WORD_MASK, op)
            return
        if not isinstance(op.response, S2MDRS) or op.response.poison:
            return  # the comparison of responses tells it
        words = unpack_words(op.response.data)
        line = op.access.line
        for one, word, since in zip(self._window_registers(op), words, op.since, strict=True):
            if one is not None:
                self.reads += 1
                self.rules.end(one, word, since)
            elif word:
                self.rules.report(
                    f"REGISTER: {word:#x} in line {line:#x} of the window where there is none"
                )

    def _owner(self, region: int) -> int | None:
        name = f"REGION[{region}].OWNER_LD"
        return self.field(name, "LDID") if self.field(name, "VALID") else None

    def _managers_begin(self, write: RegisterWrite) -> None:
        control = self.scoreboard.model.control
        self.scoreboard.control.change_begin(replace(control, ld_mask=self.values[write.name]))

    def _owner_begins(self, _write: RegisterWrite) -> None:
        owners = tuple(self._owner(region) for region in range(self.regions))
        control = self.scoreboard.model.control
        self.scoreboard.control.change_begin(replace(control, owners=owners))

    def _window_changed(self, _write: RegisterWrite) -> None:
        self.scoreboard.control.change_end()

    def _move_begins(self, write: RegisterWrite) -> None:
        """Predict CTRL_WINDOW_LO, which reads the place of the window and the code of the move."""
        if not write.lanes:
            return
        scoreboard, register, name = self.scoreboard, write.register, write.name
        place = register.field("ADDR").mask & (self.values[name] & ~write.lanes | write.ones)
        place |= self.field("CTRL_WINDOW_HI", "ADDR") << 32
        regions = [config for config in scoreboard.configs if config is not None]
        code = check_move(scoreboard.model.params, place, regions)
        low = place & WORD_MASK if code is CommitCode.OK else self.values[name]
        self.values[name] = register.field("CODE").insert(low, code)
        if code is CommitCode.OK:
            scoreboard.control.change_begin(replace(scoreboard.model.control, base=place))

    # -- writes -------------------------------------------------------------------------------
    def _store_begins(self, register: Register, data: int, lanes: int, in_band: bool) -> None:
        """Record the possible values of a register from now on; writes through the window keep
        their order.
        """
        name = register.name
        old, others = self.values[name], self.others.get(name, set())
        self.values[name] = new = register.stored(old, data, lanes)
        later = {register.stored(one, data, lanes) for one in others}
        self.before.setdefault(name, set()).update({old}, others)
        writing = self._writing.setdefault(name, [])
        if (not in_band) in writing:  # either write may be the last
            later |= {old} | others
        self.others[name] = later - {new}
        writing.append(in_band)

    def _store_ends(self, name: str, in_band: bool) -> None:
        self._writing[name].remove(in_band)
        if not self._writing[name]:
            self.before.pop(name, None)

    def settled(self, name: str, value: int) -> None:
        """Record the value of a register that a read without a racing write has returned."""
        if self.others.get(name):
            self.values[name], self.others[name] = value, set()

    def _write_begins(
        self, register: Register, data: int, lanes: int, who: AxiLiteAccess | Op
    ) -> None:
        """Follow a write that was accepted; `who`: the access that writes."""
        write = RegisterWrite(register, data, lanes, who)
        self._store_begins(register, data, lanes, write.in_band)
        rule = self.writes.get(write.rule)
        if rule is not None and rule.begin is not None:
            rule.begin(write)

    def _written(self, register: Register, data: int, lanes: int, who: AxiLiteAccess | Op) -> None:
        """Follow a write that was answered: its effect is complete."""
        write = RegisterWrite(register, data, lanes, who)
        self._store_ends(register.name, write.in_band)
        rule = self.writes.get(write.rule)
        if rule is not None and rule.end is not None:
            rule.end(write)

    def _write_rules(self) -> dict[str, WriteRule]:
        """Return the effect of each write beyond the stored value, by `RegisterWrite.rule`."""
        interrupts = self.interrupts
        capacity = WriteRule(self._capacity_begins, self._capacity_ends)
        return {
            "REGION.EPOCH": WriteRule(self._epoch_begins, self._commit_ends),
            "REGION.CTRL": WriteRule(self._close_begins, self._commit_ends),
            "REGION.OWNER_LD": WriteRule(self._owner_begins, self._window_changed),
            "CTRL_LD_MASK": WriteRule(self._managers_begin, self._window_changed),
            "CTRL_WINDOW_LO": WriteRule(self._move_begins, self._window_changed),
            "FALLBACK": WriteRule(self._fallback_clears, self._fallback_cleared),
            "IRQ_STATUS": WriteRule(
                lambda write: interrupts.clear_begin(write.ones),
                lambda write: interrupts.clear_end(write.ones),
            ),
            "IRQ_ENABLE": WriteRule(
                lambda write: interrupts.enable_begin(write.data, write.lanes),
                lambda _write: interrupts.enable_end(),
            ),
            "CTRL": WriteRule(self._counters_clear, self._counters_cleared),
            "ERR_INFO": WriteRule(self._capture_arms, self._capture_armed),
            "RAS_INJECT": WriteRule(self._ram_flips, None),
            "DEVLOAD_THRESHOLD": WriteRule(self._thresholds_begin, self._thresholds_end),
            "CAP_WINDOW": capacity,
            "CAP_THRESHOLD": capacity,
        }

    # -- effects of writes --------------------------------------------------------------------
    def _epoch_begins(self, write: RegisterWrite) -> None:
        if not write.lanes:
            return
        region, scoreboard = self.region_of(write.name), self.scoreboard
        epoch = scoreboard.epochs.get(region, 0) & ~write.lanes | write.ones
        self._known(region)
        self._commit_begins(write, scoreboard.commit_begin(region, self.config(region), epoch))

    def _close_begins(self, write: RegisterWrite) -> None:
        if write.sets("CLOSE"):
            self._commit_begins(write, self.scoreboard.close_begin(self.region_of(write.name)))

    def _commit_begins(self, write: RegisterWrite, commit: Commit | None) -> None:
        """Follow a commit or a close, which may race with one from the other register port."""
        if commit is None:
            return
        region, who = self.region_of(write.name), write.who
        commit.in_band = write.in_band
        self._commits[who, write.name] = commit
        after = self.config(region)
        before = who.since if isinstance(who, Op) else after
        wrong = self.scoreboard.races.begun(region, commit, before, after)
        if wrong is not None:
            self.rules.report(wrong)

    def _commit_ends(self, write: RegisterWrite) -> None:
        commit = self._commits.pop((write.who, write.name), None)
        if commit is None:
            return
        strict = not commit.closes or self.link is None or not self.link.faulty
        self.scoreboard.commit_end(self.region_of(write.name), strict, commit)
        if not commit.in_band and not commit.closes:
            self.rules.committed()

    def _fallback_clears(self, write: RegisterWrite) -> None:
        self.scoreboard.devload.clear_fallback(write.ones)
        for flag in self._fallen(write.ones):
            flag.clear_begin()

    def _fallback_cleared(self, write: RegisterWrite) -> None:
        for flag in self._fallen(write.ones):
            flag.clear_end()

    def _fallen(self, ones: int) -> list[Cleared]:
        return [one for region, one in enumerate(self.scoreboard.fallback) if ones >> region & 1]

    def _counters_clear(self, write: RegisterWrite) -> None:
        if write.sets("CLEAR_COUNTERS"):
            self.scoreboard.clear_counters_begin()
            for counter in self.link_counters.values():
                counter.clear_begin()

    def _counters_cleared(self, write: RegisterWrite) -> None:
        if write.sets("CLEAR_COUNTERS"):
            self.scoreboard.clear_counters_end()
            self.counters.clear()  # earlier reads say nothing about later ones
            for counter in self.link_counters.values():
                counter.clear_end()

    def _capture_arms(self, write: RegisterWrite) -> None:
        if write.sets("VALID"):
            self.scoreboard.capture.arm_begin(self.scoreboard.now)

    def _capture_armed(self, write: RegisterWrite) -> None:
        if write.sets("VALID"):
            self.scoreboard.capture.arm_end()

    def _ram_flips(self, write: RegisterWrite) -> None:
        if write.sets("GO"):
            place = write.register.unpack(self.values[write.name])
            self.scoreboard.ram.injected(place["RAM"], place["ROW"])

    def _thresholds_begin(self, write: RegisterWrite) -> None:
        levels = [self.field(write.name, level) for level in ("OPTIMAL", "MODERATE", "SEVERE")]
        self.scoreboard.devload.thresholds_begin(*levels)

    def _thresholds_end(self, _write: RegisterWrite) -> None:
        self.scoreboard.devload.thresholds_end(self.scoreboard.now)

    def _capacity_begins(self, _write: RegisterWrite) -> None:
        scoreboard = self.scoreboard
        limits = self.field("CAP_WINDOW"), self.field("CAP_THRESHOLD")
        scoreboard.devload.set_capacity(*limits)
        scoreboard.capacity.change(*limits, quiet=scoreboard.waiting == 0)

    def _capacity_ends(self, _write: RegisterWrite) -> None:
        self.scoreboard.capacity.changed(quiet=self.scoreboard.waiting == 0)

    def _known(self, region: int) -> None:
        """Check that a commit uses known values: writes of the shadow registers may not race with
        it.
        """
        prefix = f"REGION[{region}]."
        shadow = REG_MAP.region_registers
        doubtful = [prefix + one.name for one in shadow if self.others.get(prefix + one.name)]
        if doubtful:
            self.rules.report(f"bench: commit while it is not known what {doubtful[0]} holds")

    # -- end of test --------------------------------------------------------------------------
    def finish(self) -> None:
        """Check that the counters were read after the last response."""
        scoreboard = self.scoreboard
        if region := scoreboard.races.unsettled():
            text = (
                f"bench: no read has told which of two commits of region {region[0]} was the last"
            )
            self.rules.report(text)
        fresh = {
            name: value for name, (now, value) in self.counters.items() if now == scoreboard.now
        }
        missing = [name for name in COUNTERS if name not in fresh]
        if missing:
            scoreboard.error(
                f"bench: counters not read at the end of the test: {', '.join(missing)}",
                "bench: counters not read",
            )
            return
        scoreboard.compare_counters(fresh)
