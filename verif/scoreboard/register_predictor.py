# SPDX-License-Identifier: Apache-2.0
"""Prediction of register reads from the register bus: shadow descriptors, commits, status.

Only transfers seen on the pins come in here. A read that returns while nothing is in flight is
compared with the model at once; one that races with traffic is only remembered.
"""

from __future__ import annotations

from models.nf_regs import REG_MAP
from models.parameters import DeviceParams
from models.regions import RegionConfig
from models.register_map import Counts, Field, Register, byte_mask
from verif.axi import Resp
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.scoreboard import Scoreboard

COUNTERS = REG_MAP.counters(Counts.ACCESS, Counts.SLOTS)
"""The event counters of the scoreboard, which stand still while nothing is in flight."""
IRQ_CHECKED = ("MEM_ERROR", "POISON")


class RegisterPredictor:
    """Follows the writes and judges the reads."""

    def __init__(self, scoreboard: Scoreboard, params: DeviceParams) -> None:
        self.scoreboard = scoreboard
        self.regions = params.regions
        self.by_name: dict[str, Register] = REG_MAP.expand(params)
        self.by_address = {register.address: register for register in self.by_name.values()}
        self.values = {name: register.reset for name, register in self.by_name.items()}
        self.counters: dict[str, tuple[int, int]] = {}
        self.reads = 0
        self._irq_base: dict[str, int | None] = dict.fromkeys(IRQ_CHECKED, 0)

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

    def _field(self, name: str, field: str = "VALUE") -> int:
        return self.by_name[name].field(field).extract(self.values[name])

    def config(self, region: int) -> RegionConfig:
        """The descriptor that stands in the shadow registers."""
        prefix = f"REGION[{region}]."
        leaves = {n.removeprefix(prefix): v for n, v in self.values.items() if n.startswith(prefix)}
        return RegionConfig.from_registers(leaves)

    @staticmethod
    def _region_of(name: str) -> int:
        return int(name[name.index("[") + 1 : name.index("]")])

    # -- accesses, as the monitor of the register bus publishes them --------------------------
    def begin(self, access: AxiLiteAccess) -> None:
        """The device has accepted an access; the effect of a write may come from now on."""
        access.since = self.scoreboard.now
        register = self.by_address.get(access.address & ~3)
        if not access.write or register is None:
            return
        name, lanes = register.name, byte_mask(access.strobe)
        if name.endswith(".EPOCH"):
            region = self._region_of(name)
            epoch = self.scoreboard.epochs.get(region, 0) & ~lanes | access.data & lanes
            self.scoreboard.commit_begin(region, self.config(region), epoch)
        elif name == "FALLBACK":
            self.scoreboard.devload.clear_fallback(access.data & lanes)

    def end(self, access: AxiLiteAccess) -> None:
        """The device has answered an access; one that is refused changes and tells nothing."""
        register = self.by_address.get(access.address & ~3)
        if access.resp is not Resp.OKAY or register is None:
            return
        if access.write:
            self._written(register, access.data, byte_mask(access.strobe))
        else:
            self._read(register, access.data, access.since)

    def _written(self, register: Register, data: int, lanes: int) -> None:
        """The effect of a write is complete."""
        name, scoreboard = register.name, self.scoreboard
        self.values[name] = register.stored(self.values[name], data, lanes)
        data &= lanes
        if name.endswith(".EPOCH"):
            scoreboard.commit_end(self._region_of(name))
        elif name == "CTRL":
            if register.field("CLEAR_COUNTERS").extract(data):
                scoreboard.clear_counters()
        elif name == "ERR_INFO" and register.field("VALID").extract(data):
            scoreboard.model.rearm_error()
        if name == "IRQ_STATUS":
            self._irq_cleared(register, data)
        if name == "DEVLOAD_THRESHOLD":
            levels = [self._field(name, field) for field in ("OPTIMAL", "MODERATE", "SEVERE")]
            scoreboard.devload.set_thresholds(scoreboard.now, *levels)
        elif name.startswith("CAP_"):
            scoreboard.devload.set_capacity(self._field("CAP_WINDOW"), self._field("CAP_THRESHOLD"))

    def _read(self, register: Register, data: int, since: int) -> None:
        """A read has returned `data`; it began when the scoreboard's clock stood at `since`."""
        self.reads += 1
        name, scoreboard = register.name, self.scoreboard
        quiet = scoreboard.waiting == 0 and scoreboard.now == since
        if name == "FALLBACK":
            scoreboard.devload.saw_fallback(scoreboard.now, data, self.regions)
        if not quiet:
            return
        if name in COUNTERS:
            self.counters[name] = (scoreboard.now, data)
            scoreboard.compare_counters({name: data})
        elif name == "DONE":
            for region in range(self.regions):
                scoreboard.compare_region(region, {"done": data >> region & 1})
        elif name.startswith("REGION["):
            self._read_region(register, data)
        elif name == "ERR_INFO":
            self._read_error(register, data)
        elif name == "IRQ_STATUS" and not scoreboard.quiescence.unjudged:
            self._read_irq(register, data)

    # -- interrupts ---------------------------------------------------------------------------
    def _irq_events(self, source: str) -> tuple[int, int]:
        """Least and most events of a source of the interrupt since the start."""
        memory = self.scoreboard.memory
        if source == "MEM_ERROR":
            return memory.errors, memory.errors
        low, high = self.scoreboard.poison_received()
        return memory.poisoned + low, memory.poisoned + high

    def _irq_cleared(self, register: Register, ones: int) -> None:
        """Bits were cleared; what is in flight may set them again before or after."""
        for source in IRQ_CHECKED:
            if register.field(source).extract(ones):
                low, high = self._irq_events(source)
                known = low == high and self.scoreboard.waiting == 0
                self._irq_base[source] = high if known else None

    def _read_irq(self, register: Register, data: int) -> None:
        """A sticky bit must be set exactly if there was an event since it was cleared."""
        for source, base in self._irq_base.items():
            got = register.field(source).extract(data)
            low, high = self._irq_events(source)
            if base is not None and not (low > base) <= got <= (high > base):
                self.scoreboard.error(
                    f"IRQ_STATUS.{source} is {got} after {high - base} such events"
                )

    def _read_region(self, register: Register, data: int) -> None:
        region = self._region_of(register.name)
        leaf = register.name.rpartition(".")[2]
        scoreboard = self.scoreboard
        if leaf == "STATUS":
            value = register.unpack(data)
            names = ("committed", "code", "done", "saturated", "illegal_seen")
            scoreboard.compare_region(region, {name: value[name.upper()] for name in names})
        elif leaf in ("COMPLETE_LINES", "EPOCH"):
            scoreboard.compare_region(region, {leaf.lower(): data})

    def _read_error(self, register: Register, data: int) -> None:
        """ERR_INFO must show the first refused access; which one that was is known if it is one."""
        scoreboard = self.scoreboard
        valid = register.field("VALID").extract(data)
        first = scoreboard.model.first_error
        if scoreboard.quiescence.unjudged:
            return
        if bool(valid) != (first is not None):
            scoreboard.error(
                f"ERR_INFO.VALID is {valid}, the model has {first}", "register ERR_INFO.VALID"
            )
        if first is None or not valid:
            return
        got = {name: value for name, value in register.unpack(data).items() if name != "VALID"}
        seen = [
            {
                "CAUSE": int(error.cause),
                "WRITE": int(error.write),
                "OPCODE": error.opcode,
                "LDID": error.ldid,
            }
            for error in (*scoreboard.model.refused, first)  # older than CLEAR_COUNTERS, perhaps
        ]
        if got not in seen:
            scoreboard.error(
                f"ERR_INFO shows {got}, expected one of {seen[:4]}", "register ERR_INFO"
            )

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
