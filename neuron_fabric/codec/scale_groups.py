# SPDX-License-Identifier: Apache-2.0
"""Groups of elements of a tensor that share a scale: rows or columns, some at a time.

One scale a tensor makes the step of a small part as long as that of a large one: in a fused
attention layer, whose columns are query, key and value, the decoded query is up to 160 times too
long. The votes are the same with any groups; only the scales differ.

A row is an index of the first dimension, a column one of the second, as torch shapes a parameter.
Elements are in memory order, so that a group is not always contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec.numpy_engine import F32
from neuron_fabric.codec.packing import TERNARY_RATIO, Packed, pack
from neuron_fabric.codec.routes import Route, elements_of_line, lines_of

Granularity = Literal["tensor", "row", "column"]
MOST_SHARE = 0.05
"""Lines of scales that a tensor may add, as a share of its lines of votes."""
PARTS = 6
"""A group lies in one half and in one third of the rows or columns, if they are divisible by this:
fused layers have two parts (gate, up) or three (query, key, value) of unlike gradients."""
_AXES = {"row": 0, "column": 1}


@dataclass(frozen=True)
class ScaleGroups:
    """Groups of a tensor whose flat elements have the shape [outer, size, inner] in memory.

    Attributes:
        outer: Elements of the dimensions before that of the groups.
        size: Rows or columns.
        inner: Elements of the dimensions after it.
        block: Rows or columns of a group; the last group may have fewer.
    """

    outer: int
    size: int
    inner: int
    block: int

    @property
    def count(self) -> int:
        """Return the number of groups."""
        return -(-self.size // self.block)

    def means(self, x: F32, counted: NDArray[np.bool_] | None = None) -> F32:
        """Return the mean abs(x) of each group, float32[groups], summed in float64.

        Args:
            x: Flat tensor, float32[n].
            counted: bool[n], elements to count; None for all. A group without any has 0.0.
        """
        sizes = np.abs(x).astype(np.float64)
        if counted is None:
            elements = self._sums(np.ones(x.size))
        else:
            sizes *= counted
            elements = self._sums(counted.astype(np.float64))
        return (self._sums(sizes) / np.maximum(1, elements)).astype(np.float32)

    def squares(self, x: F32) -> F32:
        """Return the root mean square of each group, float32[groups], summed in float64."""
        wide = x.astype(np.float64)
        return np.sqrt(self._sums(wide * wide) / self._sums(np.ones(x.size))).astype(np.float32)

    def of_each(self, scales: F32) -> F32:
        """Return the scale of each element in [outer, size, inner], float32[1, size, 1]."""
        return np.repeat(scales, self.block)[: self.size].reshape(1, self.size, 1)

    def multiply(self, x: F32, scales: F32) -> None:
        """Multiply each element of a flat tensor by the scale of its group, in place."""
        x.reshape(self.outer, self.size, self.inner)[:] *= self.of_each(scales)

    def _sums(self, wide: NDArray[np.float64]) -> NDArray[np.float64]:
        lines = wide.reshape(self.outer, self.size, self.inner).sum(axis=(0, 2))
        return np.add.reduceat(lines, np.arange(0, self.size, self.block))


def groups_of(
    shape: Sequence[int],
    strides: Sequence[int],
    route: Route,
    granularity: Granularity,
    block: int = 0,
) -> ScaleGroups | None:
    """Return the groups of a parameter; None where one scale for the tensor is all there is.

    Args:
        shape: Shape of the parameter.
        strides: Its strides in elements, which give the order in memory.
        route: Its route; integer codes have units instead.
        granularity: Tensor, row or column.
        block: Rows or columns of a group; 0: the least divisor of their number, or of a sixth of it
            (`PARTS`), with which the scales add at most `MOST_SHARE` to the lines of votes.
    """
    if granularity == "tensor" or not route.votes or len(shape) < 2:
        return None
    axis = _AXES[granularity]
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))
    at, size = order.index(axis), shape[axis]
    if not block:
        lines = lines_of(prod(shape), route)
        most = int(MOST_SHARE * lines) * elements_of_line(Route.FP32)
        part = size if size % PARTS else size // PARTS
        block = next((n for n in range(1, size) if part % n == 0 and size // n <= most), size)
    if block >= size:
        return None
    outer, inner = (prod(shape[dim] for dim in part) for part in (order[:at], order[at + 1 :]))
    return ScaleGroups(outer, size, inner, block)


def pack_groups(x: F32, route: Route, groups: ScaleGroups) -> tuple[Packed, F32]:
    """Pack float32[n] to lines of votes, with the mean abs(x) of each group.

    In G_TERNARY a gate is open where abs(x) is above `TERNARY_RATIO` of its group's mean, and the
    scales are means over the open gates.

    Returns:
        The packed tensor, and the scales float32[groups]: NaN if the tensor is not finite.

    Raises:
        ValueError: Another array or route.
    """
    if route == Route.G_BINARY:
        packed = pack(x, route)
        scales = groups.means(x) if packed.finite else None
    else:
        first = pack(x, Route.G_BINARY)
        if not first.finite:
            packed, scales = pack(x, route), None
        else:
            limits = np.float32(TERNARY_RATIO) * groups.means(x)
            shape = (groups.outer, groups.size, groups.inner)
            opened = (np.abs(x).reshape(shape) > groups.of_each(limits)).reshape(-1)
            packed = pack(x * opened, route, ratio=0.0)
            packed = Packed(
                packed.lines, packed.scale, first.zeros, packed.finite, packed.open_gates
            )
            scales = groups.means(x, opened)
    if scales is None:
        scales = np.full(groups.count, np.nan, np.float32)
    return packed, scales
