# SPDX-License-Identifier: Apache-2.0
"""Reducer server in a thread of the test, ranks in other threads, and random buckets."""

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import U8, Route, add_codes, count
from neuron_fabric.codec.reduction import ordered_sum
from neuron_fabric.errors import LineError
from neuron_fabric.reducers.interface import F32, BucketLost, Outcome, Part
from neuron_fabric.reducers.server_session import ServerSession
from neuron_fabric.reducers.server_wire import Hello
from verif.serve.reducer_server import Listener, ReducerServer
from verif.serve.served_device import ModelDevice, ServedDevice

T = TypeVar("T")
Rank = Any
"""`ServerSession`, or another class with its ``submit`` and ``wait``."""
LINES = 400


@dataclass
class Served:
    """Running server: path of its socket, and the lines of its log so far."""

    path: Path
    said: list[str] = field(default_factory=list)


@contextmanager
def serving(
    workers: int,
    device: ServedDevice | None = None,
    timeout_s: float = 20.0,
    path: Path | None = None,
    allowed: Collection[int] = (),
) -> Iterator[Served]:
    """Run a server in another thread for a `with` block; yield its socket and log.

    Args:
        workers: number of ranks of the job.
        device: device that reduces; None for the reference reducers.
        timeout_s: time-out of the server for a late rank, in seconds.
        path: path of the socket; None for one in a temporary folder.
        allowed: numbers of other users that may connect.

    Raises:
        TimeoutError: The server did not end within 30 s; its own exception is raised, too.
    """
    with tempfile.TemporaryDirectory(prefix="nf-") as folder:
        served = Served(path or Path(folder, "s"))
        listener = Listener(served.path, others=bool(allowed))
        device = device or ModelDevice()
        server = ReducerServer(listener, workers, device, timeout_s, served.said.append, allowed)
        run = ThreadPoolExecutor(1).submit(server.run)
        try:
            yield served
        finally:
            server.stop()
            run.result(30)


def rank_of(path: Path, rank: int, workers: int, **other: object) -> ServerSession:
    """Return the session of a rank that has not joined yet; ``other`` are fields of its HELLO."""
    said: dict[str, object] = {"fingerprint": "f", "lines": LINES, "job": "job", **other}
    hello = Hello(rank=rank, **{"world": workers, **said})  # type: ignore[arg-type]
    return ServerSession(path, hello, timeout_s=20.0)


def on_every_rank(workers: int, do: Callable[[int], T]) -> Sequence[T]:
    """Call ``do(rank)`` for each rank, each in its own thread; return the results by rank."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(do, range(workers)))


@contextmanager
def joined(path: Path, workers: int, **other: object) -> Iterator[list[ServerSession]]:
    """Join all ranks of a job for a `with` block; yield their sessions, and close them.

    ``other`` are fields of HELLO, the same for all ranks.
    """

    ranks = [rank_of(path, rank, workers, **other) for rank in range(workers)]
    try:
        for rank in ranks:
            rank.join()
        for rank in ranks:
            rank.joined()
        yield ranks
    finally:
        for rank in ranks:
            rank.close()


@dataclass(frozen=True)
class Drawn:
    """Bucket of gradients of every rank.

    Attributes:
        parts: Parts (lines of one route and decoding) of each rank.
        sides: Scale and presence of each tensor, f32[ranks, 2, tensors].
    """

    parts: Sequence[Sequence[Part]]
    sides: F32

    @property
    def workers(self) -> int:
        return len(self.parts)


VOTES = (Route.G_BINARY, Route.G_TERNARY)


def drawn(
    seed: int,
    workers: int,
    absent: float = 0.2,
    ordered: bool = True,
    routes: Sequence[Route] = VOTES,
) -> Drawn:
    """Draw a bucket: tensors of each route, decoded as vote or (votes only) as net count.

    Args:
        seed: seed of the draws.
        workers: number of ranks.
        absent: probability that a tensor is absent on a rank.
        ordered: add five lines of FP32.
        routes: routes to draw tensors of.

    Returns:
        The bucket; one scale of one rank is NaN.
    """
    rng = np.random.default_rng(seed)
    parts: list[list[Part]] = [[] for _ in range(workers)]
    column = 0
    for route in routes:
        for net in (False, True) if route.votes else (False,):
            sizes = rng.integers(1, 6, rng.integers(0, 4))
            if not len(sizes):
                continue
            starts = tuple(int(n) for n in np.cumsum([0, *sizes[:-1]]))
            columns = tuple(range(column, column + len(sizes)))
            column += len(sizes)
            for own in parts:
                lines = rng.integers(0, 256, (sizes.sum(), 64), np.uint8)
                if route == Route.G_TERNARY:  # a sign without a gate is an illegal code
                    lines &= 0xAA | (lines >> 1 & 0x55)
                own.append(Part(route, net, lines, starts, columns))
    if ordered:
        for own in parts:
            words = rng.standard_normal(16 * 5).astype("<f4")
            own.append(Part(Route.FP32, False, words.view(np.uint8).reshape(5, 64)))
    here = rng.random((workers, column)) >= absent
    scale = here * rng.random((workers, column))
    if column:
        scale[rng.integers(workers), rng.integers(column)] = np.nan
    return Drawn(parts, np.stack([scale, here], axis=1).astype(np.float32))


def want(bucket: Drawn) -> Outcome:
    """Return the outcome of a bucket that torch's reducer would give."""
    out = []
    for n, part in enumerate(bucket.parts[0]):
        lines: U8 = np.stack([own[n].lines for own in bucket.parts])
        if part.route == Route.FP32:
            total = ordered_sum(lines.view("<f4").astype(np.float32))
            out.append(total.view(np.uint8)[None])
            continue
        present = _present(bucket, part)
        if part.route.codes:
            out.append(add_codes(lines, part.route, present))
            continue
        votes, planes = count(lines, part.route, present=present, planes=part.net)
        out.append(planes if part.net else votes[None])
    total = ordered_sum(bucket.sides)
    return Outcome(out, total[0], total[1])


def _present(bucket: Drawn, part: Part) -> NDArray[np.bool_]:
    tensor = np.searchsorted(part.starts, np.arange(len(part.lines)), "right") - 1
    here: NDArray[np.bool_] = bucket.sides[:, 1] > 0
    return np.ascontiguousarray(here[:, np.array(part.columns)[tensor]])


def without(bucket: Drawn, late: Sequence[int]) -> Drawn:
    """Return a bucket to which the ranks in ``late`` contribute zeros, and no vote."""
    parts, sides = list(bucket.parts), bucket.sides.copy()
    for rank in late:
        parts[rank] = [replace(part, lines=np.zeros_like(part.lines)) for part in parts[rank]]
        sides[rank] = 0
    return Drawn(parts, sides)


def differences(got: Outcome, wanted: Outcome, bucket: Drawn) -> list[str]:
    """Return descriptions of the parts, scales and presence that are not bit-identical.

    Votes without any contributor are ignored.
    """
    out = []
    for n, (one, other) in enumerate(zip(got.parts, wanted.parts, strict=True)):
        part = bucket.parts[0][n]
        if part.route == Route.FP32:
            same = one.tobytes() == other.tobytes()
        else:
            seen = _present(bucket, part).any(axis=0)
            same = one.shape == other.shape and np.array_equal(one[:, seen], other[:, seen])
        out += [] if same else [f"part {n} {part.route} net {part.net}"]
    for name in ("scales", "present"):
        a, b = getattr(got, name), getattr(wanted, name)
        if not np.array_equal(a.view(np.uint32), b.view(np.uint32)):
            out.append(f"{name}: {a} for {b}")
    return out


def submitted(ranks: Sequence[Rank], bucket: Drawn, step: int = 0) -> list[Any]:
    """Submit a bucket from every rank; return the ticket of each rank."""
    return [rank.submit(step, 0, bucket.parts[n], bucket.sides[n]) for n, rank in enumerate(ranks)]


def outcome(rank: Rank, ticket: Any) -> str:
    """Return the outcome of a ticket: "done", "lost: REASON" or "refused: REASON"."""
    try:
        rank.wait(ticket)
    except BucketLost as lost:
        return f"lost: {lost}"
    except LineError as error:
        return f"refused: {error}"
    return "done"


def outcomes(ranks: Sequence[Rank], bucket: Drawn, step: int = 0) -> list[str]:
    """Submit a bucket from every rank; return the outcome (as of `outcome`) on each."""
    return [outcome(*one) for one in zip(ranks, submitted(ranks, bucket, step), strict=True)]
