# SPDX-License-Identifier: Apache-2.0
"""Generator of C++ and SystemVerilog sources of the host, so that every fact has one source.

- `nf_pins.h`, `nf_pins.sv`: ports of the controller, as declared in the RTL
- `nf_types.h`: C interface, from `c_interface`
- `cxl_wire.h`: positions, codes and limits of the link, from `cocotbext.cxl` (spec:
  docs/spec/cxl-mem-68b.md; facts marked [M] there are in `wire/assumptions.py`)
"""

import ctypes
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.wire import assumptions, crc, flits, messages, slots
from cocotbext.cxl.wire.control import ControlFlit, InitParam, Llcrd, RetryIdle, encode_control
from cocotbext.cxl.wire.flits import Direction, FlitHeader, ProtocolCode
from verif.host import c_interface
from verif.host.c_interface import CBlock, CMemory, Figures, HostOp, Kind, PassedEvent

Port = tuple[str, bool, int]
"""Name, whether it is an input, width in bits."""
Pins = Sequence[tuple[str, int]]
"""Names and widths of one direction, in the order of the RTL."""

PINS_MODULE = "nf_pins.sv"
PINS = "pins.json"
_NOTE = "// SPDX-License-Identifier: Apache-2.0\n// Made by verif/host/generated_sources.py from"


def write_sources(
    folder: Path, top: str, ports: Sequence[Port], parameters: Mapping[str, int]
) -> None:
    """Write all generated sources of the host, and the layout of the pins as `pins.json` for tests.

    Args:
        folder: Destination.
        top: Name of the top module.
        ports: Ports in the order of the RTL, with their widths under ``parameters``.
        parameters: Parameters of the top module that differ from the default.
    """
    inputs = [(name, width) for name, is_input, width in ports if is_input and name != "clk"]
    outputs = [(name, width) for name, is_input, width in ports if not is_input]
    facts = {
        "top": top,
        "parameters": parameters,
        "inputs": inputs,
        "outputs": outputs,
        "to_device": _places(inputs),
        "from_device": _places(outputs),
    }
    texts = {
        **constants(),
        **{name: _render(name, **facts) for name in ("nf_pins.h", PINS_MODULE)},
        PINS: json.dumps({"ToDevice": inputs, "FromDevice": outputs}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def constants() -> dict[str, str]:
    """Return the texts of the C++ headers that depend on Python modules only, by file name."""
    facts = {"constants": _CONSTANTS.split(), "c_interface": vars(c_interface)}
    types = _render("nf_types.h", kinds=Kind, structs=_STRUCTS, **facts)
    return {"nf_types.h": types, "cxl_wire.h": _wire_header()}


# ---- pins: a port takes 32 bits or a multiple, in the order of the RTL, the first one lowest ----


def words(width: int) -> int:
    """Return the number of 32-bit words that a port of `width` bits takes."""
    return -(-width // 32)


def _places(pins: Pins) -> dict[str, int]:
    """Return the index of the first word of each port by name, and the number of all words under
    ``""``.
    """
    out, at = {}, 0
    for name, width in pins:
        out[name] = at
        at += words(width)
    return {**out, "": at}


def _valid(name: str, ports: Iterable[str]) -> str:
    """Return the valid signal of the channel that a port belongs to, by its prefix.

    For a valid or ready, or a port without a channel, it is the port itself.
    """
    if name.endswith(("valid", "ready")):
        return name
    valids = (port for port in ports if port.endswith("valid"))
    return next((valid for valid in valids if name.startswith(valid.removesuffix("valid"))), name)


# ---- C interface ------------------------------------------------------------------------------

_STRUCTS = {
    HostOp: "nf_op",
    CBlock: "nf_block",
    CMemory: "nf_memory",
    Figures: "nf_figures",
    PassedEvent: "nf_passed_event",
}
_C_NAMES: dict[Any, str] = {
    ctypes.c_uint8: "uint8_t",
    ctypes.c_uint32: "uint32_t",
    ctypes.c_uint64: "uint64_t",
    **_STRUCTS,
}


def _member(field: Sequence[Any]) -> str:
    """Return the C declaration of a field of a ctypes structure; the outermost array dimension is
    first.
    """
    name, kind = field[:2]
    while issubclass(kind, ctypes.Array):
        name, kind = f"{name}[{kind._length_}]", kind._type_
    if issubclass(kind, ctypes._Pointer):
        name, kind = f"*{name}", kind._type_
    return f"{_C_NAMES[kind]} {name}"


_CONSTANTS = (
    "ANSWERED POISON DEVLOAD_SHIFT CLOCKS_SHIFT MAX_CLOCKS ENDED_SHIFT MAX_ENDED FIGURES_BYTES"
)

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {"words": words, "valid": _valid, "member": _member, "size": ctypes.sizeof}


def _render(name: str, **facts: Any) -> str:
    return _TEMPLATES.get_template(f"{name}.j2").render(note=_NOTE, **facts)


# ---- wire format ------------------------------------------------------------------------------


def _place(mask: int) -> str:
    return f"{{{(mask & -mask).bit_length() - 1}, {mask.bit_count()}}}"


def _fields(namespace: str, encode: Callable[..., int], **ones: int) -> str:
    """Return C++ declarations of the places of bit fields, in a namespace.

    A place is found as the bits in which encodings with all and with none of the field's bits
    differ.

    Args:
        namespace: Name of the namespace.
        encode: Encodes a message or header from values of its fields.
        ones: For each field, the value with all its bits 1.
    """
    zeros = dict.fromkeys(ones, 0)
    none, lines = encode(**zeros), [f"namespace {namespace} {{"]
    for name, value in ones.items():
        place = _place(encode(**{**zeros, name: value}) ^ none)
        lines.append(f"constexpr Field {name}{place};")
    return "\n".join([*lines, "}"])


def _bits(value: int) -> str:
    return f"bits({value >> 64:#x}, {value & (1 << 64) - 1:#x})"


def _layout(position: int, code: int) -> str:
    """Return the C++ initializer of a slot layout from device to host, at a position, of a format.

    Multi-header slots and those without memory messages have no parts.
    """
    layout = slots.LAYOUTS[Direction.S2M][position][code]
    if layout.use is not slots.SlotUse.MEM or layout.multi_header:
        return "{},"
    live, parts = 0, []
    for field in layout.fields:
        live |= field.live
        is_drs = str(field.with_data).lower()
        parts.append(f"{{{is_drs}, {field.offset}, {field.devload}}}")
    return f"{{{_bits(live)}, {len(parts)}, {{{', '.join(parts)}}}}},  // {layout.name}\n"


def _numbers() -> Iterator[str]:
    """Yield C++ declarations of the constants of the Python modules; those of classes in a
    namespace.
    """
    names: dict[str, object] = {}
    for module in (assumptions, crc, flits, messages, slots):
        names.update(vars(module))  # modules import from each other
    yield from (_number(name, value) for name, value in names.items() if name.isupper())
    opcodes = (messages.ReqOp, messages.RwdOp, messages.NdrOp, messages.DrsOp)
    for kind in (*opcodes, messages.MetaField):
        members = "".join(_number(member.name, member.value) for member in kind)
        yield f"namespace {kind.__name__} {{ {members}}}"
    for settings in (LinkConfig(), InitParam(0)):
        values = ((field.name, getattr(settings, field.name)) for field in fields(settings))
        yield f"namespace {type(settings).__name__} {{ {''.join(_number(*v) for v in values)}}}"


def _number(name: str, value: object) -> str:
    """Return the C++ declaration of a constant; "" for a value that is no unsigned 32-bit
    integer.
    """
    fits = type(value) is int and 0 <= value < 1 << 32
    return f"constexpr uint32_t {name} = {value}; " if fits else ""


def _wire_header() -> str:
    control: dict[str, ControlFlit] = {
        "RetryIdle": RetryIdle(),
        "Llcrd": Llcrd(),
        "LlcrdLive": Llcrd(255, 15, 15, 15),
        "InitParam": InitParam(0),
        "InitParamLive": InitParam(255, 15),
    }
    formats: list[Any] = [tuple(7 * (slot == k) for slot in range(4)) for k in range(4)]
    places = ", ".join(_place(FlitHeader(slots=one).encode()) for one in formats)
    request = {"opcode": 15, "meta_field": 3, "tag": 0xFFFF, "ldid": 15}
    answer = {"opcode": 7, "meta_field": 3, "meta_value": 3, "tag": 0xFFFF}
    answer |= {"ldid": 15, "devload": 3}
    header = dict.fromkeys(("ak", "be", "sz"), 1)
    header |= dict.fromkeys(("rsp_crd", "req_crd", "data_crd"), 15)
    lines = [
        f'{_NOTE} cocotbext.cxl.\n#pragma once\n#include "flit.h"\n\nnamespace wire {{',
        *filter(None, _numbers()),
        f"constexpr uint32_t EMPTY_S2M_G = {slots.EMPTY_G[Direction.S2M]};",
        f"constexpr uint32_t PROTOCOL_ID = {ProtocolCode.CACHEMEM.word};",
        f"constexpr uint32_t PROTOCOL_ID_EDS = {ProtocolCode.CACHEMEM_EDS.word};",
        *(f"constexpr Bits k{name} = {_bits(encode_control(f))};" for name, f in control.items()),
        f"constexpr uint32_t CREDIT_SIZES[] = {{{', '.join(map(str, flits.CREDIT_SIZES))}}};",
        f"constexpr Field kFormat[] = {{{places}}};",
        _fields("init", lambda **f: encode_control(InitParam(**f)), wrap=255, version=15),
        _fields("header", lambda **f: FlitHeader(**f).encode(), **header),
        _fields("req", lambda **f: messages.M2SReq(**f).pack(), addr=(1 << 52) - 32, **request),
        _fields("rwd", lambda **f: messages.M2SRwD(**f).pack(), addr=(1 << 52) - 64, **request),
        _fields("ndr", lambda **f: messages.S2MNDR(**f).pack(), **answer),
        _fields("drs", lambda **f: messages.S2MDRS(**f).pack(), poison=1, **answer),
        "constexpr SlotLayout kS2mSlots[2][8] = {",
        *("{" + "".join(_layout(row, code) for code in range(8)) + "}," for row in (0, 1)),
    ]
    return "\n".join([*lines, "};", "}", ""])
