# SPDX-License-Identifier: Apache-2.0
"""Prediction of register reads from the register bus: shadow descriptors, commits, status.

Only transfers seen on the pins come in here. Every register has a rule (`register_rules`), by which
every read is compared: with one value while nothing is in flight, else with what the race allows.
"""

from __future__ import annotations

from models.nf_regs import REG_MAP
from models.parameters import DeviceParams
from models.regions import RegionConfig
from models.register_map import Counts, Field, Register, byte_mask
from verif.axi import Resp
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.devload import DevLoadRule
from verif.scoreboard.interrupts import Interrupts
from verif.scoreboard.link_state import LinkState
from verif.scoreboard.ranges import Cleared, Span
from verif.scoreboard.register_rules import Rules
from verif.scoreboard.scoreboard import RESET_CAPACITY, Scoreboard

COUNTERS = REG_MAP.counters(Counts.ACCESS, Counts.SLOTS)
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
        self.before: dict[str, int] = {}
        """Registers with a write under way: what they held before."""
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
            },
        )
        self.link_counters = {
            name: Cleared(lambda name=name: link.span(name))  # type: ignore[misc]
            for name in REG_MAP.counters(Counts.LINK, Counts.RETRY)
            if link is not None
        }
        self.fallback = [self._fallback(region) for region in range(params.regions)]
        scoreboard.views.fallback = self.fallback
        self._closing: set[int] = set()
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
        """The device was reset: its registers have their reset values."""
        scoreboard = self.scoreboard
        self.values = {name: register.reset for name, register in self.by_name.items()}
        self.before.clear()
        self.counters.clear()
        self.interrupts.reset()
        kept = (*scoreboard.counters.values(), *self.link_counters.values(), *self.fallback)
        for counter in kept:
            counter.reset()
        scoreboard.capture = type(scoreboard.capture)()
        scoreboard.devload = DevLoadRule()
        scoreboard.capacity.reset(*RESET_CAPACITY)
        if self.link is not None:
            self.link.reset()

    # -- accesses, as the monitor of the register bus publishes them --------------------------
    def begin(self, access: AxiLiteAccess) -> None:
        """The device has accepted an access; the effect of a write may come from now on."""
        register = self.by_address.get(access.address & ~3)
        if register is None:
            return
        if access.write:
            self._write_begins(register, access.data, byte_mask(access.strobe))
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
            self._written(register, access.data, byte_mask(access.strobe))
        else:
            self.reads += 1
            self.rules.end(register, access.data, access.since)

    def _write_begins(self, register: Register, data: int, lanes: int) -> None:
        """A write was accepted."""
        name, scoreboard = register.name, self.scoreboard
        old, ones = self.values[name], data & lanes
        self.before[name] = old
        self.values[name] = register.stored(old, data, lanes)
        if name.endswith(".EPOCH") and lanes:
            region = self.region_of(name)
            epoch = scoreboard.epochs.get(region, 0) & ~lanes | ones
            scoreboard.commit_begin(region, self.config(region), epoch)
        elif name.endswith("].CTRL"):
            region = self.region_of(name)
            if register.field("CLOSE").extract(ones) and scoreboard.close_begin(region):
                self._closing.add(region)
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
        elif name == "DEVLOAD_THRESHOLD":
            levels = [self.field(name, field) for field in ("OPTIMAL", "MODERATE", "SEVERE")]
            scoreboard.devload.thresholds_begin(*levels)
        elif name.startswith("CAP_"):
            limits = self.field("CAP_WINDOW"), self.field("CAP_THRESHOLD")
            scoreboard.devload.set_capacity(*limits)
            scoreboard.capacity.change(*limits, quiet=scoreboard.waiting == 0)

    def _written(self, register: Register, data: int, lanes: int) -> None:
        """The effect of a write is complete."""
        name, scoreboard = register.name, self.scoreboard
        self.before.pop(name, None)
        ones = data & lanes
        if name.endswith(".EPOCH") and lanes:
            scoreboard.commit_end(self.region_of(name))
            self.rules.committed()
        elif name.endswith("].CTRL") and self.region_of(name) in self._closing:
            self._closing.discard(self.region_of(name))
            link = self.link
            scoreboard.commit_end(self.region_of(name), link is None or not link.faulty)
        elif name == "FALLBACK":
            for flag in self._fallen(ones):
                flag.clear_end()
        elif name == "IRQ_STATUS":
            self.interrupts.clear_end(ones)
        elif name == "IRQ_ENABLE":
            self.interrupts.enable_end()
        elif name == "CTRL" and register.field("CLEAR_COUNTERS").extract(ones):
            scoreboard.clear_counters_end()
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
