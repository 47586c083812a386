# SPDX-License-Identifier: Apache-2.0
"""Checks of a device's registers against the map, for any bench with an AXI4-Lite port.

Each check returns the differences it found, one line each; none means it holds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from models.register_map import WORD_BYTES, WORD_MASK, FieldAccess, Register, byte_mask
from verif.axi import Resp
from verif.regs.axil import AxiLitePort

ADDRESS_SPACE = 1 << 12
PATTERNS = (0xFFFF_FFFF, 0x0000_0000, 0xAAAA_AAAA, 0x5555_5555, 0x0F1E_2D3C, 0xDEAD_BEEF)


Registers = Mapping[str, Register]


async def _expect(port: AxiLitePort, reg: Register, want: int, when: str) -> list[str]:
    """Read a register and compare every bit with `want`."""
    data, resp = await port.read(reg.address)
    if resp is not Resp.OKAY:
        return [f"{reg.name} {when}: read answered {resp}, not OKAY"]
    if data != want:
        return [f"{reg.name} {when}: reads {data:#010x}, not {want:#010x}"]
    return []


async def _write(port: AxiLitePort, reg: Register, data: int, strobe: int = 0xF) -> list[str]:
    resp = await port.write(reg.address, data, strobe)
    return [] if resp is Resp.OKAY else [f"{reg.name}: write answered {resp}, not OKAY"]


async def reset_values(port: AxiLitePort, registers: Registers) -> list[str]:
    """Check that every register reads its reset value, reserved bits 0."""
    out = []
    for reg in registers.values():
        out += await _expect(port, reg, reg.reset, "after reset")
    return out


async def read_write(port: AxiLitePort, registers: Registers) -> list[str]:
    """Check that RW bits take every pattern and all others keep their value; restore the resets."""
    out = []
    for reg in registers.values():
        writable = reg.mask(FieldAccess.RW)
        if not writable:
            continue
        for pattern in (*PATTERNS, reg.reset):
            out += await _write(port, reg, pattern)
            want = reg.stored(reg.reset, pattern)
            out += await _expect(port, reg, want, f"after writing {pattern:#010x}")
    return out


async def no_aliases(port: AxiLitePort, registers: Registers, rng: random.Random) -> list[str]:
    """Check that all RW registers hold different values at once; end with the reset values."""
    out = []
    targets = [reg for reg in registers.values() if reg.mask(FieldAccess.RW)]
    written = {reg.name: rng.getrandbits(32) & reg.mask(FieldAccess.RW) for reg in targets}
    values = {reg.name: reg.stored(reg.reset, written[reg.name]) for reg in targets}
    rng.shuffle(targets)
    for reg in targets:
        out += await _write(port, reg, written[reg.name])
    for reg in registers.values():
        out += await _expect(port, reg, values.get(reg.name, reg.reset), "with all written")
    for reg in targets:
        out += await _write(port, reg, reg.reset)
    return out


async def byte_strobes(
    port: AxiLitePort, registers: Registers, strobes: Iterable[int], rng: random.Random
) -> list[str]:
    """Check that a write changes the enabled bytes only."""
    out = []
    chosen = tuple(strobes)
    for reg in registers.values():
        writable = reg.mask(FieldAccess.RW)
        if not writable:
            continue
        value = reg.reset
        for strobe in chosen:
            data = rng.getrandbits(32)
            value = reg.stored(value, data, byte_mask(strobe))
            out += await _write(port, reg, data, strobe)
            out += await _expect(port, reg, value, f"after strobe {strobe:04b}")
        out += await _write(port, reg, reg.reset)
    return out


async def read_only(port: AxiLitePort, registers: Registers) -> list[str]:
    """Check that a write of a read-only or command register is answered OKAY without effect."""
    out = []
    for reg in registers.values():
        if reg.access is FieldAccess.RO:
            for data in (WORD_MASK, 0):
                out += await _write(port, reg, data)
                out += await _expect(port, reg, reg.reset, f"after writing {data:#x}")
        elif reg.access in (FieldAccess.PULSE, FieldAccess.W1C):
            out += await _write(port, reg, WORD_MASK & ~reg.mask(FieldAccess.RW))
            out += await _expect(port, reg, reg.reset, "after writing ones, nothing being set")
    out += await reset_values(port, registers)
    return out


async def unmapped(
    port: AxiLitePort, registers: Registers, writes: int, rng: random.Random
) -> list[str]:
    """Check SLVERR of every address without a register: all reads, and `writes` of the writes.

    Read data is 0 then. Afterwards every register still has its reset value.
    """
    out = []
    mapped = {reg.address for reg in registers.values()}
    holes = [a for a in range(0, ADDRESS_SPACE, WORD_BYTES) if a not in mapped]
    for address in holes:
        data, resp = await port.read(address)
        if resp is not Resp.SLVERR or data != 0:
            out.append(f"read of hole {address:#05x}: data {data:#x}, answer {resp}, not SLVERR")
    # Next to registers a decoder is wrong more easily than far away.
    edges = [a for a in holes if {a - WORD_BYTES, a + WORD_BYTES} & mapped]
    others = [a for a in holes if a not in edges]
    for address in [*edges, *rng.sample(others, min(writes, len(others)))]:
        resp = await port.write(address, WORD_MASK)
        if resp is not Resp.SLVERR:
            out.append(f"write of hole {address:#05x}: answer {resp}, not SLVERR")
        if rng.random() < 0.2:  # what was refused before says nothing about this one
            out += await _write(port, registers["IRQ_STATUS"], 0)
    out += await reset_values(port, registers)
    return out


async def write_one_to_clear(port: AxiLitePort, reg: Register, is_set: int) -> list[str]:
    """Check the W1C bits `is_set`: zeros and other ones keep them, their ones clear them."""
    out = []
    clearable = reg.mask(FieldAccess.W1C)
    data, _ = await port.read(reg.address)
    rest = data & ~clearable
    if data & clearable != is_set:
        return [f"{reg.name}: W1C bits are {data & clearable:#x}, not {is_set:#x}"]
    out += await _write(port, reg, 0)
    out += await _expect(port, reg, rest | is_set, "after writing 0")
    out += await _write(port, reg, WORD_MASK & ~is_set)
    out += await _expect(port, reg, rest | is_set, "after writing all other bits")
    while is_set:
        bit = is_set & -is_set
        is_set &= ~bit
        out += await _write(port, reg, bit)
        out += await _expect(port, reg, rest | is_set, f"after writing {bit:#x}")
    return out
