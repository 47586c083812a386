# SPDX-License-Identifier: Apache-2.0
"""Contributions of all workers to one line, drawn together.

Real gradients correlate, and the corners of a count or of a sum need workers that agree with each
other.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from models.line_packing import TERN5_CODES, code_range, codes_to_lines, pack_int, trits_to_lines
from models.modes import GATED, Mode, elements_per_line
from models.regions import RegionConfig
from verif.sequences.line_data import FP32_CORNERS

Random = np.random.Generator
Votes = NDArray[np.int8]
Words = NDArray[np.uint32]
_Level = TypeVar("_Level", np.int8, np.int64)


def lines_of(config: RegionConfig, kind: str, rng: Random) -> list[bytes]:
    """Draw the contribution of each worker of a region to one line.

    Args:
        config: Descriptor of the region.
        kind: Choice of the knob "values", or "values_fp32" in mode FP32.
        rng: Source of all draws.

    Returns:
        Lines of 64 bytes, one for each worker; random bytes in mode IDENTITY.
    """
    workers = config.workers
    if config.mode is Mode.IDENTITY:
        return [rng.bytes(64) for _ in range(workers)]
    if config.mode is Mode.FP32:
        return [row.astype("<u4").tobytes() for row in fp32(kind, workers, rng)]
    if config.mode.bits:
        codes = int_codes(kind, workers, config, rng)
        return [pack_int(row, config.mode, config.signed).tobytes() for row in codes]
    votes = low_bit(kind, workers, config, rng)
    if config.mode is Mode.G_BINARY:
        packed = np.packbits((votes < 0).astype(np.uint8), axis=1, bitorder="little")
        return [row.tobytes() for row in packed]
    if config.mode is Mode.G_TERN5:
        return [trits_to_lines(row).tobytes() for row in votes]
    codes = np.where(votes == 0, 0, np.where(votes < 0, 3, 2)).astype(np.uint8)
    return [codes_to_lines(row).tobytes() for row in codes]


def with_illegal_codes(data: bytes, mode: Mode, rng: Random) -> bytes:
    """Return a line with some or all elements replaced by illegal codes.

    Args:
        data: Line of 64 bytes.
        mode: G_TERNARY (code 01) or G_TERN5 (bytes from TERN5_CODES on).
        rng: Source of all draws.
    """
    if mode is Mode.G_TERN5:
        line = np.frombuffer(data, np.uint8).copy()
        bad = rng.random(len(line)) < rng.choice((0.02, 0.3, 1.0))
        line[bad] = rng.integers(TERN5_CODES, 256, int(bad.sum()))
        return line.tobytes()
    codes = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, 2)
    codes[rng.random(len(codes)) < rng.choice((0.01, 0.3, 1.0))] = (1, 0)
    return np.packbits(codes.reshape(-1), bitorder="little").tobytes()


def int_codes(kind: str, workers: int, config: RegionConfig, rng: Random) -> NDArray[np.int64]:
    """Draw integer codes int64[workers, elements of a line].

    They are random, equal for all workers or for all but one, or corner values.

    Args:
        kind: Choice of the knob "values".
        workers: Number of workers.
        config: Descriptor, with an integer mode and its sign.
        rng: Source of all draws.
    """
    low, high = code_range(config.mode, config.signed)
    shape = (workers, elements_per_line(config.mode))
    if kind in ("unanimous", "near unanimous", "correlated"):
        codes = np.tile(_common(np.arange(low, high + 1), shape[1], rng), (workers, 1))
        if kind != "unanimous":
            codes[rng.integers(workers)] = rng.integers(low, high + 1, shape[1])
        return codes
    if kind == "independent":
        return rng.integers(low, high + 1, shape)
    return rng.choice(np.unique([low, low + 1, 0, 1, high - 1, high]), shape)


def low_bit(kind: str, workers: int, config: RegionConfig, rng: Random) -> Votes:
    """Draw votes int8[workers, elements of a line]: +1 and -1 in G_BINARY, also 0 in ternary modes.

    Args:
        kind: Choice of the knob "values".
        workers: Number of workers.
        config: Descriptor, with mode and threshold.
        rng: Source of all draws.
    """
    ternary = config.mode in GATED
    count = elements_per_line(config.mode)
    levels = np.array([-1, 0, 1] if ternary else [-1, 1], np.int8)
    if kind == "independent":
        return rng.choice(levels, (workers, count))
    if kind in ("correlated", "unanimous", "near unanimous"):
        votes = np.tile(_common(levels, count, rng), (workers, 1))
        if kind == "correlated":
            rate = rng.choice((0.02, 0.1, 0.25))
            flipped = rng.random(votes.shape) < rate
            votes[flipped] = rng.choice(levels, int(flipped.sum()))
        elif kind == "near unanimous":
            votes[rng.integers(workers)] = rng.choice(levels, count)
        return votes
    plus, minus = _targets(kind, workers, config.threshold, ternary, count, rng)
    rank = rng.random((workers, count)).argsort(axis=0)
    votes = np.where(rank < plus, 1, np.where(rank < plus + minus, -1, 0))
    return votes.astype(np.int8)


def _common(levels: NDArray[_Level], count: int, rng: Random) -> NDArray[_Level]:
    """Draw the value of `count` elements that all workers share: one level for all, or a random
    pattern.
    """
    if rng.random() < 0.5:
        return np.full(count, rng.choice(levels), levels.dtype)
    return rng.choice(levels, count)


def _targets(
    kind: str, workers: int, threshold: int, ternary: bool, count: int, rng: Random
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw, for each of `count` elements, how many workers vote + and how many vote -."""
    half = workers // 2
    if kind == "ties":
        plus = np.full(count, half)
        plus += rng.integers(0, 2, count) * (workers & 1)
        return plus, workers - plus if workers & 1 or not ternary else plus.copy()
    if kind == "near threshold" and ternary:
        net = np.clip(threshold + rng.integers(-1, 2, count), 0, workers)
        minus = rng.integers(0, (workers - net) // 2 + 1)
        swap = rng.random(count) < 0.5
        plus = minus + net
        return np.where(swap, minus, plus), np.where(swap, plus, minus)
    if kind == "uniform counts":
        plus = rng.integers(0, workers + 1, count)
    else:
        corners = [0, 1, half - 1, half, half + 1, workers - 1, workers]
        plus = rng.choice(np.clip(corners, 0, workers), count)
    rest = workers - plus
    return plus, rng.integers(0, rest + 1) if ternary else rest


# -- FP32 -------------------------------------------------------------------------------------
def fp32(kind: str, workers: int, rng: Random) -> Words:
    """Draw operands of FP32 sums as bit patterns, uint32[workers, 16].

    Args:
        kind: Choice of the knob "values_fp32".
        workers: Number of workers.
        rng: Source of all draws.
    """
    shape = (workers, elements_per_line(Mode.FP32))
    corners = np.array(FP32_CORNERS, np.uint32)
    if kind == "corners":
        return rng.choice(corners, shape)
    if kind == "equal corners":
        return np.tile(rng.choice(corners, shape[1]), (workers, 1))
    if kind == "one scale":
        return rng.uniform(-1, 1, shape).astype(np.float32).view(np.uint32)
    if kind == "cancellation":
        return _cancelling(shape, rng)
    if kind == "rounding ties":
        return _rounding(shape, rng)
    exponents = {"huge": (250, 255), "subnormal": (0, 3), "scales": (100, 154)}.get(kind, (0, 256))
    words = _floats(rng.integers(*exponents, shape), rng.integers(0, 1 << 23, shape), rng)
    if kind == "huge":  # of one sign in half of the elements: these overflow
        words[:, :8] &= 0x7FFF_FFFF
    return words


def _floats(exponent: NDArray[np.int64], fraction: NDArray[np.int64], rng: Random) -> Words:
    sign = rng.integers(0, 2, exponent.shape)
    return (sign << 31 | exponent << 23 | fraction).astype(np.uint32)


def _cancelling(shape: tuple[int, int], rng: Random) -> Words:
    """Draw operands of which each two consecutive workers cancel exactly, or up to the last
    bits.
    """
    words = _floats(rng.integers(1, 254, shape), rng.integers(0, 1 << 23, shape), rng)
    pairs = shape[0] // 2
    words[1 : 2 * pairs : 2] = words[0 : 2 * pairs : 2] ^ np.uint32(1 << 31)
    near = rng.random(shape) < 0.3
    words[near] ^= rng.integers(1, 4, int(near.sum())).astype(np.uint32)
    return words


def _rounding(shape: tuple[int, int], rng: Random) -> Words:
    """Draw a first operand, and others near half of its last place: rounding ties, exact or nearly
    so.
    """
    base = rng.integers(30, 220, shape[1])
    exponent = np.tile(base, (shape[0], 1)) - 24 + rng.integers(-1, 2, shape)
    fraction = rng.choice(np.array([0, 0, 1, 1 << 22, (1 << 23) - 1]), shape)
    words = _floats(exponent, fraction, rng)
    edges = np.array([0, 1, 2, (1 << 23) - 1, (1 << 23) - 2, 0x2A_AAAA, 0x55_5555])
    words[0] = _floats(base, rng.choice(edges, shape[1]), rng)
    return words
