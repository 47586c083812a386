# SPDX-License-Identifier: Apache-2.0
"""Errors of a link: logged when they are found, and raised in every call that waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final


class CxlError(Exception):
    """The link is broken. One line: what is wrong, what is still owed, and the data last."""


class CxlTimeout(CxlError):
    """Something that is owed has not come within the clocks that CxlConfig allows."""


class CxlPoisonError(CxlError):
    """A read met poison: ``lines`` are the addresses of poisoned lines, ``data`` all the bytes."""

    def __init__(self, lines: list[int], data: bytes) -> None:
        super().__init__(f"poisoned data from {', '.join(map(hex, lines))}")
        self.lines, self.data = lines, data


class ErrorLog:
    """What host, device and monitor have found.

    The first error stays until a reset and ends every wait, as the later ones mostly follow from
    it. ``log`` writes a line; ``owed`` says what the device owes; ``wake`` are called at the first
    error, so that whoever waits looks here.
    """

    LOGGED: Final = 20
    """Errors that are logged; a broken device may make one a clock."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._logged = 0
        self._first: tuple[type[CxlError], str] | None = None
        self.owed: Callable[[], str] = lambda: ""
        self.wake: list[Callable[[], None]] = []

    def report(
        self,
        clock: int,
        text: str,
        data: str = "",
        kind: type[CxlError] = CxlError,
        quiet: bool = False,
    ) -> None:
        """An error was found in ``clock``; ``quiet``: it is raised and not logged."""
        self._logged += not quiet
        logged = not quiet and self._logged <= self.LOGGED
        if not logged and self._first is not None:
            return
        whole = "; ".join(filter(None, (f"{text}, at clock {clock}", self.owed())))
        if data:
            whole = f"{whole}: {data}"
        if logged:
            self._log(whole)
            if self._logged == self.LOGGED:
                self._log("further errors are not logged; finish() lists all of them")
        if self._first is None:
            self._first = kind, whole
            for wake in self.wake:
                wake()

    def check(self) -> None:
        """Raises the first error, if there is one."""
        if self._first is not None:
            kind, text = self._first
            raise kind(text)

    def clear(self) -> None:
        """A reset: calls may wait again. What was logged stays an error of the test."""
        self._first = None
