# SPDX-License-Identifier: Apache-2.0
"""Settings of the memory agent (AXI4 subordinate with 512 data bits), and the beats it
publishes.
"""

import enum
from dataclasses import dataclass, field

from verif.axi import Resp

LINE_BITS = 512
FULL_STROBE = (1 << 64) - 1


class Background(enum.Enum):
    """Content of memory lines that were never written; a device must not take it for its state."""

    ZEROS = "zeros"
    ONES = "ones"
    GARBAGE = "garbage"


@dataclass(slots=True)
class MemConfig:
    """Behaviour of the memory; every setting may change while the simulation runs.

    Attributes:
        lines_log2: Size in lines of 64 bytes, as power of two.
        latency: Range (inclusive) of cycles from the last beat of a request to the first beat of
            its response.
        beat: Cycles that a beat of data takes, in each direction.
        aw_stall: Probability of a cycle in which the channel AW is held; likewise for `w_stall`,
            `ar_stall`, `b_stall` and `r_stall`.
        reorder: Whether responses of different IDs may overtake each other.
        interleave: Whether beats of several reads may be mixed.
        background: Content of lines that were never written.
        error_resps: Responses from which an error is drawn.
        read_error_rate: Probability that a beat of a read gets an error.
        write_error_rate: Probability that the write of a burst gets an error.
        read_error_lines: Lines whose reads get an error; `write_error_lines` likewise.
        stuck_timeout: Cycles after which a burst counts as stuck.
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
    """Data beat on the memory port: a line that the device wrote or read.

    Attributes:
        write: Whether it is a write.
        axi_id: AXI ID.
        line: Number of the line in memory.
        data: The 512 bits.
        strobe: Byte enables of a write; 0 for a read.
        poison: Bit 0 of WUSER or RUSER.
        resp: Response code; of a write, that of its burst.
        answered: Whether a response came with it: true for each beat read, and for the last beat of
            a burst written.
        clocks: Cycles from the address to the beat read, or to the response of the burst written.
        last: Whether it is the last beat of its burst.
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
