# SPDX-License-Identifier: Apache-2.0
"""What the packers of both directions share (spec: link spec §6).

A packer holds the messages that wait and the data slots that are owed. ``next()`` gives the payload
of the next flit without acknowledgement, credits and CRC, which belong to the link layer.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

MessageT = TypeVar("MessageT")


@dataclass(slots=True)
class PackOptions:
    """How a packer fills flits.

    dense: as full as the rules allow, oldest message first. Otherwise every slot is drawn at random
    among what is legal there, by the weights below; the result is legal whatever they are, unless
    ``stray_data_rate`` is above 0 (G0 where no data is owed: legal to receive, counted).
    ``multi_header``: S2M only, H5 and G6 are used.
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
    """A payload; ``plain`` and ``data`` credits it costs; data slots owed afterwards."""

    payload: int
    adf: bool
    plain: int = 0
    data: int = 0
    owed: int = 0


class Packer(Generic[MessageT]):
    """Base of both packers."""

    WORST_ADFS: int
    """ADFs that one new data header (or multi-header slot) can lead to at worst."""

    def __init__(self, options: PackOptions | None = None) -> None:
        self.options = options or PackOptions()
        self._chunks: deque[int] = deque()

    @property
    def owed(self) -> int:
        """Data slots owed."""
        return len(self._chunks)

    @property
    def waiting(self) -> int:
        """Messages whose header has not left."""
        raise NotImplementedError

    def push(self, message: MessageT) -> None:
        """Queue a message."""
        raise NotImplementedError

    def sendable(self, credits: Credits, start_data: bool = True) -> bool:
        """True if next() would give a flit."""
        raise NotImplementedError

    def next(self, credits: Credits, start_data: bool = True) -> Packed | None:
        """The next flit, or None if nothing can be sent; the caller takes the credits off.

        ``start_data`` = False: no new data header may leave (the retry buffer is nearly full).
        """
        if len(self._chunks) > 3:
            return Packed(self._adf(), True, owed=len(self._chunks))
        if not self.sendable(credits, start_data):
            return None
        return self._fill(credits, start_data)

    def empty(self) -> Packed:
        """A protocol flit of empty slots; only legal while nothing is owed (else ValueError)."""
        if self._chunks:
            raise ValueError(f"{len(self._chunks)} data slots are owed")
        return self._fill(Credits(), False)

    def _fill(self, credits: Credits, start_data: bool) -> Packed:
        raise NotImplementedError

    def _adf(self) -> int:
        take = self._chunks.popleft
        return take() | take() << 128 | take() << 256 | take() << 384

    def reset(self) -> None:
        """Forget everything, as after a reset."""
        raise NotImplementedError


EMPTY: Final = "empty"
HEADER: Final = "header"
PLAIN: Final = "plain"
CHUNK: Final = "chunk"


def draw(options: PackOptions, choices: list[str]) -> str:
    """One of the legal uses of a slot, by weight."""
    if len(choices) == 1:
        return choices[0]
    weight = {
        EMPTY: options.empty_weight,
        HEADER: options.header_weight,
        PLAIN: options.header_weight,
        CHUNK: options.data_weight,
    }
    return options.rng.choices(choices, [weight[choice] for choice in choices])[0]
