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

from neuron_fabric.data import DataError, parse_json
from neuron_fabric.typed import typed
from verif.scenario.knob_table import TABLE

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
