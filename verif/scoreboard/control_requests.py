# SPDX-License-Identifier: Apache-2.0
"""Requests to the control window, and changes of the window while requests are in flight.

A change takes effect between the acceptance and the answer of the write that asks for it, so a
request that overlaps this time may have met the window before or after it.
"""

from __future__ import annotations

from collections.abc import Callable

from models.control_window import ControlWindow
from models.device import DeviceModel
from models.regions import Kind
from verif.scoreboard.linearize import Failure
from verif.scoreboard.operations import Op


class ControlRequests:
    """Accesses to the control window, from requests, responses and changes of the window."""

    def __init__(self, model: DeviceModel) -> None:
        self.model = model
        self._begins: Callable[[Op], None] = lambda _op: None
        self._ends: Callable[[Op], None] = lambda _op: None
        self._new: ControlWindow | None = None
        self._old: list[tuple[ControlWindow, int]] = []
        """Windows that were in force, each until a time at most."""
        self._now = 0

    def connect(self, begins: Callable[[Op], None], ends: Callable[[Op], None]) -> None:
        """Call `begins` with each request to the window, `ends` when it is answered."""
        self._begins, self._ends = begins, ends

    def change_begin(self, window: ControlWindow) -> None:
        """Begin a write that makes this the window."""
        self._new = window

    def change_end(self) -> None:
        """End a write that changes the window."""
        if self._new is not None:
            self._old = [*self._old[-8:], (self.model.control, self._now)]
            self.model.control, self._new = self._new, None

    def reset(self) -> None:
        """Follow a reset of the device."""
        self.model.control, self._new = ControlWindow(), None
        self._old.clear()

    def request(self, op: Op) -> None:
        """Follow a request; its access is filled in."""
        self._now = max(self._now, op.start)
        if op.access.kind is Kind.CONTROL:
            self._begins(op)

    def response(self, op: Op) -> None:
        """Follow an answer."""
        self._now = max(self._now, op.end)
        model, present = self.model, self.model.control
        windows = [window for window, end in self._old if end >= op.start]
        if self._new is not None:
            windows.append(self._new)
        if windows:
            ways = {}
            for window in (present, *windows):
                model.control = window
                access = model.decode(op.msg, op.misframed)
                ways[access.kind, access.cause] = window
            model.control = present
            if len(ways) > 1:
                op.windows = tuple(ways.values())
        if op.access.kind is Kind.CONTROL:
            self._ends(op)


def either(model: DeviceModel, op: Op) -> Failure | None:
    """Return the mismatch of a request that one of `op.windows` has decoded, or None."""
    before, present = model.snapshot(None), model.control
    first: Failure | None = None
    for window in op.windows:
        model.control = window
        expected = model.step_result(op.msg, op.misframed)
        model.restore(None, before)
        differences = expected.differences(op.response)
        if not differences:
            model.control = present
            return None
        first = first or Failure(op, expected, differences, model.explain(op.msg, op.misframed))
    model.control = present
    return first
