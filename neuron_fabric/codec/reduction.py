# SPDX-License-Identifier: Apache-2.0
"""Reduction of the workers' lines on the host: counts of votes and their sums, and FP32 sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec.array_checks import check, check_number
from neuron_fabric.codec.engine import engine
from neuron_fabric.codec.numpy_engine import F32, U8, decide
from neuron_fabric.codec.packing import MAX_PLANES, MAX_WORKERS
from neuron_fabric.codec.routes import LINE, Route, check_votes


def count(
    lines: U8,
    route: Route,
    *,
    present: NDArray[np.bool_] | None = None,
    planes: bool = True,
    vote: bool = True,
) -> tuple[U8, U8]:
    """Count the votes of all workers; return (vote lines uint8[n, 64], planes uint8[P, n, 64]).

    Bit ``p`` of a count is in plane ``p``, P = W.bit_length(). In G_BINARY the count at the bit of
    an element is that of + votes; in G_TERNARY an element's even bit has the count of + votes and
    its odd bit that of - votes. A tie is + in G_BINARY and 0 in G_TERNARY.

    Args:
        lines: Votes uint8[W, n, 64] of all workers.
        route: G_BINARY or G_TERNARY.
        present: bool[W, n], contributors; None for all. Others abstain, as if they did not exist.
        planes: Whether to return the planes; if not, they are empty.
        vote: Whether to return the vote lines; if not, they are empty.

    Raises:
        ValueError: Other arrays or routes.
    """
    check_votes(route)
    check("lines", lines, np.uint8, "W", "n", LINE)
    workers, size, _ = lines.shape
    if not 1 <= workers <= MAX_WORKERS:
        raise ValueError(f"{workers} workers, 1 to {MAX_WORKERS} can be counted")
    if present is not None:
        check("present", present, np.bool_, workers, size)
        present = np.ascontiguousarray(present)
    counts = np.empty((workers.bit_length() if planes else 0, size, LINE), np.uint8)
    decided = np.empty((size if vote else 0, LINE), np.uint8)
    engine().count(
        np.ascontiguousarray(lines),
        present,
        route,
        counts if planes else None,
        decided if vote else None,
    )
    return decided, counts


# Counts of several groups of workers, added on the host: a region counts 64 workers, a job may
# have more. The sum is exactly what one count of all would be; a vote of votes would not be.


Words = NDArray[np.uint64]


def add_planes(groups: Sequence[U8], workers: int) -> U8:
    """Add the count planes of several groups of workers; return uint8[P, n, 64].

    Args:
        groups: Count planes uint8[p, n, 64] of each group, as of `count`.
        workers: Number of workers in all groups; P = workers.bit_length().

    Raises:
        ValueError: Other arrays, more workers than a count holds, or counts that P planes do not
            hold.
    """
    workers = check_number("workers", workers, 1, MAX_WORKERS)
    for one in groups:
        check("planes", one, np.uint8, "P", "n", LINE)
    if len({one.shape[1] for one in groups}) != 1:
        found = ", ".join(f"uint8{list(one.shape)}" for one in groups) or "none"
        raise ValueError(f"planes must be uint8[P, n, {LINE}] of the same lines, not {found}")
    lines = groups[0].shape[1]
    total = np.zeros((workers.bit_length(), lines, LINE // 8), np.uint64)
    for one in groups:
        if _add(total, np.ascontiguousarray(one).view("<u8")):
            most = (1 << len(total)) - 1
            raise ValueError(f"{workers} workers, and more than {most} votes on an element")
    return total.astype("<u8", copy=False).view(np.uint8)


def _add(total: Words, more: Words) -> bool:
    """Add planes ``more`` to ``total`` in place; return whether a count overflows."""
    carry = np.zeros_like(total[0])
    for p in range(max(len(total), len(more))):
        b = more[p] if p < len(more) else np.zeros_like(carry)
        if p >= len(total):
            if b.any() or carry.any():
                return True
            continue
        a = total[p].copy()
        total[p] = a ^ b ^ carry
        carry = (a & b) | (carry & (a | b))
    return bool(carry.any())


def vote_of(planes: U8, route: Route, present: NDArray[np.integer] | int) -> U8:
    """Return the vote lines uint8[n, 64] that counts decide.

    Args:
        planes: Count planes uint8[P, n, 64].
        route: G_BINARY or G_TERNARY.
        present: Number of contributors of all lines, or of each line, integers [n].

    Raises:
        ValueError: Other arrays or numbers, or a route without votes.
    """
    check_votes(route)
    check("planes", planes, np.uint8, "P", "n", LINE)
    check_number("count planes", len(planes), 1, MAX_PLANES)
    lines = planes.shape[1]
    if isinstance(present, np.ndarray):
        if present.shape != (lines,) or present.dtype.kind not in "iu":
            found = f"{present.dtype}{list(present.shape)}"
            raise ValueError(f"present must be an integer or integers [{lines}], not {found}")
        for one in (present.min(initial=0), present.max(initial=0)):
            check_number("present", one, 0, MAX_WORKERS)
    else:
        present = check_number("present", present, 0, MAX_WORKERS)
    here = np.broadcast_to(np.asarray(present, np.uint64), (lines,))[:, None]
    vote = np.empty((lines, LINE), np.uint8)
    vote.view("<u8")[:] = decide(list(np.ascontiguousarray(planes).view("<u8")), route, here)
    return vote


def ordered_sum(rows: F32) -> F32:
    """Return the sum of float32[W, ...] over the first axis, added in the order of workers.

    A NaN gets the bits that the device gives it, 7FC00000h.
    """
    total: F32 = rows[0].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for row in rows[1:]:
            total += row
    total[np.isnan(total)] = np.nan
    return total
