# SPDX-License-Identifier: Apache-2.0
"""Time limits in processor time, which mean the same on a busy machine and on an idle one.

A limit is in seconds of processor time of a process group. A group is also ended when it made no
progress (no processor time, nothing written to its log) for STANDS_STILL_S seconds, and when its
wall-clock time exceeds WALL times the limit, so that no run holds a machine for ever.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

STANDS_STILL_S = 60.0
"""Seconds without progress after which a group is taken for blocked."""
WALL = 10.0
"""Wall-clock limit as a multiple of that of processor time."""
_CORES = os.cpu_count() or 1
_LEAST_S, _MOST_S = 0.1, 2.0  # between two measurements


class Meter:
    """Meter of the processor time and the progress of a process group, from construction on.

    Attributes:
        used: Seconds of processor time that the group has used since then.
    """

    def __init__(self, group: int, limit_s: float, log: Path) -> None:
        self.used = 0.0
        self._group, self._limit_s, self._log = group, limit_s, log
        self._last = of_group(group), _size(log)
        self._time = time.monotonic()
        self._wall = self._still = 0.0

    def pause(self) -> float:
        """Return the seconds to wait until the next call of `measure`, 0.1 to 2.

        No limit of processor time can be passed earlier, even with all cores busy.
        """
        soonest = (self._limit_s - self.used) / _CORES
        return min(max(soonest, _LEAST_S), _MOST_S, max(STANDS_STILL_S / 4, _LEAST_S))

    def measure(self) -> str:
        """Update `used`; return the reason to end the group, "" if it is within all its limits."""
        now, found = time.monotonic(), (of_group(self._group), _size(self._log))
        # If this process itself was stopped or starved, the long pause says nothing of the group.
        passed, self._time = min(now - self._time, 5 * _MOST_S), now
        self._wall += passed
        self._still = self._still + passed if found == self._last else 0.0
        # The sum decreases when a process ends without being waited for.
        self.used += max(0.0, found[0] - self._last[0])
        self._last = found
        limit = f"the limit of {self._limit_s:g} s"
        if self.used > self._limit_s:
            return f"used {self.used:.1f} s of processor time, more than {limit}"
        spent = f"{self.used:.1f} s of processor time used, {limit[4:]}"
        if self._still >= STANDS_STILL_S:
            return f"stood still for {self._still:.0f} s: no processor time, no output ({spent})"
        if self._wall > WALL * self._limit_s:
            return (
                f"took {self._wall:.0f} s of wall-clock time, more than {WALL:g} times {limit}"
                f" ({spent.partition(',')[0]})"
            )
        return ""


def watch(
    group: int, limit_s: float, log: Path, came: Callable[[float], bool]
) -> tuple[str, float]:
    """Wait for a process group within its limits.

    Args:
        group: number of the group, whose leader is not reaped before `came` returns True.
        limit_s: seconds of processor time; see the module for the other two limits.
        log: file to which the group writes.
        came: waits for at most the given seconds and returns whether the group has ended.

    Returns:
        The reason to end the group ("" when it is done), and the processor time that it used.
    """
    meter = Meter(group, limit_s, log)
    while not came(meter.pause()):
        if why := meter.measure():
            return why, meter.used
    meter.measure()
    return "", meter.used


def leader_ended(pid: int, seconds: float) -> bool:
    """Wait up to `seconds` for a child process to end, without reaping it.

    Returns:
        Whether it has ended.
    """
    handle = os.pidfd_open(pid)
    try:
        return bool(wait([handle], seconds))
    finally:
        os.close(handle)


def of_group(group: int) -> float:
    """Return the processor time, user and system, of a process group in seconds.

    It includes children that these processes have waited for.
    """
    import psutil  # here, so that `nf doctor` starts in a .venv without packages

    seconds = 0.0
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):  # it has just ended
            if os.getpgid(pid) == group:
                seconds += sum(psutil.Process(pid).cpu_times()[:4])
    return seconds


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0
