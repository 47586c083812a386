# SPDX-License-Identifier: Apache-2.0
"""The error of the monitor."""

from __future__ import annotations

from neuron_fabric.text import LineError, one_line


class MonitorError(LineError):
    """What ends a run on all its ranks, or makes a log useless, in one line: where, what, what to
    do."""

    def __init__(self, where: object, what: object, todo: object) -> None:
        """Three texts; line breaks and control characters in them are escaped, each is cut."""
        super().__init__(f"{one_line(where)}: {one_line(what, 600)}; {one_line(todo, 400)}")
