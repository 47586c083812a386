# SPDX-License-Identifier: Apache-2.0
"""Where lines come from, a stretch of a tensor at a time: nothing is ever held as a whole.

spec: capture spec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from models.line_packing import F32, U8, Mode, elements_per_line
from neuron_fabric.capture import Capture, TensorSpec
from neuron_fabric.capture.safetensors_io import TensorFile
from neuron_fabric.errors import CaptureError
from verif.replay.doubts import ZeroTensors
from verif.replay.pinned import PinnedFile, changed
from verif.replay.plan import Extent
from verif.replay.tensors import SUM_PIECE, absolute_sum, pack_stretch, threshold_of


class LineSource(Protocol):
    """Gradients of several workers and steps, as lines."""

    @property
    def name(self) -> str:
        """What it is called in print."""

    @property
    def workers(self) -> int:
        """Workers that contributed."""

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps to drive, in order."""

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """The same in every step."""

    def routes(self, step: int) -> Mapping[str, Mode]:
        """The route of every tensor; CaptureError when a step cannot be driven. Call it once for
        every step before the first of its lines is asked for: it looks at all of the data."""

    def lines(self, step: int, extent: Extent, mode: Mode) -> U8:
        """uint8[W, extent.lines, 64]: what every worker sends."""


def elements_of(extent: Extent, mode: Mode) -> tuple[int, int]:
    """(first element, elements) that a stretch of lines carries."""
    per_line = elements_per_line(mode)
    first = extent.first * per_line
    return first, min(extent.lines * per_line, extent.tensor.elements - first)


@dataclass
class CaptureSource:
    """A capture on disk. ``wanted`` routes; ``nonfinite``: NaN and infinity go by FP32, or are
    refused; ``ratio``: ternary gate; ``doubts``: lines on the routes that are wanted."""

    capture: Capture
    steps: tuple[int, ...]
    wanted: Mapping[str, Mode]
    nonfinite: Literal["refuse", "fp32"]
    ratio: float
    doubts: Sequence[str] = ()
    _zeros: ZeroTensors = field(default_factory=ZeroTensors)
    _files: dict[int, list[TensorFile]] = field(default_factory=dict)
    _pinned: dict[int, list[PinnedFile]] = field(default_factory=dict)
    _thresholds: dict[tuple[int, str], list[np.float32]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The folder."""
        return str(self.capture.path)

    @property
    def workers(self) -> int:
        """Workers that contributed."""
        return self.capture.world_size

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """As in the manifest."""
        return self.capture.tensors

    def routes(self, step: int) -> Mapping[str, Mode]:
        """See LineSource."""
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
        """Names every byte that this replay reads. Call it behind `routes` of every step: from
        then on, lines come of this content or not at all (CaptureError)."""
        capture = self.capture
        parts = [repr((capture.model, capture.world_size, capture.tensors))]
        for step, pinned in self._pinned.items():
            parts += [f"{step} {pin.digest()}" for pin in pinned]
            if self.capture.open_step(step) != self._files[step]:  # the headers were read before
                raise changed(self.name)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _scan(self, step: int, spec: TensorSpec, mode: Mode) -> bool:
        """False: it has a value without a sign vote, and goes by FP32."""
        thresholds, zeros = [], []
        for worker, file in enumerate(self._files[step]):
            total, zero = 0.0, spec.elements > 0
            for at in range(0, spec.elements, SUM_PIECE):
                piece = file.stretch_f32(spec.name, at, min(SUM_PIECE, spec.elements - at))
                bad = np.flatnonzero(~np.isfinite(piece))
                if bad.size and self.nonfinite == "fp32":
                    return False
                if bad.size:
                    where = np.unravel_index(at + int(bad[0]), spec.shape) if spec.shape else ()
                    index = [int(i) for i in where]
                    raise CaptureError(
                        f"worker {worker}, step {step}, tensor {spec.name!r}, index {index}",
                        f"{float(piece[bad[0]])} has no sign vote",
                        "send the tensor by FP32 (--nonfinite fp32) or drop the step",
                    )
                total += absolute_sum(piece) if mode == Mode.G_TERNARY else 0.0
                zero = zero and not piece.any()
            if zero and mode == Mode.G_BINARY:
                zeros.append(worker)
            thresholds.append(threshold_of(total, spec.elements, self.ratio))
        self._thresholds[step, spec.name] = thresholds
        for worker in zeros:
            self._zeros.add(step, worker, spec.name)
        return True

    def warnings(self) -> list[str]:
        """What may be a mistake, one line each, once `routes` has been called for every step."""
        return [*self.doubts, *self._zeros.lines()]

    def lines(self, step: int, extent: Extent, mode: Mode) -> U8:
        """See LineSource."""
        name, (first, count) = extent.tensor.name, elements_of(extent, mode)
        files = self._files[step]
        thresholds = self._thresholds.get((step, name), [np.float32(0)] * len(files))
        return np.stack(
            [
                pack_stretch(file.stretch_f32(name, first, count), mode, threshold)
                for file, threshold in zip(files, thresholds)
            ]
        )


@dataclass(frozen=True)
class HeldLines:
    """Lines that lie packed in memory, uint8[W, n, 64] by tensor; every step has the same."""

    modes: Mapping[TensorSpec, Mode]
    sent: Mapping[str, U8]
    name: str = "memory"
    steps: tuple[int, ...] = (0,)

    @property
    def workers(self) -> int:
        """Workers that contribute."""
        return len(next(iter(self.sent.values())))

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """All of them."""
        return tuple(self.modes)

    def routes(self, step: int) -> Mapping[str, Mode]:
        """See LineSource."""
        return {spec.name: mode for spec, mode in self.modes.items()}

    def lines(self, step: int, extent: Extent, mode: Mode) -> U8:
        """See LineSource."""
        return self.sent[extent.tensor.name][:, extent.first : extent.first + extent.lines]


_PIECE = 1 << 16
"""Elements that are drawn at a time: any stretch can be drawn without what stands before it."""


@dataclass(frozen=True)
class SyntheticSource:
    """Gradients drawn from a seed, uniform around 0 with a scale of their own in each tensor.

    The gate of G_TERNARY is ``ratio`` times the mean of |x| that the distribution has.
    """

    name: str
    tensors: tuple[TensorSpec, ...]
    workers: int
    wanted: Mapping[str, Mode]
    ratio: float
    seed: int
    steps: tuple[int, ...] = (0,)

    def routes(self, step: int) -> Mapping[str, Mode]:
        """See LineSource."""
        return self.wanted

    def content(self) -> str:
        """Names what is drawn."""
        text = f"{self.name} {self.workers} {self.seed} {self.ratio!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    def lines(self, step: int, extent: Extent, mode: Mode) -> U8:
        """See LineSource."""
        number = next(i for i, t in enumerate(self.tensors) if t.name == extent.tensor.name)
        scale = np.float32(10.0 ** -(1 + number % 4))
        gate = np.float32(self.ratio / 4) * scale
        first, count = elements_of(extent, mode)
        return np.stack(
            [
                pack_stretch(self._drawn(step, number, worker, first, count) * scale, mode, gate)
                for worker in range(self.workers)
            ]
        )

    def _drawn(self, step: int, number: int, worker: int, first: int, count: int) -> F32:
        pieces = range(first // _PIECE, -(-(first + count) // _PIECE))
        drawn = []
        for piece in pieces:
            seed = np.random.SeedSequence((self.seed, step, number, worker, piece))
            rng = np.random.Generator(np.random.SFC64(seed))
            drawn.append(rng.random(_PIECE, dtype=np.float32) - np.float32(0.5))
        start = first - pieces.start * _PIECE
        return np.concatenate(drawn)[start : start + count]


def resnet18() -> tuple[TensorSpec, ...]:
    """The parameters of the ResNet-18 for CIFAR-10: 11,173,962 in 62 tensors, in torch's order."""
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


def route_lines(tensors: Sequence[TensorSpec], routes: Mapping[str, Mode]) -> dict[Mode, int]:
    """Lines a worker by route, tensors without elements left out."""
    out: dict[Mode, int] = {}
    for spec in tensors:
        mode = routes[spec.name]
        out[mode] = out.get(mode, 0) - (-spec.elements // elements_per_line(mode))
    return out
