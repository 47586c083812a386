# SPDX-License-Identifier: Apache-2.0
"""Pieces of parameters in a bucket: what a profile gives one route; needs torch.

A piece is a parameter, a slice of it, or what its slices leave. The hook packs contiguous elements.
Rows are contiguous; columns are not, so it gathers the pieces of such a parameter in its part of
the bucket's buffer, and scatters them when they are reduced.
"""

# No postponed annotations here, as in the hook's own module.

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

import torch

from neuron_fabric.hook.capture_hook import dense
from neuron_fabric.profile.slices import Slice, parts


@dataclass(frozen=True)
class Piece:
    """One piece of a parameter.

    Attributes:
        name: Name of the parameter, with the slice.
        shape: Shape of the piece.
        strides: Strides of its elements once they are gathered.
        place: Their strides in the parameter.
        first: First element in the parameter.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    place: tuple[int, ...]
    first: int = 0

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        """Return the view of the piece in a flat parameter that is not gathered."""
        return flat.as_strided(self.shape, self.place, flat.storage_offset() + self.first)


def pieces_of(
    name: str, parameter: torch.Tensor, slices: Collection[Slice] = ()
) -> tuple[Piece, ...]:
    """Return the pieces of a parameter in the order in which they are gathered.

    Args:
        name: Name of the parameter.
        parameter: The parameter.
        slices: Slices with a region, with their ends.
    """
    shape = tuple(parameter.shape)
    if not slices:
        return (Piece(name, shape, parameter.stride(), parameter.stride()),)
    place = parameter.stride() if dense(parameter) else _strides(shape)
    return tuple(
        Piece(f"{name}{one}", own, _strides(own), place, one.first * place[one.axis])
        for one in parts(shape, slices)
        for own in [one.shape(shape)]
    )


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a tensor in C order."""
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def scattered(pieces: Sequence[Piece]) -> bool:
    """Return whether the pieces of a parameter are not contiguous in it."""
    return any(one.place != one.strides for one in pieces)


def gather(flat: torch.Tensor, pieces: Sequence[Piece]) -> None:
    """Order the elements of a flat parameter by its pieces, in place."""
    flat.copy_(torch.cat([one.of(flat).reshape(-1) for one in pieces]))


def scatter(flat: torch.Tensor, pieces: Sequence[Piece]) -> None:
    """Return the elements of a gathered parameter to their places; inverts `gather`."""
    for one, own in zip(pieces, flat.clone().split([x.elements for x in pieces]), strict=True):
        one.of(flat).copy_(own.view(one.shape))
