# SPDX-License-Identifier: Apache-2.0
"""Slices of parameters, as regions of a profile name them: `qkv.weight[0:768]`, `w[:, 768:]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from neuron_fabric.data import DataError

_BRACKETS = re.compile(r"(.+)\[([-0-9:, ]*:[-0-9:, ]*)\]", re.DOTALL)
"""Brackets with a colon and numbers at the end of a glob: a slice, and no set of characters."""
_SLICE = re.compile(r"((?:: *, *)*)([0-9]*):([0-9]*)")


@dataclass(frozen=True, order=True)
class Slice:
    """Range of indices in one dimension of a parameter, as torch shapes the parameter.

    Attributes:
        axis: The dimension: 0 for rows, 1 for columns.
        first: First index.
        end: Index after the last; 0 for all that follow.
    """

    axis: int
    first: int
    end: int

    def __str__(self) -> str:
        """Return the slice as a profile names it."""
        return f"[{':, ' * self.axis}{self.first}:{self.end or ''}]"

    def of(self, shape: Sequence[int]) -> Slice:
        """Return the slice with its end in a parameter of this shape.

        Raises:
            DataError: The parameter has no such dimension or indices.
        """
        size = shape[self.axis] if self.axis < len(shape) else 0
        if not self.first < (self.end or size) <= size:
            raise DataError(f"slice {self} is not within its shape {list(shape)}")
        return replace(self, end=self.end or size)

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the slice in a parameter of ``shape``; its end is known."""
        return (*shape[: self.axis], self.end - self.first, *shape[self.axis + 1 :])


def sliced(text: str) -> tuple[str, Slice | None]:
    """Return the glob or name in ``text`` without its slice, and the slice; None without one.

    Raises:
        DataError: Brackets at the end hold no slice of one dimension, or an empty one.
    """
    found = _BRACKETS.fullmatch(text)
    if found is None:
        return text, None
    one = _SLICE.fullmatch(found[2])
    if one is None:
        raise DataError(f"match {text!r}: a slice is [FIRST:END], of columns [:, FIRST:END]")
    first, end = int(one[2] or 0), int(one[3] or 0)
    if one[3] and end <= first:
        raise DataError(f"match {text!r}: the slice is empty")
    return found[1], Slice(one[1].count(","), first, end)


def parts(shape: Sequence[int], slices: Iterable[Slice]) -> list[Slice]:
    """Return the slices of a parameter and what no slice covers, in the order of indices.

    Args:
        shape: Shape of the parameter.
        slices: One or more slices, with their ends.

    Raises:
        DataError: Two slices overlap, as those of two dimensions do.
    """
    found, at = list[Slice](), 0
    for one in sorted(slices):
        if found and (one.axis != found[-1].axis or one.first < at):
            raise DataError(f"slices {found[-1]} and {one} overlap")
        found += [Slice(one.axis, at, one.first)] * (one.first > at)
        found.append(one)
        at = one.end
    axis = found[-1].axis
    return found + [Slice(axis, at, shape[axis])] * (at < shape[axis])
