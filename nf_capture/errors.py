# SPDX-License-Identifier: Apache-2.0
"""The one error that bad captures, routes and plans raise."""

from __future__ import annotations


def one_line(text: object) -> str:
    """``text`` without control characters or line breaks, cut at 200 characters."""
    flat = "".join(c if c.isprintable() else "?" for c in str(text))
    return flat if len(flat) <= 200 else flat[:197] + "..."


class CaptureError(Exception):
    """A bad capture, in one line: where it is wrong, what is wrong, what to do."""

    def __init__(self, where: object, what: object, todo: object) -> None:
        """Three texts; line breaks and control characters in them are replaced."""
        self.where = one_line(where)
        self.what = one_line(what)
        self.todo = one_line(todo)
        super().__init__(f"{self.where}: {self.what}; {self.todo}")
