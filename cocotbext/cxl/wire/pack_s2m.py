# SPDX-License-Identifier: Apache-2.0
"""Packer of the device: NDR and DRS into S2M flits (spec: link spec §6)."""

from __future__ import annotations

from collections import deque

from cocotbext.cxl.wire.flits import Direction, chunks_of_line
from cocotbext.cxl.wire.messages import S2MDRS, S2MMessage
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
    LAYOUTS,
    MAX_NDR,
    S2M_G_2NDR,
    S2M_G_3DRS,
    S2M_G_DRS_2NDR,
    S2M_H_2DRS,
    S2M_H_2NDR,
    S2M_H_DRS_NDR,
    Part,
)


class S2MPacker(Packer[S2MMessage]):
    """Queue of NDR and DRS; headers leave oldest first within a channel."""

    WORST_ADFS = 3

    def __init__(self, options: PackOptions | None = None) -> None:
        super().__init__(options)
        self._ndr: deque[int] = deque()
        self._drs: deque[tuple[int, list[int]]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._ndr) + len(self._drs)

    def push(self, message: S2MMessage) -> None:
        if isinstance(message, S2MDRS):
            self._drs.append((message.pack(), chunks_of_line(message.data)))
        else:
            self._ndr.append(message.pack())

    def reset(self) -> None:
        self._chunks.clear()
        self._ndr.clear()
        self._drs.clear()

    def sendable(self, credits: Credits, start_data: bool = True) -> bool:
        return bool(
            self._chunks
            or (self._ndr and credits.plain > 0)
            or (self._drs and credits.data > 0 and start_data)
        )

    def _fill(self, credits: Credits, start_data: bool) -> Packed:
        options = self.options
        chunks = self._chunks
        must = len(chunks)
        ndr_left = min(len(self._ndr), credits.plain, MAX_NDR)
        drs_left = min(len(self._drs), credits.data) if start_data else 0
        plain = data = 0
        payload = 0
        for slot in range(4):
            if slot and slot <= must:
                use = CHUNK
            else:
                use = self._use(slot, ndr_left, drs_left)
            if use is CHUNK:
                chunk = chunks.popleft() if chunks else options.rng.getrandbits(128)
                payload |= DATA << 5 + 3 * slot | chunk << 128 * slot
                continue
            code = self._format(slot, use, drs_left)
            bits = 0
            for entry in LAYOUTS[Direction.S2M][1 if slot else 0][code].fields:
                if use is EMPTY:
                    break
                if entry.part is Part.NDR:
                    if ndr_left and (use is PLAIN or self._coin()):
                        bits |= entry.insert(self._ndr.popleft())
                        ndr_left -= 1
                        plain += 1
                elif use is HEADER and drs_left and (options.dense or data == 0 or self._coin()):
                    raw, line = self._drs.popleft()
                    bits |= entry.insert(raw)
                    chunks.extend(line)
                    drs_left -= 1
                    data += 1
            if data:
                drs_left = 0  # one slot with data headers a flit
            payload |= code << 5 + 3 * slot | bits << (128 * slot or 32)
        if data:
            payload |= 1 << 4
        return Packed(payload, False, plain, data, len(chunks))

    def _coin(self) -> bool:
        return self.options.dense or self.options.rng.random() < 0.5

    def _use(self, slot: int, ndr_left: int, drs_left: int) -> str:
        options = self.options
        owed = bool(slot and self._chunks)
        if options.dense:
            if owed:
                return CHUNK
            return HEADER if drs_left else PLAIN if ndr_left else EMPTY
        choices = [EMPTY]
        if ndr_left:
            choices.append(PLAIN)
        if drs_left:
            choices.append(HEADER)
        if owed:
            choices.append(CHUNK)
        elif slot and options.stray_data_rate and options.rng.random() < options.stray_data_rate:
            return CHUNK
        return draw(options, choices)

    def _format(self, slot: int, use: str, drs_left: int) -> int:
        options = self.options
        if use is EMPTY:
            return S2M_G_2NDR if slot else S2M_H_2NDR
        if use is HEADER:
            multi = options.multi_header and (
                drs_left > 1 if options.dense else options.rng.random() < 0.5
            )
            if slot:
                return S2M_G_3DRS if multi else S2M_G_DRS_2NDR
            return S2M_H_2DRS if multi else S2M_H_DRS_NDR
        if options.dense:
            return S2M_G_2NDR if slot else S2M_H_2NDR
        # NDRs may also ride in a slot whose DRS is not valid.
        if slot:
            return options.rng.choice((S2M_G_2NDR, S2M_G_DRS_2NDR))
        return options.rng.choice((S2M_H_2NDR, S2M_H_DRS_NDR))
