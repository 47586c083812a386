# SPDX-License-Identifier: Apache-2.0
"""Description of a flit as text, slot by slot (spec: link spec §3, §4, §7)."""

from cocotbext.cxl.wire.control import decode_control
from cocotbext.cxl.wire.crc import FLIT_BITS, PAYLOAD_MASK, crc16
from cocotbext.cxl.wire.flits import Direction, FlitHeader, decode_credit, is_control, slot_bits
from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, Message
from cocotbext.cxl.wire.slots import LAYOUTS, SlotUse


def describe(flit: int, direction: Direction, owed: int = 0) -> str:
    """Return the text of a 528-bit flit: its type, CRC and header, then one line per slot.

    Args:
        flit: payload and CRC.
        direction: decides which slot formats are used.
        owed: data slots still owed before this flit; with more than 3 it is an all-data flit.
    """
    payload = flit & PAYLOAD_MASK
    crc, good = flit >> FLIT_BITS - 16, crc16(payload)
    tail = f"CRC {crc:04X}" + ("" if crc == good else f" BAD, computed {good:04X}")
    if owed > 3:
        lines = [f"{direction.value} all-data flit, {tail}"]
        lines += [f"  slot {slot}: data {_hex(payload >> 128 * slot)}" for slot in range(4)]
        return "\n".join(lines)
    if is_control(payload):
        control, wrong = decode_control(payload)
        lines = [f"{direction.value} control flit, {tail}", f"  {control}"]
        return "\n".join(lines + [f"  ! {text}" for text in wrong])
    header = FlitHeader.decode(payload & 0xFFFF_FFFF)
    lines = [f"{direction.value} protocol flit, {_header(header)}, {tail}"]
    for slot in range(4):
        bits = slot_bits(payload, slot)
        layout = LAYOUTS[direction][1 if slot else 0][header.slots[slot]]
        if layout.use is SlotUse.DATA:
            text = f"data {_hex(bits)}"
            if not owed and not any("DRS" in line or "RwD" in line for line in lines[1:]):
                text += " (stray)"
        else:
            parts = [
                describe_message(field.part.unpack(field.extract(bits)))
                for field in layout.fields
                if bits >> field.offset & 1
            ]
            text = f"{layout.name}: " + ("; ".join(parts) or "empty")
            if bits & layout.cache_valid:
                text += " ! CXL.cache part is valid"
            if bits & layout.reserved:
                text += f" ! reserved bits {bits & layout.reserved:#x}"
        lines.append(f"  slot {slot}: {text}")
    return "\n".join(lines)


def describe_message(message: Message) -> str:
    """Describe a message in one line: opcode, tag, LD-ID, address or DevLoad, poison; no data."""
    name = getattr(message.opcode, "name", f"opcode {message.opcode}")
    text = f"{type(message).__name__} {name} tag={message.tag:04X} ld={message.ldid}"
    if isinstance(message, M2SReq | M2SRwD):
        text += f" addr={message.addr:#x}"
    else:
        text += f" load={getattr(message.devload, 'name', message.devload)}"
    if isinstance(message, M2SRwD | S2MDRS) and message.poison:
        text += " POISON"
    return text


def _header(header: FlitHeader) -> str:
    parts = [f"formats {','.join(map(str, header.slots))}"]
    parts += [name for name in ("Ak", "BE", "Sz") if getattr(header, name.lower())]
    for name in ("Rsp", "Req", "Data"):
        nibble = getattr(header, f"{name.lower()}_crd")
        if nibble & 7:
            kind = "" if nibble & 8 else " (cache)"
            parts.append(f"{name}Crd={decode_credit(nibble | 8)}{kind}")
    return " ".join(parts)


def _hex(bits: int) -> str:
    return (bits & (1 << 128) - 1).to_bytes(16, "little").hex()
