# SPDX-License-Identifier: Apache-2.0
"""Events of the link tracker, and its state of each direction."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cocotbext.cxl.link.retry import INITIAL_WRAP
from cocotbext.cxl.wire.control import ControlFlit, RetryReq
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.wire.unpack import FlitReport


class FlitKind(Enum):
    """Classification of a flit by the link tracker."""

    PROTOCOL = "protocol"
    DATA = "all-data"
    CONTROL = "control"
    NULL = "null"
    UNEXPECTED = "not cachemem"
    BAD_ID = "bad protocol ID"
    BAD_CRC = "bad CRC"
    DISCARDED = "in the shadow of an error"
    REPLAYED = "replayed"


@dataclass(slots=True)
class FlitEvent:
    """One flit on the pins, as the link tracker classified it.

    ``report`` is set for protocol and all-data flits, ``control`` for control flits. ``number``
    counts the retryable flits of the direction from 0; -1 if the flit was not accepted as a
    retryable one. A replayed flit keeps its first number.
    """

    direction: Direction
    cycle: int
    protocol_id: int
    flit: int
    kind: FlitKind
    owed_before: int = 0
    control: ControlFlit | None = None
    report: FlitReport[Any] | None = None
    number: int = -1

    @property
    def messages(self) -> list[Any]:
        """Return the messages that this flit completes; [] for control and other such flits."""
        return self.report.messages if self.report else []


@dataclass(slots=True)
class Way:
    """State of one direction in the link tracker: what was announced and what was taken."""

    direction: Direction
    unpacker: Any
    clean_seen: bool = False
    param_seen: bool = False
    wrap: int = INITIAL_WRAP
    accepted: int = 0  # retryable flits, as an absolute count
    acked: int = 0
    cursor: int = 0  # below ``accepted`` during a replay
    frozen: bool = False
    uncertain: bool = False  # the last flits before phy_up fell may not have been taken
    frames: int = 0
    since_loss: int = 1 << 30  # flits since one was lost on the wire
    requests: list[RetryReq] = field(default_factory=list)  # of the other side, not answered
    asked: int = -1  # ESeq of the last of them
    log: dict[int, int] = field(default_factory=dict)
    plain: int = 0  # credits of the sender
    data: int = 0
    last: int = 0  # clock of the last retryable flit
