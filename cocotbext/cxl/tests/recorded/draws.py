# SPDX-License-Identifier: Apache-2.0
"""Drawn messages, control flits and damage of flits."""

from __future__ import annotations

from random import Random

from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    UnknownControl,
    encode_control,
)
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.flits import ProtocolCode, WireFlit
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    S2MNDR,
    M2SReq,
    M2SRwD,
    RwdOp,
)

PID = ProtocolCode.CACHEMEM.word


def line(number: int) -> bytes:
    return bytes((number + k) & 255 for k in range(64))


def any_message(rng: Random, legal: bool = False) -> M2SReq | M2SRwD:
    """Return a drawn request; with ``legal`` a supported one within 16 lines."""
    write, addr, ldid = rng.random() < 0.5, 64 * rng.randrange(16), rng.randrange(16)
    if not legal:
        addr = rng.getrandbits(46) << 6
    rest = {} if legal else {
        "snp_type": rng.randrange(8),
        "meta_field": rng.randrange(4),
        "meta_value": rng.randrange(4),
        "tc": rng.randrange(4),
    }  # fmt: skip
    tag = rng.randrange(1 << 16)
    if write:
        opcode = rng.choice((1, 1, 2, 2, 2 if legal else rng.randrange(16)))
        be = rng.getrandbits(64) if opcode == RwdOp.MEM_WR_PTL else (1 << 64) - 1
        poison = rng.random() < 0.2
        data = line(rng.randrange(256))
        return M2SRwD(opcode, tag, addr, ldid, data=data, be=be, poison=poison, **rest)
    opcode = rng.choice((1, 1, 2, 8, 1 if legal else rng.randrange(16)))
    return M2SReq(opcode, tag, addr, ldid, **rest)


def any_response(rng: Random) -> S2MNDR | S2MDRS:
    tag, ldid, load = rng.randrange(1 << 16), rng.randrange(16), rng.randrange(4)
    meta = {"meta_field": rng.randrange(4), "meta_value": rng.randrange(4)}
    if rng.random() < 0.5:
        return S2MNDR(rng.randrange(8), tag, ldid, load, **meta)
    poison, data = rng.random() < 0.3, line(rng.randrange(256))
    return S2MDRS(rng.randrange(8), tag, ldid, load, poison, data, **meta)


def any_control(rng: Random, near: int = 0) -> ControlFlit:
    """Return a drawn control flit; sequence numbers are mostly ``near`` a number."""
    eseq = (near + rng.randrange(-3, 4)) % 64 if rng.random() < 0.8 else rng.randrange(256)
    nibbles = [rng.choice((0, 0, 9, 10, 11, rng.randrange(16))) for _ in range(3)]
    match rng.randrange(8):
        case 0 | 1:
            return Llcrd(rng.choice((0, 1, 2, 8, rng.randrange(256))), *nibbles)
        case 2 | 3:
            return RetryReq(eseq, rng.randrange(4), rng.randrange(3))
        case 4 | 5:
            wr_ptr, flag = rng.choice((eseq, near % 64)), rng.randrange(4)
            return RetryAck(flag & 1 > 0, flag > 1, rng.randrange(4), wr_ptr, eseq, 9)
        case 6:
            return rng.choice((RetryIdle(), RetryFrame()))
    return rng.choice(
        (
            InitParam(rng.choice((21, 63)), rng.choice((2, 2, 3))),
            UnknownControl(*rng.choices(range(16), k=2)),
        )
    )


def damages(rng: Random, wire: WireFlit, near: int) -> tuple[str, list[WireFlit]]:
    """Return a drawn damage of a flit on the wire: its name, and the flits in place of it."""
    pid, flit = wire
    payload = flit & PAYLOAD_MASK
    control = [(PID, seal(encode_control(any_control(rng, near))))]
    frames = [(PID, seal(encode_control(RetryFrame())))] * rng.choice((0, 4, 5, 5, 5, 6))
    bit = rng.choice((rng.randrange(32), rng.randrange(32, 64), rng.randrange(512)))
    code = rng.choice(list(ProtocolCode))
    nibble = 20 + 4 * rng.randrange(3)
    slot = 5 + 3 * rng.randrange(4)
    found: dict[str, list[WireFlit]] = {
        "lost": [],
        "twice": [wire, wire],
        "bad CRC": [(pid, flit ^ 1 << rng.randrange(528))],
        "half ID": [(pid ^ 1 << rng.randrange(16), flit)],
        "other ID": [(code.word, flit)],
        "bad ID": [(rng.getrandbits(16), flit)],
        "bit": [(pid, seal(payload ^ 1 << bit))],
        "header bit": [(pid, seal(payload ^ 1 << rng.randrange(32)))],
        "format": [(pid, seal(payload & ~(7 << slot) | rng.randrange(8) << slot))],
        "credits": [(pid, seal(payload & ~(15 << nibble) | rng.randrange(16) << nibble))],
        "control": [*control, wire],
        "sequence": [*frames, *control, wire],
        "only sequence": [*frames, *control],
        "static bit": [(PID, seal(encode_control(any_control(rng, near)) | 1 << bit)), wire],
    }
    name = rng.choice(list(found))
    return name, found[name]
