# SPDX-License-Identifier: Apache-2.0
"""Register model: pyuvm's register layer, built from the map that is generated from the RDL.

    regs = RegisterModel(HwParams.from_environment())
    regs.connect(agent.sequencer)
    code = await regs.read("REGION[2].STATUS.CODE")

What pyuvm 5.0.0 offers is used: blocks, registers, fields, a map with front-door access through an
adapter, and prediction of the mirror. Not used, because it is not implemented there: register
files (regions are registers named "REGION[2].STATUS"), back door, coverage, predictor component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyuvm import (
    uvm_access_e,
    uvm_endianness_e,
    uvm_reg,
    uvm_reg_adapter,
    uvm_reg_block,
    uvm_reg_bus_op,
    uvm_reg_field,
    uvm_sequencer,
    uvm_status_e,
)

from verif.regs.axil import Resp
from verif.regs.axil_agent import AxiLiteItem, AxiLiteSequence
from verif.regs.nf_reg_map import REG_MAP, Commit, Mode
from verif.regs.regmap import WORD_BYTES, Access, HwParams, Register, split_name

_UVM_ACCESS = {
    Access.RO: "RO",
    Access.RW: "RW",
    Access.W1C: "W1C",
    Access.PULSE: "WC",  # whatever is written, it reads 0
    Access.COMMIT: "RW",
}


LINE_BYTES = 64


class Descriptor(Protocol):
    """What a region's shadow registers hold; a device model's region configuration fits."""

    @property
    def base(self) -> int: ...  # byte address of the window, below 2^52
    @property
    def state_base(self) -> int: ...  # byte address of the backing area, below 2^52
    @property
    def lines_log2(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def mode(self) -> int: ...
    @property
    def tie_minus(self) -> bool: ...
    @property
    def strict(self) -> bool: ...
    @property
    def bind(self) -> bool: ...
    @property
    def threshold(self) -> int: ...
    @property
    def ld_mask(self) -> int: ...


@dataclass(frozen=True)
class RegionSettings:
    """A Descriptor for benches that do not use the device model."""

    base: int
    state_base: int
    lines_log2: int
    workers: int
    mode: Mode
    tie_minus: bool = False
    strict: bool = False
    bind: bool = False
    threshold: int = 1
    ld_mask: int = 0xFFFF


class RegisterError(Exception):
    """A register access was not answered with OKAY, or is not allowed."""


class AxiLiteAdapter(uvm_reg_adapter):
    """Turns register operations into items of the AXI4-Lite agent and back."""

    def __init__(self, name: str = "axil_adapter") -> None:
        super().__init__(name)
        self.parent_sequence = AxiLiteSequence("axil_access")

    def reg2bus(self, rw: uvm_reg_bus_op) -> AxiLiteItem:
        """Item for a register operation; always a whole word."""
        return AxiLiteItem(rw.kind is uvm_access_e.UVM_WRITE, rw.addr, rw.data)

    def bus2reg(self, bus_item: AxiLiteItem, rw: uvm_reg_bus_op) -> None:
        """Take data and status over from an answered item."""
        rw.data = bus_item.data
        okay = bus_item.resp is Resp.OKAY
        rw.status = uvm_status_e.UVM_IS_OK if okay else uvm_status_e.UVM_NOT_OK


class NfRegBlock(uvm_reg_block):
    """All registers of a device with the given parameters, in one little-endian map."""

    def __init__(self, params: HwParams, name: str = "nf_regs") -> None:
        super().__init__(name)
        self.by_name: dict[str, uvm_reg] = {}
        self.map = self.create_map(
            "axil", 0, WORD_BYTES, uvm_endianness_e.UVM_LITTLE_ENDIAN, byte_addressing=True
        )
        for register in REG_MAP.expand(params).values():
            self.by_name[register.name] = self._add(register)
        self.map.set_auto_predict(True)
        self.lock_model()
        self.reset()

    def _add(self, register: Register) -> uvm_reg:
        reg = uvm_reg(register.name, WORD_BYTES * 8)
        reg.configure(self)
        for f in register.fields:
            field = uvm_reg_field(f.name)
            field.configure(
                parent=reg,
                size=f.width,
                lsb_pos=f.lsb,
                access=_UVM_ACCESS[f.access],
                volatile=f.volatile,
                reset=f.reset,
                has_reset=True,
                is_rand=False,
                individually_accessible=False,
            )
        rights = "RO" if register.access is Access.RO else "RW"
        self.map.add_reg(reg, register.address, rights)
        return reg


class RegisterModel:
    """Access to the registers by name. Raises KeyError for a name that does not exist."""

    def __init__(self, params: HwParams | None = None) -> None:
        self.params = params or HwParams()
        self.registers = REG_MAP.expand(self.params)
        self.block = NfRegBlock(self.params)
        self.counters = tuple(name for name, reg in self.registers.items() if reg.is_counter)

    def connect(self, sequencer: uvm_sequencer) -> None:
        """Send accesses to the sequencer of an AxiLiteAgent."""
        self.block.map.set_sequencer(sequencer, AxiLiteAdapter())

    async def read(self, name: str) -> int:
        """Read a register ("IRQ_STATUS") or one field of it ("REGION[2].STATUS.CODE").

        Raises RegisterError when the answer is not OKAY.
        """
        register, field = split_name(name)
        status, value = await self._register(register).read()
        if status is not uvm_status_e.UVM_IS_OK:
            raise RegisterError(f"read of {name} was refused")
        if field is None:
            return int(value)
        return self.registers[register].field(field).extract(int(value))

    async def write(self, name: str, value: int) -> None:
        """Write a register, or one field with the others as the mirror has them (0 for W1C).

        Raises RegisterError when it is read-only or the answer is not OKAY, ValueError when the
        value does not fit.
        """
        register, field = split_name(name)
        reg = self._register(register)
        if self.registers[register].access is Access.RO:
            raise RegisterError(f"{register} is read-only")
        if field is None:
            if value < 0 or value >> (8 * WORD_BYTES):
                raise ValueError(f"{value:#x} does not fit register {register}")
            status = await reg.write(value)
        else:
            self.registers[register].field(field).insert(0, value)  # raises if it does not fit
            status = await reg.get_field_by_name(field).write(value)
        if status is not uvm_status_e.UVM_IS_OK:
            raise RegisterError(f"write of {name} was refused")
        self._saturate(register)

    def _saturate(self, name: str) -> None:
        """Bring the mirror of fields with a maximum to what the hardware has taken."""
        for f in self.registers[name].fields:
            field = self._register(name).get_field_by_name(f.name)
            if f.maximum is not None and field.get_mirrored_value() > f.maximum:
                field.predict(f.maximum)

    def mirrored(self, name: str) -> int:
        """Value that the model expects of the bits that the hardware does not change by itself."""
        register, field = split_name(name)
        reg = self._register(register)
        word = sum(
            f.get_mirrored_value() << f.get_lsb_pos()
            for f in reg.get_fields()
            if not f.is_volatile()
        )
        return word if field is None else self.registers[register].field(field).extract(word)

    def reset(self) -> None:
        """Set the mirror to the reset values: call it when the device was reset."""
        self.block.reset()

    def _register(self, name: str) -> uvm_reg:
        try:
            return self.block.by_name[name]
        except KeyError:
            raise KeyError(f"there is no register {name}") from None

    # ---- composed accesses ----------------------------------------------------------------------

    async def read_counters(self) -> dict[str, int]:
        """Read every event counter, in the order of the addresses (not in one clock)."""
        return {name: await self.read(name) for name in self.counters}

    async def clear_counters(self) -> None:
        """Clear every event counter."""
        await self.write("CTRL.CLEAR_COUNTERS", 1)

    async def commit_region(self, region: int, descriptor: Descriptor, epoch: int = 1) -> Commit:
        """Write a descriptor and commit it; returns the code of the commit (spec: controller §2).

        ValueError when a value does not fit its register.
        """
        await self.write_descriptor(region, descriptor)
        return await self.new_epoch(region, epoch)

    async def write_descriptor(self, region: int, descriptor: Descriptor) -> None:
        """Write the shadow registers of a region; nothing takes effect before `new_epoch`."""
        d = descriptor
        if d.base % LINE_BYTES or d.state_base % LINE_BYTES:
            raise ValueError("base and state_base are addresses of whole 64-byte lines")
        fields = self.registers[f"REGION[{region}].CONFIG"]
        config = fields.field("MODE").insert(0, int(d.mode))
        config = fields.field("TIE_MINUS").insert(config, int(d.tie_minus))
        config = fields.field("STRICT").insert(config, int(d.strict))
        config = fields.field("BIND").insert(config, int(d.bind))
        for name, value in (
            ("BASE_LO", d.base & 0xFFFF_FFFF),
            ("BASE_HI.ADDR", d.base >> 32),
            ("STATE_BASE_LO", d.state_base & 0xFFFF_FFFF),
            ("STATE_BASE_HI.ADDR", d.state_base >> 32),
            ("LINES_LOG2.VALUE", d.lines_log2),
            ("WORKERS.VALUE", d.workers),
            ("CONFIG", config),
            ("THRESHOLD.VALUE", d.threshold),
            ("LD_MASK.VALUE", d.ld_mask),
        ):
            await self.write(f"REGION[{region}].{name}", value)

    async def new_epoch(self, region: int, epoch: int) -> Commit:
        """Commit a region's shadow registers, which starts a round; returns the commit's code."""
        await self.write(f"REGION[{region}].EPOCH", epoch)
        code = Commit(await self.read(f"REGION[{region}].STATUS.CODE"))
        if code is not Commit.OK:
            await self.read(f"REGION[{region}].EPOCH")  # unchanged: bring the mirror back
        return code
