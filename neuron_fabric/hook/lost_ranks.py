# SPDX-License-Identifier: Apache-2.0
"""Detection of ranks that have ended or are stopped, with one line before the traceback.

Gloo reports a lost rank as a closed connection of an address, or as a time-out without any name.
A pool raises CollectiveTimeout.
The ranks of one machine look up each other's processes instead, which names the rank exactly. Needs
torch.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakMethod

import torch.distributed as dist

from neuron_fabric.collectives.shared_memory import CollectiveTimeout
from neuron_fabric.hook.attach_checks import warn
from neuron_fabric.rank_agreement import is_first, set_reported, wait_reported

_GLOO = re.compile(r"gloo|connection (closed|reset)|broken pipe|timed? ?out", re.IGNORECASE)
_LOOK_S = 1.0
"""A process whose connections are closed may still be ending."""
_STORE_S = 2.0
"""The store may be in the process that is lost."""


class Peers:
    """Processes of the ranks of a group: machine, process id and start time of each."""

    def __init__(self, group: Any) -> None:
        """Exchange the process data between all ranks; a collective call."""
        self._group, self._rank = group, dist.get_rank(group)
        self._machine, pid = _machine(), os.getpid()
        own = (self._machine, pid, _state(pid)[1])
        self._every: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(self._every, own, group=group)

    def who(self) -> str:
        """Return a text with the ranks on this machine that have ended or are stopped.

        It looks for at most `_LOOK_S` seconds, and says "a rank" if none is found.
        """
        until = time.monotonic() + _LOOK_S
        while not (gone := self._gone()) and time.monotonic() < until:
            time.sleep(_LOOK_S / 20)
        return "; ".join(gone) or "a rank has ended, is stopped or is out of reach"

    def tell(self, line: str) -> None:
        """Print ``line`` on one rank; on the others, return when that rank has printed it.

        A rank prints it too if the store does not answer within `_STORE_S` seconds.
        """
        key, found = f"lost ranks of {self._every}", [True]

        def ask() -> None:
            found[0] = is_first(key, self._group)
            if not found[0]:
                wait_reported(key, _STORE_S)

        _within(_STORE_S, ask)
        if found[0]:
            warn(line)
            _within(_STORE_S, lambda: set_reported(key))

    def _gone(self) -> list[str]:
        found = []
        for rank, (machine, pid, began) in enumerate(self._every):
            if machine == self._machine and rank != self._rank:
                state, start = _state(pid)
                if start != began or state in "XZ":
                    found.append(f"rank {rank} (process {pid}) has ended")
                elif state in "Tt":
                    found.append(f"rank {rank} (process {pid}) is stopped")
        return found


def is_lost(error: BaseException) -> bool:
    """Return whether gloo or a pool reports in an exception that a peer does not answer."""
    if isinstance(error, CollectiveTimeout):
        return True
    return isinstance(error, RuntimeError) and _GLOO.search(str(error)) is not None


def watch(tell: Callable[[BaseException], None]) -> None:
    """Install an excepthook that calls ``tell`` with an uncaught exception before its traceback.

    DDP has collectives that no hook sees. ``tell`` is a bound method and is not kept alive.
    """
    method, before = WeakMethod(tell), sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        if (call := method()) is not None:
            call(error)
        before(kind, error, trace)

    sys.excepthook = hook


def _within(limit_s: float, ask: Callable[[], None]) -> None:
    """Call ``ask``, which uses the store, and return when it ends or ``limit_s`` have passed."""

    def call() -> None:
        with suppress(RuntimeError):  # the keeper of the store has ended
            ask()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(limit_s)


def _machine() -> str:
    """Return a name of the machine and its process namespace, since containers have their own."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()} {os.getpid()}"  # processes cannot be looked up


def _state(pid: int) -> tuple[str, str]:
    """Return state letter and start time of a process from /proc; "X" and "" if there is none."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "X", ""
    after = words.rpartition(")")[2].split()
    return after[0], after[19]
