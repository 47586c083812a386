# SPDX-License-Identifier: Apache-2.0
"""Figures of one tensor: its gradients of all workers reduced by a route, and their FP32 mean.

The reduction is that of the hook: the codec packs, counts or adds, and decodes with the mean of the
workers' scales. Feedback, momentum and shrink need a training and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuron_fabric.codec import (
    F32,
    LINE,
    U8,
    Packed,
    Route,
    add_codes,
    count,
    lines_of,
    maxima,
    pack,
    pack_codes,
    units,
    unpack,
    unpack_codes,
    unpack_net,
    unpack_sums,
)
from neuron_fabric.codec.scale_groups import ScaleGroups, groups_of, pack_groups
from neuron_fabric.profile import PhaseRoute

OPTIONS = (
    PhaseRoute(Route.G_BINARY),
    PhaseRoute(Route.G_BINARY, granularity="column"),
    PhaseRoute(Route.G_BINARY, granularity="row"),
    PhaseRoute(Route.G_BINARY, "net"),
    PhaseRoute(Route.G_TERNARY),
    PhaseRoute(Route.G_TERNARY, "net"),
    PhaseRoute(Route.G_INT4),
    PhaseRoute(Route.G_INT8),
)
"""Routes that an analysis compares. It rounds codes to the nearest, so that it needs no seed."""
SIDECAR = 8
"""Bytes of a tensor in the sidecar: a scale and a presence, float32 each."""


@dataclass(frozen=True)
class TensorFigures:
    """Figures of a tensor in a step by a route; shares are from 0 to 1.

    Attributes:
        step: Step of the capture.
        tensor: Name of the tensor.
        route: Label of the route (`label_of`).
        elements: Elements of the tensor.
        zeros: Share of elements that are exactly 0, mean over the workers.
        finite: Whether all gradients are finite; if not, the other figures are None or 0.
        cosine: Cosine of the decoded gradient and the FP32 mean; None for a mean of zeros.
        norm_ratio: Norm of the decoded gradient over that of the FP32 mean, or None.
        unanimity: Share of elements with the same vote of all present workers; None for codes.
        ties: Share of elements without a majority; None for codes.
        margins: Share of elements with abs(plus - minus) of 0, 1, ..., W; () for codes.
        open_gates: Share of elements with a vote, mean over the workers; None for codes.
        saturation: Share of codes of the largest magnitude, mean over the workers; None for votes.
        up: Bytes that a worker sends, with scales or maxima.
        down: Bytes that it receives.
    """

    step: int
    tensor: str
    route: str
    elements: int
    zeros: float
    finite: bool
    cosine: float | None
    norm_ratio: float | None
    unanimity: float | None
    ties: float | None
    margins: tuple[float, ...]
    open_gates: float | None
    saturation: float | None
    up: int
    down: int


@dataclass(frozen=True)
class _Reduced:
    """Decoded gradient of a tensor, and what its lines say."""

    decoded: F32
    up: int
    down: int
    net: F32 | None = None
    present: int = 0
    open_gates: float | None = None
    saturation: float | None = None


def label_of(how: PhaseRoute) -> str:
    """Return the label of a route: "G_BINARY", "G_BINARY net", "G_BINARY by column"."""
    words = [str(how.route), *(["net"] if how.decode == "net" else [])]
    return " ".join(words + ([f"by {how.granularity}"] if how.granularity != "tensor" else []))


def analysed(x: F32, how: PhaseRoute, step: int = 0, tensor: str = "") -> TensorFigures | None:
    """Return the figures of a tensor by a route; None if its scale has no such groups.

    Args:
        x: Gradients of all workers, float32[W, *shape].
        how: Route, decode, and granularity of scales.
        step: Step, which the figures name.
        tensor: Name, which the figures name.
    """
    workers, shape = len(x), x.shape[1:]
    flat = np.ascontiguousarray(x, np.float32).reshape(workers, -1)
    strides = [int(np.prod(shape[at + 1 :])) for at in range(len(shape))]
    groups = groups_of(shape, strides, how.route, how.granularity)
    if how.granularity != "tensor" and groups is None:
        return None
    finite = bool(np.isfinite(flat).all())
    known = step, tensor, label_of(how), flat.shape[1], float(np.mean(flat == 0)), finite
    made = _voted(flat, how, groups) if how.route.votes else _coded(flat, how.route)
    mean = flat.mean(axis=0, dtype=np.float64) if finite else np.zeros(flat.shape[1])
    wide = made.decoded.astype(np.float64)
    of_mean, of_decoded = float(np.linalg.norm(mean)), float(np.linalg.norm(wide))
    cosine = ratio = None
    if of_mean > 0:
        cosine = float(mean @ wide) / (of_mean * of_decoded) if of_decoded > 0 else 0.0
        ratio = of_decoded / of_mean
    unanimity = ties = None
    margins: tuple[float, ...] = ()
    if made.net is not None:
        sizes = np.abs(made.net).astype(np.int64)
        unanimity = float(np.mean(sizes == made.present)) if made.present else 0.0
        ties = float(np.mean(sizes == 0))
        shares = np.bincount(sizes, minlength=workers + 1) / sizes.size
        margins = tuple(float(one) for one in shares)
    votes = unanimity, ties, margins, made.open_gates
    return TensorFigures(*known, cosine, ratio, *votes, made.saturation, made.up, made.down)


def _voted(flat: F32, how: PhaseRoute, groups: ScaleGroups | None) -> _Reduced:
    """Reduce float32[W, n] by votes."""
    elements = flat.shape[1]
    route, lines = how.route, lines_of(elements, how.route)
    packed, scales = [], []
    for own in flat:
        one, many = pack_groups(own, route, groups) if groups else (pack(own, route), None)
        packed.append(one)
        scales.append(np.atleast_1d(one.scale if many is None else many))
    here = np.array([_votes(one, elements) for one in packed])
    present = int(here.sum())
    of_lines = np.repeat(here[:, None], lines, axis=1)
    votes, planes = count(np.stack([one.lines for one in packed]), route, present=of_lines)
    net = unpack_net(planes, route, elements, present) * np.float32(present)
    if how.decode == "net":
        decoded = unpack_net(planes, route, elements, present)
    else:
        decoded = unpack(votes, route, elements) * np.float32(present > 0)
    with np.errstate(over="ignore"):
        total: F32 = np.stack(scales)[here].sum(axis=0, dtype=np.float32)
    scale = total / np.float32(max(1, present))
    if not (all(one.finite for one in packed) and np.isfinite(scale).all()):  # the hook sends none
        scale = np.zeros_like(scale)
    if groups is None:
        decoded *= scale[0]
    else:
        groups.multiply(decoded, scale)
    more = SIDECAR + (LINE * lines_of(groups.count, Route.FP32) if groups else 0)
    layers = len(planes) if how.decode == "net" else 1
    gates = float(np.mean([one.open_gates / elements for one in packed]))
    up, down = LINE * lines + more, LINE * lines * layers + more
    return _Reduced(decoded, up, down, np.rint(net), present, gates)


def _votes(one: Packed, elements: int) -> bool:
    return one.finite and one.zeros < elements and one.open_gates > 0


def _coded(flat: F32, route: Route) -> _Reduced:
    """Reduce float32[W, n] by integer codes, rounded to the nearest."""
    workers, elements = flat.shape
    decoded = np.zeros(elements, np.float32)
    largest = np.max([maxima(own) for own in flat], axis=0)
    lines = lines_of(elements, route)
    extra = 4 * largest.size + SIDECAR
    up = LINE * lines + extra
    if not np.isfinite(largest).all():
        return _Reduced(decoded, up, up, saturation=0.0)
    u = units(largest, route)
    sent: U8 = np.stack([pack_codes(own, route, u).lines for own in flat])
    sums = add_codes(sent, route)
    unpack_sums(sums, route, u, workers, workers, decoded)
    ones, top = np.ones_like(u), (1 << (route.bits - 1)) - 1
    codes = [unpack_codes(one, route, ones, elements) for one in sent]
    full = float(np.mean([np.abs(one) == top for one in codes]))
    return _Reduced(decoded, up, LINE * lines * len(sums) + extra, saturation=full)
