# SPDX-License-Identifier: Apache-2.0
"""The engine's pipeline: stages, distances, forwarding, lookup; counted inside the design.

`nf_engine_cover.sv` counts, under Verilator alone; the codes of an axis are listed here in the
order of that module.
"""

from __future__ import annotations

from verif.coverage.capacity_points import SOURCES
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.value_classes import AGGREGATING, LOW_BIT, MODES, WORKERS
from verif.coverage.white_box import NO_CODE, WhiteBoxPoints

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
