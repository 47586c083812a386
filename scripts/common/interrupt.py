# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command: Ctrl-C, SIGTERM and SIGHUP, each turned into an exception."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from neuron_fabric.errors import say

INTERRUPTED, INTERRUPT_CODE = "nf: interrupted", 128 + signal.SIGINT
_PATIENCE_S = 1.0
_interrupted: float | None = None  # when Ctrl-C came
_said = False


class Terminated(BaseException):
    """Raised in the main thread on SIGTERM or SIGHUP; the argument is the number of the signal.

    Not a SystemExit: cocotb's runners raise that, and callers catch it.
    """


@contextlib.contextmanager
def handling(handle: Callable[[int], None], *numbers: signal.Signals) -> Iterator[None]:
    """Have signals call `handle` with their number inside the context; then restore the handlers.

    Outside the main thread nothing is changed. Under `nohup`, SIGHUP stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = [number for number in numbers if not (nohup and number is signal.SIGHUP)]
    old = {number: signal.signal(number, lambda one, _frame: handle(one)) for number in heard}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def interrupt(*_: object) -> None:
    """Handle Ctrl-C (SIGINT).

    The first one raises KeyboardInterrupt, so that running work is ended in order. More within a
    second are the same key press; a later one ends this process at once, and the orphan guard ends
    the others.
    """
    global _interrupted
    now = time.monotonic()
    if _interrupted is None:
        _interrupted = now
        raise KeyboardInterrupt
    if now - _interrupted > _PATIENCE_S:
        if not _said:
            os.write(2, f"{INTERRUPTED}\n".encode())
        os._exit(INTERRUPT_CODE)


def interrupted() -> int:
    """Print "nf: interrupted" to stderr and return the exit code 130."""
    global _said
    _said = True
    say(INTERRUPTED, file=sys.stderr)
    return INTERRUPT_CODE


def deaf_at_exit() -> None:
    """Register an exit handler that ignores Ctrl-C.

    Python removes its signal handlers before it ends, and another Ctrl-C would then end the process
    by a signal instead of an exit code.
    """
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Context of a whole command: turn signals into exceptions, so that its work is ended in order.

    Ctrl-C, however often, raises KeyboardInterrupt once (see `interrupt`); SIGTERM and SIGHUP raise
    Terminated.
    """
    global _interrupted, _said
    here = threading.current_thread() is threading.main_thread()
    old = signal.getsignal(signal.SIGINT) if here else signal.SIG_IGN
    _interrupted, _said = None, False
    with handling(_leave, signal.SIGTERM, signal.SIGHUP):
        if old is not signal.SIG_IGN:  # so a shell starts what runs in the background
            signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            if old is not signal.SIG_IGN and _interrupted is None:
                signal.signal(signal.SIGINT, old)


def _leave(number: int) -> None:
    raise Terminated(number)
