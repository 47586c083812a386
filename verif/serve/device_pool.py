# SPDX-License-Identifier: Apache-2.0
"""Several devices as one device of a reducer server: the lines of a bucket are dealt by tile."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from verif.serve.served_bucket import Counts, ServedBucket, Stretch
from verif.serve.served_device import DeviceError, DeviceLost, ServedDevice


class DevicePool:
    """Pool of devices that reduce a bucket at the same time, each in its own thread.

    Tile t of the lines of a mode is reduced by device t mod D. A tile is a quarter of the slots of
    a device: workers that are a tile apart then still find their lines in the slots.
    """

    def __init__(self, devices: Sequence[ServedDevice]) -> None:
        """Take over the devices, which all have the same parameters; `close` closes them."""
        self._devices, self.params = tuple(devices), devices[0].params

    @property
    def name(self) -> str:
        """Number and kind of the devices, for example "2 x rtl (verilator)"."""
        count, kind = len(self._devices), self._devices[0].name
        return f"{count} x {kind}" if count > 1 else kind

    def reduce(self, bucket: ServedBucket) -> Counts:
        """Reduce a bucket; see `ServedDevice`.

        Returns:
            Cycles and rounds of the slowest device; the other counters are sums, FALLBACK is 1 if
            any device raised it.
        """
        done: list[Counts] = []
        failed: list[Exception] = []

        def run(number: int, part: ServedBucket) -> None:
            try:
                done.append(self._devices[number].reduce(part))
            except (DeviceError, DeviceLost) as error:
                where = f"device {number}: " if len(self._devices) > 1 else ""
                failed.append(type(error)(f"{where}{error}"))
            except Exception as error:  # a bug in this program
                failed.append(error)

        # Daemon threads: a hanging simulator must not keep the server from ending.
        threads = [
            threading.Thread(target=run, args=(number, part), daemon=True)
            for number, part in enumerate(self._deal(bucket))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # A wrong line ends the training; a lost device only loses the bucket.
        for error in sorted(failed, key=lambda error: isinstance(error, DeviceLost)):
            raise error
        return Counts(
            max(one.cycles for one in done),
            max(one.rounds for one in done),
            sum(one.answers for one in done),
            sum(one.severe for one in done),
            max(one.fallback for one in done),
        )

    def seconds(self, bucket: ServedBucket) -> float:
        """Return the time limit of a bucket: that of all its parts, as if one processor ran all."""
        parts = zip(self._devices, self._deal(bucket), strict=True)
        return sum(device.seconds(part) for device, part in parts)

    def interrupt(self) -> None:
        """Interrupt every device; see `ServedDevice`."""
        for device in self._devices:
            device.interrupt()

    def close(self) -> None:
        """Close every device."""
        for device in self._devices:
            device.close()

    def _deal(self, bucket: ServedBucket) -> list[ServedBucket]:
        """Return the part of a bucket that each device reduces."""
        parts = []
        for number in range(len(self._devices)):
            own = (self._share(one, number) for one in bucket.stretches)
            parts.append(replace(bucket, stretches=tuple(one for one in own if len(one.lines))))
        return parts

    def _share(self, stretch: Stretch, number: int) -> Stretch:
        tile = max(1, self.params.slots // 4)
        own = np.arange(len(stretch.lines)) // tile % len(self._devices) == number
        present = None if stretch.present is None else stretch.present[:, own]
        return Stretch(stretch.mode, stretch.lines[own], present)
