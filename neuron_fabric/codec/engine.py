# SPDX-License-Identifier: Apache-2.0
"""Which loops the codec runs: those of `pack.c` or those of numpy."""

from __future__ import annotations

import functools
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import numpy_engine
from neuron_fabric.codec.numpy_engine import F32, U8, Seen
from neuron_fabric.codec.routes import Route


class Engine(Protocol):
    """The loops; `numpy_engine` says what each does. All arrays are contiguous."""

    def look(self, x: F32, add: bool) -> Seen:
        """Sum, zeros and finiteness."""

    def pack_binary(self, x: F32, lines: U8, add: bool) -> Seen:
        """Lines of G_BINARY."""

    def pack_ternary(self, x: F32, threshold: np.float32, lines: U8) -> Seen:
        """Lines of G_TERNARY."""

    def count(
        self,
        lines: U8,
        present: NDArray[np.bool_],
        route: Route,
        planes: U8 | None,
        vote: U8 | None,
    ) -> None:
        """Counts and votes of lines."""

    def unpack(self, lines: U8, route: Route, values: F32, out: F32) -> None:
        """Codes as values."""

    def counts(self, planes: U8, route: Route, elements: int) -> U8:
        """Counts as bytes."""

    def unpack_net(self, planes: U8, route: Route, values: F32, out: F32) -> None:
        """Counts as values."""


@functools.cache
def engine() -> Engine:
    """The loops of this process."""
    return numpy_engine
