# SPDX-License-Identifier: Apache-2.0
"""Knobs of the scenario generator: every choice that it draws, with weights that can be moved.

`NF_WEIGHTS` (`nf run --weights`) overrides weights: a JSON object {knob: {choice: weight}}.
Only the named choices change; weight 0 switches a choice off.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from neuron_fabric.data import DataError, parse_json
from neuron_fabric.typed import typed

# The table of knobs: {knob: ({choice: default weight}, reason)}; see `weights.KNOBS`.

TABLE: Final[dict[str, tuple[dict[str, float], str]]] = {
    # -- regions ------------------------------------------------------------------------------
    "regions": (
        {"1": 1, "2": 2, "3..4": 3, "all": 1},
        "regions in use at once: they share slots, waiting queue and memory port",
    ),
    "mode": (
        {"G_BINARY": 4, "G_TERNARY": 4, "FP32": 3, "IDENTITY": 1, "G_INT4": 1.5, "G_INT8": 1.5},
        "each mode has its own path through the engine",
    ),
    "workers": (
        {
            "1": 1,
            "2": 1,
            "3": 1,
            "4..16": 2,
            "any": 2,
            "2^k - 1": 1,
            "2^k": 1,
            "2^k + 1": 1,
            "63": 1,
            "64": 1,
            **{str(exactly): 0 for exactly in range(4, 63)},  # for whoever wants one of them
        },
        "W decides how many planes are kept, and where the vote has a tie",
    ),
    "lines": (
        {"1": 2, "2..8": 4, "16..64": 2, "2^7..2^10": 2, "2^11..2^13": 1, "more": 0.5},
        "LINES_LOG2: index, window and record address all shift by it",
    ),
    "threshold": (
        {"1": 3, "inside": 4, "W": 1, "above W": 1, "255": 1},
        "T against the counts that W allows, and its upper bits",
    ),
    "tie": ({"PLUS": 1, "MINUS": 1}, "the side that a tied vote goes to"),
    "strict": ({"no": 2, "yes": 1}, "early reads come back poisoned"),
    "bind": ({"no": 3, "yes": 1}, "worker w may be written by LD-ID w >> BIND_SHIFT alone"),
    "bind_shift": ({"0": 2, "1": 1, "2": 1}, "workers of an LD-ID with BIND: 1, 2 or 4"),
    "keep_sum": (
        {"no": 1, "yes": 1},
        "FP32: sums are kept beside the records, or gathered each time",
    ),
    "ld_mask": ({"all": 3, "some": 2, "one": 1}, "which LD-IDs may touch the region"),
    "window": (
        {"memory end": 1, "beside another": 2, "address top": 1, "anywhere": 3},
        "a window match compares every address bit above the window",
    ),
    "state": (
        {"memory start": 1, "memory end": 1, "beside another": 2, "anywhere": 3},
        "edges of the state-area check",
    ),
    # -- work ---------------------------------------------------------------------------------
    "lines_in_use": (
        {"1": 2, "2..4": 3, "about SLOTS": 1, "above SLOTS": 1},
        "few lines: hits back to back; more than slots: evictions and fills",
    ),
    "line_place": (
        {"low": 2, "high": 1, "spread": 3},
        "sparse lines over a large region use the upper index bits",
    ),
    "arrival": (
        {"shuffled": 3, "by line": 3, "by worker": 2, "bursts": 2},
        "distance between two accesses of one line; the result must not depend on it",
    ),
    "share": (
        {"complete": 5, "one missing": 2, "half": 2},
        "how many of the workers contribute: complete lines, early reads",
    ),
    "overlap": (
        {"after": 3, "racing": 3, "loaded": 3, "single": 1},
        "requests in flight on a line: any number with reads afterwards; five that race with "
        "reads; two, and commits under that load; one",
    ),
    "burst": (
        {"1": 3, "2..4": 3, "5..16": 2},
        "requests in a row to one region before another one takes its turn",
    ),
    # -- data ---------------------------------------------------------------------------------
    "values": (
        {
            "independent": 2,
            "correlated": 2,
            "unanimous": 2,
            "near unanimous": 2,
            "ties": 2,
            "near threshold": 2,
            "counts": 2,
            "uniform counts": 1,
        },
        "real gradients correlate: unanimous lines set the top plane, ties use the tie rule",
    ),
    "values_fp32": (
        {
            "any bits": 1,
            "one scale": 1,
            "corners": 2,
            "equal corners": 2,
            "cancellation": 2,
            "rounding ties": 2,
            "huge": 1,
            "subnormal": 1,
            "scales": 2,
        },
        "classes of operands and results of the ordered sum",
    ),
    "event": (
        {
            "none": 12,
            "duplicate, same data": 1,
            "duplicate, other data": 1,
            "poison": 0.5,
            "illegal codes": 1,
            "partial": 1,
            "wrong LD-ID": 0.3,
            "odd selector": 0.3,
            "resend after poison": 0.5,
        },
        "what may happen to a contribution",
    ),
    "byte_enables": (
        {"none": 1, "one": 1, "all": 1, "mixed": 3, "half": 1},
        "partial writes are merged byte by byte where they are honoured; all 64 is still partial",
    ),
    # -- stream of operations -----------------------------------------------------------------
    "action": (
        {
            "contribute": 14,
            "read": 4,
            "plain write": 1.5,
            "plain read": 1.5,
            "odd opcode": 0.3,
            "odd address": 0.5,
            "register": 1,
            "commit": 0.8,
            "close": 0.15,
            "wait": 0.3,
            "drain": 0.2,
            "memory": 0.2,
            "faults": 0.15,
        },
        "what the host does next",
    ),
    "read": (
        {
            "result": 5,
            "plane": 4,
            "raw": 3,
            "info": 1,
            "status": 0.7,
            "forbidden": 0.5,
            "wrong LD-ID": 0.3,
        },
        "selector class of a read",
    ),
    "commit": (
        {
            "same": 6,
            "options": 1,
            "workers": 1,
            "mode": 1,
            "size": 1,
            "moved": 0.5,
            "refused": 1,
        },
        "what a commit changes: nothing, options, W, mode or size on the same area, the place; or "
        "a descriptor that must be refused",
    ),
    "commit_when": (
        {"idle": 1, "under load": 2, "in background": 2},
        "what is in flight when EPOCH is written, and whether traffic goes on meanwhile",
    ),
    "register": (
        {
            "status": 3,
            "counter": 2,
            "region": 2,
            "irq enable": 1,
            "irq clear": 2,
            "clear counters idle": 1,
            "clear counters busy": 0.5,
            "capacity": 1,
            "devload": 1,
            "multi header": 1,
            "fallback clear": 1,
            "error rearm": 1,
        },
        "register accesses among the traffic",
    ),
    # -- surroundings -------------------------------------------------------------------------
    "latency": (
        {"1..3": 3, "2..12": 3, "2..40": 3, "100..300": 1},
        "memory latency in clocks: how many misses are open at once",
    ),
    "stalls": ({"none": 3, "some": 2, "heavy": 1}, "back-pressure of the memory's channels"),
    "memory_order": (
        {"in order": 1, "reordered": 1, "interleaved": 1},
        "AXI promises no order between IDs",
    ),
    "background": (
        {"garbage": 4, "ones": 1, "zeros": 1},
        "what memory holds before anybody has written it",
    ),
    "fault_place": (
        {"plain": 2, "IDENTITY": 1, "FP32 data": 2, "records": 2, "any access": 2},
        "whose access meets an error or poison of the memory",
    ),
    "fault_kind": (
        {"read error": 2, "write error": 2, "poison": 2},
        "what the memory does wrong there",
    ),
    "fault_rate": ({"few": 2, "half": 1, "all": 1}, "share of the lines of a place that are bad"),
    "packing": ({"dense": 2, "sparse": 2}, "how the host fills its flits"),
    "host_gaps": ({"none": 3, "some": 1, "many": 1}, "clocks in which the host sends nothing"),
    "ready": ({"always": 3, "often": 1, "seldom": 1}, "back-pressure on the device's output"),
    "credits": (
        {"many": 3, "few": 1, "two": 1},
        "response credits that the host grants, and how late they come back",
    ),
}


VARIABLE = "NF_WEIGHTS"
Overrides = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Knob:
    """One choice of the generator: its alternatives, their default weights, and what it is for."""

    name: str
    weights: Mapping[str, float]
    reason: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The alternatives."""
        return tuple(self.weights)


KNOBS: dict[str, Knob] = {name: Knob(name, dict(w), reason) for name, (w, reason) in TABLE.items()}


class Weights:
    """The knobs with the weights of one run. DataError for a knob or choice that is not declared,
    a weight below 0, and a knob without any weight left."""

    def __init__(self, *overrides: Overrides) -> None:
        """Later overrides win over earlier ones."""
        table = {name: dict(knob.weights) for name, knob in KNOBS.items()}
        for override in overrides:
            for name, choices in override.items():
                _check(name, choices)
                table[name].update(choices)
        self._table: dict[str, tuple[list[str], list[float]]] = {}
        for name, weights in table.items():
            if not sum(weights.values()) > 0:
                raise DataError(f"weights: knob {name!r} has no choice with a weight above 0")
            self._table[name] = (list(weights), list(accumulate(weights.values())))

    def pick(self, rng: random.Random, knob: str) -> str:
        """Draws a choice."""
        choices, sums = self._table[knob]
        return rng.choices(choices, cum_weights=sums)[0]

    def may(self, rng: random.Random, knob: str) -> bool:
        """Draws one of the choices "no" and "yes"."""
        return self.pick(rng, knob) == "yes"


def _check(name: str, choices: Mapping[str, float]) -> None:
    knob = KNOBS.get(name)
    if knob is None:
        raise DataError(f"weights: there is no knob {name!r}; the knobs: {', '.join(KNOBS)}")
    for choice, weight in choices.items():
        if choice not in knob.weights:
            known = ", ".join(knob.choices)
            raise DataError(f"weights: knob {name!r} has no choice {choice!r}; it has {known}")
        if weight < 0:
            raise DataError(f"weights: {name}.{choice} is {weight:g}, must be 0 or more")


def parse(text: str) -> dict[str, dict[str, float]]:
    """Overrides from JSON text; DataError names what is wrong."""
    found = typed(dict[str, dict[str, float]], parse_json(text), "weights")
    Weights(found)
    return found


def from_environment() -> dict[str, dict[str, float]]:
    """Overrides of this run (NF_WEIGHTS)."""
    return parse(os.environ.get("NF_WEIGHTS") or "{}")


# Directed uses of the generator: for each one, the weights that lead it where it is to go.


_NO_IDENTITY = {"IDENTITY": 0.0}
_LOW_BIT = {"FP32": 0.0, "IDENTITY": 0.0}
_FAST = {
    "latency": {"2..40": 0.0, "100..300": 0.0},
    "host_gaps": {"some": 0.0, "many": 0.0},
    "ready": {"seldom": 0.0},
    "credits": {"few": 0.0, "two": 0.0},
}
_QUIET = {"commit": 0.1, "register": 0.2, "memory": 0.0, "faults": 0.0, "wait": 0.0, "drain": 0.0}

USES: Final[dict[str, Overrides]] = {
    # Accesses of one line, back to back: every distance, forwarding, hits under each other.
    "hot_slots": {
        **_FAST,
        "mode": _NO_IDENTITY,
        "regions": {"3..4": 0.0, "all": 0.0},
        "lines_in_use": {"1": 3.0, "2..4": 3.0, "about SLOTS": 0.0, "above SLOTS": 0.0},
        "arrival": {"by line": 6.0, "by worker": 0.0},
        "burst": {"1": 0.0, "5..16": 6.0},
        "overlap": {"after": 4.0, "racing": 3.0, "loaded": 0.0, "single": 0.0},
        "event": {"duplicate, same data": 2.0, "duplicate, other data": 2.0},
        "action": {**_QUIET, "plain write": 0.3, "plain read": 0.3, "odd address": 0.0},
    },
    # More lines than slots, far apart in large regions: evictions and fills, upper index bits.
    "wide_regions": {
        "mode": _NO_IDENTITY,
        "workers": {"1": 0.0, "any": 4.0},
        "lines": {"1": 0.0, "2..8": 0.0, "16..64": 0.0, "2^11..2^13": 3.0, "more": 2.0},
        "lines_in_use": {"1": 0.0, "2..4": 0.0, "about SLOTS": 1.0, "above SLOTS": 4.0},
        "line_place": {"low": 1.0, "high": 1.0, "spread": 6.0},
        "arrival": {"by line": 0.0, "by worker": 4.0},
        "action": _QUIET,
    },
    # Epochs by the hundred, most of them under load.
    "many_commits": {
        **_FAST,
        "overlap": {"after": 0.0, "racing": 0.0, "loaded": 1.0, "single": 0.0},
        "action": {"commit": 12.0, "memory": 0.0, "faults": 0.0, "wait": 0.0},
        "commit": {"same": 30.0},
        "lines_in_use": {"above SLOTS": 0.0},
    },
    # Regions that change W, mode or size on their own area, and descriptors that are refused.
    "reshaped_regions": {
        "overlap": {"single": 6.0},
        "action": {"commit": 3.0, "faults": 0.0},
        "commit": {"workers": 3.0, "mode": 3.0, "size": 3.0, "moved": 2.0, "refused": 3.0},
    },
    # Errors and poison of the memory on every kind of line.
    "memory_faults": {
        "action": {"faults": 2.0, "memory": 0.5},
        "lines_in_use": {"about SLOTS": 2.0, "above SLOTS": 2.0},
        "mode": {"FP32": 4.0, "IDENTITY": 2.0},
        "latency": {"100..300": 0.0},
    },
    # Workers that agree, nearly agree, and are tied; counts at their edges.
    "correlated_workers": {
        **_FAST,
        "mode": _LOW_BIT,
        "regions": {"3..4": 0.0, "all": 0.0},
        "values": {"independent": 0.0},
        "share": {"complete": 12.0, "one missing": 2.0, "half": 0.5},
        "lines_in_use": {"1": 3.0, "2..4": 1.0, "about SLOTS": 0.0, "above SLOTS": 0.0},
        "event": {"none": 40.0},
        "action": {**_QUIET, "contribute": 30.0, "plain write": 0.2, "plain read": 0.2},
    },
    # The classes of operands, results and rounding of the ordered sum.
    "fp32_values": {
        **_FAST,
        "mode": {"G_BINARY": 0.0, "G_TERNARY": 0.0, "IDENTITY": 0.0},
        "workers": {"4..16": 6.0, "any": 0.5, "63": 0.0, "64": 0.2, "2^k - 1": 0.5, "2^k + 1": 0.5},
        "values_fp32": {"any bits": 2.0, "rounding ties": 4.0},
        "event": {"none": 40.0},
        "action": {**_QUIET, "read": 2.0, "plain write": 0.2, "plain read": 0.2},
    },
    # Registers while traffic runs.
    "register_traffic": {
        "action": {"register": 8.0, "faults": 0.0},
        "lines_in_use": {"about SLOTS": 2.0},
    },
    # Accesses that must be refused, among legal ones.
    "refused_accesses": {
        "action": {"odd opcode": 2.0, "odd address": 6.0, "register": 2.0},
        "event": {"wrong LD-ID": 3.0, "odd selector": 3.0, "partial": 3.0},
        "read": {"forbidden": 5.0, "wrong LD-ID": 3.0},
        "ld_mask": {"all": 1.0, "some": 3.0, "one": 2.0},
        "bind": {"no": 1.0, "yes": 2.0},
    },
    # Hundreds of clocks of latency: many misses, stores and gathers open at a time.
    "slow_memory": {
        "latency": {"1..3": 0.0, "2..12": 0.0, "2..40": 1.0, "100..300": 3.0},
        "memory_order": {"in order": 0.5},
        "lines_in_use": {"1": 0.5, "about SLOTS": 2.0, "above SLOTS": 3.0},
        "action": {**_QUIET, "read": 8.0},
        "lines": {"1": 0.5, "16..64": 3.0},
    },
}
