# SPDX-License-Identifier: Apache-2.0
"""What is worth a warning before a capture is driven: routes that are a guess, tensors of zeros,
several projections in one tensor.

spec: capture spec, "From tensors to lines".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from models.line_packing import Mode
from neuron_fabric.capture import Capture, TensorSpec
from verif.replay.routing import RoutePattern, layer_of

F64 = NDArray[np.float64]
# By the last word of the layer, in small letters.
_EMBEDDING = re.compile(r"embed[^.]*$|(^|\.)(wte|wpe|tok|pos)$")
_HEAD = re.compile(r"head$|(^|\.)(classifier|logits|output|fc_out)$")


def route_doubts(
    capture: Capture, routes: Mapping[str, Mode], patterns: Sequence[RoutePattern] = ()
) -> list[str]:
    """Lines on default routes that may be wrong: the capture does not tell its modules, and its
    names speak against the rule that the last layer is the head.

    Tensors that a pattern matches are as they were asked for.
    """
    if capture.modules:
        return []
    guessed = [
        spec
        for spec in capture.tensors
        if routes[spec.name].low_bit
        and not any(fnmatchcase(spec.name, pattern.glob) for pattern in patterns)
    ]
    if not guessed:
        return []
    out = []
    whole = [s for s in capture.tensors if len(s.shape) > 1 and routes[s.name] == Mode.FP32]
    if not whole:
        last = layer_of(capture.tensors[-1].name)
        out.append(
            f"the capture does not tell which layer is the head, and its last layer {last!r} has "
            "no weight matrix: none goes by FP32"
        )
    for word, looks_like in (("an embedding", _EMBEDDING), ("a head", _HEAD)):
        like = [spec.name for spec in guessed if looks_like.search(layer_of(spec.name).lower())]
        if like:
            more = f" (and {len(like) - 1} more)" if len(like) > 1 else ""
            out.append(
                f"tensor {like[0]!r}{more} is named like {word} and goes by "
                f"{routes[like[0]].name}; if it is one: --route '{like[0]}=FP32'"
            )
    return out


@dataclass
class ZeroTensors:
    """Tensors without any value but 0, of which a binary vote makes +1 everywhere."""

    found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, step: int, worker: int, name: str) -> None:
        """One worker's tensor in one step."""
        self.found.setdefault(name, []).append((step, worker))

    def lines(self) -> list[str]:
        """One a tensor."""
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
"""How far the mean magnitudes of two parts may be from each other, and elements of a part."""


@dataclass
class FusedTensors:
    """Tensors of votes whose parts differ in scale: equal halves or thirds of their columns or
    rows, as query, key and value in one parameter have them. A vote has one scale for all."""

    sums: dict[str, tuple[F64, F64]] = field(default_factory=dict)
    """Of magnitudes, by column and by row."""

    def add(self, spec: TensorSpec, at: int, piece: NDArray[np.float32]) -> None:
        """Elements of one worker's tensor from ``at`` on."""
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
        """One a tensor: the split whose parts differ most."""
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
    """Return the largest part over the least."""
    sizes = sums.reshape(parts, -1).sum(1)
    least, most = float(sizes.min()), float(sizes.max())
    if not most:
        return 0.0
    return most / least if least else math.inf
