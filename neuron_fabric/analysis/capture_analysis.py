# SPDX-License-Identifier: Apache-2.0
"""Analysis of a capture: figures by step, tensor and route, and warnings of routes that fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from neuron_fabric.analysis.tensor_figures import OPTIONS, TensorFigures, analysed, label_of
from neuron_fabric.capture import Capture
from neuron_fabric.capture.layout import tied_tensors
from neuron_fabric.codec import Route
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.profile.profile_types import LEAST_ELEMENTS, Rule

FUSED_GAIN = 0.1
"""Cosine that scales of groups must add for the warning of a fused layer."""
MANY_ZEROS = 0.25
"""Share of exact zeros from which a binary vote is warned of: it has no third value."""
FLOOR = Rule().floor.G_BINARY
ONE_SCALE = label_of(PhaseRoute(Route.G_BINARY))


def analyse(
    capture: Capture,
    steps: Sequence[int],
    options: Mapping[str, Sequence[PhaseRoute]] | None = None,
    told: Callable[[int], object] = lambda step: None,
) -> Iterator[TensorFigures]:
    """Yield the figures of every tensor of at least `LEAST_ELEMENTS` elements, step by step.

    One tensor is in memory at a time.

    Args:
        capture: Opened capture.
        steps: Its steps to analyse.
        options: Routes by tensor; None: `OPTIONS` for each.
        told: Called with each step before it is read.

    Raises:
        CaptureError: A file of the capture is missing or wrong.
    """
    for step in steps:
        told(step)
        for spec in capture.tensors:
            wanted = OPTIONS if options is None else options.get(spec.name, ())
            if spec.elements < LEAST_ELEMENTS or not wanted:
                continue
            x = capture.load(step, [spec.name])[spec.name]
            yield from filter(None, (analysed(x, how, step, spec.name) for how in wanted))


def mean_cosines(figures: Sequence[TensorFigures]) -> dict[str, dict[str, float | None]]:
    """Return the mean cosine over the steps by tensor and route; None where no step has one."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in figures:
        values[one.tensor][one.route] += [] if one.cosine is None else [one.cosine]
    return {
        tensor: {route: fmean(found) if found else None for route, found in routes.items()}
        for tensor, routes in values.items()
    }


def warnings_of(capture: Capture, figures: Sequence[TensorFigures]) -> list[str]:
    """Return warnings about tensors on which a route cannot work, one line each.

    These are gradients that are not finite, all zero or mostly zero, fused layers with one scale,
    tensors that several modules share, and votes that no scale brings to the floor of the rule.
    """
    out = []
    of_tensor: dict[str, list[TensorFigures]] = defaultdict(list)
    for one in figures:
        of_tensor[one.tensor].append(one)
    tied = tied_tensors(capture.modules)
    for tensor, cosines in mean_cosines(figures).items():
        rows = of_tensor[tensor]
        zeros = fmean(one.zeros for one in rows)
        if wrong := sorted({one.step for one in rows if not one.finite}):
            out.append(f"{tensor}: has NaN or infinity in step {wrong[0]}: no route sends it")
        if all(one.zeros == 1 for one in rows):
            out.append(f"{tensor}: all gradients are 0: every worker abstains; does it train")
            continue
        if zeros >= MANY_ZEROS:
            what = f"{zeros:.0%} of its gradients are exactly 0, and G_BINARY gives each a sign"
            out.append(f"{tensor}: {what}: G_TERNARY or codes keep them")
        if tensor in tied:
            out.append(
                f"{tensor}: several modules share it (a tied head): keep it in FP32 or codes"
            )
        out += _of_scales(tensor, {way: one for way, one in cosines.items() if one is not None})
    return out


def _of_scales(tensor: str, cosines: Mapping[str, float]) -> list[str]:
    whole = cosines.get(ONE_SCALE)
    if whole is None:
        return []
    grouped = {way: one for way, one in cosines.items() if way.startswith(f"{ONE_SCALE} by ")}
    best = max(grouped, key=lambda way: grouped[way], default="")
    if best and grouped[best] >= whole + FUSED_GAIN:
        granularity = best.rpartition(" ")[2]
        return [
            f"{tensor}: {ONE_SCALE} with one scale has a cosine of {whole:.3f}, with a scale by"
            f' {granularity} {grouped[best]:.3f}: a fused layer; granularity = "{granularity}"'
        ]
    if whole < FLOOR:
        return [f"{tensor}: {ONE_SCALE} has a cosine of {whole:.3f}, below the floor of {FLOOR}"]
    return []
