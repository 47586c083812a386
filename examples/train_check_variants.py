# SPDX-License-Identifier: Apache-2.0
"""Profiles of the variants that `nf train check` compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from neuron_fabric.codec import Route
from neuron_fabric.monitor.signals import Reason
from neuron_fabric.profile import Kind, Parameter, PhaseRoute, Profile
from neuron_fabric.profile.draft_profile import draft, with_routes
from neuron_fabric.profile.profile_types import Phases, Warmup
from scripts.cli.train_check_goals import (
    BAD,
    BAD_MONITOR,
    BINARY_HEAD,
    FED,
    FP32,
    GUIDED,
    LATE,
    SPIKE_AT,
    TERNARY,
)

SPIKE, SPIKE_STEPS = 4.0, 10
"""A learning rate that is 4 times as high for 10 steps: the loss is almost that of the start again,
and FP32 finds out of it. At 10 or 20 times it stays at chance: there is nothing to come back to."""
_OFF: Mapping[str, Any] = {"off": [str(one) for one in Reason if one != Reason.SCHEDULE]}


def profile_of(
    variant: str, parameters: tuple[Parameter, ...], guided: Profile | None = None
) -> Profile:
    """Return the profile of a variant for the parameters of a model.

    Args:
        variant: Name of the variant, such as FP32 or GUIDED.
        parameters: Parameters of the model.
        guided: Profile of the calibrator; needed for GUIDED, which returns it.

    Profiles that are made here are marked as verified.
    """
    if variant == GUIDED:
        assert guided is not None
        return guided
    whole = replace(draft(variant, parameters), verified=True)
    if variant == FP32:
        return whole
    route = Route.G_TERNARY if variant == TERNARY else Route.G_BINARY
    fed = variant in (FED, LATE)
    how, full = PhaseRoute(route, feedback=fed), fed or variant == BINARY_HEAD
    low = with_routes(whole, lambda one: None if full and one.kind == Kind.HEAD else how)
    warmup = 0.10 if variant in (BAD, BAD_MONITOR) else 0
    monitor = {} if variant == BAD_MONITOR else _OFF
    return replace(low, phases=Phases(Warmup(warmup)), monitor=monitor)


def late_rank(seed: int, step: int, workers: int) -> int:
    """Return the rank that is late in a step, drawn; ``workers`` or more in 7 of 8 steps: none."""
    return Random(f"{seed} {step}").randrange(8 * workers)


def spike_at(steps: int) -> int:
    """Return the first step with the raised learning rate, a fixed share of `steps`: 120 of 300."""
    return round(SPIKE_AT * steps)


def spike(step: int, steps: int) -> float:
    """Return the factor of the learning rate in a step: SPIKE during the spike, else 1."""
    first = spike_at(steps)
    return SPIKE if first <= step < first + SPIKE_STEPS else 1.0
