# SPDX-License-Identifier: Apache-2.0
"""Prediction of register reads: shadow descriptors, commits, status, counters and interrupts.

Input are the accesses seen on the pins of the register bus and the requests to the control window.
Each register has a rule, which checks every read: against one value while nothing is in flight,
else against the values that the race allows.

The rules of reads and of writes are generators. They run to their `yield` when the device accepts
the access, and from there when it answers: local variables hold what was known at the start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, M2SRwD
from models.access_decode import is_partial
from models.commit_check import CommitCode, check_move
from models.control_window import LINE_OF_BYTES, OUT_OF_BAND, ControlWindow, written_words
from models.info_status_lines import unpack_words
from models.parameters import DeviceParams
from models.regions import RegionConfig
from models.register_map import REG_MAP
from models.register_types import (
    WORD_BYTES,
    WORD_MASK,
    Counts,
    Field,
    FieldAccess,
    Register,
    byte_mask,
)
from verif.axi import Resp
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.link_state import LinkState
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit
from verif.scoreboard.ranges import Before, Cleared, Span, exactly, total
from verif.scoreboard.scoreboard import REGISTERS, Scoreboard

# IRQ_STATUS, IRQ_ENABLE and the interrupt pin (spec: controller §5, §7).
#
# Each bit of IRQ_STATUS is sticky: it is 1 if there was an event of its source since it was
# cleared. The pin is 1 while a bit is set that is enabled.


class Interrupts:
    """Predictor of IRQ_STATUS, IRQ_ENABLE and the interrupt pin (spec: controller §5, §7).

    Args:
        status: Register IRQ_STATUS, whose bits are sticky.
        enable: Register IRQ_ENABLE.
        sources: By name of the bit, a function that returns the range of the number of its events
            since the start of the test.
    """

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

    def clear(self, ones: int) -> Iterator[None]:
        """Follow a write of IRQ_STATUS: its ones clear sticky bits at some time until the response.

        A generator: it runs to its `yield` when the write is accepted, and on when it is answered.
        """
        for bit in self._chosen(ones):
            bit.clear_begin()
        yield
        for bit in self._chosen(ones):
            bit.clear_end()

    def enable_bits(self, data: int, lanes: int) -> Iterator[None]:
        """Follow a write of IRQ_ENABLE: old or new bits are in force until the response.

        A generator: it runs to its `yield` when the write is accepted, and on when it is answered.

        Args:
            data: Word written.
            lanes: Mask of the bits that the strobes select.
        """
        self._enabling = self.enable.stored(self._enabled, data, lanes)
        yield
        if self._enabling is not None:
            self._enabled, self._enabling = self._enabling, None

    def reset(self) -> None:
        """Follow a reset of the device: IRQ_ENABLE has its reset value and no bit of IRQ_STATUS is
        set.
        """
        self._enabled, self._enabling = self.enable.reset, None
        for bit in self.bits.values():
            bit.reset()

    # -- reads --------------------------------------------------------------------------------
    def begin(self) -> dict[str, Before]:
        """Return the state that `check` needs of the begin of a read of IRQ_STATUS, by bit."""
        return {name: bit.begin() for name, bit in self.bits.items()}

    def check(self, data: int, before: Mapping[str, Before]) -> str | None:
        """Check the value that a read of IRQ_STATUS returned.

        Args:
            data: Value read.
            before: Result of `begin` when the read was accepted.

        Returns:
            Text of the finding, or None if each bit is possible.
        """
        for name, events in self.events(before).items():
            got = self.status.field(name).extract(data)
            if got not in raised(events):
                return f"IRQ_STATUS.{name} is {got} after {events} such events"
        return None

    def events(self, before: Mapping[str, Before]) -> dict[str, Span]:
        """Return the range of the number of events since the clear of each bit, for a read that
        ends now.
        """
        return {name: bit.end(before[name]) for name, bit in self.bits.items()}

    # -- the pin ------------------------------------------------------------------------------
    def pin(self) -> Span:
        """Return the range of levels that the interrupt pin may have now: 0..0, 0..1 or 1..1."""
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


def raised(events: Span) -> Span:
    """Return the range of a sticky flag, from that of the number of events that set it."""
    return Span(int(events.low > 0), int(events.high > 0))


LOOKUPS = ("SLOT_HIT", "SLOT_MISS")
ALL_LOOKUPS = "ENGINE"
SETTLED = 8
"""Clocks around a read within which a commit under way must show in STATUS.COMMIT_BUSY."""
Reading = Generator[None, int, str | None]
"""Check of one read: gets the data when the read ends, and returns its faults."""
Rule = Callable[[Register], Reading]


def own_value(register: Register) -> bool:
    """Return whether the hardware changes a field of the register; fields of access PULSE do not
    count.
    """
    return any(one.volatile and one.access is not FieldAccess.PULSE for one in register.fields)


_UNKNOWN = Cleared(lambda: Span(0, WORD_MASK))
"""Counter of the link in a bench that does not watch it."""


class Rules:
    """Rules of register reads: each checks the value that a read of its register returns.

    `rules` holds them by the name of the register without its region, `device` those of registers
    of the whole device, which come first.
    """

    def __init__(self, predictor: RegisterPredictor) -> None:
        self.predictor = predictor
        self.scoreboard = predictor.scoreboard
        self._committing: list[tuple[int, int, int]] = []
        """Reads of STATUS during a commit: begin, end, and value."""
        self._certain: dict[str, int] = {}
        """Bits of the register being judged that could have one value only, by field."""
        registers = (*REG_MAP.registers, *REG_MAP.region_registers)
        self.rules: dict[str, Rule] = {
            **{one.name: self._stored for one in registers if not own_value(one)},
            **dict.fromkeys(REG_MAP.counters(), self._counted),
            **dict.fromkeys(LOOKUPS, self._looked_up),
            **dict.fromkeys(("ERR_INFO", "ERR_ADDR_LO", "ERR_ADDR_HI", "ERR_TAG"), self._error),
            **dict.fromkeys(("STATUS", "COMPLETE_LINES", "EPOCH"), self._region),
        }
        self.device: dict[str, Rule] = {
            "CTRL_WINDOW_LO": self._stored,
            "STATUS": self._status,
            "IRQ_STATUS": self._irq,
            "DONE": self._done,
            "FALLBACK": self._fallback,
            "RAS_ERROR": self._ram_error,
            "LINK_STATE": self._link_state,
            "LINK_ERR_INFO": self._link_error,
        }

    def report(self, text: str, key: str = "") -> None:
        """Report a wrong register value to the scoreboard, as a finding of the checker
        "registers".
        """
        self.scoreboard.error(text, key, checker=REGISTERS)

    # -- reads --------------------------------------------------------------------------------
    def begin(self, register: Register) -> Reading | None:
        """Start the rule of a register when a read of it is accepted.

        Returns:
            The running rule, for `end`; None if the register has no rule.
        """
        name = register.name
        rule = self.device.get(name) or self.rules.get(name.rpartition(".")[2])
        if rule is None:
            return None
        reading = rule(register)
        next(reading)
        return reading

    def end(self, register: Register, data: int, reading: Reading | None) -> None:
        """Check a register read when it is answered, and report a wrong value.

        Bits that belong to no field must be 0.

        Args:
            register: Register that was read.
            data: Value read.
            reading: Result of `begin`; None is reported as an error of the testbench.
        """
        name = register.name
        if reading is None:
            self.report(f"bench: no rule compares register {name}")
            return
        try:
            reading.send(data)
        except StopIteration as judged:
            if judged.value is not None:
                self.report(judged.value, f"register {name.rpartition('.')[2]}")
        certain, self._certain = self._certain, {}
        self.scoreboard.observer.register_read(name, data, certain)
        if data & ~register.mask():
            text = f"REGISTER {name} reads {data:#x}, reserved bits are not 0"
            self.report(text, "REGISTER: reserved bits")

    def _expected(self, **fields: Span) -> None:
        """Note for the coverage which fields of the read could have one value only."""
        self._certain |= {
            name: -1 for name, span in fields.items() if span.low == span.high and not span.also
        }

    def _expected_bits(self, spans: list[Span]) -> None:
        """Note the bits of field VALUE that could have one value only, from bit 0 on."""
        self._certain["VALUE"] = ~sum((one.low < one.high) << bit for bit, one in enumerate(spans))

    # -- written by software ------------------------------------------------------------------
    def _stored(self, register: Register) -> Reading:
        predictor, name = self.predictor, register.name
        before = {predictor.values[name]} | predictor.others.get(name, set())
        earlier = predictor.before.get(name, set()).copy()  # of a write that may end meanwhile
        data = yield
        earlier |= predictor.before.get(name, set())
        later = predictor.others.get(name, set())
        allowed = before | {predictor.values[name]} | earlier | later
        if data not in allowed:
            return f"REGISTER {name} reads {data:#x}, expected {' or '.join(map(hex, allowed))}"
        self._expected(**{one.name: Span(min(allowed), max(allowed)) for one in register.fields})
        if not earlier and later == before - {predictor.values[name]}:
            predictor.settled(name, data)
        return None

    # -- counters -----------------------------------------------------------------------------
    def _counted(self, register: Register) -> Reading:
        name, scoreboard, link = register.name, self.scoreboard, self.predictor.link_counters
        counter = link.get(name) or scoreboard.counters.get(name, _UNKNOWN)
        before = counter.begin()
        data = yield
        want = counter.end(before)
        scoreboard.compare_counter(name, data, want)
        self._expected(VALUE=want)
        self.predictor.counters[name] = (scoreboard.now, data)
        return None

    def _looked_up(self, register: Register) -> Reading:
        """Check a read of SLOT_HIT or SLOT_MISS.

        Neither may exceed the number of engine operations. With nothing in flight their sum must be
        that number, and SLOT_MISS tells the capacity check how many contributions missed.
        """
        scoreboard = self.scoreboard
        since, lookups = scoreboard.now, scoreboard.counters[ALL_LOOKUPS]
        before = lookups.begin()
        data = yield
        scoreboard.compare_counter(register.name, data, Span(0, lookups.end(before).high))
        counters = self.predictor.counters
        counters[register.name] = (scoreboard.now, data)
        quiet = scoreboard.waiting == 0 and scoreboard.now == since
        if quiet and register.name == "SLOT_MISS":
            scoreboard.capacity.saw_misses(data)
        if quiet and all(counters.get(name, (-1, 0))[0] == since for name in LOOKUPS):
            self._expected(VALUE=exactly(data))
            scoreboard.compare_lookups(*(counters[name][1] for name in LOOKUPS))
        return None

    # -- the device ---------------------------------------------------------------------------
    def committing_now(self, tight: bool = True) -> bool:
        """Return whether a write of EPOCH is in progress, between its acceptance and its response.

        Args:
            tight: Count only commits by AXI4-Lite, and none while a close through the control
                window is in progress; False counts those through the window too.
        """
        judge = self.scoreboard.judge
        pending = (judge.pending(region) for region in range(self.predictor.regions))
        open_ = [one for commits in pending for one in commits if one.end < 0]
        if tight and any(one.closes and one.in_band for one in open_):
            return False
        return any(not (one.closes or (tight and one.in_band)) for one in open_)

    def _init_busy(self) -> Span:
        memory = self.scoreboard.memory
        low, high = memory.initialiser.busy()[:2]
        fresh = memory.initialised.span()
        pending = self._unsettled()
        return Span(0 if pending else low, int(high or pending or fresh.low < fresh.high))

    def _status(self, register: Register) -> Reading:
        scoreboard, link = self.scoreboard, self.predictor.link
        began, committing, initialising = (
            scoreboard.clock(),
            self.committing_now(),
            self._init_busy(),
        )
        commits = -1 if self.committing_now(tight=False) else scoreboard.status.commits
        data = yield
        value, now = register.unpack(data), self._init_busy()
        none = commits == scoreboard.status.commits  # nor one that ended within this read
        low, high = min(now.low, initialising.low), max(now.high, initialising.high)
        busy = Span(low, high if none else 1)
        if value["INIT_BUSY"] not in busy:
            return f"STATUS.INIT_BUSY is {value['INIT_BUSY']}, expected {busy}"
        committed = self.committing_now()
        free = none and not self.committing_now(tight=False)
        if value["COMMIT_BUSY"] and free:
            return "STATUS.COMMIT_BUSY is 1 without a commit"
        if committing and committed:
            self._committing.append((began, scoreboard.clock(), data))
        up = link is not None and not link.faulty and link.up
        if up and not value["LINK_UP"]:
            return "STATUS.LINK_UP is 0 although the link has initialised"
        self._expected(INIT_BUSY=busy, COMMIT_BUSY=Span(0, int(not free)), LINK_UP=Span(int(up), 1))
        return None

    def committed(self) -> None:
        """Check earlier reads of STATUS when a commit by AXI4-Lite is answered.

        A read that lay wholly within the commit, SETTLED cycles from its ends, must have returned
        COMMIT_BUSY = 1.
        """
        reads, self._committing = self._committing, []
        if not reads:
            return
        first, field = reads[0][0], self.predictor.by_name["STATUS"].field("COMMIT_BUSY")
        for began, ended, data in reads:
            # The first clocks bring the write to the registers, the last ones its response back.
            inside = began > first + SETTLED and ended < self.scoreboard.clock() - SETTLED
            if inside and not field.extract(data):
                self.report("register STATUS.COMMIT_BUSY is 0 during a commit")
            elif inside:
                self.scoreboard.observer.register_read("STATUS", data, {"COMMIT_BUSY": -1})

    def _irq(self, _register: Register) -> Reading:
        interrupts = self.predictor.interrupts
        before = interrupts.begin()
        data = yield
        self._expected(**{one: raised(n) for one, n in interrupts.events(before).items()})
        return interrupts.check(data, before)

    def _fallback_bits(self, before: list[Before]) -> list[Span]:
        both = zip(self.scoreboard.fallback, before, strict=True)
        return [raised(one.end(old)) for one, old in both]

    def _fallback(self, _register: Register) -> Reading:
        scoreboard = self.scoreboard
        before = [region.begin() for region in scoreboard.fallback]
        calm = scoreboard.devload.fallback_begin()
        data = yield
        scoreboard.devload.saw_fallback(scoreboard.now, data, self.predictor.regions, calm)
        bits = self._fallback_bits(before)
        self._expected_bits(bits)
        for region, want in enumerate(bits):
            if data >> region & 1 not in want:
                return f"FALLBACK of region {region} is {data >> region & 1}, expected {want}"
        return None

    def _unsettled(self) -> bool:
        """Return whether a commit or close of any region is pending, so that refusals are not yet
        known.
        """
        regions = range(self.predictor.regions)
        return any(self.scoreboard.judge.pending(region) for region in regions)

    def _error(self, register: Register) -> Reading:
        capture, unsettled = self.scoreboard.capture, self._unsettled()
        before = capture.begin(self.scoreboard.now)
        data = yield
        if unsettled or self._unsettled():
            return None
        wrong = capture.check(register.name, register.unpack(data), before)
        self._expected(**dict.fromkeys(capture.certain, exactly(0)))
        return wrong

    # -- regions ------------------------------------------------------------------------------
    def _done(self, _register: Register) -> Reading:
        scoreboard = self.scoreboard
        before = [scoreboard.status.begin(region) for region in range(self.predictor.regions)]
        data = yield
        wants = [scoreboard.status.end(region, glimpse) for region, glimpse in enumerate(before)]
        self._expected_bits([want["done"] for want in wants])
        for region, want in enumerate(wants):
            scoreboard.compare_status(region, {"done": data >> region & 1}, want)
        return None

    def _region(self, register: Register) -> Reading:
        scoreboard, races, since = self.scoreboard, self.scoreboard.races, self.scoreboard.now
        region, leaf = self.predictor.region_of(register.name), register.name.rpartition(".")[2]
        before = scoreboard.status.begin(region)
        fallback = [one.begin() for one in scoreboard.fallback]
        data = yield
        got = {leaf.lower(): data}
        if leaf == "STATUS":
            got = {name.lower(): value for name, value in register.unpack(data).items()}
            races.told_closed(region, bool(got["closed"]), since)
        wrong = races.told_epoch(region, data, since) if leaf == "EPOCH" else None
        if wrong is not None:
            return wrong
        want = scoreboard.status.end(region, before)
        want["fallback"] = self._fallback_bits(fallback)[region]
        self._expected(**{"VALUE" if leaf != "STATUS" else n.upper(): want[n] for n in got})
        scoreboard.compare_status(region, got, want)
        return None

    def _ram_error(self, register: Register) -> Reading:
        return self.scoreboard.ram.captured(register.unpack((yield)))

    # -- link ---------------------------------------------------------------------------------
    def _link_state(self, register: Register) -> Reading:
        state, link = register.unpack((yield)), self.predictor.link
        if link is None or link.faulty:
            return None
        known = {name: value for name, value in state.items() if name != "RRSM" or not link.asked}
        self._expected(**dict.fromkeys(known, exactly(0)))
        return f"LINK_STATE is {state} on a link without faults" if any(known.values()) else None

    def _link_error(self, register: Register) -> Reading:
        value, link = register.unpack((yield)), self.predictor.link
        if link is None:
            return None
        if not (link.errors().high or link.faulty):
            self._expected(**dict.fromkeys(value, exactly(0)))
            wrong = f"LINK_ERR_INFO is {value}, the link has had no error"
            return wrong if any(value.values()) else None
        wrong = "LINK_ERR_INFO.KIND is 0 although an error is captured"
        return wrong if value["VALID"] and not value["KIND"] else None


COUNTERS = REG_MAP.counters(Counts.ACCESS, Counts.SLOTS, Counts.RAM)
"""The event counters of the scoreboard, which stand still while nothing is in flight."""


@dataclass(frozen=True, slots=True)
class RegisterWrite:
    """Write of a register by AXI4-Lite or through the control window.

    Attributes:
        register: Register that is written.
        data: Word written.
        lanes: Mask of the bits that the strobes select.
        who: Access on the register bus, or request on the link, that writes.
    """

    register: Register
    data: int
    lanes: int
    who: AxiLiteAccess | Op

    @property
    def name(self) -> str:
        return self.register.name

    @property
    def ones(self) -> int:
        """Return the written bits that are 1, as a mask."""
        return self.data & self.lanes

    @property
    def in_band(self) -> bool:
        """Return whether the write came over the link, through the control window."""
        return isinstance(self.who, Op)

    def sets(self, field: str) -> bool:
        """Return whether the write has a bit that is 1 in the named field."""
        return bool(self.register.field(field).extract(self.ones))


WriteRule = Callable[[RegisterWrite], Iterator[None]]
"""Effect of a write beyond the stored value."""


class RegisterPredictor:
    """Predictor of register values: follows writes on the register bus and in the control window,
    and checks every read.

    Args:
        scoreboard: Receives commits, clears and findings.
        params: Parameters of the device.
        link: Predicted link state; without it the registers of the link are not checked.
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
        self._effects: dict[tuple[AxiLiteAccess | Op, str], Iterator[None]] = {}
        """Effects of writes in flight, by the access that writes and the register."""
        scoreboard.control.connect(self._window_begins, self._window_ends)
        self.counters: dict[str, tuple[int, int]] = {}
        self.reads = 0
        self.interrupts = Interrupts(
            self.by_name["IRQ_STATUS"],
            self.by_name["IRQ_ENABLE"],
            {
                "DONE": scoreboard.status.times_done,
                "FALLBACK": self._fallbacks,
                "ACCESS_ERROR": self._refusals,
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
        """Return the register of a name such as "IRQ_STATUS" or "REGION[2].STATUS", and its field.

        Args:
            name: Name of a register, or of a field after the register and a dot.

        Returns:
            The register, and the field or None if the name has none.

        Raises:
            KeyError: There is no such register or field.
        """
        if name in self.by_name:
            return self.by_name[name], None
        leaf, _, field = name.rpartition(".")
        if leaf not in self.by_name:
            raise KeyError(f"{name} is no register or field")
        return self.by_name[leaf], self.by_name[leaf].field(field)

    def field(self, name: str, field: str = "VALUE") -> int:
        """Return the value of a field that software has written last (reset value without a write).

        Args:
            name: Name of the register, with its region.
            field: Name of the field.
        """
        return self.by_name[name].field(field).extract(self.values[name])

    def config(self, region: int) -> RegionConfig:
        """Return the descriptor that the shadow registers of a region hold; it need not be
        committed.
        """
        prefix = f"REGION[{region}]."
        leaves = {n.removeprefix(prefix): v for n, v in self.values.items() if n.startswith(prefix)}
        return RegionConfig.from_registers(leaves)

    @staticmethod
    def region_of(name: str) -> int:
        """Return the region number in the name of a register: 2 for "REGION[2].STATUS"."""
        return int(name[name.index("[") + 1 : name.index("]")])

    # -- sources of interrupts ----------------------------------------------------------------
    def _refusals(self) -> Span:
        return total(map(self.scoreboard.events, ("REFUSED", "UNMAPPED", "UNSUPPORTED")))

    def _poison(self) -> Span:
        scoreboard = self.scoreboard
        return total((scoreboard.memory.poisoned.span(), scoreboard.events("POISON_RECEIVED")))

    def _fallbacks(self) -> Span:
        scoreboard, busy = self.scoreboard, self.scoreboard.busy_regions()
        return total(scoreboard.capacity.times(region, busy) for region in range(self.regions))

    def reset(self) -> None:
        """Follow a reset of the device: reset the scoreboard, and give all registers their reset
        values.
        """
        self.scoreboard.reset()
        self.values = {name: register.reset for name, register in self.by_name.items()}
        for known in (self.before, self.others, self._writing, self._effects, self.counters):
            known.clear()
        self.interrupts.reset()
        for counter in self.link_counters.values():
            counter.reset()
        if self.link is not None:
            self.link.reset()

    # -- accesses, as the monitor of the register bus publishes them --------------------------
    def begin(self, access: AxiLiteAccess) -> None:
        """Record an access on the register bus that the device has accepted.

        A write may take effect from now on; a read starts the rule of its register. An address
        without a register is ignored until `end`.
        """
        register = self.by_address.get(access.address & ~3)
        if register is None:
            return
        if access.write:
            self._write_begins(register, access.data, byte_mask(access.strobe), access)
        else:
            access.since = self.rules.begin(register)

    def end(self, access: AxiLiteAccess) -> None:
        """Record the response to an access on the register bus, and check it.

        A register must answer OKAY, another address SLVERR with read data 0. The value of a read is
        compared by the rule of the register.
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
            self._written(register, access)
        else:
            self.reads += 1
            self.rules.end(register, access.data, access.since)

    # -- the control window -------------------------------------------------------------------
    def _window_words(self, op: Op) -> list[tuple[Register, int]]:
        """Return the registers, with the word for each, that a write to the control window changes.

        Registers that only AXI4-Lite may write (OUT_OF_BAND) are left out.
        """
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
        """Record a request to the control window when it arrives.

        A read starts the rule of each register in its line; a write starts the effect of each word.
        """
        if op.read:
            registers = self._window_registers(op)
            op.since = [None if one is None else self.rules.begin(one) for one in registers]
            return
        words = self._window_words(op)
        if words and "[" in words[0][0].name:
            op.since = self.config(self.region_of(words[0][0].name))
        for register, word in words:
            self._write_begins(register, word, WORD_MASK, op)

    def _window_ends(self, op: Op) -> None:
        """Record the response to a request to the control window.

        Each word of a read is compared by the rule of its register, or with 0 where there is none.
        """
        if not op.read:
            for register, _ in self._window_words(op):
                self._written(register, op)
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

    def _managers(self, write: RegisterWrite) -> Iterator[None]:
        window = self.scoreboard.model.control
        return self._window(replace(window, ld_mask=self.values[write.name]))

    def _owners(self, _write: RegisterWrite) -> Iterator[None]:
        owners = tuple(self._owner(region) for region in range(self.regions))
        return self._window(replace(self.scoreboard.model.control, owners=owners))

    def _window(self, window: ControlWindow) -> Iterator[None]:
        self.scoreboard.control.change_begin(window)
        yield
        self.scoreboard.control.change_end()

    def _move(self, write: RegisterWrite) -> Iterator[None]:
        """Follow a write of CTRL_WINDOW_LO, which moves the control window; a generator (see
        module).

        The register then reads the place of the window with the code of the move in CODE. A refused
        move leaves the place as it was.
        """
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
            yield from self._window(replace(scoreboard.model.control, base=place))

    # -- writes -------------------------------------------------------------------------------
    def _store_begins(self, register: Register, data: int, lanes: int, in_band: bool) -> None:
        """Record the values that a register may hold once a write of it is accepted.

        Writes through the control window keep their order among each other; a write that overlaps
        one from the other port may be the earlier or the later one.

        Args:
            register: Register that is written.
            data: Word written.
            lanes: Mask of the written bits.
            in_band: Whether the write comes through the control window.
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
        """Record the value that a read returned as the only one that the register may hold.

        Called after a read without a racing write; ends the doubt that racing writes left.
        """
        if self.others.get(name):
            self.values[name], self.others[name] = value, set()

    def _write_begins(
        self, register: Register, data: int, lanes: int, who: AxiLiteAccess | Op
    ) -> None:
        """Record the acceptance of a write of a register and start its effect.

        Args:
            register: Register that is written.
            data: Word written.
            lanes: Mask of the written bits.
            who: Access on the register bus, or request on the link, that writes.
        """
        write = RegisterWrite(register, data, lanes, who)
        self._store_begins(register, data, lanes, write.in_band)
        rule = self.writes.get(re.sub(r"\[\d+\]", "", register.name))
        if rule is not None:
            effect = self._effects[who, register.name] = rule(write)
            next(effect, None)

    def _written(self, register: Register, who: AxiLiteAccess | Op) -> None:
        """Record the response to a write of a register: its effect is complete."""
        self._store_ends(register.name, isinstance(who, Op))
        next(self._effects.pop((who, register.name), iter(())), None)

    def _write_rules(self) -> dict[str, WriteRule]:
        """Return the effects of writes beyond the stored value, by name of the register.

        A name has no region number ("REGION.EPOCH"); each effect is a generator (see module).
        """
        return {
            "REGION.EPOCH": self._epoch,
            "REGION.CTRL": self._close,
            "REGION.OWNER_LD": self._owners,
            "CTRL_LD_MASK": self._managers,
            "CTRL_WINDOW_LO": self._move,
            "FALLBACK": self._fallback,
            "IRQ_STATUS": lambda write: self.interrupts.clear(write.ones),
            "IRQ_ENABLE": lambda write: self.interrupts.enable_bits(write.data, write.lanes),
            "CTRL": self._counters_cleared,
            "ERR_INFO": self._capture_armed,
            "RAS_INJECT": self._ram_flipped,
            "DEVLOAD_THRESHOLD": self._thresholds,
            "CAP_WINDOW": self._capacity,
            "CAP_THRESHOLD": self._capacity,
        }

    # -- effects of writes --------------------------------------------------------------------
    def _epoch(self, write: RegisterWrite) -> Iterator[None]:
        if not write.lanes:
            return
        region, scoreboard = self.region_of(write.name), self.scoreboard
        epoch = scoreboard.epochs.get(region, 0) & ~write.lanes | write.ones
        self._known(region)
        commit = scoreboard.commit_begin(region, self.config(region), epoch)
        yield from self._commit(write, region, commit)

    def _close(self, write: RegisterWrite) -> Iterator[None]:
        region = self.region_of(write.name)
        commit = self.scoreboard.close_begin(region) if write.sets("CLOSE") else None
        if commit is not None:
            yield from self._commit(write, region, commit)

    def _commit(self, write: RegisterWrite, region: int, commit: Commit) -> Iterator[None]:
        """Follow a commit or a close between acceptance and response; a generator (see module).

        A race with one from the other register port is recorded in `Scoreboard.races`.
        """
        who, after = write.who, self.config(region)
        commit.in_band = write.in_band
        before = who.since if isinstance(who, Op) else after
        wrong = self.scoreboard.races.begun(region, commit, before, after)
        if wrong is not None:
            self.rules.report(wrong)
        yield
        strict = not commit.closes or self.link is None or not self.link.faulty
        self.scoreboard.commit_end(region, strict, commit)
        if not commit.in_band and not commit.closes:
            self.rules.committed()

    def _fallback(self, write: RegisterWrite) -> Iterator[None]:
        flags = [one for at, one in enumerate(self.scoreboard.fallback) if write.ones >> at & 1]
        self.scoreboard.devload.clear_fallback(write.ones)
        for flag in flags:
            flag.clear_begin()
        yield
        for flag in flags:
            flag.clear_end()

    def _counters_cleared(self, write: RegisterWrite) -> Iterator[None]:
        if not write.sets("CLEAR_COUNTERS"):
            return
        self.scoreboard.clear_counters_begin()
        for counter in self.link_counters.values():
            counter.clear_begin()
        yield
        self.scoreboard.clear_counters_end()
        self.counters.clear()  # earlier reads say nothing about later ones
        for counter in self.link_counters.values():
            counter.clear_end()

    def _capture_armed(self, write: RegisterWrite) -> Iterator[None]:
        if write.sets("VALID"):
            self.scoreboard.capture.arm_begin(self.scoreboard.now)
            yield
            self.scoreboard.capture.arm_end()

    def _ram_flipped(self, write: RegisterWrite) -> Iterator[None]:
        if write.sets("GO"):
            place = write.register.unpack(self.values[write.name])
            self.scoreboard.ram.injected(place["RAM"], place["ROW"])
        yield

    def _thresholds(self, write: RegisterWrite) -> Iterator[None]:
        levels = [self.field(write.name, level) for level in ("OPTIMAL", "MODERATE", "SEVERE")]
        self.scoreboard.devload.thresholds_begin(*levels)
        yield
        self.scoreboard.devload.thresholds_end(self.scoreboard.now)

    def _capacity(self, _write: RegisterWrite) -> Iterator[None]:
        scoreboard = self.scoreboard
        limits = self.field("CAP_WINDOW"), self.field("CAP_THRESHOLD")
        scoreboard.devload.set_capacity(*limits)
        scoreboard.capacity.change(*limits, quiet=scoreboard.waiting == 0)
        yield
        scoreboard.capacity.changed(quiet=scoreboard.waiting == 0)

    def _known(self, region: int) -> None:
        """Report an error of the testbench if a commit uses shadow registers whose value is
        unknown.

        It is unknown after racing writes that no read has settled.
        """
        prefix = f"REGION[{region}]."
        shadow = REG_MAP.region_registers
        doubtful = [prefix + one.name for one in shadow if self.others.get(prefix + one.name)]
        if doubtful:
            self.rules.report(f"bench: commit while it is not known what {doubtful[0]} holds")

    # -- end of test --------------------------------------------------------------------------
    def finish(self) -> None:
        """Check the counters at the end of a test, with the values of the last reads.

        Each counter of COUNTERS must have been read after the last event on the link, and no race
        of commits may be unsettled; else an error of the testbench is reported.
        """
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
