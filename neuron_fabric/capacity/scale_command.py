# SPDX-License-Identifier: Apache-2.0
"""`nf train scale`: effect of a profile on a large model, from shapes (spec: runtime section 8).

The model is on the meta device: it takes no memory, and nothing is trained.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from neuron_fabric.capacity.capacity_command import BANDWIDTHS, table_lines
from neuron_fabric.capacity.cost_model import (
    admits,
    cap_threshold,
    low_seconds,
    place,
    refusals,
    ring_seconds,
)
from neuron_fabric.capacity.substrate import Substrate, read_substrate, shipped
from neuron_fabric.codec.routes import LINE, Route, lines_of
from neuron_fabric.errors import InputError, say
from neuron_fabric.profile import PhaseRoute, Profile, fingerprint, sketch, traced_head
from neuron_fabric.profile.draft_profile import draft, with_routes
from neuron_fabric.profile.model_sketch import DEEP, Parameter
from neuron_fabric.profile.profile_types import LEAST_ELEMENTS, Phases

HELP = "apply a profile to a model of a billion parameters; print traffic"
EXAMPLES = """examples:
  nf train scale gpt-1.3b                    kinds, buckets of DDP, decisions, traffic
  nf train scale gpt-1.3b --gbs 25 --workers 16  on a faster network, with more workers
  nf train scale my.models:make              a model of your own
"""
_MIB = 1 << 20
MODELS = ("gpt-124m", "gpt-1.3b")
WINDOW = 1024
"""Contributions among which a device counts misses."""


@dataclass(frozen=True)
class BucketDecision:
    """Decision on one bucket of DDP: whether its low-bit part may use the device.

    Attributes:
        low: Low-bit elements.
        elements: All elements.
        admitted: Whether the low-bit part uses its route; otherwise the bucket uses FP32.
        why: Reason, as text.
        votes: Low-bit parameters, if admitted.
    """

    low: int
    elements: int
    admitted: bool
    why: str
    votes: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class LowStep:
    """One training step of a model, to be replayed: low-bit parameters and the size of the rest.

    ``votes`` are the low-bit parameters of admitted buckets; ``rest`` counts elements in FP32.
    """

    model: str
    route: Route
    workers: int
    votes: tuple[Parameter, ...]
    rest: int


Replay = Callable[[LowStep], int]
"""Drives a step through a device; the exit code."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `scale`: model, route, workers, network, substrate."""
    add = parser.add_argument
    add("model", metavar="MODEL", help=f"{', '.join(MODELS)}, or MODULE:FUNCTION of your own")
    votes = [route for route in Route if route.votes]
    add("--route", type=Route, choices=votes, default=votes[0], help="of low-bit regions")
    add("--workers", type=int, default=8, metavar="W", help="workers (8)")
    add("--gbs", type=float, default=1.25, metavar="GB", help="of the ring, GB/s a worker (1.25)")
    add("--cap", type=float, default=25.0, metavar="MIB", help="bucket_cap_mb of DDP (25)")
    add("--substrate", type=Path, metavar="FILE", help="measured coefficients")


def run(
    args: argparse.Namespace, replay: Replay | None = None, hook: Callable[[], int] | None = None
) -> int:
    """Print the analysis of a model, then run ``hook`` and ``replay`` if given.

    Args:
        args: Command line.
        replay: Drives the low-bit part of a step through the RTL; returns an exit code.
        hook: Runs the communication hook over buckets of this size; returns an exit code.

    Returns:
        0, or the first exit code other than 0.

    Raises:
        InputError: The model is unknown, or a number is out of range.
    """
    if args.workers < 2 or not 0 < args.gbs < 1e6 or not 0 < args.cap < 1e6:
        what = f"{args.workers} workers, {args.gbs:g} GB/s, buckets of {args.cap:g} MiB"
        raise InputError("nf train scale", what, "2 workers or more, and figures above 0")
    substrate = read_substrate(args.substrate) if args.substrate else shipped()
    if importlib.util.find_spec("torch") is None:
        raise InputError("nf train scale", "torch is not installed", "pip install torch")
    begin, busy, before = time.perf_counter(), time.process_time(), peak_memory()
    model, head = model_of(args.model)
    parameters = sketch(model, head)
    profile = profile_of(args.model, parameters, args.route)
    say(*_about(args.model, parameters, profile))
    verdicts = list(decided(model, parameters, args, substrate))
    say("", *_buckets(verdicts, args), *_threshold(verdicts, args, substrate))
    cells = [(args.route, workers) for workers in sorted({4, 8, 16, 64, args.workers})]
    say("", *table_lines(substrate, sorted({*BANDWIDTHS, args.gbs}), cells))
    say("", *_traffic(parameters, verdicts, args.route))
    took, grown = time.perf_counter() - begin, max(0, peak_memory() - before)
    cpu = time.process_time() - busy
    say("", f"{took:.1f} s ({cpu:.1f} s of CPU), {grown // _MIB} MiB, most of it torch's")
    parts = ((replay, "the step through the RTL"), (hook, "the hook over buckets of this size"))
    if left := ", and ".join(what for part, what in parts if part is None):
        say(f"left out: {left}")
    say("", flush=True)
    code = hook() if hook else 0
    if replay is None or code:
        return code
    votes = tuple(one for verdict in verdicts for one in verdict.votes)
    rest = sum(one.elements for one in parameters if one.trainable)
    rest -= sum(one.elements for one in votes)
    return replay(LowStep(args.model, args.route, args.workers, votes, rest))


def model_of(name: str) -> tuple[Any, Sequence[str]]:
    """Return a model on the meta device and the names of its head's parameters.

    The names are () for a model of the user's own, for which no input is known.

    Raises:
        InputError: The name is neither in `MODELS` nor MODULE:FUNCTION.
    """
    if name in MODELS:
        from neuron_fabric.capacity.gpt_model import made

        model, inputs = made(name)
        return model, traced_head(model, inputs)
    if ":" not in name:
        known = ", ".join(MODELS)
        what = f"model {name!r} is not one of {known}"
        raise InputError("nf train scale", what, "or MODULE:FUNCTION")
    from neuron_fabric.profile.found_model import model_of_name

    return model_of_name(name), ()


def profile_of(
    name: str,
    parameters: Sequence[Parameter],
    route: Route,
    phases: Phases | None = None,
    off: Sequence[str] = (),
) -> Profile:
    """Return a profile with ``route`` for layers, and FP32 for head, embeddings, norms and biases.

    Args:
        name: Name of the profile.
        parameters: Parameters of the model.
        route: Route in the steady phase.
        phases: Phases of the training; None for the default.
        off: Monitor signals to switch off; if any, the profile counts as verified.
    """
    how, found = PhaseRoute(route), draft(name, parameters)
    found = with_routes(found, lambda one: how if one.kind in DEEP else None)
    monitor = {"off": list(off)} if off else {}
    return replace(found, phases=phases or found.phases, monitor=monitor, verified=bool(off))


def _is_low(one: Parameter) -> bool:
    return one.trainable and one.kind in DEEP and one.elements >= LEAST_ELEMENTS


def decided(
    model: Any, parameters: Sequence[Parameter], args: argparse.Namespace, substrate: Substrate
) -> Iterator[BucketDecision]:
    """Yield the decision on each bucket that DDP would form, in its order."""
    from neuron_fabric.hook.ddp_buckets import bucket_assignment

    known = {one.name: one for one in parameters}
    named = list(model.named_parameters())
    for bucket in bucket_assignment([one for _, one in named], int(args.cap * _MIB)):
        members = [known[named[n][0]] for n in bucket]
        yield _verdict(members, args, substrate)


def _verdict(
    members: Sequence[Parameter], args: argparse.Namespace, substrate: Substrate
) -> BucketDecision:
    elements, route = sum(one.elements for one in members), args.route
    votes = tuple(one for one in members if _is_low(one))
    low = sum(one.elements for one in votes)
    if not low:
        kinds = ", ".join(dict.fromkeys(str(one.kind) for one in members))
        return BucketDecision(0, elements, False, f"FP32: {kinds} alone")
    if reasons := refusals(substrate.device, route, low, args.workers):
        return BucketDecision(low, elements, False, f"FP32: {reasons[0]}")
    placed = place(substrate.device, route, low, args.workers)
    rounds = placed.rounds if placed else 1
    cost = low_seconds(substrate.coefficients, route, low, args.workers)
    t_low = cost.total + (rounds - 1) * cost.commit
    ratio = t_low / ring_seconds(low, args.workers, args.gbs * 1e9)
    if not admits(False, ratio):
        return BucketDecision(
            low, elements, False, f"FP32: T_low / T_fp32 {ratio:.2f} is above 0.80"
        )
    why = f"{route}: fits in {rounds} round(s), T_low / T_fp32 {ratio:.2f}"
    return BucketDecision(low, elements, True, why, votes)


def _about(name: str, parameters: Sequence[Parameter], profile: Profile) -> list[str]:
    total = sum(one.elements for one in parameters)
    out = [
        f"{name}: {total:,} parameters in {len(parameters)} tensors",
        f"fingerprint {fingerprint(parameters)}",
        "",
        f"{'region':14}{'tensors':>8}{'elements':>16}{'share':>8}  steady route",
    ]
    for region in profile.regions:
        members = [one for one in parameters if one.region == region.name]
        tied = max((len(one.names) for one in members), default=1)
        note = f"  ({members[0].names[-1]} is the same parameter)" if tied > 1 else ""
        route = region.phases["steady"].route
        out.append(
            f"{region.name:14}{len(members):8}{region.elements:16,}"
            f"{region.elements / total:8.1%}  {route}{note}"
        )
    return out


def _buckets(verdicts: Sequence[BucketDecision], args: argparse.Namespace) -> list[str]:
    out = [
        f"{len(verdicts)} buckets of DDP ({args.cap:g} MiB), {args.workers} workers, a ring of "
        f"{args.gbs:g} GB/s a worker:"
    ]
    number = 0
    for why, some in itertools.groupby(verdicts, key=lambda one: one.why):
        group = list(some)
        last = number + len(group) - 1
        which = f"{number}" if last == number else f"{number}-{last}"
        size = sum(one.elements for one in group) * 4 / _MIB
        out.append(f"  {which:9}{size:10,.1f} MiB  {why}")
        number = last + 1
    return out


def _threshold(
    verdicts: Sequence[BucketDecision], args: argparse.Namespace, substrate: Substrate
) -> list[str]:
    """Return a line with the capacity check's settings for the largest admitted bucket, or []."""
    low = max((one.low for one in verdicts if one.admitted), default=0)
    if not low:
        return []
    network = ring_seconds(low, args.workers, args.gbs * 1e9)
    known, route = substrate.coefficients, args.route
    misses = cap_threshold(known, route, low, args.workers, network, WINDOW)
    return [f"  CAP_WINDOW {WINDOW}, CAP_THRESHOLD {misses}: with more misses T_low exceeds T_fp32"]


def _traffic(
    parameters: Sequence[Parameter], verdicts: Sequence[BucketDecision], route: Route
) -> list[str]:
    """Return lines of text: bytes of a step's contributions compared with FP32.

    They also name what stays in FP32 and the largest such parameter.
    """
    trained = [one for one in parameters if one.trainable]
    whole = 4 * sum(one.elements for one in trained)
    low = sum(one.low for one in verdicts if one.admitted)
    packed = LINE * lines_of(low, route)
    rest = whole - 4 * low
    out = [
        f"contributions of a step: {(packed + rest) / _MIB:,.0f} MiB of {whole / _MIB:,.0f} in "
        f"FP32: {(packed + rest) / whole:.1%}",
        f"  {packed / whole:.1%} is {route} of {low:,} elements, {lines_of(low, route):,} lines",
    ]
    largest = max((one for one in trained if not _is_low(one)), key=lambda one: one.elements)
    share = 4 * largest.elements / whole
    tied = f", tied to {largest.names[-1]}," if len(largest.names) > 1 else ""
    out.append(
        f"  {rest / whole:.1%} stays in FP32: {largest.name}{tied} alone is {share:.1%}; at "
        f"{route.bits} bit(s) everywhere all of it would be {route.bits / 32:.1%}"
    )
    return out


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes.

    `ru_maxrss` would begin at that of the process that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return 1024 * int(kib)
