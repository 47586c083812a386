# SPDX-License-Identifier: Apache-2.0
"""Several devices of a reducer server: shares, counters, and each way in which one may fail."""

from pathlib import Path

import numpy as np
import pytest

from models.parameters import DeviceParams
from scripts.cli.serve import RTL, served, status
from scripts.run.replay_simulators import Simulators
from verif.serve.device_pool import DevicePool
from verif.serve.rtl_device import RtlDevice
from verif.serve.served_bucket import Counts, ServedBucket
from verif.serve.served_device import DeviceError, DeviceLost, ModelDevice
from verif.serve.test_rtl_device import WORKERS, bucket


class Watched(ModelDevice):
    """Model that remembers its last bucket, and that fails if told so."""

    last: ServedBucket
    error: Exception | None = None

    def reduce(self, bucket: ServedBucket) -> Counts:
        """Reduce a bucket, or raise ``error``."""
        self.last = bucket
        if self.error is not None:
            raise self.error
        counts = super().reduce(bucket)
        return Counts(counts.answers * 2, len(bucket.stretches), counts.answers, 1, 1)


def pool(devices: int, slots: int = 8) -> tuple[DevicePool, list[Watched]]:
    own = [Watched(DeviceParams(slots=slots)) for _ in range(devices)]
    return DevicePool(own), own


@pytest.mark.parametrize(("devices", "slots"), [(1, 8), (2, 8), (3, 8), (3, 2), (8, 64)])
def test_every_line_is_reduced_once(devices: int, slots: int) -> None:
    """Check that tile t of each mode is reduced by device t mod D, and the results of the pool."""
    one, other = bucket(lines=23), bucket(lines=23)
    reduced, own = pool(devices, slots)
    counts = reduced.reduce(one)
    ModelDevice().reduce(other)
    assert np.array_equal(one.got, other.got)
    tile = max(1, slots // 4)
    for stretch in one.stretches:
        for at, line in enumerate(stretch.lines):
            owners = [
                number
                for number, device in enumerate(own)
                for part in device.last.stretches
                if line in part.lines
            ]
            assert owners == [at // tile % devices]
    most = max(device.last.contributions for device in own)
    assert counts == Counts(2 * most, 2, other.contributions, devices, 1)


def test_one_device_that_fails() -> None:
    """Check the error of a pool: the number of the device, and a wrong line before a lost one."""
    reduced, own = pool(3)
    own[1].error = DeviceLost("the simulator ended")
    with pytest.raises(DeviceLost, match=r"^device 1: the simulator ended$"):
        reduced.reduce(bucket())
    own[2].error = DeviceError("a wrong line")
    with pytest.raises(DeviceError, match=r"^device 2: a wrong line$"):
        reduced.reduce(bucket())
    own[1].error = own[2].error = None
    assert reduced.reduce(bucket()).severe == 3


def test_limits_of_a_pool() -> None:
    reduced, _ = pool(2)
    one = bucket(lines=16)
    assert reduced.seconds(one) == pytest.approx(ModelDevice().seconds(one))
    assert reduced.name == "2 x model"
    assert pool(1)[0].name == "model"


def test_clocks_of_two_devices(tmp_path: Path) -> None:
    """Check that two devices of RTL take about half of the clocks of one, with its results."""
    model, found = Simulators().bulk("verilator", {}), []
    for devices in (1, 2):
        one = bucket(lines=256)
        own = [RtlDevice(model, tmp_path, "verilator", WORKERS) for _ in range(devices)]
        reduced = DevicePool(own)
        found.append((reduced.reduce(one).cycles, one.got))
        reduced.close()
    (alone, got), (together, same) = found
    assert np.array_equal(got, same)
    assert 1.8 < alone / together < 2.1


def test_a_server_of_two_devices() -> None:
    with served(RTL, "verilator", 2, devices=2) as path:
        assert "2 x rtl (verilator)" in status(path)[0]
