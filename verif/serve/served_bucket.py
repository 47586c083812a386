# SPDX-License-Identifier: Apache-2.0
"""Bucket that all ranks have submitted: its lines by mode, and who contributes to each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import U8
from models.modes import Mode
from neuron_fabric.capacity.cost_model import MOST_ROUTES
from neuron_fabric.codec.routes import Route
from neuron_fabric.reducers.server_wire import Submit
from neuron_fabric.reducers.shared_lines import BucketShape, row_of
from verif.replay.plan import ROUTE_ORDER

MODES = {Route(mode.name): mode for mode in ROUTE_ORDER}
"""Device mode of each route that the server accepts, in the order of its regions."""
OF_VOTES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
"""Modes of a job whose low-bit routes are votes, the default; a job has at most three."""


class Refusal(Exception):
    """Request that cannot be served, with a text of one line for all ranks."""


def modes_of(routes: Sequence[Route]) -> tuple[Mode, ...]:
    """Return the device modes of a job with these routes, and FP32, which carries the sidecars.

    Raises:
        Refusal: There are more than `MOST_ROUTES`.
    """
    wanted = [route for route in MODES if route in routes or route == Route.FP32]
    if len(wanted) > MOST_ROUTES:
        raise Refusal(
            f"{len(wanted)} routes ({', '.join(wanted)}): a job has {MOST_ROUTES} at a time on one "
            f"device, FP32 among them; choose fewer in the profile"
        )
    return tuple(MODES[route] for route in wanted)


@dataclass(frozen=True)
class Stretch:
    """Lines of one mode of a bucket.

    Attributes:
        mode: Mode of the device.
        lines: Indices of the lines among a worker's lines of the bucket, int64[n].
        present: Contributors of each line, bool[W, n]; None: all workers.
    """

    mode: Mode
    lines: NDArray[np.int64]
    present: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class ServedBucket:
    """Bucket that all workers have submitted, with its lines in the shared memory.

    Attributes:
        seq: Number of the bucket in the job.
        step: Training step.
        bucket: Number of the bucket in the step.
        stretches: Lines to reduce, one stretch per mode.
        sent: Lines of the workers, uint8[W, lines, 64].
        got: Results, uint8[1 + P, lines, 64], at the indices of their lines: votes or sums, then up
            to P count planes.
        modes: Modes of the job.
        late: Workers without which the round was closed: they contribute to no line.
    """

    seq: int
    step: int
    bucket: int
    stretches: tuple[Stretch, ...]
    sent: U8
    got: U8
    modes: tuple[Mode, ...] = OF_VOTES
    late: tuple[int, ...] = ()

    @property
    def lines(self) -> int:
        """Number of lines to reduce, per worker."""
        return sum(len(one.lines) for one in self.stretches)

    @property
    def contributions(self) -> int:
        """Number of contributions of all workers; absent workers do not count."""
        return sum(
            int(one.present.sum()) if one.present is not None else len(one.lines) * len(self.sent)
            for one in self.stretches
        )


@dataclass
class Counts:
    """Counters of a device for one bucket.

    Attributes:
        cycles: Clock cycles; 0 without a clock.
        rounds: Epochs that the bucket took.
        answers: Responses of the device.
        severe: Responses with DevLoad severe.
        fallback: 1 if a region raised FALLBACK, else 0.
    """

    cycles: int = 0
    rounds: int = 0
    answers: int = 0
    severe: int = 0
    fallback: int = 0


def check_alike(said: Mapping[int, Submit]) -> None:
    """Check that all ranks submitted the same bucket: step, number, parts and columns.

    Args:
        said: Submission of each rank.

    Raises:
        Refusal: With the first difference, and both values.
    """
    first, *others = sorted(said)
    for rank in others:
        for name in ("step", "bucket", "parts", "columns"):
            values = [_shown(getattr(said[one], name)) for one in (first, rank)]
            if values[0] != values[1]:
                raise Refusal(
                    f"{name} of bucket {said[first].seq}: rank {first} says {values[0]}, "
                    f"rank {rank} says {values[1]}"
                )


def bucket_of(
    said: Submit,
    sent: U8,
    got: U8,
    modes: tuple[Mode, ...] = OF_VOTES,
    late: tuple[int, ...] = (),
) -> ServedBucket:
    """Return the bucket to reduce, from a submission and the tables in the shared memory.

    Args:
        said: Submission of any rank that is not late; all are alike.
        sent: Lines of the workers, uint8[W, lines, 64].
        got: Memory for results, uint8[1 + P, lines, 64].
        modes: Modes of the job.
        late: Workers without which the round is closed; their lines may still change.

    Raises:
        Refusal: A part has another mode, there are more lines than agreed, or tables of tensors are
            malformed or differ between ranks.
    """
    shape = BucketShape(said.parts, said.columns)
    if shape.lines > sent.shape[1]:
        raise Refusal(
            f"step {said.step} bucket {said.bucket}: {shape.lines} lines of a worker, "
            f"{sent.shape[1]} were agreed at HELLO"
        )
    found: dict[Mode, list[Stretch]] = {mode: [] for mode in MODES.values()}
    on_time = np.ones(len(sent), np.bool_)
    on_time[list(late)] = False
    table = _table(shape, sent, np.flatnonzero(on_time))
    here = _present(shape, sent) & on_time[:, None]
    at = 0
    for part, first in zip(said.parts, shape.firsts, strict=True):
        mode, lines = MODES[part.route], np.arange(first, first + part.lines)
        if mode not in modes:
            names = ", ".join(one.name for one in modes)
            raise Refusal(f"{part.route}: the routes of this job on the device are {names}")
        present = _all(on_time, len(lines))
        if part.tensors:
            own = table[at : at + part.tensors]
            at += part.tensors
            present = _of_lines(own, lines, here)
        found[mode].append(Stretch(mode, lines, present))
    first, row = shape.side
    side = np.arange(first, first + 2 * row)
    found[Mode.FP32].append(Stretch(Mode.FP32, side, _all(on_time, len(side))))
    joined = (_joined(some, len(sent)) for some in found.values() if some)
    return ServedBucket(
        *(said.seq, said.step, said.bucket),
        tuple(one for one in joined if len(one.lines)),
        sent,
        got,
        modes,
        late,
    )


def _all(on_time: NDArray[np.bool_], lines: int) -> NDArray[np.bool_] | None:
    """Return the contributors bool[W, n] of lines on which nobody abstains; None for all."""
    return None if on_time.all() else np.repeat(on_time[:, None], lines, axis=1)


def _table(shape: BucketShape, sent: U8, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (first line, column) of each voted tensor, int64[n, 2], the same on all ``ranks``.

    64 bits, because differences of 32-bit values need 33 bits. Raise Refusal if ranks differ.
    """
    first, entries = shape.table
    flat = sent[:, first : shape.lines].reshape(len(sent), -1)[:, : 8 * entries]
    one, *others = ranks
    for rank in others:
        if not np.array_equal(flat[rank], flat[one]):
            raise Refusal(f"rank {rank} has its tensors at other lines than rank {one}")
    table = np.ascontiguousarray(flat[one]).view("<i4").astype(np.int64).reshape(entries, 2)
    if ((table[:, 1] < 0) | (table[:, 1] >= shape.columns)).any():
        raise Refusal(f"a tensor has no column among {shape.columns}")
    return table


def _present(shape: BucketShape, sent: U8) -> NDArray[np.bool_]:
    """Return bool[W, columns]: True where a worker has a vote on a tensor."""
    first, row = shape.side
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.asarray(row_of(sent, first + row, shape.columns) > 0)


def _of_lines(
    table: NDArray[np.int64], lines: NDArray[np.int64], here: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Return the contributors of each line, bool[W, n]; None if all contribute to all lines.

    Args:
        table: (first line, column) of each tensor, see `_table`.
        lines: Indices of the lines.
        here: Workers with a vote on each column, see `_present`.

    Raises:
        Refusal: The first lines of the tensors are not ascending from that of their part.
    """
    starts, columns = table[:, 0], table[:, 1]
    if len(lines) and (starts[0] != lines[0] or (np.diff(starts) <= 0).any()):
        raise Refusal("the first lines of tensors do not go up from that of their part")
    if here[:, columns].all():
        return None
    tensor = np.searchsorted(starts, lines, "right") - 1
    return np.asarray(here[:, columns[tensor]])


def _joined(some: list[Stretch], workers: int) -> Stretch:
    """Join the stretches of one mode to one, in their order."""
    lines, present = np.concatenate([one.lines for one in some]), None
    if any(one.present is not None for one in some):
        full = [np.ones((workers, len(one.lines)), np.bool_) for one in some]
        parts = [every if one.present is None else one.present for one, every in zip(some, full)]
        present = np.concatenate(parts, axis=1)
    return Stretch(some[0].mode, lines, present)


def _shown(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    parts = [f"{p.lines} lines of {p.route}{' net' * p.net}, {p.tensors} tensors" for p in value]
    return "; ".join(parts) or "no part"
