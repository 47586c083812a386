# SPDX-License-Identifier: Apache-2.0
"""Stimulus of the link tests: random messages, flits made by hand, and damage to flits.

spec: link spec §1 (protocol ID), §2 (CRC), §4 and §5 (slots), §9 (RETRY flits).
"""

import os
import random
from collections.abc import Callable, Sequence

from cocotbext.cxl.wire import control, flits, messages
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import WireFlit

PID = flits.ProtocolCode.CACHEMEM.word
FRAMES: list[control.ControlFlit] = [control.RetryFrame()] * 5
"""Five RETRY.Frame flits, which precede a RETRY.Req or a RETRY.Ack."""
Damage = Callable[[WireFlit], WireFlit]


def req_word(m: messages.M2SReq) -> int:
    return (m.opcode << 20 | m.tag << 4 | m.ldid) << 46 | m.addr >> 6


def rwd_word(m: messages.M2SRwD, illegal: bool = False, raw_be: bool = False) -> int:
    head = ((illegal << 4 | m.opcode) << 20 | m.tag << 4 | m.ldid) << 46 | m.addr >> 6
    be = m.be if m.carries_be or raw_be else messages.BE_ALL
    return ((head << 1 | m.poison) << 64 | be) << 512 | int.from_bytes(m.data, "little")


def random_req(rng: random.Random) -> messages.M2SReq:
    op = rng.choice([*messages.ReqOp, *[rng.randrange(16)] * 3])
    tag, addr = rng.getrandbits(16), rng.getrandbits(46) << 6 | rng.getrandbits(1) << 5
    return messages.M2SReq(op, tag, addr, rng.getrandbits(4), tc=rng.getrandbits(2))


def random_rwd(rng: random.Random, partial: float = 0.3) -> messages.M2SRwD:
    is_partial = rng.random() < partial
    reserved = rng.choice((0, *range(3, 16)))
    whole = rng.choice([*[messages.RwdOp.MEM_WR] * 4, reserved])
    return messages.M2SRwD(
        messages.RwdOp.MEM_WR_PTL if is_partial else whole,
        rng.getrandbits(16),
        rng.getrandbits(46) << 6,
        rng.getrandbits(4),
        tc=rng.getrandbits(2),
        data=rng.randbytes(64),
        be=rng.getrandbits(64) if is_partial else messages.BE_ALL,
        poison=rng.random() < 0.2,
    )


def random_ndr(rng: random.Random) -> messages.S2MNDR:
    return messages.S2MNDR(0, rng.getrandbits(16), rng.getrandbits(4), rng.getrandbits(2))


def random_drs(rng: random.Random) -> messages.S2MDRS:
    tag, ldid, load = (rng.getrandbits(bits) for bits in (16, 4, 2))
    return messages.S2MDRS(0, tag, ldid, load, rng.random() < 0.2, rng.randbytes(64))


def count_scale() -> int:
    return 1 if os.environ.get("NF_SIM", "verilator") == "icarus" else 5


def slots_flit(
    formats: Sequence[int], bodies: Sequence[int], sz: bool = False, be: bool = False
) -> int:
    """Return a sealed (with CRC) protocol flit of four slots given by format codes and bits.

    `sz` and `be` are header bits.
    """
    a, b, c, d = formats
    header = flits.FlitHeader(sz=sz, be=be, slots=(a, b, c, d)).encode()
    a, b, c, d = bodies
    return seal(header | a << 32 | b << 128 | c << 256 | d << 384)


def data_flit(*chunks: int) -> int:
    """Return a sealed all-data flit of up to four chunks of 128 bits."""
    return seal(sum(chunk << flits.G_BITS * k for k, chunk in enumerate(chunks)))


def write_flits(write: messages.M2SRwD) -> tuple[int, int]:
    """Return the two sealed flits of a write whose header is in slot 0 of the first one."""
    *first, last = flits.chunks_of_line(write.data)
    head = slots_flit((4, 0, 0, 0), (write.pack(), *first), sz=True)
    return head, slots_flit((5, 0, 4, 4), (0, last, 0, 0))


def random_slots_flit(rng: random.Random, plain: int, data: int) -> int:
    """Return a sealed protocol flit of random slots, legal or not.

    At most ``plain`` requests and ``data`` data headers in it are valid.
    """
    formats, bodies = [], []
    for slot in range(4):
        odd = rng.random() < 0.3
        code = rng.choice((0, 0, 0, 4, 4, 5, 5, 1, 2, 3, 6, 7) if odd else (0, 4, 5))
        body = 0
        if slot and code == 0:
            body = rng.getrandbits(128)
        elif code == (5 if slot else 4) and data and rng.random() < 0.7:
            body, data = random_rwd(rng).pack(), data - 1
        elif code == (4 if slot else 5) and plain and rng.random() < 0.7:
            body, plain = random_req(rng).pack(), plain - 1
        elif code < 4 and rng.random() < 0.3:
            body = 1 << rng.randrange(96)
        if slot and code in (4, 5) and rng.random() < 0.05:
            body |= 1 << 88
        formats.append(code)
        bodies.append(body)
    return slots_flit(formats, bodies, rng.random() < 0.9, rng.random() < 0.4)


def tricky_data(rng: random.Random) -> bytes:
    """Return 64 bytes of data that look like a control flit if sent as an all-data flit."""
    kinds: list[control.ControlFlit] = [
        *[control.RetryFrame()] * 2,
        control.RetryReq(rng.randrange(64), rng.randrange(4)),
        control.RetryAck(False, False, rng.randrange(4), 3, rng.randrange(64), 9),
        *(control.RetryIdle(), control.Llcrd(8), control.InitParam(63)),
    ]
    return control.encode_control(rng.choice(kinds)).to_bytes(64, "little")


def random_damage(rng: random.Random, rate: float) -> Damage:
    """Return a function that damages a share ``rate`` of flits: bits, a burst, or protocol ID.

    The link must detect each kind of damage.
    """

    def damage(wire: WireFlit) -> WireFlit:
        if rng.random() >= rate:
            return wire
        pid, flit = wire
        kind = rng.randrange(5)
        if kind < 3:
            for bit in rng.sample(range(528), kind + 1):
                flit ^= 1 << bit
        elif kind == 3:
            length = rng.randrange(2, 15)
            pattern = rng.getrandbits(length) | 1 | 1 << length - 1
            flit ^= pattern << rng.randrange(528 - length)
        else:
            pid = rng.choice((pid ^ 0x2020, pid ^ 0x2000, pid ^ 0x20, 0x5587, 0x9955))
        return pid, flit

    return damage
