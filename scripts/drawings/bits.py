# SPDX-License-Identifier: Apache-2.0
"""Bit fields: line formats, flits, headers, slots, control flits, records and registers.

Nothing is listed here: each field is found by encoding values that differ in it, or read from the
declaration in the sources, so that a changed layout changes the drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import cycle, groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from cocotbext.cxl.wire import control, flits, slots
from cocotbext.cxl.wire.crc import FLIT_BITS, PAYLOAD_BITS
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD
from models.line_packing import (
    LINE_BITS,
    TRITS_A_BYTE,
    pack_binary,
    pack_fp32,
    pack_int,
    pack_tern5,
    pack_ternary,
)
from models.modes import Mode, elements_per_line
from models.register_map import REG_MAP
from models.register_types import FieldAccess, Register
from scripts.build import slang
from scripts.drawings.sheet import BLUE, INK, PALE, TINTS, Box, Sheet

BITS = 32  # of a row
_LEFT, _WIDE, _HIGH = 170, 700, 22
Values = npt.NDArray[np.float32]
FieldBits = tuple[str, int, int]
"""Name, lowest bit and number of bits of a field."""


def _pack_int(mode: Mode, x: Values) -> npt.NDArray[np.uint8]:
    return pack_int(x.astype(np.int16), mode, signed=False)


_FLOATS = np.random.default_rng(1).standard_normal(64).astype(np.float32)
# How each mode packs values, and values of an element that change each of its bits.
_FORMATS: dict[Mode, tuple[Callable[[Values], npt.NDArray[np.uint8]], Values]] = {
    Mode.G_BINARY: (pack_binary, np.array([-1], np.float32)),
    Mode.G_TERNARY: (partial(pack_ternary, threshold=0.5), np.array([-1], np.float32)),
    Mode.G_TERN5: (partial(pack_tern5, threshold=0.5), np.array([-1, 1], np.float32)),
    Mode.G_INT4: (partial(_pack_int, Mode.G_INT4), np.array([15], np.float32)),
    Mode.G_INT8: (partial(_pack_int, Mode.G_INT8), np.array([255], np.float32)),
    Mode.FP32: (pack_fp32, _FLOATS),
}


def owners(mode: Mode) -> list[int]:
    """Return the element that each of the first `BITS` bits of a line belongs to.

    In G_TERN5 five elements share a byte: its bits belong to the first of them.
    """
    pack, values = _FORMATS[mode]
    share = TRITS_A_BYTE if mode is Mode.G_TERN5 else 1
    empty = np.zeros(elements_per_line(mode), np.float32)
    owner = [-1] * BITS
    for element in range(BITS):
        for value in values if element < len(empty) else ():
            line = empty.copy()
            line[element] = value
            changed = np.unpackbits(pack(line) ^ pack(empty), bitorder="little")[:BITS]
            for bit in np.flatnonzero(changed):
                owner[bit] = element - element % share
    return owner


def line_formats() -> Sheet:
    """Draw the first bytes of a line in each mode, coloured by element."""
    sheet = Sheet(
        "Which bits of a line an element takes in each mode", height=70 + 62 * len(_FORMATS)
    )
    first = f"first {BITS // 8} of {LINE_BITS // 8} bytes"
    sheet.text(30, 32, f"mode (elements a line); {first}, bit 0 of byte 0 at the left", "head")
    for row, mode in enumerate(_FORMATS):
        y = 56 + 62 * row
        sheet.text(30, y + 12, f"{mode.name} ({elements_per_line(mode)})", "head")
        at = 0
        for number, (element, run) in enumerate(groupby(owners(mode))):
            bits = len(list(run))
            fill = PALE if number % 2 else BLUE
            box = Box(190 + 23 * at, y, 23 * bits - 2, 18)
            sheet.rect(box, fill, 'rx="2"')
            label = f"{element} to {element + 4}" if mode is Mode.G_TERN5 else str(element)
            sheet.text(box.middle[0], y + 32, label, "small", "middle")
            at += bits
    return sheet


def _runs(name: str, mask: int) -> Iterator[FieldBits]:
    """Yield the runs of ones of a mask as fields."""
    while mask:
        low = (mask & -mask).bit_length() - 1
        bits = (~(mask >> low) & (mask >> low) + 1).bit_length() - 1
        yield name, low, bits
        mask &= ~((1 << bits) - 1 << low)


def _words(
    sheet: Sheet, y: float, name: str, places: Sequence[FieldBits], left: float = _LEFT
) -> float:
    """Draw fields in rows of 32 bits and return the end of the rows; rows without a field are
    left out."""
    tints = dict(zip((name for name, _, _ in places), cycle(TINTS), strict=False))
    head, _, note = name.partition(", ")
    sheet.text(30, y + 16, head, "head")
    sheet.text(30, y + 48, note, "pale")
    for base in range(0, max(low + bits for _, low, bits in places), BITS):
        row = []
        for field, low, bits in sorted(places, key=lambda place: place[1]):
            start, end = max(low, base), min(low + bits, base + BITS)
            if start < end:
                cut = bits > end - start
                label = f"{field}[{end - low - 1}:{start - low}]" if cut else field
                row.append((label, start - base, end - start, tints[field]))
        if row:
            sheet.text(left - 8, y + 15, str(base), "small", "end")
            y += sheet.bits(Box(left, y, _WIDE, _HIGH), BITS, row) + 10
    return y


def _stacked(label: str, title: str, groups: Sequence[tuple[str, list[FieldBits]]]) -> Sheet:
    """Draw groups of fields below each other."""
    sheet = Sheet(label)
    sheet.text(30, 30, title, "title")
    y: float = 50
    for name, places in groups:
        y = _words(sheet, y, name, places) + 10
    sheet.height = y
    return sheet


def headers() -> Sheet:
    """Draw the headers of the four messages, from their field tables."""
    return _stacked(
        "Bit fields of the headers of the four CXL.mem messages",
        "Headers of the CXL.mem messages, 32 bits a row, bit 0 at the left; grey is reserved",
        [
            (kind.__name__, [("Valid", 0, 1), *kind.FIELDS.places()])
            for kind in (M2SReq, M2SRwD, S2MNDR, S2MDRS)
        ],
    )


def control_flits() -> Sheet:
    """Draw the fields of control flits: the bits that change with each field."""
    groups = []
    kinds: tuple[Any, ...] = (
        *(control.Llcrd, control.RetryReq, control.RetryAck, control.InitParam),
    )
    for kind in kinds:
        zeros = {one.name: 0 for one in fields(kind)}
        none = control.encode_control(kind(**zeros))
        found = [("Type", 0, 1), ("LLCTRL", 32, 4), ("SubType", 36, 4)]
        for name, _, bits in kind.FIELDS.places():
            full = control.encode_control(kind(**zeros | {name: (1 << bits) - 1}))
            found += _runs(name, full ^ none)
        llctrl, subtype = kind.CODE
        groups.append((f"{kind.__name__}, LLCTRL {llctrl:X}h, {subtype}", found))
    return _stacked(
        "Bit fields of the control flits that carry information",
        "Control flits that carry fields, with LLCTRL and SubType; 32 bits a row",
        groups,
    )


def flit() -> Sheet:
    """Draw a flit with its slots and the fields of its header."""
    sheet = Sheet("Slots of a 68-byte flit and bit fields of its header", height=210)
    sheet.text(30, 30, f"A flit on the wire: {FLIT_BITS} bits after the Protocol ID", "title")
    every = flits.FlitHeader(
        True, True, True, slots=(7, 7, 7, 7), rsp_crd=15, req_crd=15, data_crd=15
    )
    full = every.encode() | flits.HEADER_RESERVED
    parts: list[FieldBits] = [("header", 0, (full | 1).bit_length())]
    for slot in range(4):
        held = sum(1 << bit for bit in range(PAYLOAD_BITS) if flits.slot_bits(1 << bit, slot))
        parts += _runs(f"slot {slot}", held)
    parts.append(("CRC", PAYLOAD_BITS, FLIT_BITS - PAYLOAD_BITS))
    shown = [(*part, tint) for part, tint in zip(parts, cycle(TINTS), strict=False)]
    sheet.bits(Box(30, 50, 860, 30), FLIT_BITS, shown)
    sheet.text(30, 140, "its header, bit 0 at the left; grey is reserved", "head")
    header: Any = flits.FlitHeader
    found = [("Type", 0, 1)]
    for name in (one.name for one in fields(header) if one.name != "slots"):
        value = 15 if name.endswith("crd") else True
        found += _runs(name, header(**{name: value}).encode())
    for slot in range(4):
        codes = tuple(7 * (slot == one) for one in range(4))
        found += _runs(f"slot {slot}", header(slots=codes).encode())
    _words(sheet, 155, "", found, 30)
    return sheet


def slot_formats() -> Sheet:
    """Draw the messages in each slot format of CXL.mem, both directions."""
    sheet = Sheet("Messages in each slot format of CXL.mem")
    sheet.text(
        30, 30, "Slot formats: what a slot holds, bit 0 at the left; grey is not used", "title"
    )
    y, scale = 50.0, _WIDE / flits.G_BITS
    for direction, positions in slots.LAYOUTS.items():
        sheet.text(30, y + 14, f"{direction.value}, {_WAYS[direction]}", "head")
        y += 26
        for bits, layouts in zip((flits.H_BITS, flits.G_BITS), positions, strict=True):
            for layout in layouts:
                if layout.use not in (slots.SlotUse.MEM, slots.SlotUse.DATA):
                    continue
                row = [
                    (name, low, size, tint)
                    for part, tint in zip(layout.fields, TINTS, strict=False)
                    for name, low, size in _runs(part.part.NAME, part.live)
                ] or [("a quarter of a line", 0, bits, TINTS[0])]
                row.sort(key=lambda one: one[1])
                sheet.text(30, y + 15, layout.name)
                y += sheet.bits(Box(_LEFT, y, bits * scale, _HIGH), bits, row) + 6
        y += 12
    sheet.height = y
    return sheet


_WAYS = {flits.Direction.M2S: "to the device", flits.Direction.S2M: "from the device"}


def struct_fields(package: str, name: str) -> list[FieldBits]:
    """Return the fields of a packed struct of an RTL package, from bit 0 on, without reserved bits.

    A struct in it is replaced by its fields. NfError is raised if there is no such type.
    """
    return list(_fields_of(slang.package_type(package, name), 0))


def _fields_of(struct: Any, base: int) -> Iterator[FieldBits]:
    for field in reversed([*struct]):
        if field.type.isStruct:
            yield from _fields_of(field.type.canonicalType, base + field.bitOffset)
        elif field.name != "rsvd":  # up to the end of the line
            yield field.name, base + field.bitOffset, field.type.bitWidth


def record() -> Sheet:
    """Draw the bookkeeping line of a record, from the structs of the RTL."""
    places = struct_fields("nf_core_pkg", "record_t")
    return _stacked(
        "Bit fields of the bookkeeping line of a record",
        "Bookkeeping line of a record in device memory; bits after the last field are reserved",
        [("record_t", places)],
    )


_COLOURS = {
    FieldAccess.RO: "#e6dff2",
    FieldAccess.RW: "#d3e2f7",
    FieldAccess.W1C: "#fbe2c4",
    FieldAccess.PULSE: "#f3d6d0",
    FieldAccess.COMMIT: "#d9ecd4",
}


def _register_rows(label: str, title: str, registers: Sequence[Register]) -> Sheet:
    """Draw registers, a row each; counters share rows of names."""
    sheet = Sheet(label)
    sheet.text(30, 30, title, "title")
    for number, (access, colour) in enumerate(_COLOURS.items()):
        sheet.rect(Box(30 + 150 * number, 44, 14, 14), colour, f'stroke="{INK}"')
        sheet.text(50 + 150 * number, 56, access.value, "pale")
    y = 76.0
    for register in registers:
        if register.counts is None:
            sheet.text(30, y + 15, f"{register.address:03x}", "pale")
            sheet.text(64, y + 15, register.name, "pale")
            row = [(one.name, one.lsb, one.width, _COLOURS[one.access]) for one in register.fields]
            y += sheet.bits(Box(220, y, 650, _HIGH), BITS, row) + 6
    counters = [one for one in registers if one.counts is not None]
    if counters:
        sheet.text(30, y + 20, "event counters, 32 bits each, read only", "head")
    rows = -(-len(counters) // 4)
    for number, counter in enumerate(counters):
        column, line = divmod(number, rows)
        text = f"{counter.address:03x} {counter.name}"
        sheet.text(30 + 230 * column, y + 42 + 18 * line, text, "pale")
    sheet.height = y + (50 + 18 * rows if counters else 10)
    return sheet


def registers() -> Sheet:
    """Draw the registers of the device, from the register map."""
    return _register_rows(
        "Map of the registers of the device with their bit fields",
        "Registers of the device: offset, name, bit 0 at the left",
        REG_MAP.registers,
    )


def region_registers() -> Sheet:
    """Draw the registers of a region, from the register map."""
    base, stride = REG_MAP.region_base, REG_MAP.region_stride
    return _register_rows(
        "Map of the registers of a region with their bit fields",
        f"Registers of region r: offset from {base:x}h + r * {stride:x}h, name, bit 0 at the left",
        REG_MAP.region_registers,
    )
