# SPDX-License-Identifier: Apache-2.0
"""Checks of a device's registers against the map, for any bench with an AXI4-Lite port."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from models.register_map import WORD_BYTES, WORD_MASK, FieldAccess, Register, byte_mask
from verif.axi import Resp
from verif.regs.axil import AxiLitePort

ADDRESS_SPACE = 1 << 12
PATTERNS = (0xFFFF_FFFF, 0x0000_0000, 0xAAAA_AAAA, 0x5555_5555, 0x0F1E_2D3C, 0xDEAD_BEEF)


class RegisterChecks:
    """Checks of the registers at a port. Each ends with the reset values, or with an AssertionError
    at the first difference."""

    def __init__(
        self, port: AxiLitePort, registers: Mapping[str, Register], rng: random.Random
    ) -> None:
        self.port, self.registers, self.rng = port, registers, rng
        self.writable = [reg for reg in registers.values() if reg.mask(FieldAccess.RW)]

    async def expect(self, reg: Register, want: int, when: str) -> None:
        """Read a register and compare every bit with `want`."""
        data, resp = await self.port.read(reg.address)
        assert resp is Resp.OKAY, f"{reg.name} {when}: read answered {resp}, not OKAY"
        assert data == want, f"{reg.name} {when}: reads {data:#010x}, not {want:#010x}"

    async def write(self, reg: Register, data: int, strobe: int = 0xF) -> None:
        """Write a register."""
        resp = await self.port.write(reg.address, data, strobe)
        assert resp is Resp.OKAY, f"{reg.name}: write answered {resp}, not OKAY"

    async def reset_values(self) -> None:
        """Check that every register reads its reset value, reserved bits 0."""
        for reg in self.registers.values():
            await self.expect(reg, reg.reset, "after reset")

    async def read_write(self) -> None:
        """Check that RW bits take every pattern and all others keep their value."""
        for reg in self.writable:
            for pattern in (*PATTERNS, reg.reset):
                await self.write(reg, pattern)
                want = reg.stored(reg.reset, pattern)
                await self.expect(reg, want, f"after writing {pattern:#010x}")

    async def no_aliases(self) -> None:
        """Check that all RW registers hold different values at once."""
        rng, targets = self.rng, list(self.writable)
        written = {reg.name: rng.getrandbits(32) & reg.mask(FieldAccess.RW) for reg in targets}
        values = {reg.name: reg.stored(reg.reset, written[reg.name]) for reg in targets}
        rng.shuffle(targets)
        for reg in targets:
            await self.write(reg, written[reg.name])
        for reg in self.registers.values():
            await self.expect(reg, values.get(reg.name, reg.reset), "with all written")
        for reg in targets:
            await self.write(reg, reg.reset)

    async def byte_strobes(self, strobes: Iterable[int]) -> None:
        """Check that a write changes the enabled bytes only."""
        chosen = tuple(strobes)
        for reg in self.writable:
            value = reg.reset
            for strobe in chosen:
                data = self.rng.getrandbits(32)
                value = reg.stored(value, data, byte_mask(strobe))
                await self.write(reg, data, strobe)
                await self.expect(reg, value, f"after strobe {strobe:04b}")
            await self.write(reg, reg.reset)

    async def read_only(self) -> None:
        """Check that a write of a read-only or command register is answered OKAY without effect."""
        for reg in self.registers.values():
            if reg.access is FieldAccess.RO:
                for data in (WORD_MASK, 0):
                    await self.write(reg, data)
                    await self.expect(reg, reg.reset, f"after writing {data:#x}")
            elif reg.access in (FieldAccess.PULSE, FieldAccess.W1C):
                await self.write(reg, WORD_MASK & ~reg.mask(FieldAccess.RW))
                await self.expect(reg, reg.reset, "after writing ones, nothing being set")
        await self.reset_values()

    async def unmapped(self, writes: int) -> None:
        """Check SLVERR of every address without a register: all reads, and `writes` of the writes.

        Read data is 0 then.
        """
        rng, mapped = self.rng, {reg.address for reg in self.registers.values()}
        holes = [a for a in range(0, ADDRESS_SPACE, WORD_BYTES) if a not in mapped]
        for address in holes:
            answer = await self.port.read(address)
            assert answer == (0, Resp.SLVERR), f"read of hole {address:#05x}: {answer}"
        # Next to registers a decoder is wrong more easily than far away.
        edges = [a for a in holes if {a - WORD_BYTES, a + WORD_BYTES} & mapped]
        others = [a for a in holes if a not in edges]
        for address in [*edges, *rng.sample(others, min(writes, len(others)))]:
            resp = await self.port.write(address, WORD_MASK)
            assert resp is Resp.SLVERR, f"write of hole {address:#05x}: answer {resp}, not SLVERR"
            if rng.random() < 0.2:  # what was refused before says nothing about this one
                await self.write(self.registers["IRQ_STATUS"], 0)
        await self.reset_values()

    async def write_one_to_clear(self, reg: Register, is_set: int) -> None:
        """Check the W1C bits `is_set`: zeros and other ones keep them, their ones clear them."""
        clearable = reg.mask(FieldAccess.W1C)
        data, _ = await self.port.read(reg.address)
        rest = data & ~clearable
        assert data & clearable == is_set, f"{reg.name}: {data & clearable:#x}, not {is_set:#x}"
        for ones in (0, WORD_MASK & ~is_set):
            await self.write(reg, ones)
            await self.expect(reg, rest | is_set, f"after writing {ones:#x}, none of its bits")
        while is_set:
            bit = is_set & -is_set
            is_set &= ~bit
            await self.write(reg, bit)
            await self.expect(reg, rest | is_set, f"after writing {bit:#x}")
