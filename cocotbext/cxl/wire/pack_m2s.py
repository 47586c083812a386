# SPDX-License-Identifier: Apache-2.0
"""Packer of the host: Req and RwD into M2S flits (spec: link spec §6)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from cocotbext.cxl.wire.assumptions import be_to_slot
from cocotbext.cxl.wire.flits import chunks_of_line
from cocotbext.cxl.wire.messages import M2SMessage, M2SRwD
from cocotbext.cxl.wire.packer import (
    CHUNK,
    EMPTY,
    HEADER,
    PLAIN,
    Credits,
    Packed,
    Packer,
    PackOptions,
    draw,
)
from cocotbext.cxl.wire.slots import (
    DATA,
    M2S_G_REQ,
    M2S_G_RWD,
    M2S_H_REQ,
    M2S_H_RWD,
    MAX_REQ,
)


@dataclass(slots=True)
class _Rwd:
    age: int
    raw: int
    chunks: list[int]
    has_be: bool


class M2SPacker(Packer[M2SMessage]):
    """Queue of Req and RwD; headers leave oldest first within a channel."""

    WORST_ADFS = 1

    def __init__(self, options: PackOptions | None = None) -> None:
        super().__init__(options)
        self._req: deque[tuple[int, int]] = deque()
        self._rwd: deque[_Rwd] = deque()
        self._age = 0

    @property
    def waiting(self) -> int:
        return len(self._req) + len(self._rwd)

    def push(self, message: M2SMessage) -> None:
        self._age += 1
        if isinstance(message, M2SRwD):
            chunks = chunks_of_line(message.data)
            if message.carries_be:
                chunks.append(be_to_slot(message.be))
            self._rwd.append(_Rwd(self._age, message.pack(), chunks, message.carries_be))
        else:
            self._req.append((self._age, message.pack()))

    def reset(self) -> None:
        self._chunks.clear()
        self._req.clear()
        self._rwd.clear()

    def sendable(self, credits: Credits, start_data: bool = True) -> bool:
        return bool(
            self._chunks
            or (self._req and credits.plain > 0)
            or (self._rwd and credits.data > 0 and start_data)
        )

    def _fill(self, credits: Credits, start_data: bool) -> Packed:
        options = self.options
        chunks = self._chunks
        must = len(chunks)
        plain_left = min(len(self._req), credits.plain, MAX_REQ)
        data_left = 1 if start_data and self._rwd and credits.data > 0 else 0
        plain = data = 0
        has_be = False
        payload = 0
        for slot in range(4):
            if slot and slot <= must:
                use = CHUNK
            elif options.dense:
                use = self._dense_use(slot, plain_left, data_left)
            else:
                use = self._random_use(slot, plain_left, data_left)
            if use is CHUNK:
                # chunks is empty for a stray G0 only; what stands in it must not matter.
                chunk = chunks.popleft() if chunks else options.rng.getrandbits(128)
                payload |= DATA << 5 + 3 * slot | chunk << 128 * slot
                continue
            raw = 0
            if use is PLAIN:
                raw = self._req.popleft()[1]
                plain += 1
                plain_left -= 1
            elif use is HEADER:
                entry = self._rwd.popleft()
                raw, has_be = entry.raw, entry.has_be
                chunks.extend(entry.chunks)
                data, data_left = 1, 0
            if slot:
                payload |= (M2S_G_RWD if use is HEADER else M2S_G_REQ) << 5 + 3 * slot
                payload |= raw << 128 * slot
            else:
                payload |= (self._empty_h() if use is EMPTY else _H_CODE[use]) << 5 | raw << 32
        if data:
            payload |= 1 << 4 | has_be << 3
        elif not options.dense:
            # Without a data header Sz means nothing.
            payload |= options.rng.getrandbits(1) << 4
        return Packed(payload, False, plain, data, len(chunks))

    def _empty_h(self) -> int:
        if self.options.dense:
            return M2S_H_REQ
        return self.options.rng.choice((M2S_H_RWD, M2S_H_REQ))

    def _dense_use(self, slot: int, plain_left: int, data_left: int) -> str:
        if slot and self._chunks:
            return CHUNK
        if plain_left and data_left:
            return PLAIN if self._req[0][0] < self._rwd[0].age else HEADER
        return PLAIN if plain_left else HEADER if data_left else EMPTY

    def _random_use(self, slot: int, plain_left: int, data_left: int) -> str:
        options = self.options
        choices = [EMPTY]
        if plain_left:
            choices.append(PLAIN)
        if data_left:
            choices.append(HEADER)
        if slot and self._chunks:
            choices.append(CHUNK)
        elif slot and options.stray_data_rate and options.rng.random() < options.stray_data_rate:
            return CHUNK
        return draw(options, choices)


_H_CODE = {PLAIN: M2S_H_REQ, HEADER: M2S_H_RWD}
