# SPDX-License-Identifier: Apache-2.0
"""Choice of the codec's engine: the compiled loops of `pack.c`, or numpy."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import native, numpy_engine
from neuron_fabric.codec.draws import Draws
from neuron_fabric.codec.numpy_engine import F32, U8, ScanResult, Tensors
from neuron_fabric.codec.routes import Route


class Engine(Protocol):
    """Interface of the codec's engines; `numpy_engine` documents each function.

    All arrays are contiguous. Tensors have their lines, units and results one after the other, each
    from a new line, or unit, on.
    """

    def look(self, xs: Tensors, add: bool) -> list[ScanResult]:
        """Return sum of abs(x) (if ``add``), zeros and finiteness of each tensor."""

    def pack_binary(self, xs: Tensors, lines: U8, add: bool) -> list[ScanResult]:
        """Pack tensors to G_BINARY ``lines``; return the scan of each as `look` does."""

    def pack_ternary(self, xs: Tensors, thresholds: F32, lines: U8) -> list[ScanResult]:
        """Pack tensors to G_TERNARY ``lines``; return sum and number of the open gates of each."""

    def count(
        self,
        lines: U8,
        present: NDArray[np.bool_] | None,
        route: Route,
        planes: U8 | None,
        vote: U8 | None,
    ) -> None:
        """Count the votes in all workers' lines, into count planes and vote lines if given."""

    def unpack(self, lines: U8, route: Route, values: F32, outs: Tensors) -> None:
        """Replace each code in lines of votes by a value of its tensor, into ``outs``."""

    def unpack_net(self, planes: U8, route: Route, values: F32, out: F32) -> None:
        """Replace each count in count planes by a value, into ``out``."""

    def maxima(self, xs: Tensors, largest: F32) -> None:
        """Write the largest abs(x) of each bucket of the tensors to ``largest``."""

    def pack_codes(
        self, xs: Tensors, route: Route, u: F32, draws: Sequence[Draws], lines: U8
    ) -> list[ScanResult]:
        """Pack tensors to integer codes; return zeros of each, and whether its codes hold it."""

    def add_codes(
        self, lines: U8, present: NDArray[np.bool_] | None, route: Route, width: int, sums: U8
    ) -> None:
        """Add the codes in all workers' lines, into ``sums`` of ``width`` bytes each."""

    def unpack_sums(self, sums: U8, width: int, u: F32, present: U8, outs: Tensors) -> None:
        """Convert sums of codes to u * sum / present, into ``outs``."""


class EngineChoice(NamedTuple):
    """Chosen engine of the codec, and the reason in one line of text."""

    engine: Engine
    why: str


def choose(env: Mapping[str, str] = os.environ) -> EngineChoice:
    """Choose the engine: `pack.c`, unless NF_NATIVE is 0 or it cannot be built here."""
    if env.get("NF_NATIVE", "") == "0":
        return EngineChoice(numpy_engine, "numpy: NF_NATIVE is 0")
    try:
        library = native.library(env)
        return EngineChoice(native.NativeEngine(library), f"native: {library}")
    except native.NoLibraryError as error:
        return EngineChoice(numpy_engine, f"numpy: {error}")


@functools.cache
def chosen() -> EngineChoice:
    """Return the engine of this process, chosen at the first call."""
    return choose()


_used: list[Engine] = []


@contextmanager
def using(loops: Engine) -> Iterator[None]:
    """Use this engine inside the block, for tests and benchmarks."""
    _used.append(loops)
    try:
        yield
    finally:
        _used.pop()


def engine() -> Engine:
    """Return the engine to use now: that of the innermost `using`, else the chosen one."""
    return _used[-1] if _used else chosen().engine
