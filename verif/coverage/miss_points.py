# SPDX-License-Identifier: Apache-2.0
"""Misses: what waits and why, victims, write-backs, fills, marks; counted inside the design.

`nf_miss_cover.sv` counts, under Verilator alone; the codes of an axis are listed here in the order
of that module.
"""

from __future__ import annotations

from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.value_classes import AGGREGATING
from verif.coverage.white_box import NO_CODE, WhiteBoxPoints

MISS = "u_core.u_engine.u_miss_cover"

CODED_MODES = (NO_CODE, *AGGREGATING)
DEPTHS = ("0", "1", "2..7", "8..15", "16..")
QUEUE_EVENTS = ("hit", "head taken", "parked", "miss", "deferred")
LIST_EVENTS = ("begins", "joins", "leaves others", "ends")
EVICT_EVENTS = (
    "pushed",
    "answered",
    "pushed and answered",
    "waits for the initialiser",
    "fill waits for it",
    "as many as MISS_DEPTH under way",
)
BACK_LEVELS = ("0", "1", "2..7", "8..", "MISS_DEPTH")
LEAVING = (
    "looked up: in S1",
    "looked up: in S2",
    "fetched: in S2",
    "fetched: not sent",
    "fetched: not answered",
)
FILL_EVENTS = ("asked", "came", "asked and came")
FILL_LEVELS = ("0", "1", "some", "the window", "MISS_DEPTH")
WINDOW = (
    "grows",
    "shrinks",
    "is at MISS_DEPTH",
    "is at its start",
    "a line on its way out goes behind others",
    "a line on its way out is alone",
    "a line on its way out waits for a new one",
)
ENDS = ("this epoch", "older", "bad", "not initialised", "untrusted")
FIRST_KINDS = ("contribute", "vote", "plane", "store", "sum", "raw", "INFO", "line of sums")
ALONG = ("goes along", "stays: no room", "stored early: in memory", "stored early: not yet")
MARKS = (
    "asked: row not used",
    "asked: no mark",
    "asked: mark",
    "marked: row not used",
    "marked: first of the line",
    "marked: fewer planes",
    "marked: as many planes",
    "marked: more planes",
    "forgotten by a commit",
    "commit without marks",
)


class MissPoints(WhiteBoxPoints):
    """What waits for what, victims, fills and marks."""

    module = MISS

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self._waiting()
        self._standing_still()
        self._evictions()
        self._fills()

    def _waiting(self) -> None:
        add = self.add
        add(
            "waiting",
            "waiting queue",
            "what happens while so many operations are parked with their lines: hits overtake "
            "them, and a miss without room is deferred; where none is parked, none is taken",
            {"event": QUEUE_EVENTS, "waiting": DEPTHS},
            test="test_systematic::full_exits",
            ignore=lambda event, waiting: event == QUEUE_EVENTS[1] and waiting == "0",
        )
        add(
            "list",
            "parked list",
            "the list of operations that are parked with a line, by how many other slots have one: "
            "all lists share one pool",
            {"event": LIST_EVENTS, "others": ("none", "some", "all")},
            test="test_systematic::full_exits",
        )
        add(
            "defers",
            "deferred operations",
            "how many are deferred when one is put behind them, and when the oldest is taken",
            {"event": ("deferred", "taken"), "waiting": DEPTHS},
            test="test_systematic::full_fills",
            ignore=lambda event, waiting: event == "taken" and waiting == "0",
        )
        add(
            "lot",
            "behind a deferred operation",
            "an operation is put behind a deferred one of its own line, or of another line that it "
            "cannot tell from it",
            {"line": ("its own", "another")},
            test="test_systematic::full_fills",
        )

    def _standing_still(self) -> None:
        add = self.add
        add(
            "stall",
            "engine stall",
            "every reason for which an operation is neither executed nor fetched at once",
            {
                "reason": (
                    NO_CODE,
                    "no room for a store",
                    "no room for a sum",
                    "behind a deferred one",
                    "every slot pinned",
                    "no room for a fill",
                    "no room for an eviction",
                    "others were deferred first",
                )
            },
            test="test_systematic::full_exits",
        )
        add(
            "head_stall",
            "waiting head",
            "every reason for which the oldest parked operation of a line waits on",
            {
                "reason": (
                    "line not filled",
                    "stores or sums under way",
                    "no room for a store",
                    "no room for a sum",
                )
            },
            test="test_systematic::full_exits",
        )
        add(
            "fill_stall",
            "fill stall",
            "every reason for which a fill does not begin",
            {"reason": ("line being written back", "window full", "memory not ready")},
            test="test_systematic::full_fills",
        )

    def _evictions(self) -> None:
        add = self.add
        add(
            "evict",
            "eviction buffer",
            "what happens at each level of the eviction buffer; nothing is pushed into a full one, "
            "and only what has not left it waits for the initialiser",
            {"event": EVICT_EVENTS, "evictions": [str(count) for count in range(5)]},
            test="test_systematic::evictions",
            ignore=lambda event, evictions: (
                (event.startswith("pushed") and evictions == "4")
                or (event == EVICT_EVENTS[3] and evictions == "0")
            ),
        )
        add(
            "back",
            "write-backs under way",
            "how many write-backs memory has not answered when one is pushed, sent and answered",
            {"event": ("pushed", "sent", "answered"), "under way": BACK_LEVELS},
            test="test_systematic::evictions",
            ignore=lambda event, under_way: (
                under_way == (BACK_LEVELS[4] if event == "pushed" else BACK_LEVELS[0])
            ),
        )
        add(
            "leaves",
            "line on its way out",
            "where a line that leaves its slot is when an operation misses it, and when its record "
            "is to be fetched: behind its eviction always",
            {"where": LEAVING},
            test="test_systematic::evictions",
        )
        add(
            "pinned",
            "eviction beside",
            "a victim is chosen while other slots may not be: awaited, stored to, summed, filling",
            {
                "slot": ("awaited", "stored to", "summed", "filling"),
                "victim": ("clean", "dirty"),
            },
            test="test_systematic::evictions",
            at_least=CHEAP,
        )

    def _fills(self) -> None:
        add = self.add
        add(
            "flight",
            "fills under way",
            "how many records are on their way when one is asked for, and when one has come; no "
            "more are asked for than the window allows",
            {"event": FILL_EVENTS, "under way": FILL_LEVELS},
            test="test_systematic::full_fills",
            ignore=lambda event, under_way: (
                (under_way in FILL_LEVELS[3:] and event != FILL_EVENTS[1])
                or (under_way == "0" and event != FILL_EVENTS[0])
            ),
        )
        add(
            "window",
            "fill window",
            "the number of records that may be on their way moves between its ends; what becomes "
            "of a request whose line is still written back",
            {"event": WINDOW},
            test="test_systematic::full_fills",
        )
        add(
            "fill",
            "fill",
            "what a fill brings: state of this epoch, an older record, one that memory could not "
            "read, one still to be initialised, one that is not trusted",
            {"mode": CODED_MODES, "record": ENDS},
            test="test_systematic::bad_beats",
            at_least=CHEAP,
        )
        add(
            "along",
            "fill and its operation",
            "what becomes of the operation that waits for a fill: only a store or a sum may have "
            "no room, and only a whole line is stored early",
            {"kind": FIRST_KINDS, "operation": ALONG},
            test="test_systematic::full_exits",
            ignore=lambda kind, operation: (
                (operation != ALONG[0] and kind not in FIRST_KINDS[3:6])
                or (operation in ALONG[2:] and kind != "store")
            ),
        )
        add(
            "marks",
            "written marks",
            "what a miss asks and an eviction tells the marks of written lines: neighbours of a "
            "large region share one, which keeps the most planes",
            {"mark": MARKS},
            test="test_systematic::evictions",
        )
