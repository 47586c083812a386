# SPDX-License-Identifier: Apache-2.0
"""Packers of messages into flits: M2SPacker (host) and S2MPacker (device) (spec: link spec §6).

A packer holds queued messages and owed data slots. ``next()`` returns the payload of the next flit
without acknowledgement, credits and CRC, which the link layer adds.
"""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, TypeVar

from cocotbext.cxl.wire.assumptions import be_to_slot
from cocotbext.cxl.wire.flits import Direction, chunks_of_line
from cocotbext.cxl.wire.messages import S2MNDR, M2SMessage, M2SReq, M2SRwD, Message, S2MMessage
from cocotbext.cxl.wire.slots import (
    LAYOUTS,
    M2S_G_REQ,
    M2S_G_RWD,
    M2S_H_REQ,
    M2S_H_RWD,
    MAX_DRS,
    MAX_NDR,
    MAX_REQ,
    MAX_RWD,
    S2M_G_2NDR,
    S2M_G_3DRS,
    S2M_G_DRS_2NDR,
    S2M_H_2DRS,
    S2M_H_2NDR,
    S2M_H_DRS_NDR,
)

MessageT = TypeVar("MessageT", bound=Message)


@dataclass(slots=True)
class PackOptions:
    """Options of a packer.

    With ``dense`` flits are as full as the rules allow, oldest message first. Otherwise the use of
    every slot (header, data, empty) is drawn at random from its legal uses, with the weights below.
    The flits are legal unless ``stray_data_rate`` is above 0: it is the probability that a free
    slot carries data (format G0) although none is owed, which a receiver accepts and counts.
    ``multi_header``: use H5 and G6, the S2M formats with several DRS headers in a slot.
    """

    dense: bool = True
    multi_header: bool = False
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    header_weight: float = 1.0
    data_weight: float = 1.0
    empty_weight: float = 0.5
    stray_data_rate: float = 0.0


@dataclass(slots=True)
class Credits:
    """Credits of a direction: ``plain`` for Req / NDR, ``data`` for RwD / DRS."""

    plain: int = 0
    data: int = 0


@dataclass(frozen=True, slots=True)
class Packed:
    """Packed flit: its payload without acknowledgement, credits and CRC.

    ``adf``: it is an all-data flit. ``plain`` and ``data`` are the credits that it uses, ``owed``
    the data slots still owed after it.
    """

    payload: int
    adf: bool
    plain: int = 0
    data: int = 0
    owed: int = 0


EMPTY: Final = "empty"
HEADER: Final = "header"
PLAIN: Final = "plain"
CHUNK: Final = "chunk"


class Packer(Generic[MessageT]):
    """Base of both packers: queues of messages that it packs into flits.

    Headers leave in the order of push() among those without data (``plain``) and among those with
    data.
    """

    DIRECTION: ClassVar[Direction]
    WORST_ADFS: ClassVar[int]
    """Largest number of all-data flits that one new data header (or multi-header slot) can
    cause.
    """
    MAX_PLAIN: ClassVar[int]
    MAX_DATA: ClassVar[int]
    """Largest number of headers without / with data in a flit."""

    def __init__(self, options: PackOptions | None = None) -> None:
        self.options = options or PackOptions()
        self._pushed = 0
        self.reset()

    def reset(self) -> None:
        """Drop all queued messages and owed data slots."""
        self._chunks: deque[int] = deque()
        self._plain: deque[tuple[int, int]] = deque()  # age, header
        self._data: deque[tuple[int, int, list[int]]] = deque()  # age, header, data slots

    @property
    def owed(self) -> int:
        """Return the number of data slots that must be sent for headers already sent."""
        return len(self._chunks)

    @property
    def waiting(self) -> int:
        """Return the number of messages whose header has not been sent."""
        return len(self._plain) + len(self._data)

    def push(self, message: MessageT) -> None:
        """Queue a message, to be sent by later flits."""
        self._pushed += 1
        if isinstance(message, M2SReq | S2MNDR):
            self._plain.append((self._pushed, message.pack()))
            return
        chunks = chunks_of_line(message.data)
        if isinstance(message, M2SRwD) and message.carries_be:
            chunks.append(be_to_slot(message.be))
        self._data.append((self._pushed, message.pack(), chunks))

    def next(self, credits: Credits, start_data: bool = True) -> Packed | None:
        """Return the next flit, or None if nothing can be sent; the caller subtracts its credits.

        ``start_data`` = False: send no new data header (the retry buffer is nearly full).
        """
        if len(self._chunks) > 3:
            take = self._chunks.popleft
            payload = take() | take() << 128 | take() << 256 | take() << 384
            return Packed(payload, True, owed=len(self._chunks))
        if not start_data:
            credits = Credits(credits.plain)
        data = self._data and credits.data > 0
        if self._chunks or data or (self._plain and credits.plain > 0):
            return self._fill(credits)
        return None

    def empty(self) -> Packed:
        """Return a protocol flit of empty slots. Raise ValueError if data is owed."""
        if self._chunks:
            raise ValueError(f"{len(self._chunks)} data slots are owed")
        return self._fill(Credits())

    def _fill(self, credits: Credits) -> Packed:
        options, chunks = self.options, self._chunks
        must = len(chunks)
        plain_left = min(len(self._plain), credits.plain, self.MAX_PLAIN)
        data_left = min(len(self._data), credits.data, self.MAX_DATA)
        plain = data = payload = 0
        has_be = False
        for slot in range(4):
            use = CHUNK if slot and slot <= must else self._use(slot, plain_left, data_left)
            if use is CHUNK:
                # chunks is empty only for a stray G0, whose content must not matter.
                chunk = chunks.popleft() if chunks else options.rng.getrandbits(128)
                payload |= chunk << 128 * slot  # the code of format G0 is 0
                continue
            code = self._format(slot, use, data_left)
            bits = 0
            for entry in LAYOUTS[self.DIRECTION][1 if slot else 0][code].fields:
                if use is EMPTY:
                    break
                if not entry.with_data:
                    if plain_left and (use is PLAIN or self._coin()):
                        bits |= entry.insert(self._plain.popleft()[1])
                        plain_left -= 1
                        plain += 1
                elif use is HEADER and data_left and (not data or self._coin()):
                    _, raw, line = self._data.popleft()
                    bits |= entry.insert(raw)
                    chunks.extend(line)
                    has_be = len(line) > 4
                    data_left -= 1
                    data += 1
            if data:
                data_left = 0  # one slot with data headers a flit
            payload |= code << 5 + 3 * slot | bits << (128 * slot or 32)
        sz = 1 if data else self._idle_sz()
        return Packed(payload | has_be << 3 | sz << 4, False, plain, data, len(chunks))

    def _coin(self) -> bool:
        return self.options.dense or self.options.rng.random() < 0.5

    def _use(self, slot: int, plain_left: int, data_left: int) -> str:
        """Return the use of a slot; without ``dense``, a legal use drawn by weight."""
        options = self.options
        owed = bool(slot and self._chunks)
        if options.dense:
            if owed:
                return CHUNK
            if plain_left and data_left:
                return PLAIN if self._plain_first() else HEADER
            return PLAIN if plain_left else HEADER if data_left else EMPTY
        weights = {EMPTY: options.empty_weight}
        if plain_left:
            weights[PLAIN] = options.header_weight
        if data_left:
            weights[HEADER] = options.header_weight
        if owed:
            weights[CHUNK] = options.data_weight
        elif slot and options.stray_data_rate and options.rng.random() < options.stray_data_rate:
            return CHUNK
        if len(weights) == 1:
            return EMPTY
        return options.rng.choices(list(weights), list(weights.values()))[0]

    def _plain_first(self) -> bool:
        """Return True if the oldest message without data must precede the oldest one with data.

        It is called when both could be sent.
        """
        raise NotImplementedError

    def _format(self, slot: int, use: str, data_left: int) -> int:
        """Return the 3-bit format code of slot number ``slot`` that carries headers or is empty."""
        raise NotImplementedError

    def _idle_sz(self) -> int:
        """Return the Sz bit of a flit in which no data header starts."""
        return 0


class M2SPacker(Packer[M2SMessage]):
    """Packer of the host: packs Req and RwD messages."""

    DIRECTION = Direction.M2S
    WORST_ADFS = 1
    MAX_PLAIN = MAX_REQ
    MAX_DATA = MAX_RWD

    def _plain_first(self) -> bool:
        return self._plain[0][0] < self._data[0][0]

    def _format(self, slot: int, use: str, data_left: int) -> int:
        if slot:
            return M2S_G_RWD if use is HEADER else M2S_G_REQ
        if use is EMPTY and not self.options.dense:
            return self.options.rng.choice((M2S_H_RWD, M2S_H_REQ))
        return M2S_H_RWD if use is HEADER else M2S_H_REQ

    def _idle_sz(self) -> int:
        # Sz has no meaning in such a flit.
        return 0 if self.options.dense else self.options.rng.getrandbits(1)


class S2MPacker(Packer[S2MMessage]):
    """Packer of NDR and DRS messages into S2M flits, for the Python device end (`DeviceLink`).

    Methods are those of `Packer`. With ``dense``, DRS headers have priority over NDRs.
    """

    DIRECTION = Direction.S2M
    WORST_ADFS = 3
    MAX_PLAIN = MAX_NDR
    MAX_DATA = MAX_DRS

    def _plain_first(self) -> bool:
        return False

    def _format(self, slot: int, use: str, data_left: int) -> int:
        options = self.options
        if use is EMPTY:
            return S2M_G_2NDR if slot else S2M_H_2NDR
        if use is HEADER:
            multi = options.multi_header and (
                data_left > 1 if options.dense else options.rng.random() < 0.5
            )
            if slot:
                return S2M_G_3DRS if multi else S2M_G_DRS_2NDR
            return S2M_H_2DRS if multi else S2M_H_DRS_NDR
        if options.dense:
            return S2M_G_2NDR if slot else S2M_H_2NDR
        # NDRs may also use a slot whose DRS is not valid.
        if slot:
            return options.rng.choice((S2M_G_2NDR, S2M_G_DRS_2NDR))
        return options.rng.choice((S2M_H_2NDR, S2M_H_DRS_NDR))
