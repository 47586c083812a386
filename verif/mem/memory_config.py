# SPDX-License-Identifier: Apache-2.0
"""Settings and records of the memory agent (AXI4 subordinate, 512-bit data)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from verif.axi import Resp

LINE_BITS = 512
FULL_STROBE = (1 << 64) - 1


class Background(enum.Enum):
    """Content of lines that were never written, which a device must not take for its state."""

    ZEROS = "zeros"
    ONES = "ones"
    GARBAGE = "garbage"


@dataclass(slots=True)
class MemConfig:
    """Behaviour of the memory; every setting may change while the simulation runs.

    `latency` is the inclusive range of clocks from the last request beat to the first response
    beat. `beat` is the number of clocks that a beat of data takes, each way. The `*_stall` figures
    are the probability of a clock in which that channel is held. An error is drawn from
    `error_resps`; a line is poisoned in the store (`MemStore.poison`).
    """

    lines_log2: int = 20
    latency: tuple[int, int] = (3, 3)
    beat: int = 1
    aw_stall: float = 0.0
    w_stall: float = 0.0
    ar_stall: float = 0.0
    b_stall: float = 0.0
    r_stall: float = 0.0
    reorder: bool = False
    interleave: bool = False
    background: Background = Background.GARBAGE
    error_resps: tuple[Resp, ...] = (Resp.SLVERR, Resp.DECERR)
    read_error_rate: float = 0.0
    write_error_rate: float = 0.0
    read_error_lines: set[int] = field(default_factory=set)
    write_error_lines: set[int] = field(default_factory=set)
    stuck_timeout: int = 20000


@dataclass(frozen=True, slots=True)
class MemBeat:
    """One data beat on the memory port: a line that the device wrote or read.

    `answered`: a response came with it: with every beat read, and the last one of a burst written.
    `clocks`: from the request's address to the beat read, or to the response of the burst written.
    `last`: it ends its burst.
    """

    write: bool
    axi_id: int
    line: int
    data: int
    strobe: int
    poison: bool
    resp: int
    answered: bool = True
    clocks: int = 0
    last: bool = True

    @property
    def error(self) -> bool:
        """Return whether the response is SLVERR or DECERR."""
        return self.resp >= Resp.SLVERR
