# SPDX-License-Identifier: Apache-2.0
"""Agreement of the ranks on one reading per step (spec: runtime section 4.3).

Each rank encodes its measurements as int64 fixed-point numbers, which are summed over the ranks. A
sum of integers does not depend on the order, so that every rank reads the same numbers by
construction; a sum of floats would differ between ranks.

A number of the vector holds the count of ranks that have measured the field (from bit 48) and the
sum of their values (below), so that the mean is known without a second reduction. The maximum of a
digest of the state and of the negative digest is reduced with the vector: the two agree only if all
ranks have the same state. Values of which the least over the ranks counts are reduced by the same
maximum: the negative value in the upper bits, the rank in the lower 14.
"""

from __future__ import annotations

import functools
import hashlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_fabric.monitor.job_plan import Plan
from neuron_fabric.monitor.signals import Reading, RegionReading, StepReport, region_reading
from neuron_fabric.monitor.thresholds import SHARE_BITS

Vector = npt.NDArray[np.int64]
AllReduce = Callable[[Vector, int], Callable[[], Vector]]
"""Reduction over the ranks: (numbers, sums) -> function that waits for the result. The first
``sums`` numbers are added, of the others the maximum is taken (`reduced`). The vector is int64
of any length; all ranks pass the same lengths in the same order of calls."""

COUNT_BIT = 48
MOST_RANKS = 1 << 14
DIGEST_BITS = 63
_SHARE, _LOSS, _SECONDS = SHARE_BITS, 20, 30  # fraction bits

JOB_FIELDS: Mapping[str, int] = {
    "loss": _LOSS,
    "nonfinite": 0,
    "fallback": 0,
    "severe": _SHARE,
    "faults": 0,
    "lost": 0,
    "mismatch": 0,
    "link_latency": _SECONDS,
    "link_mib": _SECONDS,
}
"""Fields of the job and their fraction bits."""
MEASURED_FIELDS: Mapping[str, int] = {"host_mib": _SECONDS}
"""Further fields of the job if its plan needs measured times."""
REGION_FIELDS = ("cosine", "norm", "reference", "margin", "saturation")
"""Fields of each region, with 24 fraction bits. Ten regions make 59 numbers."""
LEAST_FIELDS = ("agreement",)
"""Fields of each region of which the least over the ranks counts, with its rank."""
_RANK_BITS = 14
_NOBODY = 1 << 62
_MOST_LEAST = 1 << (62 - _RANK_BITS - 1)


def reduced(every: Vector, sums: int) -> Vector:
    """Reduce the vectors of all ranks, int64[ranks, n], to int64[n].

    The first ``sums`` numbers are added; of the others the maximum is taken.
    """
    return np.concatenate([every[:, :sums].sum(axis=0), every[:, sums:].max(axis=0)])


def job_fields(plan: Plan) -> Mapping[str, int]:
    """Return the fields of the job in a step's vector, in order, and their fraction bits."""
    return {**JOB_FIELDS, **MEASURED_FIELDS} if plan.measured else JOB_FIELDS


def region_fields(plan: Plan) -> tuple[str, ...]:
    """Return the fields of each region in a step's vector, in order.

    They end with the error of each candidate if the plan assigns routes.
    """
    return (*REGION_FIELDS, *(f"error_{one}" for one in plan.candidates))


def field_names(plan: Plan) -> list[str]:
    """Return the names of the numbers in a step's vector, in order: sums, then minima."""
    names = region_fields(plan)
    sums = [*job_fields(plan), *(f"{r.name}.{one}" for r in plan.regions for one in names)]
    return sums + [f"{r.name}.{one}" for r in plan.regions for one in LEAST_FIELDS]


@dataclass(frozen=True)
class Codec:
    """Encoder of a rank's measurements to a vector, and decoder of the reduced vector to a reading.

    Args:
        plan: Plan of the job.
        world: Number of ranks, 1..16384.
        rank: Rank of this process.
    """

    plan: Plan
    world: int
    rank: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world <= MOST_RANKS:
            raise ValueError(f"rank {self.rank} of {self.world}: 1..{MOST_RANKS} ranks")

    @property
    def length(self) -> int:
        """Return the number of sums in a vector."""
        return len(job_fields(self.plan)) + len(region_fields(self.plan)) * len(self.plan.regions)

    @property
    def lengths(self) -> tuple[int, int]:
        """Return the vector lengths that `decode` accepts: without and with minima.

        Older logs have vectors without minima.
        """
        return self.length, self.length + len(LEAST_FIELDS) * len(self.plan.regions)

    def least(self, report: StepReport) -> Vector:
        """Return this rank's encoded values of `LEAST_FIELDS`, int64[regions].

        They are negated, as the reduction takes the maximum.
        """
        keys = []
        for region in self.plan.regions:
            value = report.agreements.get(region.name)
            if value is None or not math.isfinite(value) or self.world < 2:
                keys.append(_NOBODY)
                continue
            fixed = round(min(max(value * (1 << _SHARE), 1 - _MOST_LEAST), _MOST_LEAST - 1))
            keys.append((fixed << _RANK_BITS) + self.rank)
        return -np.array(keys, dtype=np.int64)

    def encode(self, report: StepReport) -> Vector:
        """Return this rank's vector of sums, int64[length].

        NaN, infinity and missing values count as absent; a loss that is NaN or infinite counts as
        non-finite. Values are clipped such that the sum over all ranks cannot reach the count.
        """
        reducer = report.reducer
        no_loss = report.losses is not None and not math.isfinite(report.losses)
        job: dict[str, float | None] = {
            **(report.seconds if self.rank == 0 else {}),  # only the clock of rank 0 counts
            **vars(reducer),
            "loss": report.losses,
            "nonfinite": report.nonfinite + no_loss,
            "severe": reducer.severe / reducer.answers if reducer.answers else None,
            "faults": reducer.poison + reducer.duplicates + reducer.late,
        }
        fields_of = job_fields(self.plan).items()
        values = [self._number(job.get(name), bits) for name, bits in fields_of]
        for region in self.plan.regions:
            one = region_reading(report, region.name, self.world)
            values += [self._number(getattr(one, name), _SHARE) for name in REGION_FIELDS]
            errors = report.errors.get(region.name, {})
            values += [self._number(errors.get(route), _SHARE) for route in self.plan.candidates]
        return np.array(values, dtype=np.int64)

    def _number(self, value: float | None, bits: int) -> int:
        if value is None or not math.isfinite(value):
            return 0
        most = ((1 << (COUNT_BIT - 1)) - 1) // self.world
        fixed = round(min(max(value * (1 << bits), -most), most))
        return (1 << COUNT_BIT) + fixed

    def decode(self, step: int, summed: Sequence[int]) -> Reading:
        """Return the agreed reading: means over the ranks that have measured a field.

        Args:
            step: Step of the reading.
            summed: The reduced vector, with or without the minima.

        Raises:
            ValueError: The vector has another length.
        """
        if len(summed) not in self.lengths:
            raise ValueError(f"{len(summed)} numbers of a step, {self.lengths[1]} are expected")
        numbers, of_job = [int(one) for one in summed], job_fields(self.plan)
        job: dict[str, Any] = {
            name: value
            for (name, bits), number in zip(of_job.items(), numbers, strict=False)
            if (value := _mean(number, bits)) is not None
        }
        size = len(region_fields(self.plan))
        least = numbers[self.length :] or [-_NOBODY] * len(self.plan.regions)
        regions = []
        for at, key in zip(range(len(of_job), self.length, size), least, strict=True):
            cosine, norm, reference, margin, full, *errors = (
                _mean(one, _SHARE) for one in numbers[at : at + size]
            )
            levels = cosine, norm, reference, margin, full
            regions.append(RegionReading(*levels, *least_of(key), tuple(errors)))
        job["fallback"] = bool(job.get("fallback"))
        return Reading(step, tuple(regions), **job)


def unpacked(number: int) -> tuple[int, int]:
    """Return the two parts of a reduced number: count of ranks, and sum of fixed-point values."""
    count = (number + (1 << (COUNT_BIT - 1))) >> COUNT_BIT
    return count, number - (count << COUNT_BIT)


def _mean(number: int, bits: int) -> float | None:
    if not number:
        return None
    count, total = unpacked(number)
    return total / (count << bits) if count else None  # of integers: correctly rounded


def least_of(number: int) -> tuple[float | None, int]:
    """Decode a reduced minimum: return value and rank; None and -1 if no rank measured it."""
    if number <= -_NOBODY:
        return None, -1
    key = -number
    return (key >> _RANK_BITS) / (1 << _SHARE), key & ((1 << _RANK_BITS) - 1)


def digest_of(*values: object) -> int:
    """Return a 63-bit digest of ``values``: dataclasses of numbers, texts and tuples."""
    digest = hashlib.blake2b(_joined(values).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - DIGEST_BITS)


def _text(value: Any) -> str:
    """Return the `repr` of a value as nested tuples.

    An immutable dataclass keeps it: most regions stay the same from step to step.
    """
    kind: type = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is tuple:  # tuples hold one kind of values: look at the first only
        return repr(value) if value and type(value[0]) in _PLAIN else _joined(value)
    if isinstance(value, str):
        return repr(str.__str__(value))
    kept: dict[str, str] = value.__dict__
    if "_text" not in kept:
        kept["_text"] = _joined(_values(kind)(value))
    return kept["_text"]


def _joined(values: tuple[Any, ...]) -> str:
    return f"({', '.join(map(_text, values))}{',' * (len(values) == 1)})"


_PLAIN = frozenset({float, int, bool, str, type(None)})


@functools.cache
def _values(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    names = [one.name for one in fields(kind)]
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda value: (getattr(value, names[0]),)


def both_ends(digest: int) -> Vector:
    """Return the digest and its negative, whose maxima reveal a disagreement."""
    return np.array([digest, -digest], dtype=np.int64)


def agreed(ends: Vector) -> bool:
    """Return whether all ranks had the same digest, by the maxima of digest and negative digest."""
    return int(ends[0]) == -int(ends[1])


def minority_ranks(digests: Sequence[int]) -> tuple[int, ...]:
    """Return the ranks whose digest is not the most frequent one.

    All ranks are returned if several digests are equally frequent.
    """
    counts = {one: digests.count(one) for one in digests}
    most = max(counts.values())
    frequent = [one for one, count in counts.items() if count == most]
    if len(frequent) > 1:
        return tuple(range(len(digests)))
    return tuple(rank for rank, one in enumerate(digests) if one != frequent[0])
