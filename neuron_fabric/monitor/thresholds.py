# SPDX-License-Identifier: Apache-2.0
"""Thresholds of the monitor, which `[monitor]` of a profile may set (spec: runtime section 4.1).

Every threshold has a value to become bad (`_in`), a value to become good again (`_out`), and a
number of consecutive readings. Deviations from the specification are explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed

SHARE_BITS = 24
"""Fraction bits of agreed shares, cosines and logarithms of norms."""


def on_grid(limit: float) -> float:
    """Round a limit to `SHARE_BITS` fraction bits, as readings are.

    Without this a share of exactly 10 % would be above 10 %, and a cosine of 0.7 below 0.7.
    """
    return round(limit * (1 << SHARE_BITS)) / (1 << SHARE_BITS)


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the monitor, as in `[monitor]` of a profile; times are in steps.

    Raises:
        ValueError: A value is out of range, or two values contradict each other.
    """

    spike_in: float = 6.0  # times 1.4826 MAD above the median of `loss_window`
    spike_out: float = 4.0
    spike_count: int = 3
    loss_window: int = 100
    # The same of the last few losses: if 100 losses fall to a tenth, 6 times the last is no spike
    # among all of them.
    spike_window: int = 20
    loss_least: int = 20  # least number of losses for a median

    drift_in: float = 0.10  # relative rise above the best mean of `mean_window`
    drift_out: float = 0.05
    drift_sigma: float = 4.0  # and standard deviations of one loss
    drift_count: int = 40
    mean_window: int = 20

    # Trend line through the last losses. The window was chosen on losses of real trainings (`nf
    # train check`, seeds 1 to 4) and on constant noise: shorter windows find rises there too often.
    slope_window: int = 40
    slope_sigma: float = 4.0  # times the standard error of the slope
    slope_in: float = 0.10  # rise within the window, relative to the mean
    slope_out: float = 0.05
    slope_count: int = 3

    norm_in: float = 4.0  # decoded norm over FP32 norm, or its inverse
    norm_out: float = 3.0
    # Every step is compared with the FP32 norm of the last sample: two samples take 50 steps.
    norm_count: int = 8

    drop: float = 0.30  # EMA(1/2) of the sampled cosine
    readmit: float = 0.05  # above `drop`: good again
    floor: float = 0.10  # one sample below is enough

    margin_in: float = 0.02
    margin_out: float = 0.04
    margin_share: float = 0.25  # share of the calibrated margin
    margin_count: int = 3

    saturation_in: float = 0.50
    saturation_out: float = 0.40
    saturation_times: float = 4.0  # times the calibrated saturation
    saturation_count: int = 1  # the reading itself covers 32 steps

    # Least agreement of a worker, below 0. Chosen by shadow votes during real trainings (`nf
    # train check`, seeds 1 and 2, 2 to 8 workers), whose lowest was -0.03.
    against_in: float = 0.05
    against_out: float = 0.02
    against_count: int = 4  # the reading itself is a mean over about 12 steps

    nonfinite_count: int = 3  # events within `event_window`; also for reducer faults
    event_window: int = 100
    severe: float = 0.10  # share of answers with DevLoad severe

    hold: int = 5  # least distance of two transitions
    sample_every: int = 50
    probe_every: int = 5
    probe_good: int = 2
    cooldown: int = 50
    cooldown_most: int = 1600
    band_count: int = 20  # consecutive losses in the band before RECOVERY
    lock_fallbacks: int = 4
    lock_within: int = 2000
    lock_demotions: int = 4
    warmup_falls: float = 0.20  # fall from window to window that prolongs the warm-up

    capacity_admit: float = 0.80  # T_low / T_fp32
    capacity_drop: float = 0.95
    capacity_every: int = 200
    capacity_cooldown: int = 200
    # Factor by which the time of one MiB may change before capacity is judged at once. A change
    # below `capacity_drop` / `capacity_admit` is noise by definition.
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
                low, high = getattr(self, less), getattr(self, more)
                raise ValueError(f"monitor.{less} is {low}, above {more}, which is {high}")

    @property
    def good(self) -> float:
        """Return the least cosine at which a region may become low-bit again."""
        return self.drop + self.readmit


_SHARES = frozenset(
    ("drop", "readmit", "floor", "margin_in", "margin_out", "saturation_in")
    + ("saturation_out", "against_in", "against_out", "severe")
)
"""Shares and cosines, which are at most 1."""
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


def thresholds_of(values: Mapping[str, object], base: Thresholds | None = None) -> Thresholds:
    """Return the thresholds of ``base`` with those in ``values`` replaced.

    Args:
        values: Thresholds by name, as in `[monitor]` of a profile.
        base: Values of the other thresholds; by default those of the specification.

    Raises:
        DataError: An unknown name, a value of a wrong type, or values that contradict each other.
    """
    given = {one.name: getattr(base, one.name) for one in fields(Thresholds)} if base else {}
    try:
        return typed(Thresholds, {**given, **values}, "monitor")
    except ValueError as error:
        raise DataError(error) from None
