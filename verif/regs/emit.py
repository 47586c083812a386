# SPDX-License-Identifier: Apache-2.0
"""Texts that the register generator writes: SystemVerilog package, map as data, documentation."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from models.register_map import Access, Field, Register, RegMap

Enums = Mapping[str, Sequence[tuple[str, int, str]]]
Texts = Mapping[str, tuple[str, str]]

ADDR_W = 12
_COMMAND = "python -m verif.regs.generate"


# ---- SystemVerilog package ----------------------------------------------------------------------


def _sv_register(reg: Register, prefix: str) -> Iterable[str]:
    name = prefix + reg.name
    yield f"  localparam logic [{ADDR_W - 1}:0] ADDR_{name} = {ADDR_W}'h{reg.address:03X};"
    if reg.mask(Access.RW):
        yield f"  localparam logic [31:0] WRITABLE_{name} = 32'h{reg.mask(Access.RW):08X};"
    fixed = not any(f.reset_parameter for f in reg.fields)
    if fixed and (reg.mask(Access.RW) or not reg.volatile_mask):
        yield f"  localparam logic [31:0] RESET_{name} = 32'h{reg.reset:08X};"
    for f in reg.fields:
        yield f"  localparam int LSB_{name}_{f.name} = {f.lsb};"
        if f.width > 1 and f.width_parameter is None:
            yield f"  localparam int W_{name}_{f.name} = {f.width};"
        if f.maximum is not None:
            yield f"  localparam int MAX_{name}_{f.name} = {f.maximum};"


def _sv_is_register(name: str, registers: Sequence[Register], prefix: str) -> Iterable[str]:
    yield f"  function automatic logic {name}(input logic [{ADDR_W - 1}:0] addr);"
    yield "    case (addr)"
    labels = [f"      ADDR_{prefix}{reg.name}" for reg in registers]
    yield ",\n".join(labels) + f": {name} = 1'b1;"
    yield f"      default: {name} = 1'b0;"
    yield "    endcase"
    yield "  endfunction"


def sv_package(reg_map: RegMap, source: str) -> str:
    """Return `nf_regs_pkg`: addresses, writable bits, reset values, field positions, decode.

    Addresses of region registers (prefix REGION_) are offsets within the region.
    """
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// Generated from {source} by `{_COMMAND}`; do not edit.",
        "//",
        "// ADDR_x: byte address (of region registers: offset within the region). WRITABLE_x: the",
        "// read-write bits. RESET_x: the reset value. LSB_x_f: lowest bit of field f, W_x_f: its",
        "// width when it is wider than a bit, MAX_x_f: the greatest value that it takes.",
        "",
        "`default_nettype none",
        "",
        "package nf_regs_pkg;",
        "",
    ]
    for reg in reg_map.registers:
        lines += [*_sv_register(reg, ""), ""]
    lines += [
        f"  localparam logic [{ADDR_W - 1}:0] ADDR_REGION = {ADDR_W}'h{reg_map.region_base:03X};",
        f"  localparam int REGION_STRIDE = {reg_map.region_stride};",
        "",
    ]
    for reg in reg_map.region_registers:
        lines += [*_sv_register(reg, "REGION_"), ""]
    lines += ["  // Is there a register outside the regions at this word address?"]
    lines += [*_sv_is_register("is_register", reg_map.registers, ""), ""]
    lines += ["  // Is there a register at this offset within a region?"]
    lines += [*_sv_is_register("is_region_register", reg_map.region_registers, "REGION_"), ""]
    lines += [
        "  // Next value of a register's read-write bits: the written bits where `mask` is set.",
        "  function automatic logic [31:0] write_bits(",
        "    input logic [31:0] old,",
        "    input logic [31:0] data,",
        "    input logic [31:0] mask,",
        "    input logic [31:0] writable",
        "  );",
        "    write_bits = ((old & ~mask) | (data & mask)) & writable;",
        "  endfunction",
        "",
        "endpackage",
        "",
        "`default_nettype wire",
    ]
    return "\n".join(lines) + "\n"


# ---- map as data --------------------------------------------------------------------------------


def _plain(item: Field | Register) -> dict[str, Any]:
    """A dataclass as JSON values, without what is the default."""
    values: dict[str, Any] = {}
    for f in dataclasses.fields(item):
        value = getattr(item, f.name)
        if f.name == "fields":
            values[f.name] = [_plain(field) for field in value]
        elif value != f.default:
            values[f.name] = value.value if isinstance(value, Enum) else value
    return values


def _json_list(items: Iterable[object]) -> str:
    return "[\n    " + ",\n    ".join(json.dumps(item) for item in items) + "\n  ]"


def json_map(reg_map: RegMap) -> str:
    """The map for the default parameters as `models.register_map` reads it, a register a line."""
    enums = ",\n    ".join(f'"{n}": {json.dumps(dict(m))}' for n, m in reg_map.enums.items())
    values = {
        "registers": _json_list(map(_plain, reg_map.registers)),
        "region_registers": _json_list(map(_plain, reg_map.region_registers)),
        "region_base": str(reg_map.region_base),
        "region_stride": str(reg_map.region_stride),
        "enums": f"{{\n    {enums}\n  }}",
    }
    return "{\n  " + ",\n  ".join(f'"{k}": {text}' for k, text in values.items()) + "\n}\n"


# ---- documentation ------------------------------------------------------------------------------


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _bits(f: Field) -> str:
    if f.width_parameter is not None:
        return f"{f.width_parameter}-1:{f.lsb}" if f.lsb == 0 else f"+:{f.width_parameter}"
    return f"{f.lsb + f.width - 1}:{f.lsb}" if f.width > 1 else f"{f.lsb}"


def _reset(f: Field) -> str:
    if f.reset_parameter:
        return f.reset_parameter
    return f"{f.reset:#x}" if f.reset > 9 else str(f.reset)


def _md_overview(registers: Sequence[Register], texts: Texts, prefix: str) -> Iterable[str]:
    yield "| address | register | access | reset | meaning |"
    yield "|---|---|---|---|---|"
    for reg in registers:
        parametric = any(f.reset_parameter for f in reg.fields)
        reset = "parameters" if parametric else f"`{reg.reset:#010x}`"
        address = f"`+{reg.address:#04x}`" if prefix else f"`{reg.address:#05x}`"
        access = _cell(reg.access.value)
        desc = _cell(texts[prefix + reg.name][1])
        yield f"| {address} | {reg.name} | {access} | {reset} | {desc} |"


def _md_fields(registers: Sequence[Register], texts: Texts, prefix: str) -> Iterable[str]:
    yield "| register | bits | field | access | reset | meaning |"
    yield "|---|---|---|---|---|---|"
    for reg in registers:
        for index, f in enumerate(reg.fields):
            desc = _cell(texts[f"{prefix}{reg.name}.{f.name}"][1])
            if f.enum:
                desc += f" See [{f.enum}](#{f.enum.lower()})."
            name = reg.name if index == 0 else ""
            yield f"| {name} | {_bits(f)} | {f.name} | {f.access.value} | {_reset(f)} | {desc} |"


def markdown(reg_map: RegMap, texts: Texts, enums: Enums, source: str) -> str:
    """Return the documentation page: overview, fields, enumerations."""
    counters = [r for r in reg_map.registers if r.counts]
    others = [r for r in reg_map.registers if not r.counts]
    base, stride = reg_map.region_base, reg_map.region_stride
    lines = [
        "# Control and status registers",
        "",
        f"<!-- Generated from {source} by `{_COMMAND}`; do not edit. -->",
        "",
        "AXI4-Lite, 32-bit data, 12-bit byte address; address bits 1:0 are ignored. Byte strobes",
        "are honoured. An access to an address that is no register answers SLVERR (read data 0);",
        "a write to a read-only register answers OKAY and changes nothing. Reserved bits read 0.",
        "",
        "Access: RO read only; RW reads back what was written; W1C writing 1 clears (an event in",
        "the same clock wins); W1P writing 1 triggers, reads 0; RW (commit) see EPOCH. Reset",
        "values and widths written as a name follow that parameter of the hardware.",
        "",
        "## Device",
        "",
        *_md_overview(others, texts, ""),
        "",
        *_md_fields(others, texts, ""),
        "",
        "## Counters",
        "",
        "32 bits, read only, reset 0. They stop at FFFFFFFFh; CTRL.CLEAR_COUNTERS clears all of",
        "them, and an event in the clock of the clear is counted after it.",
        "",
        "| address | register | counts |",
        "|---|---|---|",
        *(f"| `{r.address:#05x}` | {r.name} | {_cell(texts[r.name][1])} |" for r in counters),
        "",
        "## Regions",
        "",
        f"Region r, r = 0 to REGIONS-1, lies at `{base:#x} + {stride:#x} * r`. BASE to LD_MASK are",
        "shadow registers: they read back what was written and take effect together when EPOCH is",
        "written.",
        "",
        *_md_overview(reg_map.region_registers, texts, "REGION."),
        "",
        *_md_fields(reg_map.region_registers, texts, "REGION."),
        "",
        "## Values",
    ]
    for name, members in enums.items():
        lines += ["", f"### {name}", "", "| value | name | meaning |", "|---|---|---|"]
        lines += [f"| {value} | {member} | {_cell(desc)} |" for member, value, desc in members]
    return "\n".join(lines) + "\n"
