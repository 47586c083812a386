# SPDX-License-Identifier: Apache-2.0
"""The engine's pipeline: stages, distances, forwarding, lookup; counted inside the design.

`nf_engine_cover.sv` counts, under Verilator alone; the codes of an axis are listed here in the
order of that module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from verif.coverage.cover_model import CHEAP, CoverCross, CoverModel
from verif.coverage.region_points import SOURCES
from verif.coverage.transaction_points import AGGREGATING, LOW_BIT, MODES, WORKERS

# Reads the counters of cover modules that are bound into the design (Verilator builds alone).
#
# A `*_hits` array of such a module is a point: its index is the concatenation of the codes of the
# point's axes; bit i of `*_seen` tells whether element i was counted up. They are read over the
# simulator's interface when a test ends; a file written in a `final` block would not do, because
# a run that was forked from a simulator ends before it.

NO_CODE = ""
"""Stands for a code that has no name, in the list of an axis."""


@dataclass(frozen=True)
class WhiteBox:
    """A cross whose hits the array `<array>_hits` of the cover module `module` counts.

    `codes`: for each axis the name of every code, from 0 on; NO_CODE where there is none.
    """

    cross: CoverCross
    module: str
    array: str
    codes: tuple[tuple[str, ...], ...]

    def values(self, index: int) -> tuple[str, ...]:
        """The axis values of an index of the array."""
        out: list[str] = []
        for names in reversed(self.codes):
            width = (len(names) - 1).bit_length()
            code = index & (1 << width) - 1
            index >>= width
            out.append(names[code] if code < len(names) else f"code {code}")
        return tuple(reversed(out))

    def take(self, top: Any) -> None:
        """Adds what the module has counted since the last reset; nothing where it is not bound."""
        module = top
        for name in self.module.split("."):
            module = getattr(module, name, None)
            if module is None:
                return
        seen = int(getattr(module, f"{self.array}_seen").value)
        array = getattr(module, f"{self.array}_hits")
        for index in ones(seen):
            self.cross.hit(*self.values(index), times=int(array[index].value))


class WhiteBoxPoints:
    """Base of points that cover modules count. Call `take` with the top when a test ends."""

    module: ClassVar[str]
    """The cover module, as a path below the top."""

    def __init__(self, model: CoverModel) -> None:
        self.model = model
        self.boxes: list[WhiteBox] = []

    def add(
        self,
        array: str,
        name: str,
        reason: str,
        codes: Mapping[str, Sequence[str]],
        *,
        test: str,
        module: str = "",
        at_least: int = 1,
        ignore: Callable[..., bool] | None = None,
    ) -> None:
        """A cross that `array` of `module` ("": that of the class) counts: see WhiteBox."""
        cross = self.model.cross(
            name, reason, axes(codes), test=test, at_least=at_least, ignore=ignore
        )
        names = tuple(map(tuple, codes.values()))
        self.boxes.append(WhiteBox(cross, module or self.module, array, names))

    def take(self, top: Any) -> None:
        """Adds what the cover modules in the design have counted."""
        for box in self.boxes:
            box.take(top)


def ones(bits: int) -> Iterator[int]:
    """Numbers of the bits that are 1, from bit 0 on."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def axes(named: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The axes of a cross from the codes of each, without those that have no name."""
    return {name: [code for code in codes if code] for name, codes in named.items()}


ENGINE = "u_core.u_engine.u_cover"
CORE = "u_core.u_cover"
REGS = "u_regs.u_cover"

LOW_KINDS = ("contribute", "vote", "plane")
FP_KINDS = ("store", "sum", "raw")
STORED, FILLED = "stored", "filled"
KINDS = (*LOW_KINDS, *FP_KINDS, STORED, FILLED)
ACTING = KINDS[:-1]
ARRIVING = KINDS[:-2]
STAGES = ("none", "S1", "S2", "S1 S2", "S3", "S1 S3", "S2 S3", "S1 S2 S3")
STATES = ("RAM", "forwarded book", "no record", "forwarded book and planes")
CODED_MODES = (NO_CODE, *AGGREGATING)
OUTCOMES = (
    "hit",
    "parked: filling",
    "parked: others wait",
    "parked: stores or sums under way",
    "parked: no room at its exit",
    "miss, free slot",
    "miss, clean victim",
    "miss, dirty victim",
    "no record, free slot",
    "no record, clean victim",
    "no record, dirty victim",
)
LINE = ("clean", "poisoned", "lost")
WHERE = ("RAM", "forwarded")
CHANNELS = ("AW", "W", "B", "AR", "R")
CLIENTS = ("record", "plain memory", "FP32", "initialiser")
UNDER_WAY = (
    "nothing",
    "operations that wait",
    "fills",
    "evictions",
    "stores",
    "sums",
    "plain accesses",
    "answers that wait for the link",
    "initialiser",
    "initialiser of this region",
)
TURNS = (
    "a write begins",
    "a write waits for AXI4-Lite",
    "AXI4-Lite waits for a write",
    "a read beside a write of AXI4-Lite",
    "a read waits for a write",
    "a write waits for a write",
    "a write asks for a commit",
    "a write waits for a commit by AXI4-Lite",
    "a read during a commit by AXI4-Lite",
)
INIT_EVENTS = (
    "starts",
    "fill of a line to come",
    "eviction of a line to come",
    "claimed anew",
    "given up",
    "another region waits",
    "held by a commit",
    "generation wraps",
)


class PipelinePoints(WhiteBoxPoints):
    """Operations in the stages, and what the core and its registers see."""

    module = ENGINE

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        add = self.add
        add(
            "stages",
            "stages ahead",
            "which stages hold operations on the same line when one is issued; a sum or a raw read "
            "waits until no store of its line is in the pipeline, and a store until no read is",
            {"issued": ACTING, "ahead": STAGES},
            test="test_systematic::pipeline",
        )
        add(
            "distance",
            "distance",
            "clocks between two actions on one line, by kind; 0: the later one was held back in "
            "the clock of the earlier; stores and low-bit operations share no line, a sum is read "
            "when no store is under way, and what memory must answer takes its time: a store "
            "comes soon behind a sum alone that is kept",
            {"earlier": KINDS, "later": ACTING, "clocks": [str(clocks) for clocks in range(6)]},
            test="test_systematic::held_back",
            ignore=_never_near,
        )
        add(
            "source",
            "state source",
            "where an operation takes its state from: the RAM, the one in front of it, or nowhere, "
            "because memory has no record of its line; what changes no count writes no planes: "
            "those behind it come from the RAM; a line that is stored has a state",
            {"kind": ACTING, "source": STATES},
            test="test_systematic::pipeline",
            at_least=CHEAP,
            ignore=lambda kind, source: kind == STORED and source == STATES[2],
        )
        add(
            "lookup",
            "lookup",
            "how an operation found its line, by mode, direction and number of workers; low-bit "
            "lines have no stores and sums under way, and always have room: once such a line is "
            "there, what is parked with it leaves before anything new is looked at",
            {
                "mode": CODED_MODES,
                "outcome": OUTCOMES,
                "way": ("read", "write"),
                "W": WORKERS,
            },
            test="test_systematic::lookups",
            ignore=lambda mode, outcome, way, w: mode in LOW_BIT and outcome in OUTCOMES[2:5],
        )
        add(
            "line_read",
            "line read",
            "what a read finds: early or not, STRICT or not, on a clean, poisoned or lost line, "
            "from the RAM or forwarded",
            {
                "mode": CODED_MODES,
                "read": ("part", "result"),
                "early": ("complete", "early"),
                "strict": ("lax", "STRICT"),
                "line": (*LINE, NO_CODE),
                "state": WHERE,
            },
            test="test_systematic::read_states",
        )
        add(
            "line_write",
            "line write",
            "what a write finds: a new worker or one already seen, good data or bad (poisoned, or "
            "refused by memory), on a clean, poisoned or lost line, from the RAM or forwarded; "
            "of a low-bit mode nothing is stored",
            {
                "mode": CODED_MODES,
                "what": ("arrives", "stored"),
                "worker": ("new", "seen"),
                "data": ("good", "bad"),
                "line": (*LINE, NO_CODE),
                "state": WHERE,
            },
            test="test_systematic::write_states",
            ignore=lambda mode, what, *_: mode in LOW_BIT and what == "stored",
        )
        add(
            "carry",
            "carry",
            "carries into each plane, in some lanes and in all of them; W = 64 never carries into "
            "plane 7, and a ternary worker votes in one of two lanes",
            {
                "mode": LOW_BIT,
                "plane": [NO_CODE, *(str(plane) for plane in range(1, 8))],
                "lanes": ("some", "all"),
            },
            test="test_systematic::counts",
            ignore=lambda mode, plane, lanes: (
                plane == "7" or (mode == LOW_BIT[1] and lanes == "all")
            ),
        )
        self._memory_port()
        self._commits()

    def _memory_port(self) -> None:
        self.add(
            "held",
            "memory channel",
            "for how many clocks a beat of each channel waits for READY, by who sends or takes it; "
            "data to write carries no ID, three clients read, and only plain memory holds B",
            {"channel": CHANNELS, "client": CLIENTS, "clocks": ("0", "1", "2..7", "8..")},
            test="test_systematic::held_channels",
            module=CORE,
            at_least=CHEAP,
            ignore=_never_held,
        )
        self.add(
            "cut",
            "record interrupted",
            "read data of others comes between the beats of a record",
            {"by": (NO_CODE, "plain memory", "FP32", NO_CODE)},
            test="test_systematic::between_beats",
            module=CORE,
            at_least=CHEAP,
        )

    def _commits(self) -> None:
        self.add(
            "meets",
            "commit meets",
            "what is under way in the core when a commit begins, by the mode that it brings",
            {"under way": UNDER_WAY, "mode": MODES},
            test="test_systematic::busy_commits",
            module=CORE,
        )
        self.add(
            "move",
            "control window move",
            "where the control window was and goes to, while nothing is under way and under "
            "traffic; what was nowhere and stays there goes nowhere",
            {
                "from": ("nowhere", "somewhere"),
                "to": ("nowhere", "elsewhere", "the same place"),
                "while": ("quiet", "under traffic"),
            },
            test="test_window::moves",
            module=CORE,
            ignore=lambda was, to, _busy: was == "nowhere" and to == "the same place",
        )
        self.add(
            "turn",
            "register bus turn",
            "the control window and AXI4-Lite meet on the register bus, commits among them",
            {"event": TURNS},
            test="test_window::commits",
            module=CORE,
        )
        self.add(
            "init",
            "record initialiser",
            "what happens to the initialiser of records and to those who wait for it",
            {"event": INIT_EVENTS},
            test="test_record_init::commit_during_init",
            module=CORE,
        )
        self.add(
            "irq",
            "interrupt event",
            "events of each source of the interrupt, masked and enabled: raised, raised again "
            "while pending, cleared, and raised in the very clock of the clear, which it survives",
            {
                "source": SOURCES,
                "enable": ("masked", "enabled"),
                "event": ("raised", "raised again", "cleared", "raised and cleared"),
            },
            test="test_irq_race::irq_event_in_clock_of_clear",
            module=REGS,
        )
        self.add(
            "clear",
            "interrupt clear",
            "each source was cleared alone, with others, and written with 1 while it was not "
            "pending; and it was left when others were cleared",
            {
                "source": SOURCES,
                "clear": ("alone", "with others", "not pending", "left pending"),
            },
            test="test_irq_race::irq_clears",
            module=REGS,
        )


def _never_near(earlier: str, later: str, clocks: str) -> bool:
    """Pairs that share no line, or that cannot follow one another so closely."""
    low = (*LOW_KINDS, FILLED)
    if later in LOW_KINDS:
        return earlier not in low
    if earlier in LOW_KINDS:
        return True
    if later == STORED:  # it goes first, and nothing is read while it is under way
        return clocks == "0" or earlier in ("sum", "raw")
    # A store waits until a line that is read alone has been read.
    return later == "store" and earlier == "raw" and clocks != "0"


def _never_held(channel: str, client: str, clocks: str) -> bool:
    """Clients that a channel does not have, and waits that cannot be."""
    if channel == "W":
        return client != CLIENTS[0]
    if channel in ("AR", "R"):
        return client == CLIENTS[3]
    return channel == "B" and clocks != "0" and client != CLIENTS[1]


# Misses: what waits and why, victims, write-backs, fills, marks; counted inside the design.
#
# `nf_miss_cover.sv` counts, under Verilator alone; the codes of an axis are listed here in the
# order of that module.


MISS = "u_core.u_engine.u_miss_cover"

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
