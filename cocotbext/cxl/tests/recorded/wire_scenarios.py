# SPDX-License-Identifier: Apache-2.0
"""Scenarios of messages, slots, flits, packers and unpackers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from cocotbext.cxl.faults import FaultKind, FaultRule
from cocotbext.cxl.link.retry import RetryBuffer
from cocotbext.cxl.tests.recorded.draws import any_control, any_message, any_response
from cocotbext.cxl.tests.recorded.texts import Lines, attributes, refusal, show
from cocotbext.cxl.wire import flits
from cocotbext.cxl.wire.control import (
    decode_control,
    encode_control,
)
from cocotbext.cxl.wire.crc import crc16, seal, syndrome_of_bit
from cocotbext.cxl.wire.describe import describe, describe_message
from cocotbext.cxl.wire.flits import Direction, FlitHeader, ProtocolCode
from cocotbext.cxl.wire.messages import (
    S2MNDR,
    M2SReq,
    M2SRwD,
    byte_enables,
    completion_of,
    lines_of,
)
from cocotbext.cxl.wire.packer import Credits, M2SPacker, PackOptions, S2MPacker
from cocotbext.cxl.wire.slots import LAYOUTS
from cocotbext.cxl.wire.unpack import FlitReport, M2SUnpacker, S2MUnpacker

REFUSED: tuple[Callable[[], object], ...] = (
    lambda: list(lines_of(-1, 4)),
    lambda: list(lines_of(0, -1)),
    lambda: list(lines_of((1 << 52) - 1, 2)),
    M2SReq(1, 1 << 16, 0).pack,
    M2SReq(1, 0, 1 << 52).pack,
    M2SReq(1, 0, 16).pack,
    M2SRwD(1, 0, 32).pack,
    M2SRwD(1, 0, 1).pack,
    S2MNDR(0, -1).pack,
    FlitHeader(slots=(0, 0, 0, 8)).encode,
    FlitHeader(data_crd=16).encode,
    lambda: flits.encode_credit(3),
    lambda: flits.encode_credit(128),
    lambda: crc16(1 << 512),
    lambda: RetryBuffer(21),
    lambda: RetryBuffer(256),
    lambda: FaultRule(FaultKind.BURST, rate=1.5),
    lambda: FaultRule(FaultKind.BURST),
)


def codecs() -> Lines:
    """Show every code table, and drawn messages, headers and control flits both ways."""
    rng = Random("codecs")
    yield from map(refusal, REFUSED)
    yield show(str([syndrome_of_bit(bit) for bit in range(528)]).encode())
    for way, layouts in LAYOUTS.items():
        for code, layout in enumerate(layouts[0] + layouts[1]):
            parts = [f"{one.part.NAME} {one.offset} {one.devload}" for one in layout.fields]
            masks = f"{layout.cache_valid:x} {layout.reserved:x} {layout.multi_header}"
            yield f"{way.value} {code} {layout.name} {layout.use.value} {parts} {masks}"
    for nibble in range(16):
        yield f"{nibble} {flits.decode_credit(nibble)} {flits.is_cache_credit(nibble)}"
    yield show([flits.largest_credit(n) for n in range(-2, 200)])
    yield show([flits.encode_credit(n) for n in flits.CREDIT_SIZES])
    ids = (flits.decode_protocol_id(word) for word in range(1 << 16))
    yield show(Counter(show(one) for one in ids))
    for code in ProtocolCode:
        yield f"{code.name} {attributes(code, 'word is_cachemem is_null')}"
        yield show([flits.decode_protocol_id(code.word ^ 1 << bit) for bit in range(16)])
    for _ in range(60):
        address, length = rng.randrange(256), rng.choice((0, 1, 64, rng.randrange(300)))
        yield f"{address} {length} {show(list(lines_of(address, length)))}"
        yield f"{byte_enables(address % 64, min(length, 64)):x}"
    for number in range(52):
        message = any_message(rng) if number % 2 else any_response(rng)
        yield f"{describe_message(message)} {message.pack():x} {show(message.check())}"
        again = type(message).unpack(message.pack() | rng.getrandbits(2) << 100)
        yield f"{show(again)} {isinstance(message, M2SReq | M2SRwD) and completion_of(message)}"
        control = any_control(rng, number)
        payload = encode_control(control)
        yield f"{control} {payload:x}"
        yield show(decode_control(payload ^ 1 << rng.randrange(1, 512)))
        header = FlitHeader.decode(rng.getrandbits(32))
        yield f"{show(header)} {header.encode():x}"
        way, owed = rng.choice(list(Direction)), rng.choice((0, 0, 1, 3, 4, 9))
        word = rng.getrandbits(32) & ~rng.getrandbits(1)
        slots = sum(rng.getrandbits(96) << 32 + 128 * k for k in range(rng.randrange(4)))
        yield describe(seal(word | slots) ^ rng.getrandbits(1) << 512, way, owed)
        yield describe(seal(payload), way, owed)


def packers() -> Lines:
    """Show the flits of packers of drawn options, and the reports on them after damage."""
    for seed in range(9):
        rng = Random(f"packers {seed}")
        options = PackOptions(
            dense=seed % 3 == 0,
            multi_header=seed % 2 == 0,
            rng=Random(seed),
            header_weight=rng.choice((0.2, 1.0, 4.0)),
            data_weight=rng.choice((0.2, 1.0, 4.0)),
            empty_weight=rng.choice((0.2, 1.0, 4.0)),
            stray_data_rate=0.3 * (seed % 5 == 0),
        )
        m2s = seed % 4 < 2
        packer: Any = M2SPacker(options) if m2s else S2MPacker(options)
        unpackers: list[Any] = [M2SUnpacker() if m2s else S2MUnpacker() for _ in range(2)]
        yield f"-- {seed}"
        for _ in range(27):
            for _ in range(rng.choice((0, 1, 3))):
                packer.push(any_message(rng) if m2s else any_response(rng))
            credits = Credits(rng.choice((0, 1, 9)), rng.choice((0, 1, 2, 9)))
            packed = packer.next(credits, rng.random() < 0.9)
            if packed is None:
                if not packer.owed:
                    packed = packer.empty()
                else:
                    continue
            yield f"{show(packed)} {packer.waiting} {packer.owed} {show(credits)}"
            yield show(unpackers[0].feed(packed.payload))
            wrong = packed.payload ^ (rng.random() < 0.5) << rng.choice(
                (rng.randrange(1, 32), rng.randrange(512))
            )
            yield f"{wrong ^ packed.payload:x} {show(unpackers[1].feed(wrong))}"
        packer.reset()
        unpackers[1].reset()
        yield f"{packer.waiting} {packer.owed} {unpackers[1].owed}"


def unpackers() -> Lines:
    """Show the reports on flits with drawn formats, and few bits in their slots."""
    for seed in range(4):
        rng = Random(f"unpackers {seed}")
        for unpacker in (M2SUnpacker(), S2MUnpacker()):
            for _ in range(44):
                slots = rng.choices(range(8), weights=(6, 1, 1, 2, 6, 6, 3, 1), k=4)
                header = sum(code << 5 + 3 * k for k, code in enumerate(slots))
                header |= rng.choice((0, 16, 24)) | rng.randrange(4) * (rng.random() < 0.1)
                payload = header & ~1
                for k in range(4):
                    low = 128 * k or 32
                    bits = any_message(rng).pack() if rng.random() < 0.5 else 0
                    if rng.random() < 0.4:
                        bits = any_response(rng).pack() << rng.choice((0, 28, 40, 68, 80))
                    if rng.random() < 0.1:
                        bits |= 1 << rng.randrange(128)
                    payload |= (bits & (1 << 128 - (k == 0) * 32) - 1) << low
                report: FlitReport[Any] = unpacker.feed(payload)
                yield show(report)


SCENARIOS: dict[str, Callable[[], Lines]] = {
    one.__name__: one for one in (codecs, packers, unpackers)
}
