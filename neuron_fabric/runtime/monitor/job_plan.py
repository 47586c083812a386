# SPDX-License-Identifier: Apache-2.0
"""What the states need to know of a profile: constant for a run, the same on every rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from neuron_fabric.runtime.monitor.limits import Limits, Signal


class Phase(StrEnum):
    """What a region's routes are named by in a profile."""

    WARMUP = "warmup"
    STEADY = "steady"
    RECOVERY = "recovery"


@dataclass(frozen=True)
class Cost:
    """What capacity is judged by (`runtime.capacity`): modelled seconds of one region's step by the
    low-bit reducer, its FP32 bytes, and the buckets that hold it.

    ``low_bytes``: packed bytes that go by the same network as FP32, counted as of a ring, in two
    collectives a bucket; 0: the reducer has a link of its own, and ``seconds`` is all.
    ``latencies``: of an all-reduce, that both collectives take together: an exchange has fewer
    rounds than a ring (`OwnGroup.latencies`); ``wait``: the seconds that they took when that was
    measured: they take no less, whatever the line through all-reduces says of small ones.
    """

    seconds: float
    fp32_bytes: int
    low_bytes: int = 0
    buckets: int = 1
    latencies: float = 2.0
    wait: float = 0.0

    def network(self, latency: float, mib: float) -> float:
        """T_fp32 on a link with that latency (s) and seconds a MiB."""
        return self.buckets * latency + mib * self.fp32_bytes / (1 << 20)

    def low(self, latency: float, mib: float) -> float:
        """T_low on that link."""
        if not self.low_bytes:
            return self.seconds
        waits = self.buckets * max(self.latencies * latency, self.wait)
        return self.seconds + waits + mib * self.low_bytes / (1 << 20)

    def ratio(self, latency: float, mib: float) -> float:
        """T_low / T_fp32."""
        network = self.network(latency, mib)
        return self.low(latency, mib) / network if network > 0 else 1e9


@dataclass(frozen=True)
class RegionPlan:
    """One region: ``eligible`` when the profile has a low-bit route for it; ``margin`` and
    ``saturation`` are the least margin and the most saturation that calibration has seen."""

    name: str
    elements: int
    eligible: bool
    margin: float | None = None
    saturation: float | None = None
    cost: Cost | None = None


@dataclass(frozen=True)
class Plan:
    """A job. ``warmup`` in steps; ``unverified``: every region has to pass PROBE first; ``off``
    names signals that decide nothing."""

    regions: tuple[RegionPlan, ...]
    warmup: int
    limits: Limits = field(default_factory=Limits)
    unverified: bool = False
    off: tuple[Signal, ...] = ()

    @property
    def eligible(self) -> tuple[int, ...]:
        """Numbers of the regions that may be low-bit."""
        return tuple(n for n, region in enumerate(self.regions) if region.eligible)


class RegionLike(Protocol):
    """What is used of a profile's region; `PhaseRoute.route` compares as its name."""

    @property
    def name(self) -> str: ...
    @property
    def elements(self) -> int: ...
    @property
    def phases(self) -> Mapping[str, object]: ...


class ProfileLike(Protocol):
    """What is used of a profile."""

    @property
    def regions(self) -> Sequence[RegionLike]: ...
    @property
    def monitor(self) -> Mapping[str, object]: ...
