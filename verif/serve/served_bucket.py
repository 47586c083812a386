# SPDX-License-Identifier: Apache-2.0
"""Bucket that all ranks have submitted: its lines by mode, and who contributes to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import U8, Mode
from neuron_fabric.capacity.cost_model import MOST_ROUTES
from neuron_fabric.codec.routes import Route
from neuron_fabric.reducers.server_client import BucketShape, row_of
from neuron_fabric.reducers.server_wire import Submit

MODES = {
    Route.G_BINARY: Mode.G_BINARY,
    Route.G_TERNARY: Mode.G_TERNARY,
    Route.G_INT4: Mode.G_INT4,
    Route.G_INT8: Mode.G_INT8,
    Route.FP32: Mode.FP32,
}
"""Routes that the server accepts, in the order of its regions."""
OF_VOTES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
"""Modes of a job of votes; a job may have as many."""


class Refusal(Exception):
    """Request that cannot be served; one line for all ranks."""


def modes_of(routes: Sequence[Route]) -> tuple[Mode, ...]:
    """Return the modes of a job with these routes; FP32 carries the sidecars. Raise Refusal for
    more than a device holds at a time."""
    wanted = [route for route in MODES if route in routes or route == Route.FP32]
    if len(wanted) > MOST_ROUTES:
        raise Refusal(
            f"{len(wanted)} routes ({', '.join(wanted)}): a job has {MOST_ROUTES} at a time on one "
            f"device, FP32 among them; choose fewer in the profile"
        )
    return tuple(MODES[route] for route in wanted)


@dataclass(frozen=True)
class Stretch:
    """Lines of one mode: their places among a worker's lines, and the contributors bool[W, n];
    None: all."""

    mode: Mode
    lines: NDArray[np.int64]
    present: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class ServedBucket:
    """Bucket of all workers. ``sent`` uint8[W, lines, 64]; ``got`` uint8[1 + P, lines, 64] holds
    votes or sums and count planes at the places of their lines; ``modes`` of its job."""

    seq: int
    step: int
    bucket: int
    stretches: tuple[Stretch, ...]
    sent: U8
    got: U8
    modes: tuple[Mode, ...] = OF_VOTES

    @property
    def lines(self) -> int:
        """Return the reduced lines per worker."""
        return sum(len(one.lines) for one in self.stretches)

    @property
    def contributions(self) -> int:
        """Return the contributions of all workers."""
        return sum(
            int(one.present.sum()) if one.present is not None else len(one.lines) * len(self.sent)
            for one in self.stretches
        )


@dataclass
class Counts:
    """Counters of a device for a bucket; ``cycles`` is 0 without a clock, ``fallback`` 1 if a
    region raised FALLBACK."""

    cycles: int = 0
    rounds: int = 0
    answers: int = 0
    severe: int = 0
    fallback: int = 0


def check_alike(said: Mapping[int, Submit]) -> None:
    """Raise Refusal with the first difference, and both values, if ranks submitted different
    buckets."""
    first, *others = sorted(said)
    for rank in others:
        for name in ("step", "bucket", "parts", "columns"):
            values = [_shown(getattr(said[one], name)) for one in (first, rank)]
            if values[0] != values[1]:
                raise Refusal(
                    f"{name} of bucket {said[first].seq}: rank {first} says {values[0]}, "
                    f"rank {rank} says {values[1]}"
                )


def bucket_of(said: Submit, sent: U8, got: U8, modes: tuple[Mode, ...] = OF_VOTES) -> ServedBucket:
    """Return the bucket to reduce in a job of these ``modes``. Raise Refusal for another mode, for
    more lines than agreed, and for tables of tensors that are malformed or differ."""
    shape = BucketShape(said.parts, said.columns)
    if shape.lines > sent.shape[1]:
        raise Refusal(
            f"step {said.step} bucket {said.bucket}: {shape.lines} lines of a worker, "
            f"{sent.shape[1]} were agreed at HELLO"
        )
    found: dict[Mode, list[Stretch]] = {mode: [] for mode in MODES.values()}
    table, here = _table(shape, sent), _present(shape, sent)
    at = 0
    for part, first in zip(said.parts, shape.firsts, strict=True):
        mode, lines = MODES[part.route], np.arange(first, first + part.lines)
        if mode not in modes:
            names = ", ".join(one.name for one in modes)
            raise Refusal(f"{part.route}: the routes of this job on the device are {names}")
        present = None
        if part.tensors:
            own = table[at : at + part.tensors]
            at += part.tensors
            present = _of_lines(own, lines, here)
        found[mode].append(Stretch(mode, lines, present))
    first, row = shape.side
    found[Mode.FP32].append(Stretch(Mode.FP32, np.arange(first, first + 2 * row)))
    joined = (_joined(some, len(sent)) for some in found.values() if some)
    return ServedBucket(
        *(said.seq, said.step, said.bucket),
        tuple(one for one in joined if len(one.lines)),
        *(sent, got, modes),
    )


def _table(shape: BucketShape, sent: U8) -> NDArray[np.int64]:
    """Return the first line and column of each voted tensor, int64[n, 2], equal on all ranks. 64
    bits, because differences of 32-bit values need 33 bits."""
    first, entries = shape.table
    flat = sent[:, first : shape.lines].reshape(len(sent), -1)[:, : 8 * entries]
    for rank in range(1, len(flat)):
        if not np.array_equal(flat[rank], flat[0]):
            raise Refusal(f"rank {rank} has its tensors at other lines than rank 0")
    table = np.ascontiguousarray(flat[0]).view("<i4").astype(np.int64).reshape(entries, 2)
    if ((table[:, 1] < 0) | (table[:, 1] >= shape.columns)).any():
        raise Refusal(f"a tensor has no column among {shape.columns}")
    return table


def _present(shape: BucketShape, sent: U8) -> NDArray[np.bool_]:
    """Return bool[W, columns]: which workers have a vote on which tensor."""
    first, row = shape.side
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.asarray(row_of(sent, first + row, shape.columns) > 0)


def _of_lines(
    table: NDArray[np.int64], lines: NDArray[np.int64], here: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Return the contributors of each line; None: all."""
    starts, columns = table[:, 0], table[:, 1]
    if len(lines) and (starts[0] != lines[0] or (np.diff(starts) <= 0).any()):
        raise Refusal("the first lines of tensors do not go up from that of their part")
    if here[:, columns].all():
        return None
    tensor = np.searchsorted(starts, lines, "right") - 1
    return np.asarray(here[:, columns[tensor]])


def _joined(some: list[Stretch], workers: int) -> Stretch:
    """Join stretches of one mode."""
    lines = np.concatenate([one.lines for one in some])
    if all(one.present is None for one in some):
        return Stretch(some[0].mode, lines)
    full = [
        np.ones((workers, len(one.lines)), np.bool_) if one.present is None else one.present
        for one in some
    ]
    return Stretch(some[0].mode, lines, np.concatenate(full, axis=1))


def _shown(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    parts = [f"{p.lines} lines of {p.route}{' net' * p.net}, {p.tensors} tensors" for p in value]
    return "; ".join(parts) or "no part"
