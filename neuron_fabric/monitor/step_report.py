# SPDX-License-Identifier: Apache-2.0
"""What a rank knows of one step when its last bucket is done (spec: runtime section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from neuron_fabric.codec.routes import Route


@dataclass(frozen=True)
class ReducerCounters:
    """What the reducer has counted in this step: differences, not totals.

    ``answers`` and ``severe``: answers of the device, and those with DevLoad severe; ``fallback``:
    its FALLBACK bit; ``lost``: buckets that were reduced in FP32 as no result came; ``mismatch``:
    lines that differ from the shadow check.
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
    """One step of one rank. Regions that have nothing to tell are left out of a mapping.

    | field | holds |
    |---|---|
    | ``losses`` | this rank's loss; None: not observed |
    | ``norms`` | squared norms: of the decoded gradient; of the FP32 mean, None between samples |
    | ``cosines`` | of the step's sample, reduced: <m, d>, squared norm of m, of d |
    | ``margins`` | sum of abs(2c - W) over the lines looked at, and their elements |
    | ``nonfinite`` | tensors that held a NaN or an infinity on any rank |
    | ``saturation`` | share of the watched elements with one decoded sign 32 steps running |
    | ``agreements`` | by `sampling.Agreements`: this rank's own, which differs from the others' |
    | ``bytes`` | by route: sent, received |
    | ``seconds`` | time by part; `link_latency` and `link_mib` are the FP32 all-reduce's line fit |
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
