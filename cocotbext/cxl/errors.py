# SPDX-License-Identifier: Apache-2.0
"""Errors of a link: logged when found, and raised in every call that waits."""

from collections.abc import Callable
from typing import Final


class CxlError(Exception):
    """The link or a peer broke a rule. One line: the cause, the responses still owed, then data."""


class CxlTimeout(CxlError):
    """An owed response or credit did not arrive within the clocks that CxlConfig allows."""


class CxlPoisonError(CxlError):
    """A read returned poison: ``lines`` are the addresses of poisoned lines, ``data`` all the
    bytes.
    """

    def __init__(self, lines: list[int], data: bytes) -> None:
        super().__init__(f"poisoned data from {', '.join(map(hex, lines))}")
        self.lines, self.data = lines, data


class ErrorLog:
    """Error log that host, device and monitor share.

    The first error stays until a reset and ends every wait, because later errors mostly follow from
    it. ``log`` writes a line; ``owed`` describes missing responses; each function in ``wake`` is
    called at the first error so that waiting calls check this log.
    """

    LOGGED: Final = 20
    """Maximum number of logged errors; a broken device may cause one per clock."""

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
        """Record an error found in ``clock``; the first one is kept and wakes waiting calls.

        Args:
            clock: clock number for the text.
            text: cause.
            data: bytes or flit for the end of the text.
            kind: exception that waiting calls raise.
            quiet: do not write the error to the log.
        """
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
        """Raise the first error since the last reset, if any."""
        if self._first is not None:
            kind, text = self._first
            raise kind(text)

    def clear(self) -> None:
        """Forget the first error after a reset, so that calls can wait again.

        Errors in the ``errors`` lists of host, device and monitor stay and still fail the test.
        """
        self._first = None
