# SPDX-License-Identifier: Apache-2.0
"""Counter-based uniform random numbers for stochastic rounding (Philox).

A draw depends only on its key and its number, never on earlier draws. So a training that is
resumed, or whose tensors are cut into other pieces, rounds as it would have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_OF_A_BLOCK = 16
"""Draws of 16 bits that one value of the counter of Philox gives."""


@dataclass(frozen=True)
class Key:
    """Key of a stream of draws: seed, step, rank and parameter.

    ``stage`` separates several quantizations of a step, such as `send` and `reduced`.
    """

    seed: int
    step: int
    rank: int
    parameter: str
    stage: str = "send"

    def words(self) -> tuple[int, int]:
        """Return the key of Philox, two 64-bit words: the first 128 bits of the fields' SHA-256."""
        numbers = int(self.seed), int(self.step), int(self.rank)  # numpy's print otherwise
        text = repr((*numbers, str(self.parameter), str(self.stage)))
        digest = hashlib.sha256(text.encode()).digest()
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


Draws = Key | Callable[[int, int], NDArray[np.float64]] | None
"""Random numbers of stochastic rounding; None: to nearest, half up.

A key of `draws`, or a function of the first element and the number of elements that returns uniform
numbers in [0, 1), the same whenever asked.
"""


def draws(key: Key, count: int, first: int = 0) -> NDArray[np.float64]:
    """Return ``count`` draws of a stream from number ``first`` on, float64 in (0, 1).

    They are odd multiples of 2^-17, so that their mean is exactly 1/2. The mean of a code that they
    round is wrong by at most 2^-17 units. Draws of 32 bits take twice as long, and draws take most
    of the time of packing.
    """
    block, skip = divmod(first, _OF_A_BLOCK)
    blocks = -(-(skip + count) // _OF_A_BLOCK)
    # A generator counts before it draws.
    start = (block - 1) % (1 << 256)
    philox = np.random.Philox(
        key=np.array(key.words(), np.uint64),
        counter=np.array([start >> 64 * n & (1 << 64) - 1 for n in range(4)], np.uint64),
    )
    raw = philox.random_raw(4 * blocks).astype("<u8", copy=False).view("<u2")
    out: NDArray[np.float64] = (raw[skip : skip + count] + 0.5) * 2.0**-16
    return out
