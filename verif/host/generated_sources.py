# SPDX-License-Identifier: Apache-2.0
"""The sources of the C++ host that are made at build time, so that no fact is typed twice.

- `nf_pins.h`, `nf_pins.sv`: the ports of the controller, as the RTL declares them
- `nf_types.h`: the C interface, from `c_interface`
- `cxl_wire.h`: positions, codes and limits of the link, from `cocotbext.cxl` (spec:
  docs/spec/cxl-mem-68b.md; what is marked [M] there comes from `wire/assumptions.py`)
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.wire import crc, slots
from cocotbext.cxl.wire.assumptions import FLUSH_RETIMER_CLOCKS
from cocotbext.cxl.wire.control import InitParam, Llcrd, RetryIdle, encode_control
from cocotbext.cxl.wire.enums import DrsOp, MetaField, NdrOp, ReqOp, RwdOp
from cocotbext.cxl.wire.flits import (
    CREDIT_SIZES,
    HEADER_RESERVED,
    Direction,
    FlitHeader,
    ProtocolCode,
)
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD
from verif.host import c_interface
from verif.host.c_interface import CBlock, Figures, Kind, Op

Port = tuple[str, bool, int]
"""Name, whether it is an input, width in bits."""

PINS_MODULE = "nf_pins.sv"
PINS = "pins.json"
_NOTE = (
    "// SPDX-License-Identifier: Apache-2.0\n// Made by verif/host/generated_sources.py from {}.\n"
)


def write_sources(
    folder: Path, top: str, ports: Sequence[Port], parameters: Mapping[str, int]
) -> None:
    """Write all of them, and the layout of the pins as `pins.json` for tests.

    ``ports`` in the order of the RTL, with the widths that they have under ``parameters``.
    """
    inputs = [(name, width) for name, is_input, width in ports if is_input and name != "clk"]
    outputs = [(name, width) for name, is_input, width in ports if not is_input]
    texts = {
        **constants(),
        "nf_pins.h": _pins_header(top, inputs, outputs),
        PINS_MODULE: _pins_module(top, inputs, outputs, parameters),
        PINS: json.dumps({"ToDevice": inputs, "FromDevice": outputs}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def constants() -> dict[str, str]:
    """The headers that are made of Python modules alone, by name."""
    return {"nf_types.h": _types_header(), "cxl_wire.h": _wire_header()}


# ---- pins: a port takes 32 bits or a multiple, in the order of the RTL, the first one lowest ----

Pins = Sequence[tuple[str, int]]


def words(width: int) -> int:
    """32-bit words that a port takes."""
    return -(-width // 32)


def _places(pins: Pins) -> dict[str, int]:
    """First word of each port."""
    out, at = {}, 0
    for name, width in pins:
        out[name] = at
        at += words(width)
    return out


def _pins_header(top: str, inputs: Pins, outputs: Pins) -> str:
    lines = [_NOTE.format(f"the ports of {top}") + "#pragma once\n#include <cstdint>\n"]
    for struct, pins in (("FromDevice", outputs), ("ToDevice", inputs)):
        lines.append(f"struct {struct} {{")
        for name, width in pins:
            lines.append(f"  uint32_t {name}{f'[{words(width)}]' * (width > 32)};")
        lines.append("};")
    place = _places(outputs)
    lines.append(
        "// Words of an output, and the word of the valid that it belongs to (its own: none)."
    )
    lines.append("struct OutputWords { unsigned first, count, valid; };")
    lines.append("constexpr OutputWords kOutputs[] = {")
    for name, width in outputs:
        lines.append(
            f"  {{{place[name]}, {words(width)}, {place[_valid(name, place)]}}},  // {name}"
        )
    return "\n".join([*lines, "};", ""])


def _valid(name: str, ports: Iterable[str]) -> str:
    """The valid of the channel that a payload belongs to, by its prefix; else the port itself."""
    if name.endswith(("valid", "ready")):
        return name
    channels = (
        p for p in ports if p.endswith("valid") and name.startswith(p.removesuffix("valid"))
    )
    return next(channels, name)


def _pins_module(top: str, inputs: Pins, outputs: Pins, parameters: Mapping[str, int]) -> str:
    to, place = 32 * sum(words(width) for _, width in inputs), _places(inputs)
    wide = [f"{32 * words(width)}'({name})" for name, width in reversed(outputs)]
    given = ", ".join(f".{name}({value})" for name, value in parameters.items())
    ports = ["    .clk", *(f"    .{name}" for name, _ in outputs)]
    ports += [f"    .{name} (to_device[{32 * place[name]} +: {width}])" for name, width in inputs]
    return "\n".join(
        [
            _NOTE.format(f"the ports of {top}") + "`default_nettype none\n",
            "package nf_pins_pkg;",
            f"  localparam int TO_BITS   = {to};",
            f"  localparam int FROM_BITS = {32 * sum(words(width) for _, width in outputs)};",
            "endpackage\n",
            "module nf_pins import nf_pins_pkg::*; (",
            "  input  wire logic                 clk,",
            "  input  wire logic [TO_BITS-1:0]   to_device,",
            "  output logic      [FROM_BITS-1:0] from_device",
            ");",
            *(f"  logic [{width - 1}:0] {name};" for name, width in outputs),
            "  assign from_device = {\n    " + ",\n    ".join(wide) + "};\n",
            f"  {top} #({given}) dut (" if given else f"  {top} dut (",
            ",\n".join(ports),
            "  );\nendmodule\n\n`default_nettype wire\n",
        ]
    )


# ---- C interface ------------------------------------------------------------------------------

_C_NAMES: dict[Any, str] = {
    ctypes.c_uint8: "uint8_t",
    ctypes.c_uint32: "uint32_t",
    ctypes.c_uint64: "uint64_t",
    Op: "nf_op",
}


def _member(name: str, kind: Any) -> str:
    """C declaration of a field; of an array, the outermost dimension stands first."""
    while issubclass(kind, ctypes.Array):
        name, kind = f"{name}[{kind._length_}]", kind._type_
    if issubclass(kind, ctypes._Pointer):
        name, kind = f"*{name}", kind._type_
    return f"{_C_NAMES[kind]} {name}"


def _types_header() -> str:
    lines = [_NOTE.format("verif/host/c_interface.py") + "#pragma once\n#include <stdint.h>\n"]
    kinds = ", ".join(f"NF_{kind.name} = {kind.value}" for kind in Kind)
    lines.append(f"enum nf_kind {{ {kinds} }};")
    for name in ("ANSWERED", "POISON", "DEVLOAD_SHIFT", "FIGURES_BYTES", "MEMORY_LATENCY"):
        lines.append(f"#define NF_{name} UINT64_C({int(getattr(c_interface, name))})")
    for struct, name in ((Op, "nf_op"), (CBlock, "nf_block"), (Figures, "nf_figures")):
        members = "".join(f"  {_member(*field[:2])};\n" for field in struct._fields_)
        lines.append(f"typedef struct {{\n{members}}} {name};")
        size = ctypes.sizeof(struct)
        lines.append(f'static_assert(sizeof({name}) == {size}, "as ctypes lays it out");')
    return "\n".join([*lines, ""])


# ---- wire format ------------------------------------------------------------------------------
# A position is found by packing the field with every bit set and with none.

_MESSAGES = {
    "req": M2SReq(0, 0, 0, meta_field=0),
    "rwd": M2SRwD(0, 0, 0, meta_field=0),
    "ndr": S2MNDR(0, 0, meta_field=0),
    "drs": S2MDRS(0, 0, meta_field=0),
}
_ONES: dict[str, Any] = {"meta_field": 3, "meta_value": 3, "tag": 0xFFFF, "ldid": 15, "devload": 3}
_ADDRESS = {"req": (1 << 52) - 32, "rwd": (1 << 52) - 64}
_HEADER = {
    "ak": FlitHeader(ak=True),
    "be": FlitHeader(be=True),
    "sz": FlitHeader(sz=True),
    "rsp_crd": FlitHeader(rsp_crd=15),
    "req_crd": FlitHeader(req_crd=15),
    "data_crd": FlitHeader(data_crd=15),
}


def _place(mask: int) -> str:
    return f"{{{(mask & -mask).bit_length() - 1}, {mask.bit_count()}}}"


def _field(name: str, mask: int) -> str:
    camel = "".join(word.capitalize() for word in name.split("_"))
    return f"constexpr Field k{camel}{_place(mask)};"


def _bits(value: int) -> str:
    return f"bits({value >> 64:#x}, {value & (1 << 64) - 1:#x})"


def _message_fields(name: str) -> list[str]:
    empty: Any = _MESSAGES[name]
    ones = {field: value for field, value in _ONES.items() if hasattr(empty, field)}
    ones["opcode"] = 15 if name in _ADDRESS else 7
    if name in _ADDRESS:
        ones["addr"] = _ADDRESS[name]
    if hasattr(empty, "poison"):
        ones["poison"] = True
    out = [
        _field(field, replace(empty, **{field: value}).pack() ^ empty.pack())
        for field, value in ones.items()
    ]
    return [f"namespace {name} {{", *out, "}"]


def _layout(position: int, code: int) -> str:
    """A slot from a memory device that sends no multi-headers; anything else has no parts."""
    layout = slots.LAYOUTS[Direction.S2M][position][code]
    if layout.use is not slots.SlotUse.MEM or layout.multi_header:
        return "    {},"
    live, parts = 0, []
    for field in layout.fields:
        live |= field.live
        is_drs = str(field.part is slots.Part.DRS).lower()
        parts.append(f"{{{is_drs}, {field.offset}, {max(field.devload, 0)}}}")
    return f"    {{{_bits(live)}, {len(parts)}, {{{', '.join(parts)}}}}},  // {layout.name}"


def _wire_header() -> str:
    link = LinkConfig()
    numbers = {
        "ProtocolId": ProtocolCode.CACHEMEM.word,
        "ProtocolIdEds": ProtocolCode.CACHEMEM_EDS.word,
        "CrcPoly": crc.POLY,
        "FlushRetimer": FLUSH_RETIMER_CLOCKS,
        "AckForceThreshold": link.ack_force_threshold,
        "RetryDepth": link.retry_depth,
        "Grant": link.grant_plain,
        "MaxReq": slots.MAX_REQ,
        "MaxRwd": slots.MAX_RWD,
        "MaxNdr": slots.MAX_NDR,
        "Data": slots.DATA,
        "EmptyG": slots.EMPTY_G[Direction.S2M],
        "MemRd": ReqOp.MEM_RD,
        "MemWr": RwdOp.MEM_WR,
        "Cmp": NdrOp.CMP,
        "MemData": DrsOp.MEM_DATA,
        "NoOp": MetaField.NO_OP,
        "InitVersion": InitParam(0).version,
    }
    control = {
        "RetryIdle": encode_control(RetryIdle()),
        "Llcrd": encode_control(Llcrd()),
        "LlcrdLive": encode_control(Llcrd(255, 15, 15, 15)),
        "InitParam": encode_control(InitParam(0)),
        "InitParamLive": encode_control(InitParam(255, 15)),
    }
    formats = (
        FlitHeader(slots=(7, 0, 0, 0)),
        FlitHeader(slots=(0, 7, 0, 0)),
        FlitHeader(slots=(0, 0, 7, 0)),
        FlitHeader(slots=(0, 0, 0, 7)),
    )
    lines = [
        _NOTE.format("cocotbext.cxl") + '#pragma once\n#include "flit.h"\n\nnamespace wire {',
        *(f"constexpr uint32_t k{name} = {int(value):#x};" for name, value in numbers.items()),
        f"constexpr uint32_t kCreditSizes[] = {{{', '.join(map(str, CREDIT_SIZES))}}};",
        f"constexpr uint32_t kReqFormat[2] = {{{slots.M2S_H_REQ}, {slots.M2S_G_REQ}}};",
        f"constexpr uint32_t kRwdFormat[2] = {{{slots.M2S_H_RWD}, {slots.M2S_G_RWD}}};",
        *(f"constexpr Bits k{name} = {_bits(value)};" for name, value in control.items()),
        _field("wrap", encode_control(InitParam(255)) ^ encode_control(InitParam(0))),
        _field("version", encode_control(InitParam(0, 15)) ^ encode_control(InitParam(0, 0))),
        "namespace header {",
        *(_field(name, ones.encode()) for name, ones in _HEADER.items()),
        f"constexpr uint32_t kReserved = {HEADER_RESERVED:#x};",
        f"constexpr Field kFormat[] = {{{', '.join(_place(f.encode()) for f in formats)}}};",
        "}",
    ]
    for name in _MESSAGES:
        lines += _message_fields(name)
    lines.append("constexpr SlotLayout kS2mSlots[2][8] = {")
    for position in (0, 1):
        lines += ["  {", *(_layout(position, code) for code in range(8)), "  },"]
    return "\n".join([*lines, "};", "}", ""])
