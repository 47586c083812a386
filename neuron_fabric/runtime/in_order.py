# SPDX-License-Identifier: Apache-2.0
"""A thread that does what it is given, one thing after the other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Action = Callable[[], None]
Failed = Callable[[Exception], None]


class InOrder:
    """Collectives that follow on others have to start in one order on every rank; callbacks of
    these others come in any. So the hook hands them to this thread, in the order of the buckets.

    After the first action that fails, all that follow fail with the same error, at once: the ranks
    no longer agree on what comes next.
    """

    def __init__(self, name: str) -> None:
        self._todo: queue.SimpleQueue[tuple[Action, Failed] | None] = queue.SimpleQueue()
        self._idle = threading.Condition()
        self._open = 0
        self.error: Exception | None = None
        # A daemon: a training that ends by an exception need not wait for the other ranks.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, action: Action, failed: Failed = lambda error: None) -> None:
        """Do ``action`` after all before it; ``failed`` is told when it cannot be done."""
        with self._idle:
            self._open += 1
        self._todo.put((action, failed))

    def drain(self) -> None:
        """Wait until all is done. The first error, if there is one."""
        with self._idle:
            self._idle.wait_for(lambda: self._open == 0)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Do what is left, and end the thread."""
        self._todo.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._todo.get()) is not None:
            action, failed = item
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
