# SPDX-License-Identifier: Apache-2.0
"""Processor time of a process and its helpers. A limit in it means the same on a busy machine and
on an idle one; wall-clock time would make proofs red because something else runs."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

STANDS_STILL_S = 300.0
"""A group that has used no processor time for so long waits for something that does not come."""
_TICKS = os.sysconf("SC_CLK_TCK")
_FIRST_S, _MOST_S = 0.01, 0.5  # between two looks
_GROUP, _FIRST_TIME, _TIMES = 2, 11, 4  # fields behind the name of a program in /proc/PID/stat


def ended(pid: int, limit_s: float) -> tuple[float, bool]:
    """Wait for the leader of a process group, which stays to be reaped: the processor time that the
    group has used, and whether it was stopped waiting for because of that."""
    most, moved, pause = 0.0, time.monotonic(), _FIRST_S
    while True:
        gone = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        used, now = max(most, of_group(pid)), time.monotonic()
        if used > most:
            most, moved = used, now
        if gone:
            return most, False
        if most > limit_s or now - moved > STANDS_STILL_S:
            return most, True
        time.sleep(pause)
        pause = min(2 * pause, _MOST_S)


def of_group(group: int) -> float:
    """Seconds of all processes of a group, and of those that they have waited for."""
    ticks = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has just ended
            text = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
            fields = text.rpartition(")")[2].split()
            if int(fields[_GROUP]) == group:
                ticks += sum(int(one) for one in fields[_FIRST_TIME : _FIRST_TIME + _TIMES])
    return ticks / _TICKS
