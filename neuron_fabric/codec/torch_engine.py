# SPDX-License-Identifier: Apache-2.0
"""Engine of the codec in torch operations, bit-identical to `pack.c`, on any device; needs torch.

The functions take and return tensors of one device, and never make the host wait for it: no branch
depends on a value. `TorchEngine` offers them as an `Engine` of numpy arrays, for the laws of the
codec. `numpy_engine` describes the formats.

Three rules keep the bits equal on all devices. Magnitudes are added in one order. A divisor is a
tensor: CUDA replaces a division by a number with a multiplication by its inverse. And torch has no
unsigned 64-bit arithmetic, so words are int64, masked after each right shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from neuron_fabric.codec.draws import Draws, Key
from neuron_fabric.codec.numpy_engine import F32, LANES, PIECE, U8, ScanResult, Tensors, parts
from neuron_fabric.codec.routes import BUCKET, LINE, Route, elements_of_line

_GATHER = 0x0102_0408_1020_4080
"""Multiplied by eight bytes of 0 or 1, has bit i = byte i in its upper byte: no sums carry."""
_LOW = 0xFFFF_FFFF
_PHILOX = (0xD2E7_470E_E14C_6C93, 0xCA5A_8263_9512_1157)
_WEYL = (0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B)
_ROUNDS = 10


def on(array: NDArray[Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device; the host does not wait for the copy."""
    return torch.from_numpy(array).to(device, non_blocking=True)


# -- bits -----------------------------------------------------------------------------------------
def _bytes_of(bits: Tensor) -> Tensor:
    """Pack bool[..., 8 n] to uint8[..., n], the first in bit 0."""
    words = bits.contiguous().view(torch.int64) * _GATHER
    return words.view(torch.uint8)[..., 7::8].contiguous()


def _bits_of(lines: Tensor) -> Tensor:
    """Unpack uint8[..., n] to uint8[..., 8 n] of 0 or 1, the inverse of `_bytes_of`."""
    shifts = torch.arange(8, dtype=torch.uint8, device=lines.device)
    return (lines.unsqueeze(-1) >> shifts & 1).flatten(-2)


def _padded(x: Tensor, multiple: int) -> Tensor:
    """Return a flat tensor, padded with 0 to a multiple of so many elements."""
    rest = -x.numel() % multiple
    return pad(x, (0, rest)) if rest else x


def _lines(bits: Tensor) -> Tensor:
    """Pack bool[n] to lines uint8[m, 64], padded with 0."""
    return _bytes_of(_padded(bits, LANES)).view(-1, LINE)


# -- packing --------------------------------------------------------------------------------------
def total(x: Tensor) -> Tensor:
    """Return the sum of abs(x) of float32[n], a float64 number in the order of `numpy_engine`.

    It is not finite if an element is not, and 0 only if all elements are 0.
    """
    rows = max(1, min(PIECE // LANES, -(-x.numel() // LANES)))
    sizes = _padded(x.abs(), rows * LANES) if x.numel() else x.new_zeros(LANES)
    in_order = _scanned if x.is_cuda else _added
    lanes = in_order(sizes.view(-1, rows, LANES))
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return in_order(lanes.expand(-1, 2)[None])[0, 0]  # a single column would be added in parallel


def _added(rows: Tensor) -> Tensor:
    """Return the sum of [n, rows, columns] over the rows, one after the other, in float64."""
    added = torch.zeros_like(rows[:, 0], dtype=torch.float64)
    for row in rows.unbind(1):
        added += row
    return added


def _scanned(rows: Tensor) -> Tensor:
    """Return the same by one kernel: CUDA scans an outer dimension by one thread per column.

    On the CPU it takes ten times as long as `_added`.
    """
    return rows.contiguous().cumsum(1, dtype=torch.float64)[:, -1]


def pack_binary(x: Tensor) -> Tensor:
    """Pack float32[n] to G_BINARY lines uint8[m, 64]: bit = x < 0."""
    return _lines(x < 0)


def pack_ternary(x: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
    """Pack float32[n] to G_TERNARY lines; return them and the gates abs(x) > threshold, bool[n]."""
    gate = x.abs() > threshold
    return _lines(torch.stack([gate & (x < 0), gate], -1).view(-1)), gate


# -- counting -------------------------------------------------------------------------------------
def votes_of(lines: Tensor, route: Route) -> Tensor:
    """Return the votes in lines uint8[..., 64], int8[..., elements of a line] of 1, 0 or -1."""
    bits = _bits_of(lines).to(torch.int8)
    if route == Route.G_BINARY:
        return 1 - 2 * bits
    return bits[..., 1::2] * (1 - 2 * bits[..., 0::2])


def count(
    lines: Tensor, present: Tensor | None, route: Route, planes: bool, vote: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Count the votes in lines uint8[W, n, 64]; return (vote lines, count planes) as `count`.

    Args:
        lines: Contributions of all workers.
        present: bool[W, n], contributors; None for all.
        route: G_BINARY or G_TERNARY.
        planes: Whether to return the planes.
        vote: Whether to return the vote lines.
    """
    workers, size, _ = lines.shape
    if present is None:
        present = torch.ones((workers, size), dtype=torch.bool, device=lines.device)
    marks = _bits_of(lines)
    if route == Route.G_BINARY:
        marks = 1 - marks
    else:  # + votes at even bits, - votes at odd ones
        sign, gate = marks[..., 0::2], marks[..., 1::2]
        marks = torch.stack([gate & (1 - sign), gate & sign], -1).flatten(-2)
    counts = (marks * present.unsqueeze(-1)).sum(0, dtype=torch.uint8)
    decided = of_planes = None
    if planes:
        places = range(workers.bit_length())
        of_planes = torch.stack([_bytes_of((counts >> p & 1).bool()) for p in places])
    if vote and route == Route.G_BINARY:
        here = present.sum(0, dtype=torch.int16).unsqueeze(-1)
        decided = _bytes_of(2 * counts.to(torch.int16) < here)
    elif vote:
        plus, minus = counts[..., 0::2], counts[..., 1::2]
        decided = _bytes_of(torch.stack([minus > plus, minus != plus], -1).flatten(-2))
    return decided, of_planes


def net_of(planes: Tensor, route: Route, present: Tensor | int) -> Tensor:
    """Return plus - minus, int16[n, elements of a line], from count planes uint8[P, n, 64]."""
    counts = sum(_bits_of(one).to(torch.int16) << p for p, one in enumerate(planes))
    assert isinstance(counts, Tensor)
    if route == Route.G_BINARY:
        return 2 * counts - present
    return counts[..., 0::2] - counts[..., 1::2]


# -- integer codes --------------------------------------------------------------------------------
def maxima(x: Tensor) -> Tensor:
    """Return the largest abs(x) of each bucket of float32[n], float32[buckets]; NaN for a NaN."""
    return _padded(x.abs(), BUCKET).view(-1, BUCKET).amax(1)


def units(largest: Tensor, route: Route) -> Tensor:
    """Return the unit of each bucket, see `integer_codes.units`."""
    top = (1 << (route.bits - 1)) - 1
    wide = largest.double()
    u = (wide / torch.full_like(wide, top)).float()
    return torch.where(
        u.double() * top < wide, torch.nextafter(u, torch.full_like(u, torch.inf)), u
    )


def codes_of(x: Tensor, route: Route, u: Tensor, draws: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return the codes floor(x / u + draw) of float32[n], int8[n], and whether all fit, a bool.

    Args:
        x: Gradient of one tensor.
        route: G_INT4 or G_INT8.
        u: Units of the buckets, float32[buckets].
        draws: Uniform numbers in [0, 1), float64[n], or 1/2 for the nearest code.
    """
    top, unit = (1 << (route.bits - 1)) - 1, _of_each(u.double(), x.numel())
    never = torch.where(x == 0, 0.0, torch.inf)  # a unit of 0 has a code for 0.0 alone
    ratio = torch.where(unit > 0, x.double() / unit, never)
    fits = (ratio.abs() <= top).all()
    return torch.where(fits, (ratio + draws).floor().clamp(max=top), 0.0).to(torch.int8), fits


def code_lines(codes: Tensor, route: Route) -> Tensor:
    """Pack codes int8[n] to lines uint8[m, 64], padded with 0."""
    flat = _padded(codes, elements_of_line(route)).view(torch.uint8)
    if route == Route.G_INT4:
        flat = flat[0::2] & 15 | flat[1::2] << 4
    return flat.view(-1, LINE)


def codes_in(lines: Tensor, route: Route) -> Tensor:
    """Return the codes in lines uint8[..., 64], int8[..., elements of a line]."""
    if route == Route.G_INT8:
        return lines.contiguous().view(torch.int8)
    halves = torch.stack([lines << 4, lines], -1).view(torch.int8)
    return (halves >> 4).flatten(-2)


def add_codes(lines: Tensor, present: Tensor | None, route: Route, width: int) -> Tensor:
    """Return the sums of codes in lines uint8[W, n, 64], uint8[v, n, 64], `width` bytes each."""
    codes = codes_in(lines, route)
    if present is not None:
        codes = codes * present.unsqueeze(-1)
    sums = codes.sum(0, dtype=torch.int16).to(torch.int8 if width == 1 else torch.int16)
    layers = elements_of_line(route) * width // LINE
    return sums.view(torch.uint8).view(-1, layers, LINE).transpose(0, 1).contiguous()


def sums_in(sums: Tensor, width: int) -> Tensor:
    """Return the sums in uint8[v, n, 64], int8 or int16 [n, elements of a line]."""
    kind = torch.int8 if width == 1 else torch.int16
    shape = (sums.shape[1], sums.shape[0] * LINE // width)
    return sums.transpose(0, 1).reshape(-1).view(kind).view(shape)


def unpack_sums(sums: Tensor, u: Tensor, present: Tensor, elements: int) -> Tensor:
    """Return u * sum / present in float64, rounded once, float32[elements].

    Args:
        sums: Sums of codes, integers with at least so many elements.
        u: Units of the buckets.
        present: Contributors, a number above 0.
        elements: Number of elements.
    """
    flat = sums.reshape(-1)[:elements]
    return (_of_each(u.double(), elements) * flat / present.double()).float()


def draws_of(key: Key, number: int, device: torch.device | str) -> Tensor:
    """Return the first ``number`` draws of a stream, float64, equal to `draws.draws`.

    Philox 4x64 with ten rounds: the counter's low word is the number of a block of 16 draws.
    """
    blocks = torch.arange(-(-number // 16), dtype=torch.int64, device=device)
    words = [blocks, *(torch.zeros_like(blocks) for _ in range(3))]
    keys = list(key.words())
    for _ in range(_ROUNDS):
        high0, low0 = _product(words[0], _PHILOX[0])
        high1, low1 = _product(words[2], _PHILOX[1])
        k0, k1 = map(_signed, keys)
        words = [high1 ^ words[1] ^ k0, low1, high0 ^ words[3] ^ k1, low0]
        keys = [one + weyl for one, weyl in zip(keys, _WEYL, strict=True)]
    parts = [one >> shift & 0xFFFF for one in words for shift in range(0, 64, 16)]
    return (torch.stack(parts, -1).view(-1)[:number].double() + 0.5) * 2.0**-16


def _product(x: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Return the upper and lower 64 bits of the unsigned product of int64 words and a number."""
    a, b = factor >> 32, factor & _LOW
    high, low = x >> 32 & _LOW, x & _LOW
    middle = a * low + (b * low >> 32 & _LOW)
    other = b * high + (middle & _LOW)
    return a * high + (middle >> 32 & _LOW) + (other >> 32 & _LOW), x * _signed(factor)


def _signed(word: int) -> int:
    """Return the int64 with the lower 64 bits of a number."""
    return (word + (1 << 63)) % (1 << 64) - (1 << 63)


def _of_each(of_buckets: Tensor, elements: int) -> Tensor:
    return of_buckets.repeat_interleave(BUCKET)[:elements]


# -- FP32 -----------------------------------------------------------------------------------------
def ordered_sum(rows: Tensor) -> Tensor:
    """Return the sum of float32[W, ...] in the order of workers, NaN as 7FC00000h."""
    added = rows[0].clone()
    for row in rows[1:]:
        added += row
    return torch.where(added.isnan(), torch.nan, added)


def fp32_lines(x: Tensor) -> Tensor:
    """Return float32[n] as FP32 lines uint8[m, 64], padded with 0."""
    return _padded(x, LINE // 4).view(torch.uint8).view(-1, LINE)


# -- engine of numpy arrays -----------------------------------------------------------------------
class TorchEngine:
    """Engine (see `engine.Engine`) that computes on a device; arrays are copied there and back."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        """Set the device."""
        self.device = torch.device(device)

    def look(self, xs: Tensors, add: bool) -> list[ScanResult]:
        """Return sum of abs(x) (if ``add``), zeros and finiteness of each tensor."""
        return [self._look(x, add) for x in xs]

    def _look(self, x: F32, add: bool) -> ScanResult:
        one = self._tensor(x)
        found, finite = total(one), bool(one.isfinite().all())
        return ScanResult(float(found) if add and finite else 0.0, int((one == 0).sum()), finite)

    def pack_binary(self, xs: Tensors, lines: U8, add: bool) -> list[ScanResult]:
        """Pack tensors to G_BINARY ``lines``; return the scan of each as `look` does."""
        for x, own in zip(xs, parts(xs, lines, elements_of_line(Route.G_BINARY)), strict=True):
            own[:] = pack_binary(self._tensor(x)).cpu().numpy()
        return self.look(xs, add)

    def pack_ternary(self, xs: Tensors, thresholds: F32, lines: U8) -> list[ScanResult]:
        """Pack tensors to G_TERNARY ``lines``; return sum and number of the open gates of each."""
        found, own = [], parts(xs, lines, elements_of_line(Route.G_TERNARY))
        for x, limit, out in zip(xs, self._tensor(thresholds), own, strict=True):
            one = self._tensor(x)
            packed, gate = pack_ternary(one, limit)
            out[:] = packed.cpu().numpy()
            found.append(ScanResult(float(total(one * gate)), int(gate.sum()), True))
        return found

    def count(
        self,
        lines: U8,
        present: NDArray[np.bool_] | None,
        route: Route,
        planes: U8 | None,
        vote: U8 | None,
    ) -> None:
        """Count the votes in all workers' lines, into count planes and vote lines if given."""
        here = None if present is None else self._tensor(present)
        wanted = planes is not None, vote is not None
        found = count(self._tensor(lines), here, route, *wanted)
        for out, one in zip((vote, planes), found, strict=True):
            if out is not None and one is not None:
                out[:] = one.cpu().numpy()

    def unpack(self, lines: U8, route: Route, values: F32, outs: Tensors) -> None:
        """Replace each code in lines of votes by a value of its tensor, into ``outs``."""
        bits = _bits_of(self._tensor(lines)).view(-1, elements_of_line(route), route.bits).long()
        codes = bits[..., 0] if route == Route.G_BINARY else bits[..., 0] + 2 * bits[..., 1]
        own = parts(outs, codes, codes.shape[1])
        for out, table, some in zip(outs, self._tensor(values), own, strict=True):
            out[:] = table[some.reshape(-1)[: out.size]].cpu().numpy()

    def unpack_net(self, planes: U8, route: Route, values: F32, out: F32) -> None:
        """Replace each count in count planes by a value, into ``out``."""
        net = net_of(self._tensor(planes), route, 0).reshape(-1)[: out.size].long()
        index = net // 2 if route == Route.G_BINARY else net + 256
        out[:] = self._tensor(values)[index].cpu().numpy()

    def maxima(self, xs: Tensors, largest: F32) -> None:
        """Write the largest abs(x) of each bucket of the tensors to ``largest``."""
        for x, own in zip(xs, parts(xs, largest, BUCKET), strict=True):
            own[:] = maxima(self._tensor(x)).cpu().numpy()

    def pack_codes(
        self, xs: Tensors, route: Route, u: F32, draws: Sequence[Draws], lines: U8
    ) -> list[ScanResult]:
        """Pack tensors to integer codes; return zeros of each, and whether its codes hold it."""
        own = parts(xs, u, BUCKET), draws, parts(xs, lines, elements_of_line(route))
        return [self._pack_codes(x, route, *one) for x, *one in zip(xs, *own, strict=True)]

    def _pack_codes(self, x: F32, route: Route, u: F32, draws: Draws, lines: U8) -> ScanResult:
        drawn: Tensor | float = 0.5
        if isinstance(draws, Key):
            drawn = draws_of(draws, x.size, self.device)
        elif draws is not None:
            drawn = self._tensor(draws(0, x.size))
        codes, fits = codes_of(self._tensor(x), route, self._tensor(u), drawn)
        lines[:] = code_lines(codes, route).cpu().numpy()
        return ScanResult(0.0, int((x == 0).sum()), bool(fits))

    def add_codes(
        self, lines: U8, present: NDArray[np.bool_] | None, route: Route, width: int, sums: U8
    ) -> None:
        """Add the codes in all workers' lines, into ``sums`` of ``width`` bytes each."""
        here = None if present is None else self._tensor(present)
        sums[:] = add_codes(self._tensor(lines), here, route, width).cpu().numpy()

    def unpack_sums(self, sums: U8, width: int, u: F32, present: U8, outs: Tensors) -> None:
        """Convert sums of codes to u * sum / present, into ``outs``."""
        rows, many = sums_in(self._tensor(sums), width), self._tensor(present).int()
        own = parts(outs, rows, rows.shape[1]), parts(outs, self._tensor(u), BUCKET), many
        for out, codes, units, one in zip(outs, *own, strict=True):
            out[:] = unpack_sums(codes, units, one, out.size).cpu().numpy()

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self.device)  # torch has no negative strides
