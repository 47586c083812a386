# SPDX-License-Identifier: Apache-2.0
"""What stands behind the server: one interface, here with the reference models behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.line_packing import U8, Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from neuron_fabric.text import LineError
from verif.replay.check import expected_lines, reduced_by_words
from verif.replay.plan import RegionUse
from verif.replay.views import selectors
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
    put(bucket, stretch.lines, stretch.mode, lines.result, lines.planes)


def put(bucket: ServedBucket, at: NDArray[np.int64], mode: Mode, result: U8, planes: U8) -> None:
    """Results and count planes of lines to their places."""
    bucket.got[0, at] = result
    if mode.low_bit:
        bucket.got[1:, at] = 0
        bucket.got[1 : 1 + len(planes), at] = planes
