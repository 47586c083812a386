# SPDX-License-Identifier: Apache-2.0
"""Measurements of a rank in one step, complete after its last bucket (runtime section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from neuron_fabric.codec.routes import Route


@dataclass(frozen=True)
class ReducerCounters:
    """Events at the reducer in one step (differences, not totals).

    Attributes:
        fallback: FALLBACK bit of the device.
        answers: Answers of the device.
        severe: Answers with DevLoad severe.
        poison: Poisoned answers.
        duplicates: Answers that were received twice.
        late: Answers after the time-out.
        mismatch: Lines that differ from the shadow check.
        lost: Buckets without a result, which were reduced in FP32.
    """

    fallback: bool = False
    answers: int = 0
    severe: int = 0
    poison: int = 0
    duplicates: int = 0
    late: int = 0
    mismatch: int = 0
    lost: int = 0


@dataclass(frozen=True)
class StepReport:
    """Measurements of one rank in one step.

    Mappings are keyed by profile region, unless stated; regions without a measurement are left out.

    | field | holds |
    |---|---|
    | ``losses`` | this rank's loss; None: not observed |
    | ``norms`` | squared norms: of the decoded gradient; of the FP32 mean, None between samples |
    | ``cosines`` | of a sample, reduced over the ranks: <m, d>, squared norms of m and of d |
    | ``margins`` | sum of abs(2c - W) over the inspected lines, and their elements |
    | ``nonfinite`` | tensors that held a NaN or an infinity on any rank |
    | ``saturation`` | share of the inspected elements with one decoded sign for 32 steps |
    | ``agreements`` | from `sampling.Agreements`: this rank's, which differs from the others' |
    | ``bytes`` | by route: sent, received |
    | ``seconds`` | time by part; `link_*` fit a line to FP32 all-reduces; `host_mib`: host's work |
    """

    step: int
    losses: float | None = None
    norms: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    cosines: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    margins: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    nonfinite: int = 0
    saturation: Mapping[str, float] = field(default_factory=dict)
    reducer: ReducerCounters = field(default_factory=ReducerCounters)
    bytes: Mapping[Route, tuple[int, int]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    agreements: Mapping[str, float] = field(default_factory=dict)
