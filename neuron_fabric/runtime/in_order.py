# SPDX-License-Identifier: Apache-2.0
"""A thread that does what it is given, one thing after the other."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Found = TypeVar("Found")
Action = Callable[[], None]
Failed = Callable[[Exception], None]


class InOrder:
    """Collectives that follow on others have to start in one order on every rank; callbacks of
    these others come in any. So the hook hands them to this thread, in the order of the buckets.

    After the first action that fails, all that follow fail with the same error, at once: the ranks
    no longer agree on what comes next.

    ``room``: so many actions wait or are under way at most, a further one waits to be put; 0: any
    number. The thread ends with the last reference to this object, or by `close`.
    """

    def __init__(self, name: str, room: int = 0) -> None:
        self._todo: queue.SimpleQueue[tuple[InOrder, Action, Failed] | None] = queue.SimpleQueue()
        self._idle = threading.Condition()
        self._open, self._room, self._closed = 0, room, False
        self.error: Exception | None = None
        # A daemon: a training that ends by an exception need not wait for the other ranks.
        self._thread = threading.Thread(target=_run, args=(self._todo,), name=name, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._todo.put, None).atexit = False

    def put(self, action: Action, failed: Failed = lambda error: None) -> None:
        """Do ``action`` after all before it; ``failed`` is told when it cannot be done.
        RuntimeError behind `close`."""
        with self._idle:
            self._idle.wait_for(lambda: not self._room or self._open < self._room)
            if self._closed:
                raise RuntimeError(f"{self._thread.name}: it is closed.")
            self._open += 1
            self._todo.put((self, action, failed))

    def ask(self, action: Callable[[], Found]) -> Callable[[], Found]:
        """Do ``action`` after all before it; what waits for what it gives, or raises what has been
        raised."""
        found: Future[Found] = Future()
        self.put(lambda: found.set_result(action()), found.set_exception)
        return found.result

    def drain(self) -> None:
        """Wait until all is done. The first error, if there is one."""
        with self._idle:
            self._idle.wait_for(lambda: self._open == 0)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Do what is left, and end the thread."""
        with self._idle:
            self._closed = True
            self._todo.put(None)
        self._thread.join()

    def _do(self, action: Action, failed: Failed) -> None:
        try:
            if self.error is None:
                action()
        except Exception as error:
            self.error = error
        if self.error is not None:
            failed(self.error)
        with self._idle:
            self._open -= 1
            self._idle.notify_all()


def _run(todo: queue.SimpleQueue[tuple[InOrder, Action, Failed] | None]) -> None:
    while (item := todo.get()) is not None:
        one, action, failed = item
        one._do(action, failed)
        del item, one, action, failed  # what they hold is not kept until the next one comes
