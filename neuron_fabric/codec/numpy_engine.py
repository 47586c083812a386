# SPDX-License-Identifier: Apache-2.0
"""Engine of the codec in numpy, bit-identical to `pack.c`, for machines without a compiler.

Both compute sums of |x| in float64 in one fixed order: a piece is 128 rows of 512 elements (the
last one padded with 0.0); element j of each row is added to sum j, row by row; the 512 sums are
folded in halves; pieces are added in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec.draws import Draws, Key
from neuron_fabric.codec.draws import draws as philox
from neuron_fabric.codec.routes import BUCKET, LINE, Route, elements_of_line

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Words = NDArray[np.uint64]
Tensors = Sequence[F32]

LANES = 512
PIECE = 128 * LANES
_INFINITY = 0x7F80_0000
_EVEN = np.uint64(0x5555_5555_5555_5555)
_ONE = np.uint64(1)
_SPREAD = np.array([sum((n >> k & 1) << 2 * k for k in range(8)) for n in range(256)], np.uint16)
"""Bit k of a byte to bit 2k."""
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class ScanResult(NamedTuple):
    """Result of one pass over a tensor.

    Attributes:
        total: sum of |x|, or 0.0 unless requested; only over open gates after `pack_ternary`.
        number: number of zeros; number of open gates after `pack_ternary`.
        finite: whether all elements are finite.
    """

    total: float
    number: int
    finite: bool


def parts(xs: Tensors, array: Any, per: int) -> Iterator[Any]:
    """Yield the items of an array or tensor that each of ``xs`` takes, ``per`` elements an item."""
    first = 0
    for x in xs:
        end = first - -x.size // per
        yield array[first:end]
        first = end


def look(xs: Tensors, add: bool) -> list[ScanResult]:
    """Return the sum of |x| if ``add``, the number of zeros, and whether all x are finite."""
    return [_look(x, add) for x in xs]


def _look(x: F32, add: bool) -> ScanResult:
    total, zeros, largest = 0.0, 0, 0
    for piece in _pieces(x):
        bits = piece.view(np.uint32) & np.uint32(0x7FFF_FFFF)
        largest = max(largest, int(bits.max()))
        zeros += int(np.count_nonzero(bits == 0))
        if add and largest < _INFINITY:
            total += _sum(bits.view(np.float32))
    return ScanResult(total, zeros, largest < _INFINITY)


def pack_binary(xs: Tensors, lines: U8, add: bool) -> list[ScanResult]:
    """Pack tensors to G_BINARY ``lines``, bit = x < 0, padded with 0; return `look`'s scans."""
    for x, own in zip(xs, parts(xs, lines, LANES), strict=True):
        _pack_binary(x, own)
    return look(xs, add)


def _pack_binary(x: F32, lines: U8) -> None:
    out, at = lines.reshape(-1), 0
    for piece in _pieces(x):
        packed = np.packbits(piece < 0, bitorder="little")
        out[at : at + packed.size] = packed
        at += packed.size
    out[at:] = 0


@np.errstate(invalid="ignore")  # of a tensor that is not finite
def pack_ternary(xs: Tensors, thresholds: F32, lines: U8) -> list[ScanResult]:
    """Pack tensors to G_TERNARY ``lines``: gate = |x| > threshold, sign = x < 0.

    Return the sum of |x| over open gates and their number; void unless the tensor is finite.
    """
    each = zip(xs, thresholds, parts(xs, lines, LANES // 2), strict=True)
    return [_pack_ternary(*one) for one in each]


def _pack_ternary(x: F32, threshold: np.float32, lines: U8) -> ScanResult:
    out, at = lines.reshape(-1), 0
    total, opened = 0.0, 0
    for piece in _pieces(x):
        size = np.abs(piece)
        gate = size > threshold
        signs = np.packbits(gate & (piece < 0), bitorder="little")
        codes = _SPREAD[signs] | _SPREAD[np.packbits(gate, bitorder="little")] << np.uint16(1)
        packed = codes.astype("<u2", copy=False).view(np.uint8)[: out.size - at]
        out[at : at + packed.size] = packed
        at += packed.size
        opened += int(np.count_nonzero(gate))
        total += _sum(np.multiply(size, gate, out=size))
    out[at:] = 0
    return ScanResult(total, opened, True)


def _pieces(x: F32) -> Iterator[F32]:
    return (x[at : at + PIECE] for at in range(0, x.size, PIECE))


def _sum(size: F32) -> float:
    wide = np.zeros((-(-size.size // LANES), LANES), np.float64)
    wide.reshape(-1)[: size.size] = size
    lanes = wide.sum(axis=0)  # row by row: a sum over the outer axis is not pairwise
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return float(lanes[0])


def count(
    lines: U8,
    present: NDArray[np.bool_] | None,
    route: Route,
    planes: U8 | None,
    vote: U8 | None,
) -> None:
    """Count the votes in lines uint8[W, n, 64] of the workers.

    Args:
        lines: Contributions of all workers.
        present: bool[W, n], contributors; None for all.
        route: G_BINARY or G_TERNARY.
        planes: Receives the count planes, uint8[P, n, 64]; None if they are not needed.
        vote: Receives the lines of votes, uint8[n, 64]; None if they are not needed.
    """
    words: Words = lines.view("<u8")
    here = np.ones(words.shape[:2], np.bool_) if present is None else present
    counts = [np.zeros(words.shape[1:], np.uint64) for _ in range(len(lines).bit_length())]
    for number, (line, votes) in enumerate(zip(words, here, strict=True), start=1):
        carry = _votes(line, route) & np.where(votes, _ALL, np.uint64(0))[:, None]
        for p in range(number.bit_length()):
            counts[p], carry = counts[p] ^ carry, counts[p] & carry
    if planes is not None:
        planes.view("<u8")[:] = counts
    if vote is not None:
        vote.view("<u8")[:] = decide(counts, route, here.sum(axis=0, dtype=np.uint64)[:, None])


def decide(counts: list[Words], route: Route, workers: Words) -> Words:
    """Return the votes that counts decide, words uint64[n, 8].

    Args:
        counts: Count planes as words, [P][n, 8].
        route: G_BINARY or G_TERNARY.
        workers: Number of contributors of each line, [n, 1].
    """
    if route == Route.G_BINARY:
        return _decide_binary(counts, workers)
    return _decide_ternary(counts, workers)


def _votes(line: Words, route: Route) -> Words:
    """Return the votes of a line as bits to be counted, words uint64[n, 8] as in `line`.

    G_BINARY: bit 1 for a + vote, the inverse of the line. G_TERNARY: each code {gate, sign} becomes
    {minus, plus}: 10 (+1) gives 01, 11 (-1) gives 10; 00 (zero) and the illegal 01 give 00.
    """
    if route == Route.G_BINARY:
        return ~line
    gate, sign = line >> _ONE & _EVEN, line & _EVEN
    both: Words = (gate & ~sign) | (gate & sign) << _ONE
    return both


def _decide_binary(counts: list[Words], workers: Words) -> Words:
    """Return bit 1 (negative) for each element with 2 * (count of + votes) < workers, else 0.

    Numbers are compared bit by bit, all elements at once.
    """
    limit = (workers + _ONE) >> _ONE
    below = np.zeros_like(counts[0])
    for p, plane in enumerate(counts):
        bit = np.where(limit >> np.uint64(p) & _ONE, _ALL, np.uint64(0))
        below = (~plane & bit) | (~(plane ^ bit) & below)
    return below


def _decide_ternary(counts: list[Words], workers: Words) -> Words:
    """Return codes {gate, sign}: gate 1 if + and - counts differ, sign that of the larger."""
    more = np.zeros_like(counts[0])  # even bits: more +; odd bits: more -
    for plane in counts:
        other = (plane & _EVEN) << _ONE | (plane >> _ONE & _EVEN)
        more = (plane & ~other) | (~(plane ^ other) & more)
    plus, minus = more & _EVEN, more >> _ONE & _EVEN
    return (plus | minus) << _ONE | minus


def unpack(lines: U8, route: Route, values: F32, outs: Tensors) -> None:
    """Decode lines of votes into ``outs``: a code becomes its entry of ``values`` [T, 2 or 4]."""
    per_byte = 8 // route.bits
    every = np.arange(256)[:, None] >> route.bits * np.arange(per_byte)
    own = parts(outs, lines, elements_of_line(route))
    for out, table, codes in zip(outs, values, own, strict=True):
        _expand(codes, table[every & (len(table) - 1)], out)


def _expand(lines: U8, table: F32, out: F32) -> None:
    flat, width = lines.reshape(-1), table.shape[1]
    whole = out.size // width
    np.take(table, flat[:whole], axis=0, out=out[: whole * width].reshape(-1, width), mode="clip")
    if out.size % width:
        out[whole * width :] = table[flat[whole], : out.size % width]


def unpack_net(planes: U8, route: Route, values: F32, out: F32) -> None:
    """Decode count planes into ``out``: each net vote becomes its entry of ``values``.

    The index is the count of + votes in G_BINARY, plus - minus + 256 in G_TERNARY.
    """
    need = -(-out.size * route.bits // 8)
    counts = np.zeros(need * 8, np.uint8)
    for p, plane in enumerate(planes):
        counts += np.unpackbits(plane.reshape(-1)[:need], bitorder="little") << np.uint8(p)
    index = counts[: out.size * route.bits].astype(np.intp)
    if route == Route.G_TERNARY:
        index = index[::2] - index[1::2] + 256
    np.take(values, index, out=out, mode="clip")


def maxima(xs: Tensors, largest: F32) -> None:
    """Write the largest |x| of each bucket to ``largest``; NaN where there is one."""
    for x, own in zip(xs, parts(xs, largest, BUCKET), strict=True):
        if x.size:
            np.maximum.reduceat(np.abs(x), np.arange(0, x.size, BUCKET), out=own)


@np.errstate(invalid="ignore")  # of a tensor that is not finite
def pack_codes(
    xs: Tensors, route: Route, u: F32, draws: Sequence[Draws], lines: U8
) -> list[ScanResult]:
    """Pack tensors to integer codes floor(x / u + draw), padded with 0.

    Args:
        xs: Gradients.
        route: G_INT4 or G_INT8.
        u: Units of the buckets; if one is not finite, lines of its tensor are void.
        draws: Random numbers of each tensor, or None for 1/2.
        lines: Receives the codes, uint8[n, 64].

    Returns:
        The number of zeros of each tensor, and as ``finite`` whether no value is beyond the codes:
        else its lines are void.
    """
    own = parts(xs, u, BUCKET), draws, parts(xs, lines, elements_of_line(route))
    fits = [_pack_codes(x, route, *one) for x, *one in zip(xs, *own, strict=True)]
    zeros = [x.size - int(np.count_nonzero(x)) for x in xs]
    return [ScanResult(0.0, number, one) for number, one in zip(zeros, fits, strict=True)]


def _pack_codes(x: F32, route: Route, u: F32, draws: Draws, lines: U8) -> bool:
    top, flat = (1 << (route.bits - 1)) - 1, lines.reshape(-1)
    flat[:] = 0
    for at, values, unit in pieces(x, u):
        ratio = np.where(values == 0, 0.0, np.inf)  # a unit of 0 has a code for 0.0 alone
        np.divide(values, unit, out=ratio, where=unit > 0)
        if not ((ratio >= -top) & (ratio <= top)).all():
            return False
        ratio += _drawn(draws, at, values.size)
        # The sum of the largest ratio and a draw just below 1 is rounded up to the next integer.
        codes = np.minimum(np.floor(ratio, out=ratio), top, out=ratio)
        _put(flat[at * route.bits // 8 :], codes.astype(np.int8), route)
    return True


def _drawn(draws: Draws, first: int, count: int) -> NDArray[np.float64] | float:
    if draws is None:
        return 0.5
    return philox(draws, count, first) if isinstance(draws, Key) else draws(first, count)


def add_codes(
    lines: U8, present: NDArray[np.bool_] | None, route: Route, width: int, sums: U8
) -> None:
    """Add the codes in lines uint8[W, n, 64] of the workers.

    Args:
        lines: Codes of all workers.
        present: bool[W, n], contributors; None for all.
        route: G_INT4 or G_INT8.
        width: Bytes of a sum, 1 or 2.
        sums: Receives the sums of a line in v lines, uint8[v, n, 64].
    """
    total = np.zeros((lines.shape[1], elements_of_line(route)), np.int16)
    for w, own in enumerate(lines):
        codes = codes_in(own, route)
        total += codes if present is None else codes * present[w][:, None]
    wide = total.astype(f"<i{width}").view(np.uint8).reshape(len(total), len(sums), LINE)
    sums[:] = wide.transpose(1, 0, 2)


def unpack_sums(sums: U8, width: int, u: F32, present: U8, outs: Tensors) -> None:
    """Convert sums of ``width`` bytes to u * sum / present in float64, rounded once to ``outs``."""
    shape = (sums.shape[1], LINE * len(sums))
    rows = np.ascontiguousarray(sums.transpose(1, 0, 2)).reshape(shape).view(f"<i{width}")
    own = parts(outs, u, BUCKET), parts(outs, rows, rows.shape[1]), present.tolist()
    for out, units, codes, many in zip(outs, *own, strict=True):
        flat = codes.reshape(-1)
        for at, mean, unit in pieces(out, units):
            mean[:] = unit * flat[at : at + mean.size] / many


def pieces(values: F32, u: F32) -> Iterator[tuple[int, F32, NDArray[np.float64]]]:
    """Yield pieces of a tensor that begin with a bucket and a line.

    Each is (number of its first element, view of its values, unit of each value).
    """
    size = 64 * BUCKET
    for at in range(0, values.size, size):
        own = values[at : at + size]
        of_buckets = u[at // BUCKET : (at + size) // BUCKET].astype(np.float64)
        yield at, own, np.repeat(of_buckets, BUCKET)[: own.size]


def _put(out: U8, codes: NDArray[np.int8], route: Route) -> None:
    """Write codes into bytes ``out`` from its start on; ``out`` must be 0."""
    values = codes.view(np.uint8)
    if route == Route.G_INT8:
        out[: values.size] = values
        return
    even, odd = values[0::2] & 15, values[1::2] << 4
    out[: even.size] = even
    out[: odd.size] |= odd


def codes_in(lines: U8, route: Route) -> NDArray[np.int8]:
    """Return the codes in lines uint8[n, 64], int8[n, elements of a line]."""
    if route == Route.G_INT8:
        return lines.view(np.int8)
    both = np.stack([(lines << 4).view(np.int8) >> 4, lines.view(np.int8) >> 4], axis=-1)
    return both.reshape(len(lines), elements_of_line(route))


assert LINE * 8 == LANES
