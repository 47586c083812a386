# SPDX-License-Identifier: Apache-2.0
"""The control window: who accesses which registers, what a write asks for, what is refused."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import BE_ALL, M2SRwD
from models.control_window import REGION_LINE, ControlWindow, written_words
from models.nf_regs import REG_MAP
from models.regions import Cause, CommitCode, Kind, is_partial
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit

_EPOCH = REG_MAP.region_register("EPOCH").address
_CTRL = REG_MAP.region_register("CTRL").address
_CODE = next(one for one in REG_MAP.registers if one.name == "CTRL_WINDOW_LO").field("CODE")
_MOVES = (
    CommitCode.OK,
    CommitCode.BASE_ALIGN,
    CommitCode.WINDOW_MEMORY,
    CommitCode.WINDOW_OVERLAP,
)
_LINES = ("device", "region", "none")


class ControlPoints:
    """Feed it with answered operations, and with reads of CTRL_WINDOW_LO."""

    def __init__(self, model: CoverModel) -> None:
        point, cross = model.point, model.cross
        self.access = cross(
            "control access",
            "lines of the device, of a region and without a register, read by everybody and "
            "written by those who may: an owner writes its region alone",
            {"way": ("read", "write"), "line": _LINES, "who": ("manager", "owner", "other")},
            test="test_window::lines",
            at_least=CHEAP,
            ignore=lambda way, line, who: (
                (who == "owner" and line != "region") or (way == "write" and who == "other")
            ),
        )
        self.words = point(
            "control words",
            "registers of one write: none, one, several, and the whole line by either opcode",
            ("none", "one", "several", "MemWrPtl all", "MemWr"),
            test="test_window::lines",
            at_least=CHEAP,
        )
        self.commit = point(
            "control commit",
            "what a write of a region's line asks for: a commit of EPOCH alone or with other "
            "registers of the line, CLOSE behind it or alone, or neither",
            ("EPOCH", "line and EPOCH", "EPOCH and CLOSE", "CLOSE", "neither"),
            test="test_window::lines",
            at_least=CHEAP,
        )
        self.refusal = point(
            "control refusal",
            "each reason to refuse a write of the window; a part of a word is judged first",
            ("part of a word", "poisoned", "LD-ID"),
            test="test_window::lines",
            at_least=CHEAP,
        )
        self.move = point(
            "control place",
            "places of the window that are taken, and each reason to refuse one",
            [code.name for code in _MOVES],
            test="test_window::lines",
            at_least=CHEAP,
        )
        self.race = point(
            "control race",
            "requests of which nobody knows how a window on the move has met them",
            ("read", "write"),
            test="test_window::moves",
            at_least=CHEAP,
        )
        self.commits = cross(
            "control commit race",
            "a commit through the window, of the descriptor as it stands or of another one, beside "
            "one of the same region by AXI4-Lite: either is the last",
            {"last": ("AXI4-Lite", "window"), "window brings": ("the same", "another")},
            test="test_window::commits",
        )
        self.closes = cross(
            "control close race",
            "CLOSE beside a commit of the same region that comes the other way: either is the last",
            {"CLOSE by": ("AXI4-Lite", "window"), "last": ("CLOSE", "commit")},
            test="test_window::commits",
        )

    def register(self, name: str, data: int, write: bool) -> None:
        """A register was accessed by AXI4-Lite."""
        if name == "CTRL_WINDOW_LO" and not write:
            self.move.hit(CommitCode(_CODE.extract(data)).name)

    def raced(self, first: Commit, last: Commit) -> None:
        """Two commits of a region at once, or a commit and a close."""
        ways = ("AXI4-Lite", "window")
        close = next((one for one in (first, last) if one.closes), None)
        if close is not None:
            self.closes.hit(ways[close.in_band], "CLOSE" if close is last else "commit")
            return
        window = first if first.in_band else last
        changes = window.after != window.before
        self.commits.hit(ways[last.in_band], "another" if changes else "the same")

    def op(self, op: Op, window: ControlWindow) -> None:
        """An answered operation; `window`: as it is now."""
        msg, access = op.msg, op.access
        if op.windows:
            self.race.hit("read" if op.read else "write")
            return
        if access.kind is Kind.REFUSED and window.holds(msg.addr >> 6):
            self._refused(op)
        if access.kind is not Kind.CONTROL:
            return
        region = access.line - REGION_LINE
        regions = len(window.owners)
        line = "device" if access.line < 2 else "region" if 0 <= region < regions else "none"
        owns = line == "region" and window.owners[region] == msg.ldid
        who = "manager" if window.ld_mask >> msg.ldid & 1 else "owner" if owns else "other"
        self.access.hit("read" if op.read else "write", line, who)
        if isinstance(msg, M2SRwD):
            self._written(msg, access.line, line == "region")

    def _refused(self, op: Op) -> None:
        if op.access.cause is Cause.PARTIAL:
            self.refusal.hit("part of a word")
        elif op.access.cause is Cause.CONTROL:
            assert isinstance(op.msg, M2SRwD)
            self.refusal.hit("poisoned" if op.msg.poison else "LD-ID")

    def _written(self, msg: M2SRwD, line: int, of_region: bool) -> None:
        words = written_words(line, msg.data, msg.be if is_partial(msg) else BE_ALL)
        kinds = {0: "none", 1: "one", 16: "MemWrPtl all" if is_partial(msg) else "MemWr"}
        self.words.hit(kinds.get(len(words), "several"))
        if not of_region:
            return
        offsets = {address % 64: word for address, word in words.items()}
        commits, closes = _EPOCH in offsets, bool(offsets.get(_CTRL, 0) & 1)
        if closes:
            self.commit.hit("EPOCH and CLOSE" if commits else "CLOSE")
        elif commits:
            self.commit.hit("EPOCH" if len(offsets) == 1 else "line and EPOCH")
        else:
            self.commit.hit("neither")
