# SPDX-License-Identifier: Apache-2.0
"""The engine's pipeline: stages, distances, forwarding, queues; counted inside the design.

`nf_engine_cover.sv` counts, under Verilator alone; the codes of an axis are listed here in the
order of that module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from verif.coverage.capacity_points import SOURCES
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.value_classes import AGGREGATING, LOW_BIT, MODES, WORKERS
from verif.coverage.white_box import NO_CODE, WhiteBox, axes

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
DEPTHS = ("0", "1", "2..7", "8..15", "16..")
QUEUE_EVENTS = ("hit", "head taken", "parked", "miss", "deferred")
EVICT_EVENTS = (
    "pushed",
    "answered",
    "pushed and answered",
    "waits for the initialiser",
    "fill waits for it",
    "as many as MISS_DEPTH under way",
)
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
ENDS = ("this epoch", "older", "bad", "not initialised", "untrusted")


class PipelinePoints:
    """Call `take` with the top of the design when a test ends."""

    def __init__(self, model: CoverModel) -> None:
        self.model = model
        self.boxes: list[WhiteBox] = []
        add = self._add
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
            "the clock of the earlier; stores and low-bit operations share no line, a store is in "
            "memory long after its line was filled, and what memory must answer takes its time",
            {"earlier": KINDS, "later": ACTING, "clocks": [str(clocks) for clocks in range(6)]},
            test="test_systematic::held_back",
            ignore=_never_near,
        )
        add(
            "source",
            "state source",
            "where an operation takes its state from: the RAM, the one in front of it, or nowhere, "
            "because memory has no record of its line; only a fill writes both parts of an FP32 "
            "line, and low-bit operations always do; a line that is stored is there",
            {"kind": ACTING, "source": STATES},
            test="test_scenario::hot_slots",
            at_least=CHEAP,
            ignore=lambda kind, source: (
                (kind in LOW_KINDS and source == STATES[1])
                or (kind == STORED and source in STATES[2:])
            ),
        )
        add(
            "lookup",
            "lookup",
            "how an operation found its line, by mode, direction and number of workers; low-bit "
            "lines have no stores and sums under way, and always have room",
            {
                "mode": CODED_MODES,
                "outcome": OUTCOMES,
                "way": ("read", "write"),
                "W": WORKERS,
            },
            test="test_systematic::lookups",
            ignore=lambda mode, outcome, way, w: mode in LOW_BIT and outcome in OUTCOMES[3:5],
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
        self._queues()
        self._memory_port()
        self._commits()

    def _queues(self) -> None:
        add = self._add
        add(
            "waiting",
            "waiting queue",
            "what happens while so many operations are parked with their lines: hits overtake "
            "them, and a miss without room is deferred; where none is parked, none is taken",
            {"event": QUEUE_EVENTS, "waiting": DEPTHS},
            test="test_scenario::wide_regions",
            ignore=lambda event, waiting: event == QUEUE_EVENTS[1] and waiting == "0",
        )
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
            {"reason": ("line being written back", "MISS_DEPTH under way", "memory not ready")},
            test="test_scenario::wide_regions",
        )
        add(
            "evict",
            "eviction buffer",
            "what happens at each level of the eviction buffer; nothing is pushed into a full one, "
            "and only what has left it is answered",
            {"event": EVICT_EVENTS, "evictions": [str(count) for count in range(5)]},
            test="test_systematic::evictions",
            ignore=lambda event, evictions: (
                (event.startswith("pushed") and evictions == "4")
                or (event == EVICT_EVENTS[3] and evictions == "0")
            ),
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
        add(
            "fill",
            "fill",
            "what a fill brings: state of this epoch, an older record, one that memory could not "
            "read, one still to be initialised, one that is not trusted",
            {"mode": CODED_MODES, "record": ENDS},
            test="test_systematic::bad_beats",
            at_least=CHEAP,
        )

    def _memory_port(self) -> None:
        self._add(
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
        self._add(
            "cut",
            "record interrupted",
            "read data of others comes between the beats of a record",
            {"by": (NO_CODE, "plain memory", "FP32", NO_CODE)},
            test="test_systematic::between_beats",
            module=CORE,
            at_least=CHEAP,
        )

    def _commits(self) -> None:
        self._add(
            "meets",
            "commit meets",
            "what is under way in the core when a commit begins, by the mode that it brings",
            {"under way": UNDER_WAY, "mode": MODES},
            test="test_systematic::busy_commits",
            module=CORE,
        )
        self._add(
            "init",
            "record initialiser",
            "what happens to the initialiser of records and to those who wait for it",
            {"event": INIT_EVENTS},
            test="test_record_init::commit_during_init",
            module=CORE,
        )
        self._add(
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
        self._add(
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

    def _add(
        self,
        array: str,
        name: str,
        reason: str,
        codes: Mapping[str, Sequence[str]],
        *,
        test: str,
        module: str = ENGINE,
        at_least: int = 1,
        ignore: Callable[..., bool] | None = None,
    ) -> None:
        cross = self.model.cross(
            name, reason, axes(codes), test=test, at_least=at_least, ignore=ignore
        )
        self.boxes.append(WhiteBox(cross, module, array, tuple(map(tuple, codes.values()))))

    def take(self, top: Any) -> None:
        """Adds what the cover modules in the design have counted."""
        for box in self.boxes:
            box.take(top)


def _never_near(earlier: str, later: str, clocks: str) -> bool:
    """Pairs that share no line, or that cannot follow one another so closely."""
    low = (*LOW_KINDS, FILLED)
    if later in LOW_KINDS:
        return earlier not in low
    if earlier in LOW_KINDS:
        return True
    if later == STORED:  # it goes first, and memory must have answered
        return clocks == "0" or earlier in ("sum", "raw", FILLED)
    # A store waits until what is summed has been read.
    return later == "store" and earlier in ("sum", "raw") and clocks in ("1", "2", "3", "4")


def _never_held(channel: str, client: str, clocks: str) -> bool:
    """Clients that a channel does not have, and waits that cannot be."""
    if channel == "W":
        return client != CLIENTS[0]
    if channel in ("AR", "R"):
        return client == CLIENTS[3]
    return channel == "B" and clocks != "0" and client != CLIENTS[1]
