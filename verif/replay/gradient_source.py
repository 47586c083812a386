# SPDX-License-Identifier: Apache-2.0
"""Sources of gradients as lines, read in stretches of a tensor: no tensor is in memory as a whole.

spec: capture spec.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.integer_codes import BUCKET, buckets
from models.line_packing import F32, U8
from models.modes import Mode, elements_per_line
from neuron_fabric import codec
from neuron_fabric.capture import Capture, TensorSpec
from neuron_fabric.capture.safetensors_io import TensorFile
from neuron_fabric.data import open_file
from neuron_fabric.errors import CaptureError
from verif.replay.options import NonFinite, Rounding
from verif.replay.plan import Extent, RegionUse
from verif.replay.tensor_lines import (
    SUM_PIECE,
    absolute_sum,
    pack_shared,
    pack_stretch,
    threshold_of,
)

# -- warnings: tensors of zeros, several projections in one tensor ---------------------------------

F64 = NDArray[np.float64]


@dataclass
class ZeroTensors:
    """Collector of G_BINARY tensors that are zero everywhere, where a vote makes +1 of each
    element.

    Attributes:
        found: (step, worker) pairs by name of the tensor.
    """

    found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, step: int, worker: int, name: str) -> None:
        """Record that a tensor of one worker is zero everywhere in a step."""
        self.found.setdefault(name, []).append((step, worker))

    def lines(self) -> list[str]:
        """Return one warning per recorded tensor."""
        out = []
        for name, places in self.found.items():
            (step, worker), more = places[0], len(places) - 1
            others = f" (and {more:,} times more)" if more else ""
            out.append(
                f"tensor {name!r} is zero everywhere in step {step} of worker {worker}{others}: "
                "unused there? By G_BINARY each of its elements votes +"
            )
        return out


APART, LEAST_PART = 8.0, 256
"""Least ratio of mean magnitudes of two parts that is reported, and least elements of a part."""


@dataclass
class FusedTensors:
    """Detector of fused projections in tensors of votes, such as query, key and value in one
    parameter.

    The magnitudes are summed by column and by row. A tensor is reported if the sums of equal halves
    or thirds of its columns or rows differ by more than the factor `APART`: a vote has one scale
    for all.
    """

    sums: dict[str, tuple[F64, F64]] = field(default_factory=dict)
    """Sums of magnitudes by column and by row, by name of the tensor."""

    def add(self, spec: TensorSpec, at: int, piece: NDArray[np.float32]) -> None:
        """Add the magnitudes of a stretch of one worker's tensor.

        Args:
            spec: Tensor; one of fewer than two dimensions is ignored.
            at: Number of the first element.
            piece: Elements.
        """
        if len(spec.shape) < 2 or not piece.size:
            return
        rows, width = spec.shape[0], spec.elements // spec.shape[0]
        if spec.name not in self.sums:
            self.sums[spec.name] = (np.zeros(width), np.zeros(rows))
        by_column, by_row = self.sums[spec.name]
        row, column = np.divmod(np.arange(at, at + piece.size), width)
        sizes = np.abs(piece, dtype=np.float64)
        by_column += np.bincount(column, sizes, width)
        by_row += np.bincount(row, sizes, rows)

    def lines(self) -> list[str]:
        """Return one warning per fused tensor, for the split whose parts differ most."""
        out = []
        for name, (by_column, by_row) in self.sums.items():
            splits = [
                (_ratio(sums, parts), f"{parts} parts of its {axis}")
                for axis, sums, across in (
                    ("columns", by_column, by_row.size),
                    ("rows", by_row, by_column.size),
                )
                for parts in (3, 2)
                if sums.size % parts == 0 and sums.size // parts * across >= LEAST_PART
            ]
            ratio, parts = max(splits, default=(0.0, ""))
            if ratio > APART:
                times = f" by {ratio:,.0f} times" if math.isfinite(ratio) else ""
                out.append(
                    f"tensor {name!r}: {parts} differ in scale{times}, as fused projections do; "
                    f"a vote has one scale for all: --route '{name}=FP32', or G_INT8"
                )
        return out


def _ratio(sums: F64, parts: int) -> float:
    """Return the ratio of the largest to the smallest sum of ``parts`` equal parts of an array.

    It is 0 if all are 0, infinite if only the smallest is.
    """
    sizes = sums.reshape(parts, -1).sum(1)
    least, most = float(sizes.min()), float(sizes.max())
    if not most:
        return 0.0
    return most / least if least else math.inf


# -- integer codes of stretches ------------------------------------------------------------------
_PIECE = 1 << 16
"""Elements drawn at a time, so that any stretch can be drawn without the elements before it."""


def uniform(key: tuple[int, ...], first: int, count: int, kind: Any) -> NDArray[Any]:
    """Return numbers of a random sequence, uniform in [0, 1), without drawing those before them.

    Args:
        key: Seed of the sequence.
        first: Number of the first one in the sequence.
        count: How many.
        kind: float32 or float64.
    """
    pieces = range(first // _PIECE, -(-(first + count) // _PIECE))
    drawn = [np.zeros(0, kind)]
    for piece in pieces:
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence((*key, piece))))
        drawn.append(rng.random(_PIECE, dtype=kind))
    start = first - pieces.start * _PIECE
    return np.concatenate(drawn)[start : start + count]


def bucket_range(first: int, count: int) -> tuple[int, int]:
    """Return the buckets that elements belong to, as (first bucket, last bucket + 1).

    Args:
        first: Number of the first element.
        count: Number of elements.
    """
    return first // BUCKET, -(-(first + count) // BUCKET)


def pieces(elements: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of consecutive stretches of at most ``size`` of ``elements``
    elements.
    """
    for first in range(0, elements, size):
        yield first, min(size, elements - first)


# -- files that must not change --------------------------------------------------------------------
CHUNK = 1 << 16
"""Bytes per hash: a read costs at most two chunks more than requested."""
_DIGEST = 16


def changed(where: object) -> CaptureError:
    """Return a CaptureError for a file or capture that changed while the replay reads it."""
    return CaptureError(
        where, "has changed since this replay began to read it", "replay it again from the start"
    )


@dataclass
class PinnedFile:
    """File whose content must not change, with a hash per chunk of 64 KiB.

    The hash is stored when the chunk is first read and compared at every later read; it takes 16
    bytes of memory per chunk.
    """

    path: Path
    size: int
    _hashes: dict[int, bytes] = field(default_factory=dict)

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file, fewer at its end.

        Raises:
            CaptureError: They have changed since they were first read.
            OSError: The file cannot be read.
        """
        first, last = offset // CHUNK, -(-(offset + size) // CHUNK)
        with open_file(self.path) as stream:
            stream.seek(first * CHUNK)
            data = memoryview(stream.read((last - first) * CHUNK))
        for at in range(first, last):
            chunk = data[(at - first) * CHUNK : (at - first + 1) * CHUNK]
            found = hashlib.sha256(chunk).digest()[:_DIGEST]
            if self._hashes.setdefault(at, found) != found:
                raise changed(self.path)
        begin = offset - first * CHUNK
        return bytes(data[begin : begin + size])

    def digest(self) -> str:
        """Return the hash of the whole content as hex text; chunks that were not read yet are
        read.
        """
        total = hashlib.sha256(str(self.size).encode())
        for at in range(-(-self.size // CHUNK)):
            if at not in self._hashes:
                self.read(at * CHUNK, CHUNK)
            total.update(self._hashes[at])
        return total.hexdigest()


# -- sources --------------------------------------------------------------------------------------
class LineSource:
    """Source of the gradients of several workers and steps, as lines.

    Stochastic rounding of integer codes depends only on the seed and on the place of the element.

    Attributes:
        name: Printed name.
        workers: Number of workers.
        steps: Steps to drive, in order.
        tensors: Tensors, the same in every step.
        rounding: Rounding of integer codes.
        seed: Seed of stochastic rounding.
    """

    name: str
    workers: int
    steps: tuple[int, ...]
    tensors: tuple[TensorSpec, ...]
    rounding: Rounding
    seed: int

    def routes(self, step: int) -> Mapping[str, Mode]:
        """Return the route of every tensor by name, for a step.

        It reads all data of the step: call it once per step before `lines`.

        Raises:
            CaptureError: The step cannot be driven.
        """
        raise NotImplementedError

    def values(self, step: int, tensor: TensorSpec, first: int, count: int) -> F32:
        """Return consecutive elements of a tensor of all workers, float32[W, count].

        Args:
            step: Step.
            tensor: Tensor.
            first: Number of the first element.
            count: Number of elements.
        """
        raise NotImplementedError

    def gates(self, step: int, tensor: TensorSpec) -> Sequence[np.float32]:
        """Return the gate of G_TERNARY of each worker for a tensor; any value for other routes."""
        raise NotImplementedError

    def maxima(self, step: int, tensor: TensorSpec) -> F32:
        """Return the largest magnitude of each bucket over all workers, float32[buckets]."""
        raise NotImplementedError

    def lines(self, step: int, extent: Extent, mode: Mode) -> U8:
        """Return the lines of every worker for a part of a tensor, uint8[W, extent.lines, 64].

        Args:
            step: Step.
            extent: Part of a tensor.
            mode: Its route.
        """
        tensor, (first, count) = extent.tensor, elements_of(extent, mode)
        x = self.values(step, tensor, first, count)
        if not mode.bits:
            gates = self.gates(step, tensor)
            return np.stack([pack_stretch(own, mode, gate) for own, gate in zip(x, gates)])
        draws = None
        if self.rounding == "stochastic":
            number = self.number(tensor)
            keys = ((self.seed, step, number, worker, 1) for worker in range(self.workers))
            draws = np.stack([uniform(key, first, count, np.float64) for key in keys])
        u = self.scales(step, tensor, mode)[slice(*bucket_range(first, count))]
        return pack_shared(x, mode, u, draws, first)

    def scales(self, step: int, tensor: TensorSpec, mode: Mode) -> F32:
        """Return the scale of each bucket of a tensor of integer codes, float32[buckets].

        Args:
            step: Step.
            tensor: Tensor.
            mode: Its route, G_INT4 or G_INT8.
        """
        return codec.units(self.maxima(step, tensor), codec.Route(mode.name))

    def number(self, tensor: TensorSpec) -> int:
        """Return the place of a tensor in `tensors`, from 0."""
        return [spec.name for spec in self.tensors].index(tensor.name)

    def content(self) -> str:
        """Return a hash of all data that the lines are made of, as hex text.

        Call it after `routes` of every step.
        """
        raise NotImplementedError

    def warnings(self) -> Sequence[str]:
        """Return warnings of possible mistakes, one line each; call it after `routes` of every
        step.
        """
        return ()


def elements_of(extent: Extent, mode: Mode) -> tuple[int, int]:
    """Return number of the first element, and number of elements, of an extent of this route."""
    per_line = elements_per_line(mode)
    first = extent.first * per_line
    return first, min(extent.lines * per_line, extent.tensor.elements - first)


@dataclass
class CaptureSource(LineSource):
    """Source that reads a capture on disk.

    Args:
        capture: Open capture.
        steps: Steps to drive.
        wanted: Route of each tensor by name.
        nonfinite: On NaN or infinity: refuse the replay, or send the tensor as FP32.
        ratio: Gate of G_TERNARY relative to the mean magnitude.
        guesses: Warnings about guessed routes.
        rounding: Rounding of integer codes.
        seed: Seed of stochastic rounding.
    """

    capture: Capture
    steps: tuple[int, ...]
    wanted: Mapping[str, Mode]
    nonfinite: NonFinite
    ratio: float
    guesses: Sequence[str] = ()
    rounding: Rounding = "nearest"
    seed: int = 1
    _zeros: ZeroTensors = field(default_factory=ZeroTensors)
    _fused: FusedTensors = field(default_factory=FusedTensors)
    _files: dict[int, list[TensorFile]] = field(default_factory=dict)
    _pinned: dict[int, list[PinnedFile]] = field(default_factory=dict)
    _thresholds: dict[tuple[int, str], list[np.float32]] = field(default_factory=dict)
    _maxima: dict[tuple[int, str], F32] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name, self.workers = str(self.capture.path), self.capture.world_size
        self.tensors = self.capture.tensors

    def routes(self, step: int) -> Mapping[str, Mode]:
        """Return the route of every tensor for a step, after pinning its files and reading its
        low-bit tensors.

        See `LineSource.routes`. A tensor with NaN or infinity is sent as FP32, if the options allow
        it.
        """
        files = self.capture.open_step(step)
        pinned = [PinnedFile(file.path, file.size) for file in files]
        self._pinned[step] = pinned
        self._files[step] = [replace(file, reader=pin.read) for file, pin in zip(files, pinned)]
        out = dict(self.wanted)
        for spec in self.tensors:
            if out[spec.name].low_bit and not self._scan(step, spec, out[spec.name]):
                out[spec.name] = Mode.FP32
        return out

    def content(self) -> str:
        """Return a hash of all data that this replay reads, as hex text.

        Call it after `routes` of every step; later reads of other data raise CaptureError.
        """
        capture = self.capture
        parts = [repr((capture.model, capture.world_size, capture.tensors))]
        for step, pinned in self._pinned.items():
            parts += [f"{step} {pin.digest()}" for pin in pinned]
            if self.capture.open_step(step) != self._files[step]:  # the headers were read before
                raise changed(self.name)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _scan(self, step: int, spec: TensorSpec, mode: Mode) -> bool:
        """Collect thresholds, bucket maxima and warnings of a low-bit tensor in a step.

        Returns:
            False if it has a NaN or infinity and therefore is sent as FP32, else True.

        Raises:
            CaptureError: It has a NaN or infinity, and the options refuse that.
        """
        thresholds, zeros = [], []
        maxima = np.zeros(buckets(spec.elements), np.float32)
        for worker, file in enumerate(self._files[step]):
            total, zero = 0.0, spec.elements > 0
            for at, count in pieces(spec.elements, SUM_PIECE):
                piece = file.stretch_f32(spec.name, at, count)
                bad = np.flatnonzero(~np.isfinite(piece))
                if bad.size and self.nonfinite == "fp32":
                    return False
                if bad.size:
                    where = np.unravel_index(at + int(bad[0]), spec.shape) if spec.shape else ()
                    index = [int(i) for i in where]
                    raise CaptureError(
                        f"worker {worker}, step {step}, tensor {spec.name!r}, index {index}",
                        f"{float(piece[bad[0]])} has no "
                        f"{'integer code' if mode.bits else 'sign vote'}",
                        "send the tensor by FP32 (--nonfinite fp32) or drop the step",
                    )
                total += absolute_sum(piece) if mode == Mode.G_TERNARY else 0.0
                if mode.bits:
                    own = maxima[slice(*bucket_range(at, count))]
                    np.maximum(own, codec.maxima(piece), out=own)
                zero = zero and not piece.any()
                if worker == 0 and step == self.steps[0] and not mode.bits:
                    self._fused.add(spec, at, piece)
            if zero and mode == Mode.G_BINARY:
                zeros.append(worker)
            thresholds.append(threshold_of(total, spec.elements, self.ratio))
        self._thresholds[step, spec.name] = thresholds
        self._maxima[step, spec.name] = maxima
        for worker in zeros:
            self._zeros.add(step, worker, spec.name)
        return True

    def warnings(self) -> list[str]:
        """Return warnings of guessed routes, zero tensors and fused tensors, one line each.

        Call it after `routes` of every step.
        """
        return [*self.guesses, *self._zeros.lines(), *self._fused.lines()]

    def values(self, step: int, tensor: TensorSpec, first: int, count: int) -> F32:
        """Read consecutive elements of all workers; see `LineSource.values`."""
        files = self._files[step]
        return np.stack([file.stretch_f32(tensor.name, first, count) for file in files])

    def gates(self, step: int, tensor: TensorSpec) -> Sequence[np.float32]:
        """Return the gates found by `routes`; see `LineSource.gates`."""
        return self._thresholds.get((step, tensor.name), [np.float32(0)] * self.workers)

    def maxima(self, step: int, tensor: TensorSpec) -> F32:
        """Return the maxima found by `routes`; see `LineSource.maxima`."""
        return self._maxima[step, tensor.name]


@dataclass(frozen=True)
class HeldLines(LineSource):
    """Source of packed lines in memory, for processes without the capture.

    Attributes:
        name: Printed name.
        workers: Number of workers.
        steps: Steps of the lines.
        tensors: Tensors.
        sent: Lines uint8[W, n, 64] by step, name of the tensor and first line.
    """

    name: str
    workers: int
    steps: tuple[int, ...]
    tensors: tuple[TensorSpec, ...]
    sent: Mapping[tuple[int, str, int], U8]

    @staticmethod
    def of(source: LineSource, uses: Iterable[tuple[int, RegionUse]]) -> HeldLines:
        """Read the lines of some uses of regions from a source.

        Args:
            source: Source.
            uses: Pairs of step and use of a region.
        """
        sent = {
            (step, extent.tensor.name, extent.first): source.lines(step, extent, use.route)
            for step, use in uses
            for extent in use.extents
        }
        steps = tuple(sorted({step for step, _, _ in sent}))
        return HeldLines(source.name, source.workers, steps, source.tensors, sent)

    def lines(self, step: int, extent: Extent, mode: Mode) -> U8:
        """Return the lines of an extent exactly as it was read by `of`; see `LineSource.lines`."""
        return self.sent[step, extent.tensor.name, extent.first]


@dataclass(frozen=True)
class SyntheticSource(LineSource):
    """Source of gradients drawn from a seed, uniform in +-scale/2; each tensor has its own scale.

    The gate of G_TERNARY is ``ratio`` times the expected magnitude.
    """

    name: str
    tensors: tuple[TensorSpec, ...]
    workers: int
    wanted: Mapping[str, Mode]
    ratio: float
    seed: int
    steps: tuple[int, ...] = (0,)
    rounding: Rounding = "nearest"
    _maxima: dict[tuple[int, str], F32] = field(default_factory=dict, compare=False)

    def routes(self, step: int) -> Mapping[str, Mode]:
        """Return the route of every tensor, the same in every step; see `LineSource.routes`."""
        return self.wanted

    def content(self) -> str:
        """Return a hash of the settings that determine the gradients, as hex text."""
        text = f"{self.name} {self.workers} {self.seed} {self.ratio!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    def values(self, step: int, tensor: TensorSpec, first: int, count: int) -> F32:
        """Draw consecutive elements of all workers; see `LineSource.values`."""
        number, half = self.number(tensor), np.float32(0.5)
        keys = [(self.seed, step, number, worker) for worker in range(self.workers)]
        drawn = [uniform(key, first, count, np.float32) - half for key in keys]
        return np.stack(drawn) * _scale(number)

    def gates(self, step: int, tensor: TensorSpec) -> Sequence[np.float32]:
        """Return the gates of the expected magnitude; see `LineSource.gates`."""
        return [np.float32(self.ratio / 4) * _scale(self.number(tensor))] * self.workers

    def maxima(self, step: int, tensor: TensorSpec) -> F32:
        """Return the maxima of all drawn elements; see `LineSource.maxima`."""
        if (step, tensor.name) not in self._maxima:
            drawn = (
                self.values(step, tensor, *part) for part in pieces(tensor.elements, SUM_PIECE)
            )
            parts = [np.max([codec.maxima(x) for x in each], axis=0) for each in drawn]
            self._maxima[step, tensor.name] = np.concatenate(parts)
        return self._maxima[step, tensor.name]


def _scale(number: int) -> np.float32:
    return np.float32(10.0 ** -(1 + number % 4))


def resnet18() -> tuple[TensorSpec, ...]:
    """Return the parameters of ResNet-18 for CIFAR-10: 62 tensors, 11,173,962 elements, in torch's
    order.
    """
    out: list[tuple[str, tuple[int, ...]]] = []

    def convolution(name: str, norm: str, channels: int, inputs: int, kernel: int) -> None:
        out.append((f"{name}.weight", (channels, inputs, kernel, kernel)))
        out.extend((f"{norm}.{leaf}", (channels,)) for leaf in ("weight", "bias"))

    convolution("conv1", "bn1", 64, 3, 3)
    inputs = 64
    for layer, channels in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            prefix = f"layer{layer}.{block}"
            convolution(f"{prefix}.conv1", f"{prefix}.bn1", channels, inputs, 3)
            convolution(f"{prefix}.conv2", f"{prefix}.bn2", channels, channels, 3)
            if inputs != channels:
                shortcut = f"{prefix}.shortcut"
                convolution(f"{shortcut}.0", f"{shortcut}.1", channels, inputs, 1)
            inputs = channels
    out += [("fc.weight", (10, 512)), ("fc.bias", (10,))]
    return tuple(TensorSpec(name, shape) for name, shape in out)


NETWORKS = {"resnet18": resnet18}
