# SPDX-License-Identifier: Apache-2.0
"""Stretches of tensors as integer codes, and numbers drawn so that any stretch has its own.

spec: controller, second edition §7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import F32, U8, Mode
from models.quantize import BUCKET
from verif.replay.options import Rounding
from verif.replay.tensors import pack_shared

_PIECE = 1 << 16
"""Elements that are drawn at a time: any stretch can be drawn without what stands before it."""


def uniform(key: tuple[int, ...], first: int, count: int, kind: Any) -> NDArray[Any]:
    """``count`` numbers of a float type, uniform in [0, 1), from number ``first`` of those that
    belong to ``key`` on."""
    pieces = range(first // _PIECE, -(-(first + count) // _PIECE))
    drawn = [np.zeros(0, kind)]
    for piece in pieces:
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence((*key, piece))))
        drawn.append(rng.random(_PIECE, dtype=kind))
    start = first - pieces.start * _PIECE
    return np.concatenate(drawn)[start : start + count]


@dataclass(frozen=True)
class CodeRounding:
    """How codes are rounded; stochastic draws depend on the seed, and on the element's place."""

    rounding: Rounding = "nearest"
    seed: int = 1

    def pack(self, x: F32, u: F32, mode: Mode, place: tuple[int, int, int]) -> U8:
        """A stretch of a tensor of all workers, float32[W, count], as lines uint8[W, n, 64].

        ``u``: the scales of the buckets from that of the first element on. ``place``: the step,
        the number of the tensor, and the first element, which begins a line.
        """
        step, number, first = place
        count = x.shape[1]
        draws = None
        if self.rounding == "stochastic":
            keys = ((self.seed, step, number, worker, 1) for worker in range(len(x)))
            draws = np.stack([uniform(key, first, count, np.float64) for key in keys])
        return pack_shared(x, mode, u, draws, first)


def bucket_range(first: int, count: int) -> tuple[int, int]:
    """(first bucket, one behind the last) of ``count`` elements."""
    return first // BUCKET, -(-(first + count) // BUCKET)


def pieces(elements: int, size: int) -> Iterator[tuple[int, int]]:
    """(first, count) of stretches of at most ``size`` elements."""
    for first in range(0, elements, size):
        yield first, min(size, elements - first)
