# SPDX-License-Identifier: Apache-2.0
"""The device at work beside the server's loop: buckets in, outcomes out, one at a time."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from neuron_fabric.reducers.server_session import Word
from verif.serve.served_bucket import Counts, ServedBucket
from verif.serve.served_device import DeviceError, DeviceLost, ServedDevice


@dataclass(frozen=True)
class Finished:
    """What came of a bucket; ``owner`` as it was given."""

    owner: Any
    seq: int
    word: Word
    why: str
    counters: dict[str, int]


class DeviceThread:
    """``wake``: a descriptor that becomes readable when something is finished."""

    def __init__(self, device: ServedDevice, timeout_s: float) -> None:
        """A bucket that takes ``timeout_s`` longer than the device says is given up."""
        self.device, self._timeout_s = device, timeout_s
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._todo: queue.SimpleQueue[tuple[Any, ServedBucket] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Finished] = queue.SimpleQueue()
        self._until: float | None = None
        self.stuck = False
        """The bucket that is at work has taken too long, and has not come to an end yet."""
        # A daemon: a simulator that never comes back must not keep the server from ending.
        self._thread = threading.Thread(target=self._run, name="nf serve device", daemon=True)
        self._thread.start()

    def put(self, owner: Any, bucket: ServedBucket) -> None:
        """Reduce a bucket after those before it."""
        self._todo.put((owner, bucket))

    def finished(self) -> Iterator[Finished]:
        """What is finished since this was asked last."""
        try:
            os.eventfd_read(self.wake)
        except BlockingIOError:
            return
        while True:
            try:
                yield self._done.get_nowait()
            except queue.Empty:
                return

    def deadline(self) -> float | None:
        """When the bucket that is at work has taken too long."""
        return self._until

    def expire(self, now: float) -> bool:
        """Whether the bucket at work has just taken too long; it is ended, where that can be."""
        if self._until is None or now < self._until:
            return False
        self._until, self.stuck = None, True
        self.device.interrupt()
        return True

    def close(self, wait_s: float = 10.0) -> None:
        """End it, and the device."""
        self._todo.put(None)
        self._thread.join(0.2)
        if self._thread.is_alive():
            self.device.interrupt()
            self._thread.join(wait_s)
        if not self._thread.is_alive():
            self.device.close()
            os.close(self.wake)

    def _run(self) -> None:
        while (item := self._todo.get()) is not None:
            owner, bucket = item
            word, why, counts = Word.DONE, "", Counts()
            try:
                self._until = time.monotonic() + self._timeout_s + self.device.seconds(bucket)
                counts = self.device.reduce(bucket)
            except DeviceLost as lost:
                word, why = Word.LOST, str(lost)
            except DeviceError as error:
                word, why = Word.REFUSED, str(error)
            except Exception as error:  # a fault of this program, told as one
                word, why = Word.REFUSED, f"{type(error).__name__}: {error}"
            self._until, self.stuck = None, False
            if word == Word.DONE:
                counts.more = {"lines": bucket.lines, "contributions": bucket.contributions}
            self._done.put(Finished(owner, bucket.seq, word, why, counts.all()))
            os.eventfd_write(self.wake, 1)
