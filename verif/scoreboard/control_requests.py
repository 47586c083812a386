# SPDX-License-Identifier: Apache-2.0
"""Requests to the control window, and changes of the window while requests are in flight.

The control window is the address range in which hosts access registers over the link. A change
takes effect between the acceptance and the response of the write that asks for it, so a request
that overlaps this time may have met the window before or after it.
"""

from collections.abc import Callable

from models.access_decode import Kind
from models.control_window import ControlWindow
from models.device import DeviceModel
from verif.scoreboard.linearize import Failure
from verif.scoreboard.operations import Op


class ControlRequests:
    """Follower of the requests to the control window and of the changes of the window.

    It keeps `model.control`, the window in force.
    """

    def __init__(self, model: DeviceModel) -> None:
        self.model = model
        self._begins: Callable[[Op], None] = lambda _op: None
        self._ends: Callable[[Op], None] = lambda _op: None
        self._new: ControlWindow | None = None
        self._old: list[tuple[ControlWindow, int]] = []
        """Windows that were in force, each until a time at most."""
        self._now = 0

    def connect(self, begins: Callable[[Op], None], ends: Callable[[Op], None]) -> None:
        """Set the functions that are called with each request to the window: on arrival and on
        response.
        """
        self._begins, self._ends = begins, ends

    def change_begin(self, window: ControlWindow) -> None:
        """Record the start of a write that puts `window` in force."""
        self._new = window

    def change_end(self) -> None:
        """Record the response to a write that changes the window: the new window is in force."""
        if self._new is not None:
            self._old = [*self._old[-8:], (self.model.control, self._now)]
            self.model.control, self._new = self._new, None

    def reset(self) -> None:
        """Follow a reset of the device: the window has its reset state."""
        self.model.control, self._new = ControlWindow(), None
        self._old.clear()

    def request(self, op: Op) -> None:
        """Record the arrival of a request, whose `access` is set."""
        self._now = max(self._now, op.start)
        if op.access.kind is Kind.CONTROL:
            self._begins(op)

    def response(self, op: Op) -> None:
        """Record the response to a request.

        If it overlapped changes of the window and the possible windows decode it differently,
        `op.windows` is set to one window for each decoding.
        """
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
    """Compare the response to a request with the model under each window of `op.windows`.

    The model is left unchanged.

    Returns:
        None if it is right under one of them, else the mismatch under the first.
    """
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
