# SPDX-License-Identifier: Apache-2.0
"""Prediction of register reads from the register bus: shadow descriptors, commits, status.

Only transfers seen on the pins come in here. Every register has a rule (`register_rules`), by which
every read is compared: with one value while nothing is in flight, else with what the race allows.
"""

from __future__ import annotations

from dataclasses import replace

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, M2SRwD
from models.commit_check import check_move
from models.control_window import LINE_OF_BYTES, OUT_OF_BAND, ControlWindow, written_words
from models.nf_regs import REG_MAP
from models.parameters import DeviceParams
from models.regions import CommitCode, RegionConfig, is_partial
from models.register_map import WORD_BYTES, WORD_MASK, Counts, Field, Register, byte_mask
from models.views import unpack_words
from verif.axi import Resp
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.interrupts import Interrupts
from verif.scoreboard.link_state import LinkState
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit
from verif.scoreboard.ranges import Cleared, Span
from verif.scoreboard.register_rules import Rules
from verif.scoreboard.scoreboard import Scoreboard

COUNTERS = REG_MAP.counters(Counts.ACCESS, Counts.SLOTS, Counts.RAM)
"""The event counters of the scoreboard, which stand still while nothing is in flight."""


class RegisterPredictor:
    """Follows the writes and judges the reads. Without a `link` its registers are not known."""

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
        """What registers may hold beside their value, because writes of them raced."""
        self._writing: dict[str, list[bool]] = {}
        """Writes under way, by register: whether they came through the control window."""
        self._commits: dict[tuple[AxiLiteAccess | Op, str], Commit] = {}
        """Commits in flight, by the access that writes and the register."""
        scoreboard.control.begin, scoreboard.control.end = self._window_begins, self._window_ends
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
        self.fallback = [self._fallback(region) for region in range(params.regions)]
        scoreboard.views.fallback = self.fallback
        self.rules = Rules(self)

    def find(self, name: str) -> tuple[Register, Field | None]:
        """The register of "IRQ_STATUS" or "REGION[2].STATUS", and a field that may follow after a
        dot; KeyError if there is none.
        """
        if name in self.by_name:
            return self.by_name[name], None
        leaf, _, field = name.rpartition(".")
        if leaf not in self.by_name:
            raise KeyError(f"{name} is no register or field")
        return self.by_name[leaf], self.by_name[leaf].field(field)

    def field(self, name: str, field: str = "VALUE") -> int:
        """A field as it was last written."""
        return self.by_name[name].field(field).extract(self.values[name])

    def config(self, region: int) -> RegionConfig:
        """The descriptor that stands in the shadow registers."""
        prefix = f"REGION[{region}]."
        leaves = {n.removeprefix(prefix): v for n, v in self.values.items() if n.startswith(prefix)}
        return RegionConfig.from_registers(leaves)

    @staticmethod
    def region_of(name: str) -> int:
        """Number of the region of a register."""
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
        return self.scoreboard.capacity.all_times(self.busy_regions())

    def _fallback(self, region: int) -> Cleared:
        capacity = self.scoreboard.capacity
        return Cleared(lambda: capacity.times(region, self.busy_regions()))

    def _fallen(self, ones: int) -> list[Cleared]:
        return [one for region, one in enumerate(self.fallback) if ones >> region & 1]

    def busy_regions(self) -> set[int]:
        """Regions with requests that are not judged yet."""
        ops = self.scoreboard.quiescence.ops()
        return {op.access.region for op in ops if op.access.region is not None}

    def reset(self) -> None:
        """Follow a reset of the device, with the scoreboard: registers have their reset values."""
        self.scoreboard.reset()
        self.values = {name: register.reset for name, register in self.by_name.items()}
        for known in (self.before, self.others, self._writing, self._commits, self.counters):
            known.clear()
        self.interrupts.reset()
        for counter in (*self.link_counters.values(), *self.fallback):
            counter.reset()
        if self.link is not None:
            self.link.reset()

    # -- accesses, as the monitor of the register bus publishes them --------------------------
    def begin(self, access: AxiLiteAccess) -> None:
        """The device has accepted an access; the effect of a write may come from now on."""
        register = self.by_address.get(access.address & ~3)
        if register is None:
            return
        if access.write:
            self._write_begins(register, access.data, byte_mask(access.strobe), access)
        else:
            access.since = self.rules.begin(register.name)

    def end(self, access: AxiLiteAccess) -> None:
        """The device has answered an access; one that is refused changes and tells nothing."""
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
        """Registers and words that a write through the window has for them."""
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
        """A request to the control window has come."""
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
        """It was answered."""
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

    def _changed_window(self, register: Register) -> ControlWindow | None:
        """The control window when the registers are as they are being written."""
        control, name = self.scoreboard.model.control, register.name
        if name == "CTRL_LD_MASK":
            return replace(control, ld_mask=self.values[name])
        if name.endswith(".OWNER_LD"):
            owners = [self._owner(region) for region in range(self.regions)]
            return replace(control, owners=tuple(owners))
        return None

    def _owner(self, region: int) -> int | None:
        name = f"REGION[{region}].OWNER_LD"
        return self.field(name, "LDID") if self.field(name, "VALID") else None

    def _move_begins(self, register: Register, data: int, lanes: int) -> None:
        """CTRL_WINDOW_LO is being written: its value tells where the window is, and the code."""
        scoreboard, name = self.scoreboard, register.name
        place = register.field("ADDR").mask & (self.values[name] & ~lanes | data & lanes)
        place |= self.field("CTRL_WINDOW_HI", "ADDR") << 32
        regions = [config for config in scoreboard.configs if config is not None]
        code = check_move(scoreboard.model.params, place, regions)
        low = place & WORD_MASK if code is CommitCode.OK else self.values[name]
        self.values[name] = register.field("CODE").insert(low, code)
        if code is CommitCode.OK:
            scoreboard.control.change_begin(replace(scoreboard.model.control, base=place))

    # -- writes -------------------------------------------------------------------------------
    def _store_begins(self, register: Register, data: int, lanes: int, in_band: bool) -> None:
        """What the register may hold from now on; writes of the window keep their order."""
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
        """A read that raced with no write has told what a register holds."""
        if self.others.get(name):
            self.values[name], self.others[name] = value, set()

    def _write_begins(
        self, register: Register, data: int, lanes: int, who: AxiLiteAccess | Op
    ) -> None:
        """A write was accepted; `who`: the access that writes."""
        name, scoreboard = register.name, self.scoreboard
        ones = data & lanes
        self._store_begins(register, data, lanes, isinstance(who, Op))
        changed = self._changed_window(register)
        if changed is not None:
            scoreboard.control.change_begin(changed)
        if name.endswith(".EPOCH") and lanes:
            region = self.region_of(name)
            epoch = scoreboard.epochs.get(region, 0) & ~lanes | ones
            self._known(region)
            commit = scoreboard.commit_begin(region, self.config(region), epoch)
            commit.in_band = isinstance(who, Op)
            self._commits[who, name] = commit
            self._races(region, commit, who)
        elif name.endswith("].CTRL"):
            region = self.region_of(name)
            closes = register.field("CLOSE").extract(ones)
            close = scoreboard.close_begin(region) if closes else None
            if close is not None:
                close.in_band = isinstance(who, Op)
                self._commits[who, name] = close
                self._races(region, close, who)
        elif name == "CTRL_WINDOW_LO" and lanes:
            self._move_begins(register, data, lanes)
        elif name == "FALLBACK":
            scoreboard.devload.clear_fallback(ones)
            for flag in self._fallen(ones):
                flag.clear_begin()
        elif name == "IRQ_STATUS":
            self.interrupts.clear_begin(ones)
        elif name == "IRQ_ENABLE":
            self.interrupts.enable_begin(data, lanes)
        elif name == "CTRL" and register.field("CLEAR_COUNTERS").extract(ones):
            scoreboard.clear_counters_begin()
            for counter in self.link_counters.values():
                counter.clear_begin()
        elif name == "ERR_INFO" and register.field("VALID").extract(ones):
            scoreboard.capture.arm_begin(scoreboard.now)
        elif name == "RAS_INJECT" and register.field("GO").extract(ones):
            place = register.unpack(self.values[name])
            scoreboard.ram.injected(place["RAM"], place["ROW"])
        elif name == "DEVLOAD_THRESHOLD":
            levels = [self.field(name, field) for field in ("OPTIMAL", "MODERATE", "SEVERE")]
            scoreboard.devload.thresholds_begin(*levels)
        elif name.startswith("CAP_"):
            limits = self.field("CAP_WINDOW"), self.field("CAP_THRESHOLD")
            scoreboard.devload.set_capacity(*limits)
            scoreboard.capacity.change(*limits, quiet=scoreboard.waiting == 0)

    def _races(self, region: int, commit: Commit, who: AxiLiteAccess | Op) -> None:
        """A commit or a close has begun, perhaps beside one of the other way to the registers."""
        after = self.config(region)
        before = who.since if isinstance(who, Op) else after
        wrong = self.scoreboard.races.begun(region, commit, before, after)
        if wrong is not None:
            self.rules.report(wrong)

    def _known(self, region: int) -> None:
        """What is committed must be known: writes of the shadow registers may not race with it."""
        prefix = f"REGION[{region}]."
        shadow = REG_MAP.region_registers
        doubtful = [prefix + one.name for one in shadow if self.others.get(prefix + one.name)]
        if doubtful:
            self.rules.report(f"bench: commit while it is not known what {doubtful[0]} holds")

    def _written(self, register: Register, data: int, lanes: int, who: AxiLiteAccess | Op) -> None:
        """The effect of a write is complete."""
        name, scoreboard = register.name, self.scoreboard
        self._store_ends(name, isinstance(who, Op))
        ones = data & lanes
        if name.endswith((".OWNER_LD", "CTRL_LD_MASK", "CTRL_WINDOW_LO")):
            scoreboard.control.change_end()
        commit = self._commits.pop((who, name), None)
        if commit is not None:
            strict = not commit.closes or self.link is None or not self.link.faulty
            scoreboard.commit_end(self.region_of(name), strict, commit)
            if not commit.in_band and not commit.closes:
                self.rules.committed()
        elif name == "FALLBACK":
            for flag in self._fallen(ones):
                flag.clear_end()
        elif name == "IRQ_STATUS":
            self.interrupts.clear_end(ones)
        elif name == "IRQ_ENABLE":
            self.interrupts.enable_end()
        elif name == "CTRL" and register.field("CLEAR_COUNTERS").extract(ones):
            scoreboard.clear_counters_end()
            self.counters.clear()  # what was read before says nothing of what is read now
            for counter in self.link_counters.values():
                counter.clear_end()
        elif name == "ERR_INFO" and register.field("VALID").extract(ones):
            scoreboard.capture.arm_end()
        elif name == "LINK_ERR_INFO":
            self.rules.link_armed(ones)
        elif name == "DEVLOAD_THRESHOLD":
            scoreboard.devload.thresholds_end(scoreboard.now)
        elif name.startswith("CAP_"):
            scoreboard.capacity.changed(quiet=scoreboard.waiting == 0)

    # -- end of test --------------------------------------------------------------------------
    def finish(self) -> None:
        """The counters must have been read after the last response."""
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
