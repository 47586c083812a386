# SPDX-License-Identifier: Apache-2.0
"""Qb: codes of 2 to 8 bits between the least and the largest element of a bucket, rounded
stochastically, so that their mean is the gradient.

A bucket is 128 to 1,024 elements of a flat tensor, the last one may be shorter. Its unit is
(largest - least) / (2^b - 1), rounded up to a float32; a code is floor((x - least) / unit + r), r
uniform in [0, 1). A bucket whose elements are all equal is exact: unit 0. Codes lie in a bucket
from its first byte on, element ``e`` at bit ``e * b``, little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec.draws import Key, draws
from neuron_fabric.errors import InputError

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]

LEAST_BITS, MOST_BITS = 2, 8
LEAST_BUCKET, MOST_BUCKET = 128, 1024
HEAD = 8
"""Bytes of a bucket beside its codes: least and unit."""
IDENTITY = 32
"""Bits of what is not quantised."""


@dataclass(frozen=True)
class Quantizer:
    """``bits`` of a code, ``bucket`` elements; tensors of fewer than ``least`` stay in FP32.

    ValueError for values out of range. `bits` 32 quantises nothing: CGX's dummy compressor.
    """

    bits: int = 4
    bucket: int = 512
    least: int = 1024

    def __post_init__(self) -> None:
        if self.bits != IDENTITY and not LEAST_BITS <= self.bits <= MOST_BITS:
            raise ValueError(f"{self.bits} bits, {LEAST_BITS} to {MOST_BITS} or {IDENTITY} it is")
        if not LEAST_BUCKET <= self.bucket <= MOST_BUCKET or self.bucket % 8:
            span = f"{LEAST_BUCKET} to {MOST_BUCKET}"
            raise ValueError(f"a bucket of {self.bucket}, a multiple of 8 from {span} it is")
        if self.least < 0:
            raise ValueError(f"least {self.least} is negative")

    def size(self, elements: int) -> int:
        """Bytes of a coded tensor."""
        if self.bits == IDENTITY:
            return 4 * elements
        buckets, rest = divmod(elements, self.bucket)
        codes = buckets * self.bucket * self.bits // 8 + -(-rest * self.bits // 8)
        return codes + HEAD * (buckets + bool(rest))


def from_environment(env: Mapping[str, str]) -> Quantizer:
    """As users of CGX have set it: CGX_COMPRESSION_QUANTIZATION_BITS, _BUCKET_SIZE and
    _MINIMAL_SIZE. InputError, in one line."""
    prefix = "CGX_COMPRESSION_"
    names = {"bits": "QUANTIZATION_BITS", "bucket": "BUCKET_SIZE", "least": "MINIMAL_SIZE"}
    values = {}
    for field, name in names.items():
        text = env.get(prefix + name, "")
        if text:
            if not text.isascii() or not text.isdecimal() or len(text) > 9:
                raise InputError(prefix + name, f"{text!r} is no number", "give one, or leave it")
            values[field] = int(text)
    try:
        return Quantizer(**values)
    except ValueError as error:
        raise InputError(prefix + "*", error, "mend it") from None


class Coded(NamedTuple):
    """A coded tensor. ``low``, ``unit``: float32 of each bucket. ``codes``: uint8 bytes."""

    elements: int
    low: F32
    unit: F32
    codes: U8

    def wire(self) -> U8:
        """All of it as uint8[Quantizer.size], little-endian: least values, units, codes."""
        heads = (self.low.astype("<f4").view(np.uint8), self.unit.astype("<f4").view(np.uint8))
        return np.concatenate([*heads, self.codes])


def from_wire(wire: U8, elements: int, how: Quantizer) -> Coded:
    """What `Coded.wire` gave. ValueError for another size."""
    if wire.size != how.size(elements):
        raise ValueError(f"{wire.size} bytes, {elements} elements take {how.size(elements)}")
    buckets = -(-elements // how.bucket)
    low, unit = wire[: HEAD * buckets].view("<f4").astype(np.float32).reshape(2, buckets)
    return Coded(elements, low, unit, wire[HEAD * buckets :])


def encode(x: F32, how: Quantizer, key: Key, first: int = 0) -> Coded:
    """float32[n], whose element 0 is number ``first`` of its tensor, the first one of a bucket.

    ValueError for another ``first``, for what is not finite, and for the identity.
    """
    if how.bits == IDENTITY:
        raise ValueError("the identity has no codes")
    if first % how.bucket:
        raise ValueError(f"element {first} does not begin a bucket of {how.bucket}")
    if not np.isfinite(x).all():
        raise ValueError("a value that is not finite has no code")
    starts = np.arange(0, x.size, how.bucket)
    low = np.minimum.reduceat(x, starts) if x.size else np.zeros(0, np.float32)
    high = np.maximum.reduceat(x, starts) if x.size else np.zeros(0, np.float32)
    levels = (1 << how.bits) - 1
    span = high.astype(np.float64) - low
    unit = (span / levels).astype(np.float32)
    short = unit.astype(np.float64) * levels < span
    unit = np.where(short, np.nextafter(unit, np.float32(np.inf)), unit).astype(np.float32)
    each = np.repeat(np.arange(starts.size), how.bucket)[: x.size]
    ratio = np.zeros(x.size)
    wide = unit.astype(np.float64)[each]
    np.divide(x - low.astype(np.float64)[each], wide, out=ratio, where=wide > 0)
    codes = np.minimum(np.floor(ratio + draws(key, x.size, first)), levels).astype(np.uint8)
    return Coded(x.size, low, unit, _packed(codes, how.bits))


def decode(coded: Coded, how: Quantizer) -> F32:
    """float32[n]: least + code * unit, rounded once."""
    codes = _unpacked(coded.codes, how.bits, coded.elements)
    each = np.repeat(np.arange(coded.low.size), how.bucket)[: coded.elements]
    exact = coded.low.astype(np.float64)[each] + codes * coded.unit.astype(np.float64)[each]
    return exact.astype(np.float32)


def mean_of(sent: Sequence[Coded], how: Quantizer, key: Key, first: int = 0) -> Coded:
    """The mean of all workers' tensors, as a shard's reducer makes it: decoded, added in float32 in
    the order of the workers, divided, and coded again. Two quantisations in all, as in CGX.

    ValueError for no worker.
    """
    if not sent:
        raise ValueError("nobody has sent")
    total = decode(sent[0], how)
    for one in sent[1:]:
        total += decode(one, how)
    return encode(total / np.float32(len(sent)), how, key, first)


def _packed(codes: U8, bits: int) -> U8:
    """A bucket is a multiple of 8 elements, so that its codes end with a byte."""
    if bits == MOST_BITS:
        return codes
    every = codes[:, None] >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(every.reshape(-1), bitorder="little")


def _unpacked(packed: U8, bits: int, elements: int) -> U8:
    if bits == MOST_BITS:
        return packed[:elements]
    every = np.unpackbits(packed, count=elements * bits, bitorder="little").reshape(-1, bits)
    codes: NDArray[np.uint8] = (every << np.arange(bits, dtype=np.uint8)).sum(
        axis=1, dtype=np.uint8
    )
    return codes
