# SPDX-License-Identifier: Apache-2.0
"""Bit-sliced votes for bulk replay: 64-bit words instead of elements, for millions of lines.

Plane p holds bit p of every counter, as in the device. The reference of the scoreboard is
`models.reducers`, which counts integers without planes; `models/test_bitsliced.py` compares the
two. Spec: controller §3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES, U8, Tie

Words = NDArray[np.uint64]
_EVEN = np.uint64(0x5555_5555_5555_5555)
_ONE = np.uint64(1)


def _words(lines: U8) -> Words:
    """Return uint8[..., 64] as uint64[..., 8]."""
    return np.ascontiguousarray(lines).view("<u8")


def _count(votes: Sequence[Words], planes: int) -> list[Words]:
    """Return the planes of the number of votes. Raise ValueError if there are too few planes."""
    if len(votes) >> planes:
        raise ValueError(f"{planes} planes do not hold a count of {len(votes)}")
    counts = [np.zeros_like(votes[0]) for _ in range(planes)]
    for number, vote in enumerate(votes, start=1):
        carry = vote
        for p in range(number.bit_length()):
            counts[p], carry = counts[p] ^ carry, counts[p] & carry
    return counts


def _below(counts: Sequence[Words], limits: Sequence[Words | np.uint64]) -> Words:
    """Return a mask of the counts below their limit; both have the least significant plane
    first.
    """
    below = np.zeros_like(counts[0])
    for count, limit in zip(counts, limits, strict=True):
        below = (~count & limit) | (~(count ^ limit) & below)
    return below


def _constant(value: int, planes: int) -> list[np.uint64]:
    """Return the planes of a constant."""
    return [np.uint64(0xFFFF_FFFF_FFFF_FFFF * (value >> p & 1)) for p in range(planes)]


def _lines(words: Words) -> U8:
    return words.astype("<u8", copy=False).view(np.uint8).reshape(*words.shape[:-1], LINE_BYTES)


def vote_binary(sent: U8, tie: Tie, planes: int) -> tuple[U8, U8]:
    """Return (votes uint8[n, 64], count planes uint8[planes, n, 64]) of G_BINARY lines uint8[W, n,
    64].

    All workers have contributed.

    Raises:
        ValueError: W does not fit ``planes`` bits.
    """
    workers = len(sent)
    counts = _count([~line for line in _words(sent)], planes)
    # Minority of non-negative votes: 2c < W, and 2c = W if a tie is negative.
    limit = workers // 2 + 1 if tie == Tie.MINUS else (workers + 1) // 2
    negative = _below(counts, _constant(limit, planes))
    return _lines(negative), _lines(np.stack(counts))


def vote_ternary(sent: U8, threshold: int, planes: int) -> tuple[U8, U8]:
    """Return the same for G_TERNARY lines: net >= threshold gives 10, net <= -threshold 11, else
    00.
    """
    votes = []
    for line in _words(sent):
        gate, sign = line >> _ONE & _EVEN, line & _EVEN
        votes.append((gate & ~sign) | (gate & sign) << _ONE)
    counts = _count(votes, planes)
    plus = [plane & _EVEN for plane in counts]
    minus = [plane >> _ONE & _EVEN for plane in counts]
    up, down = _exceeds(plus, minus, threshold), _exceeds(minus, plus, threshold)
    result = (up | down) << _ONE | down
    return _lines(result), _lines(np.stack(counts))


def _exceeds(counts: Sequence[Words], others: Sequence[Words], by: int) -> Words:
    """Return a mask on even bits of the elements with count >= other + by."""
    width = max(len(counts), by.bit_length()) + 1
    zero = np.zeros_like(counts[0])
    added: list[Words] = []
    carry = zero
    for p in range(width):
        other = others[p] if p < len(others) else zero
        bit = _EVEN if by >> p & 1 else np.uint64(0)
        added.append(other ^ bit ^ carry)
        carry = (other & bit) | (carry & (other ^ bit))
    wide = [*counts, *(zero for _ in range(width - len(counts)))]
    return ~_below(wide, added) & _EVEN
