# SPDX-License-Identifier: Apache-2.0
"""Checks of a device's registers against the map, for any testbench with an AXI4-Lite port."""

import random
from collections.abc import Iterable, Mapping

from models.register_types import WORD_BYTES, WORD_MASK, FieldAccess, Register, byte_mask
from verif.axi import Resp
from verif.regs.axil import AxiLitePort

ADDRESS_SPACE = 1 << 12
PATTERNS = (0xFFFF_FFFF, 0x0000_0000, 0xAAAA_AAAA, 0x5555_5555, 0x0F1E_2D3C, 0xDEAD_BEEF)


class RegisterChecks:
    """Checks of the registers at an AXI4-Lite port against the register map.

    Each check leaves the reset values, or raises AssertionError at the first difference.
    """

    def __init__(
        self, port: AxiLitePort, registers: Mapping[str, Register], rng: random.Random
    ) -> None:
        self.port, self.registers, self.rng = port, registers, rng
        self.writable = [reg for reg in registers.values() if reg.mask(FieldAccess.RW)]

    async def expect(self, reg: Register, want: int, when: str) -> None:
        """Read a register; AssertionError unless it answers OKAY and every bit equals `want`."""
        data, resp = await self.port.read(reg.address)
        assert resp is Resp.OKAY, f"{reg.name} {when}: read answered {resp}, not OKAY"
        assert data == want, f"{reg.name} {when}: reads {data:#010x}, not {want:#010x}"

    async def write(self, reg: Register, data: int, strobe: int = 0xF) -> None:
        """Write a register with these byte strobes; AssertionError unless it answers OKAY."""
        resp = await self.port.write(reg.address, data, strobe)
        assert resp is Resp.OKAY, f"{reg.name}: write answered {resp}, not OKAY"

    async def reset_values(self) -> None:
        """Check that every register reads its reset value, with reserved bits 0."""
        for reg in self.registers.values():
            await self.expect(reg, reg.reset, "after reset")

    async def read_write(self) -> None:
        """Check that RW bits take every pattern and that all other bits keep their value."""
        for reg in self.writable:
            for pattern in (*PATTERNS, reg.reset):
                await self.write(reg, pattern)
                want = reg.stored(reg.reset, pattern)
                await self.expect(reg, want, f"after writing {pattern:#010x}")

    async def no_aliases(self) -> None:
        """Check that all RW registers can hold different values at the same time."""
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
        """Check that a write changes only the bytes that each of these strobes enables."""
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
        """Check that addresses without a register answer SLVERR, and reads of them return 0.

        All addresses are read; next to registers all are written, elsewhere `writes` of them.
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
        """Check the W1C bits `is_set` of a register, which must be set.

        Zeros, and ones in other bits, keep them; ones clear them, bit by bit.
        """
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
