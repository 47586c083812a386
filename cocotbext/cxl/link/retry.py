# SPDX-License-Identifier: Apache-2.0
"""Link-level retry: retry buffer and both state machines (spec: link spec §9).

``RetryBuffer`` holds the sent flits. ``RetryMachine`` contains the local (LRSM) and the remote
(RRSM) state machine of one link partner; the link layer reports received flits to it and takes the
RETRY flits to send from it. Neither knows messages.
"""

from collections import Counter, deque
from enum import Enum
from typing import Final

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.wire.control import ControlFlit, RetryAck, RetryFrame, RetryReq

FRAMES: Final = 5
"""RETRY.Frame flits before a RETRY.Req or a RETRY.Ack."""
INITIAL_WRAP: Final = 9
"""Wrap value of ESeq until the peer's INIT.Param arrives."""


class RetryBuffer:
    """Retryable flits that were sent and not acknowledged (depth entries, never full)."""

    def __init__(self, depth: int) -> None:
        if not 22 <= depth <= 255:
            raise ValueError(f"a retry buffer has 22..255 entries, not {depth}")
        self.depth = depth
        self._entries: list[tuple[int, bool]] = [(0, False)] * depth
        self.wr_ptr = 0
        self.rd_ptr = 0
        self.free = depth

    @property
    def replaying(self) -> bool:
        """Return True if flits remain between RdPtr and WrPtr."""
        return self.rd_ptr != self.wr_ptr

    @property
    def next_is_adf(self) -> bool:
        """Return True if the replay continues with an all-data flit, which must not be delayed."""
        return self.replaying and self._entries[self.rd_ptr][1]

    def store(self, flit: int, adf: bool) -> None:
        """Store a new retryable flit that is being sent; ``adf``: it is an all-data flit."""
        self._entries[self.wr_ptr] = (flit, adf)
        self.wr_ptr = self.rd_ptr = (self.wr_ptr + 1) % self.depth
        self.free -= 1

    def acknowledge(self, count: int) -> bool:
        """Free ``count`` acknowledged flits; return False if fewer were outstanding."""
        self.free += count
        if self.free <= self.depth:
            return True
        self.free = self.depth
        return False

    def holds(self, eseq: int) -> bool:
        """Return True if a replay can start at sequence number ``eseq``: its flit is stored."""
        return eseq < self.depth and (self.wr_ptr - eseq) % self.depth <= self.depth - self.free

    def rewind(self, eseq: int) -> None:
        """Set RdPtr to ``eseq``, so that a replay starts there."""
        self.rd_ptr = eseq

    def replay(self) -> int:
        """Return the next flit of a replay and advance RdPtr."""
        flit = self._entries[self.rd_ptr][0]
        self.rd_ptr = (self.rd_ptr + 1) % self.depth
        return flit


class Lrsm(Enum):
    """State of the local retry state machine, which requests replays; values are spec names."""

    NORMAL = "RETRY_LOCAL_NORMAL"
    LLRREQ = "RETRY_LLRREQ"
    LOCAL_IDLE = "RETRY_LOCAL_IDLE"
    PHY_REINIT = "RETRY_PHY_REINIT"
    ABORT = "RETRY_ABORT"


class Rrsm(Enum):
    """State of the remote retry state machine, which answers the peer's requests for a replay."""

    NORMAL = "RETRY_REMOTE_NORMAL"
    LLRACK = "RETRY_LLRACK"


class RetryMachine:
    """Both retry state machines (LRSM and RRSM) of one link partner."""

    def __init__(self, buffer: RetryBuffer, counters: Counter[str], config: LinkConfig) -> None:
        self._buffer, self._counters, self._config = buffer, counters, config
        self.lrsm = Lrsm.NORMAL
        self.rrsm = Rrsm.NORMAL
        self.eseq = 0
        self.wrap = INITIAL_WRAP
        self.num_retry = 0
        self.num_phy_reinit = 0
        self.timeout = 0
        self.retrain_request = False
        self._frames = 0
        self._sequence: deque[ControlFlit] = deque()
        self._request: RetryReq | None = None  # the RETRY.Req that the next RETRY.Ack answers

    # -------------------------------------------------------------------------- receiver

    def good_retryable(self) -> None:
        """Count a good retryable flit that was processed in NORMAL."""
        self.eseq = 0 if self.eseq >= self.wrap else self.eseq + 1
        self.num_retry = self.num_phy_reinit = 0
        self._frames = 0

    def error(self) -> None:
        """Record a flit lost to a bad CRC or Protocol ID; in NORMAL this starts a local retry."""
        self._frames = 0
        if self.lrsm is Lrsm.NORMAL:
            self._counters["retry_local"] += 1
            self._enter_llrreq()

    def other(self) -> None:
        """Record any other received flit, which ends a sequence of RETRY.Frame."""
        self._frames = 0

    def control(self, flit: ControlFlit) -> None:
        """Process a good RETRY flit: Idle, Frame, Req or Ack."""
        if isinstance(flit, RetryFrame):
            self._frames += 1
            return
        in_sequence = self._frames >= FRAMES
        self._frames = 0
        if isinstance(flit, RetryReq) and in_sequence:
            if self._buffer.holds(flit.eseq):
                self._request = flit
                self.rrsm = Rrsm.LLRACK
            else:
                self._counters["protocol_error"] += 1
        elif isinstance(flit, RetryAck) and in_sequence:
            self._acknowledged(flit)

    def _acknowledged(self, flit: RetryAck) -> None:
        if self.lrsm is Lrsm.LOCAL_IDLE:
            if flit.num_retry == self.num_retry:
                self.lrsm = Lrsm.NORMAL
                self.timeout = 0
                if flit.empty:
                    self.num_retry = self.num_phy_reinit = 0
        elif self.lrsm is Lrsm.NORMAL:
            self._counters["unexpected_retry_ack"] += 1

    # -------------------------------------------------------------------------- states

    def _enter_llrreq(self) -> None:
        self.lrsm = Lrsm.LLRREQ
        self.timeout = 0
        self._limit()

    def _limit(self) -> None:
        if self.num_retry < self._config.max_retry:
            return
        if self.num_phy_reinit >= self._config.max_phy_reinit:
            self.lrsm = Lrsm.ABORT
            self._counters["link_failure"] += 1
        else:
            self.num_phy_reinit += 1
            self.retrain_request = True
            self.lrsm = Lrsm.PHY_REINIT

    def phy_down(self) -> None:
        """Record that the physical layer went down for a retrain; flits on the wire are lost."""
        self._frames = 0
        if self.lrsm is not Lrsm.ABORT:
            self._counters["phy_reinit"] += 1
            self.lrsm = Lrsm.PHY_REINIT
            self._sequence.clear()
            self._request = None  # the peer asks again
            self.rrsm = Rrsm.NORMAL

    def phy_up(self) -> None:
        """Record that the physical layer is up again; the LRSM then requests a replay."""
        self.retrain_request = False
        if self.lrsm is Lrsm.PHY_REINIT:
            self.num_retry = 0
            self._enter_llrreq()

    # -------------------------------------------------------------------------- sender

    @property
    def busy(self) -> bool:
        """Return True while either state machine is in a retry or RETRY flits are to be sent."""
        return self.lrsm is not Lrsm.NORMAL or self.rrsm is not Rrsm.NORMAL or bool(self._sequence)

    def next(self) -> ControlFlit | None:
        """Return the RETRY flit to send before any replay and any new flit, or None."""
        if not self._sequence:
            if self._request is not None:
                request = self._request
                self._request = None
                self._sequence.extend([RetryFrame()] * FRAMES)
                self._sequence.append(
                    RetryAck(
                        empty=self._buffer.wr_ptr == request.eseq,
                        num_retry=request.num_retry,
                        wr_ptr=self._buffer.wr_ptr,
                        eseq=request.eseq,
                        num_free_buf=self._buffer.free,
                    )
                )
            elif self.lrsm is Lrsm.LLRREQ:
                self._sequence.extend([RetryFrame()] * FRAMES)
                # NUM_RETRY as it will be when the sequence has been sent; the echo must match it.
                self._sequence.append(RetryReq(self.eseq, self.num_retry + 1, self.num_phy_reinit))
            else:
                return None
        flit = self._sequence.popleft()
        if isinstance(flit, RetryReq) and self.lrsm is Lrsm.LLRREQ:
            self.num_retry += 1
            self.lrsm = Lrsm.LOCAL_IDLE
            self.timeout = 0
        elif isinstance(flit, RetryAck):
            self._counters["retry_remote"] += 1
            # Rewind only here: a retrain that interrupts the sequence must not leave a replay.
            self._buffer.rewind(flit.eseq)
            if self._request is None:
                # A RETRY.Req received during the sequence is answered by another sequence.
                self.rrsm = Rrsm.NORMAL
        return flit

    def transmitted(self) -> None:
        """Count a sent flit for TIMEOUT; when it expires, the RETRY.Req is sent again."""
        if self.lrsm is Lrsm.LOCAL_IDLE:
            self.timeout += 1
            if self.timeout >= self._config.retry_timeout:
                self._counters["retry_timeout"] += 1
                self._enter_llrreq()
