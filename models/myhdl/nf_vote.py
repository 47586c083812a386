# SPDX-License-Identifier: Apache-2.0
"""Twin of `nf_vote`: reduced line or count plane from the counters of a line, element by element.

Spec: controller §2 (planes), §3.
"""

from __future__ import annotations

from typing import Annotated, Any

from myhdl import Signal, always, block, intbv

from models.line_packing import LINE_BITS
from models.myhdl.ports import Bit, LineOut, Planes, Port


@block
def nf_vote(
    clk: Any,
    en: Bit,
    vote: Bit,
    plane: Annotated[Any, Port(3)],
    ternary: Bit,
    contributions: Annotated[Any, Port(7)],
    tie_minus: Bit,
    threshold: Annotated[Any, Port(8)],
    planes: Planes,
    line: LineOut,
    cnt_w: int = 8,
) -> Any:
    """Return the line of votes, or a count plane, from the counters of a line.

    G_TERNARY: {gate, sign} of element e at bits 2 e + 1 and 2 e. G_BINARY: bit 1 is negative.
    `vote` selects the votes, else count plane number `plane`; `contributions` is m, `threshold` is
    T. `planes` follow one clock after the other inputs, `line` another clock later; without `en`
    the line has no meaning.
    """
    asked = Signal(bool(0))
    asked_vote = Signal(bool(0))
    asked_plane = Signal(intbv(0)[3:])
    asked_ternary = Signal(bool(0))
    voters = Signal(intbv(0)[7:])
    ties_minus = Signal(bool(0))
    least = Signal(intbv(0)[8:])

    @always(clk.posedge)
    def ask():
        asked.next = en
        asked_vote.next = vote
        asked_plane.next = plane
        asked_ternary.next = ternary
        voters.next = contributions
        ties_minus.next = tie_minus
        least.next = threshold

    @always(clk.posedge)
    def decide():
        line.next = 0
        if asked and not asked_vote:
            for e in range(LINE_BITS):
                for p in range(cnt_w):
                    if asked_plane == p:
                        line.next[e] = planes[p * LINE_BITS + e]
        elif asked and asked_ternary:
            for e in range(LINE_BITS // 2):
                net = 0
                for p in range(cnt_w):
                    if planes[p * LINE_BITS + 2 * e]:
                        net += 1 << p
                    if planes[p * LINE_BITS + 2 * e + 1]:
                        net -= 1 << p
                if net >= least:
                    line.next[2 * e + 1] = True
                elif net + least <= 0:
                    line.next[2 * e + 1] = True
                    line.next[2 * e] = True
        elif asked and voters > 0:
            for e in range(LINE_BITS):
                count = 0
                for p in range(cnt_w):
                    if planes[p * LINE_BITS + e]:
                        count += 1 << p
                if 2 * count < voters:
                    line.next[e] = True
                elif 2 * count == voters:
                    line.next[e] = ties_minus

    return ask, decide
