# SPDX-License-Identifier: Apache-2.0
"""Thresholds of the monitor: what `[monitor]` of a profile may set (spec: runtime section 4.1).

Every threshold has two values, one to become bad (`_in`) and one to become good again (`_out`), and
a count of readings in a row. Where the values are not the specification's, the comment says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed

SHARE_BITS = 24
"""Fraction bits of what the ranks agree on: shares, cosines, logarithms of norms."""


def on_grid(limit: float) -> float:
    """A limit as a reading of exactly that value arrives: rounded to `SHARE_BITS`. Beside the limit
    itself a share of exactly 10 % would be above 10 %, and a cosine of 0.7 below 0.7."""
    return round(limit * (1 << SHARE_BITS)) / (1 << SHARE_BITS)


class Signal(StrEnum):
    """What can make the monitor decide."""

    LOSS_SPIKE = "loss_spike"
    LOSS_SLOPE = "loss_slope"
    LOSS_DRIFT = "loss_drift"
    NORM = "norm"
    COSINE = "cosine"
    MARGIN = "margin"
    SATURATION = "saturation"
    AGREEMENT = "agreement"
    NONFINITE = "nonfinite"
    REDUCER = "reducer"
    CAPACITY = "capacity"
    SCHEDULE = "schedule"  # its turn or its time has come: no threshold


@dataclass(frozen=True)
class Limits:
    """All thresholds. Times are in steps. ValueError for values that make no sense together."""

    spike_in: float = 6.0  # times 1.4826 MAD above the median of `loss_window`
    spike_out: float = 4.0
    spike_count: int = 3
    loss_window: int = 100
    # The same of the last few: among 100 losses that fall to a tenth, 6 times as much is no spike.
    spike_window: int = 20
    loss_least: int = 20  # losses before the median is trusted

    drift_in: float = 0.10  # above the best mean of `mean_window`, relative
    drift_out: float = 0.05
    drift_sigma: float = 4.0  # and as many standard deviations of one loss
    drift_count: int = 40
    mean_window: int = 20

    # A line through the last losses. Chosen on losses of real trainings (`nf train-check`'s, seeds
    # 1 to 4) and on flat noise: shorter windows see rises there too often.
    slope_window: int = 40
    slope_sigma: float = 4.0  # times the line's own standard error
    slope_in: float = 0.10  # what it rises by within the window, of the mean
    slope_out: float = 0.05
    slope_count: int = 3

    norm_in: float = 4.0  # decoded norm over FP32 norm, either way
    norm_out: float = 3.0
    # Every step is judged against the last sample's FP32 norm: two samples would take 50 steps.
    norm_count: int = 8

    drop: float = 0.30  # EMA(1/2) of the sampled cosine
    readmit: float = 0.05  # above `drop`: good again
    floor: float = 0.10  # one sample below is enough

    margin_in: float = 0.02
    margin_out: float = 0.04
    margin_share: float = 0.25  # of the profile's
    margin_count: int = 3

    saturation_in: float = 0.50
    saturation_out: float = 0.40
    saturation_times: float = 4.0  # the profile's
    saturation_count: int = 1  # the reading itself looks back 32 steps

    # How far the least agreement of a worker is below 0. Chosen by shadow votes beside real
    # trainings (`nf train-check`'s, seeds 1 and 2, 2 to 8 workers), whose lowest was 0.03 below.
    against_in: float = 0.05
    against_out: float = 0.02
    against_count: int = 4  # the reading itself is a mean over some 12 steps

    nonfinite_count: int = 3  # steps of `event_window`; reducer faults by the same rule
    event_window: int = 100
    severe: float = 0.10  # share of answers with DevLoad severe

    hold: int = 5  # no transition within so many steps of the last
    sample_every: int = 50
    probe_every: int = 5
    probe_good: int = 2
    cooldown: int = 50
    cooldown_most: int = 1600
    band_count: int = 20  # steps with the loss in band before RECOVERY
    lock_fallbacks: int = 4
    lock_within: int = 2000
    lock_demotions: int = 4
    warmup_falls: float = 0.20  # a window: warm-up goes on, at most doubled

    capacity_admit: float = 0.80  # T_low / T_fp32
    capacity_drop: float = 0.95
    capacity_every: int = 200
    capacity_cooldown: int = 200
    # The network's time for a MiB since capacity was judged, either way: judged again at once. Less
    # than `capacity_drop` / `capacity_admit` is noise by definition.
    link_moved: float = 2.0
    link_count: int = 8

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            most = 1 if one.name in _SHARES else 1e9
            if not 0 < value <= most:
                what = f"must be above 0, and {most:,.0f} at most"
                raise ValueError(f"monitor.{one.name} is {value}, {what}")
        for less, more in _ORDER:
            if getattr(self, less) > getattr(self, more):
                raise ValueError(
                    f"monitor.{less} is {getattr(self, less)}, above {more}, "
                    f"which is {getattr(self, more)}"
                )

    @property
    def good(self) -> float:
        """The cosine from which a region may be low-bit again."""
        return self.drop + self.readmit


_SHARES = frozenset(
    ("drop", "readmit", "floor", "margin_in", "margin_out", "saturation_in")
    + ("saturation_out", "against_in", "against_out", "severe")
)
"""Shares and cosines: above 1 they would decide always, or never."""
_ORDER = (
    ("spike_out", "spike_in"),
    ("drift_out", "drift_in"),
    ("norm_out", "norm_in"),
    ("floor", "drop"),
    ("margin_in", "margin_out"),
    ("saturation_out", "saturation_in"),
    ("against_out", "against_in"),
    ("capacity_admit", "capacity_drop"),
    ("cooldown", "cooldown_most"),
    ("loss_least", "loss_window"),
    ("spike_window", "loss_window"),
    ("mean_window", "loss_window"),
    ("slope_window", "loss_window"),
    ("slope_out", "slope_in"),
)


def limits_of(values: Mapping[str, object], base: Limits | None = None) -> Limits:
    """``values``, `[monitor]` of a profile, over ``base`` (the defaults). DataError, in one line,
    for a key that is not known, a value of another type, and what makes no sense."""
    given = {one.name: getattr(base, one.name) for one in fields(Limits)} if base else {}
    try:
        return typed(Limits, {**given, **values}, "monitor")
    except ValueError as error:
        raise DataError(error) from None
