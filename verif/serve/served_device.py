# SPDX-License-Identifier: Apache-2.0
"""Interface of the device of a reducer server, and its implementation by the reference models."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from neuron_fabric.codec import Route, sum_kind
from neuron_fabric.errors import LineError
from verif.replay.line_check import expected_lines
from verif.replay.plan import Lines, RegionUse, selectors
from verif.serve.served_bucket import Counts, ServedBucket


class DeviceError(LineError):
    """Device that cannot serve the job or returned a wrong line: the training ends."""


class DeviceLost(Exception):
    """Death of the device, with a reason of one line; a new one serves the next bucket."""


class ServedDevice(Protocol):
    """Interface of a device that reduces buckets, one at a time, in its own thread."""

    params: DeviceParams

    @property
    def name(self) -> str:
        """Kind of the device, for messages and reports."""

    def reduce(self, bucket: ServedBucket) -> Counts:
        """Reduce a bucket: fill ``bucket.got``, and return the counters.

        Raises:
            DeviceLost: The device died; the bucket is LOST.
            DeviceError: The device cannot serve the bucket, or returned a wrong line.
        """

    def seconds(self, bucket: ServedBucket) -> float:
        """Return an upper bound of the seconds that the bucket takes on a busy machine."""

    def interrupt(self) -> None:
        """Abort the bucket in progress; called from another thread."""

    def close(self) -> None:
        """Release all resources."""


@dataclass
class ModelDevice:
    """Device of the reference reducers in this process, without simulator and clock."""

    params: DeviceParams = field(default_factory=DeviceParams)
    name: str = "model"

    def reduce(self, bucket: ServedBucket) -> Counts:
        """Reduce a bucket by the reference reducers; see `ServedDevice`."""
        for one in bucket.stretches:
            sent, mode = bucket.sent[:, one.lines], one.mode
            config = RegionConfig(0, 0, 0, len(sent), mode)
            use = RegionUse(0, config, (), mode, selectors(mode, config, self.params))
            lines = expected_lines(sent, use, self.params, one.present)
            put(bucket, one.lines, mode, lines)
        return Counts(answers=bucket.contributions)

    def seconds(self, bucket: ServedBucket) -> float:
        """Return the time limit of a bucket in seconds; see `ServedDevice`."""
        return bucket.contributions / 1e4

    def interrupt(self) -> None:
        """Do nothing: no bucket takes long."""

    def close(self) -> None:
        """Do nothing."""


def put(bucket: ServedBucket, at: NDArray[np.int64], mode: Mode, lines: Lines) -> None:
    """Store the lines that a device returned in ``bucket.got``.

    Results and count planes are stored, or for integer codes the sums in the view (SUM8 or SUM16)
    that a job of this many workers reads.

    Args:
        bucket: Bucket of the lines.
        at: Indices of the lines in the bucket.
        mode: Mode of the lines.
        lines: Lines by view.
    """
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
