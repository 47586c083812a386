# SPDX-License-Identifier: Apache-2.0
"""What stands behind the server: one interface, here with the reference models behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.line_packing import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from neuron_fabric.codec import Route, sum_kind
from neuron_fabric.errors import LineError
from verif.replay.check import expected_lines, reduced_by_words
from verif.replay.plan import Lines, RegionUse, selectors
from verif.serve.served_bucket import Counts, ServedBucket, Stretch


class DeviceError(LineError):
    """The device cannot do what it is for, or is wrong: the training ends."""


class DeviceLost(Exception):
    """The device has died, and is there again for the next bucket; one line."""


class ServedDevice(Protocol):
    """Reduces buckets, one at a time, in a thread of its own."""

    params: DeviceParams

    @property
    def name(self) -> str:
        """What it is, for a person."""

    def reduce(self, bucket: ServedBucket) -> Counts:
        """Fill ``bucket.got``. DeviceLost; DeviceError."""

    def seconds(self, bucket: ServedBucket) -> float:
        """What a bucket takes at most, on a busy machine."""

    def interrupt(self) -> None:
        """From another thread: what takes too long is lost."""

    def close(self) -> None:
        """Give everything back."""


@dataclass
class ModelDevice:
    """The reference reducers; no simulator, no clock."""

    params: DeviceParams = field(default_factory=DeviceParams)
    name: str = "model"

    def reduce(self, bucket: ServedBucket) -> Counts:
        """See `ServedDevice`."""
        for stretch in bucket.stretches:
            _reduce(stretch, bucket, self.params)
        return Counts(answers=bucket.contributions)

    def seconds(self, bucket: ServedBucket) -> float:
        """See `ServedDevice`."""
        return bucket.contributions / 1e4

    def interrupt(self) -> None:
        """Nothing takes long."""

    def close(self) -> None:
        """There is nothing."""


def _reduce(stretch: Stretch, bucket: ServedBucket, device: DeviceParams) -> None:
    sent = bucket.sent[:, stretch.lines]
    config = RegionConfig(0, 0, 0, len(sent), stretch.mode)
    use = RegionUse(0, config, (), stretch.mode, selectors(stretch.mode, config, device))
    if stretch.present is None:
        lines = reduced_by_words(sent, use, device)
    else:
        lines = expected_lines(sent, use, device, stretch.present)
    put(bucket, stretch.lines, stretch.mode, lines)


def put(bucket: ServedBucket, at: NDArray[np.int64], mode: Mode, lines: Lines) -> None:
    """What was read of lines to their places: results and count planes; of integer codes their
    sums, by the view that a job of so many workers reads, whoever has contributed."""
    if mode.bits:
        _, kind = sum_kind(Route(mode.name), len(bucket.sent))
        sums = lines.sum8 if kind == "<i1" else lines.sum16
        bucket.got[:, at] = 0
        bucket.got[: len(sums), at] = sums
        return
    bucket.got[0, at] = lines.result
    if mode.low_bit:
        bucket.got[1:, at] = 0
        bucket.got[1 : 1 + len(lines.planes), at] = lines.planes
