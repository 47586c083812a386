# SPDX-License-Identifier: Apache-2.0
"""Errors of what users give: where it is wrong, what is wrong, what to do, in one line."""

from __future__ import annotations

from typing import Self

from neuron_fabric.text import LineError, one_line


class InputError(LineError):
    """Bad input, in one line: where it is wrong, what is wrong, what to do."""

    def __init__(self, where: object, what: object, todo: object) -> None:
        """Three texts; line breaks and control characters in them are escaped, each is cut."""
        self.where = one_line(where)
        self.what = one_line(what)
        self.todo = one_line(todo)
        super().__init__(f"{self.where}: {self.what}; {self.todo}")

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        """Pickle the three texts: ranks exchange errors."""
        return type(self), (self.where, self.what, self.todo)


class CaptureError(InputError):
    """A bad capture, route or plan."""


class ProfileError(InputError):
    """A bad operating profile, or one that does not fit the training."""


class AttachError(InputError):
    """A training that no profile can be attached to, or wrong use of what `attach` gave."""


class MonitorError(InputError):
    """What ends a run on all its ranks, or makes a log useless."""
