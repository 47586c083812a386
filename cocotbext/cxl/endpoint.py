# SPDX-License-Identifier: Apache-2.0
"""Common base of host, device and monitor: pins, reset, tasks, errors and received flits.

Timing contract: once per clock, immediately after RisingEdge(clock), each one samples the values
driven before that edge; values that it then drives are sampled at the next edge. ``clock`` must be
the clock that cocotb drives itself.
"""

import logging
from typing import Any, Generic, TypeVar

import cocotb
from cocotb.task import Task
from cocotb.triggers import FallingEdge, RisingEdge

from cocotbext.cxl import __version__
from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.errors import CxlError, ErrorLog
from cocotbext.cxl.link.partner import LinkPartner
from cocotbext.cxl.wire.flits import WireFlit
from cocotbext.cxl.wire.messages import Message

TxT = TypeVar("TxT", bound=Message)
RxT = TypeVar("RxT")


class PinUser:
    """Base of all users of the pins of ``bus``; ``cycle`` counts clocks, ``errors`` collects
    errors.
    """

    role: str

    def __init__(
        self,
        bus: CxlMemBus,
        clock: Any,
        reset: Any,
        reset_active_level: bool,
        error_log: ErrorLog | None,
    ) -> None:
        self.bus, self.clock = bus, clock
        self.log = logging.getLogger(f"cocotb.{bus.name}.{self.role}")
        self.log.info("CXL.mem %s, cocotbext-cxl %s", self.role, __version__)
        self.error_log = error_log or ErrorLog(self.log.error)
        self.errors: list[str] = []
        self.cycle = 0
        self._reset, self._active_level = reset, bool(reset_active_level)
        self._in_reset = True
        self._tasks: list[Task[None]] = []

    def start(self) -> None:
        """Start to use the pins. The constructor calls it unless start=False."""
        self._tasks = [cocotb.start_soon(loop) for loop in (self._run(), self._follow_reset())]

    def stop(self) -> None:
        """Stop for good; the pins keep their values."""
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        raise NotImplementedError

    async def _follow_reset(self) -> None:
        """Follow the reset, without end. X counts as active before the first valid value; without a
        signal there is no reset.
        """
        reset = self._reset
        if reset is None:
            self._in_reset = False
            return
        begins, ends = (
            (RisingEdge, FallingEdge) if self._active_level else (FallingEdge, RisingEdge)
        )
        while True:
            if reset.value != int(not self._active_level):
                await ends(reset)
            self._in_reset = False
            await begins(reset)
            self._reset_entered()

    def _reset_entered(self) -> None:
        self._in_reset = True

    def _error(self, text: str, kind: type[CxlError] = CxlError, quiet: bool = False) -> None:
        """Record an error; it ends every call that waits on the shared error log.

        With ``quiet`` the error is neither logged nor kept in ``errors``: waiting calls raise it,
        but finish() and check() do not report it.
        """
        if not quiet:
            self.errors.append(f"clock {self.cycle}: {text}")
        self.error_log.report(self.cycle, text, kind=kind, quiet=quiet)

    def finish(self) -> list[str]:
        """Return all errors of the run, one text each; call it at the end of a test."""
        return list(self.errors)

    def check(self) -> None:
        """Raise CxlError with the first error that finish() returns, if any; call it at the end."""
        errors = self.finish()
        if errors:
            raise CxlError(f"{len(errors)} {self.role} errors, first: {errors[0]}")

    def _words(self, protocol_id: str, flit: str) -> WireFlit | None:
        """Convert the pin values of a valid flit, texts of 0 and 1, to (Protocol ID, flit).

        With an X or Z among them an error is recorded and None returned.
        """
        try:
            return int(protocol_id, 2), int(flit, 2)
        except ValueError:
            self._error(f"X or Z on the pins of a valid flit: {protocol_id}, {flit}")
            return None


class LinkEndpoint(PinUser, Generic[TxT, RxT]):
    """Base of host and device: one end of a link; ``link`` is its link partner (protocol state).

    Subclasses drive the pins.
    """

    peer: str
    link: LinkPartner[TxT, RxT]
    _issues = _lost = 0  # that were reported since the last reset

    def _reset_entered(self) -> None:
        super()._reset_entered()
        self.link.reset()
        self._issues = self._lost = 0
        self.error_log.clear()

    def _judge_link(self) -> None:
        """Record as errors what the link partner found wrong since the last call.

        These are its ``issues`` and, with link-level retry off, bad flits, which are lost.
        """
        link = self.link
        for text in link.issues[self._issues :]:
            self._error(f"{self.role} link: {text}")
        self._issues = len(link.issues)
        if not link.config.retry:
            lost = link.counters["crc_error"] + link.counters["pid_uncorrectable"]
            if lost > self._lost:
                self._lost = lost
                self._error(
                    f"a flit of the {self.peer} is bad and lost, as link-level retry is off"
                )
