# SPDX-License-Identifier: Apache-2.0
"""The one error that bad captures, routes and plans raise."""

from __future__ import annotations

from neuron_fabric.text import LineError, one_line


class CaptureError(LineError):
    """A bad capture, in one line: where it is wrong, what is wrong, what to do."""

    def __init__(self, where: object, what: object, todo: object) -> None:
        """Three texts; line breaks and control characters in them are escaped, each is cut."""
        self.where = one_line(where)
        self.what = one_line(what)
        self.todo = one_line(todo)
        super().__init__(f"{self.where}: {self.what}; {self.todo}")
