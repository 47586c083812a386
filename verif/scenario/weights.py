# SPDX-License-Identifier: Apache-2.0
"""Knobs of the scenario generator: every choice that it draws, with its weight.

`knobs.toml` declares the knobs and the weights of directed uses. `NF_WEIGHTS` (`nf run --weights`)
overrides weights: a JSON object {knob: {choice: weight}}. Only the named choices change; weight 0
switches a choice off. `bin_hints.toml` names the choices that make a coverage bin likelier, for
`nf close`.
"""

import fnmatch
import os
import random
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from string import Template
from typing import Final

import msgspec

from neuron_fabric.data import DataError, parse_json
from neuron_fabric.typed import typed
from verif.coverage.cover_model import BETWEEN

VARIABLE = "NF_WEIGHTS"
Overrides = Mapping[str, Mapping[str, float]]


class Knob(msgspec.Struct, forbid_unknown_fields=True):
    """Knob of the generator: a random choice, with default weights and the reason for it.

    Attributes:
        reason: Statement why the choice matters.
        weights: Weight by choice.
    """

    reason: str
    weights: dict[str, float]


class _Tables(msgspec.Struct, forbid_unknown_fields=True):
    knobs: dict[str, Knob]
    bases: dict[str, dict[str, dict[str, float]]]
    uses: dict[str, dict[str, dict[str, float] | str]]


def _use(
    table: Mapping[str, dict[str, float] | str], bases: Mapping[str, dict[str, dict[str, float]]]
) -> Overrides:
    """Return the weights of a directed use by knob and choice: those of its `base`, then its
    own.
    """
    out: dict[str, Mapping[str, float]] = {}
    for knob, choices in table.items():
        out |= bases[choices] if isinstance(choices, str) else {knob: choices}
    return out


_TABLES = msgspec.toml.decode(Path(__file__).with_name("knobs.toml").read_bytes(), type=_Tables)
KNOBS: Final = _TABLES.knobs
KNOBS["workers"].weights.update({str(exactly): 0.0 for exactly in range(4, 63)})
USES: Final = {name: _use(table, _TABLES.bases) for name, table in _TABLES.uses.items()}
"""Directed uses of the generator: the weights that lead it to a goal."""


class Weights:
    """Weights of all knobs for one run: the defaults of `knobs.toml` with overrides."""

    def __init__(self, *overrides: Overrides) -> None:
        """Apply overrides to the default weights in order, so that later ones win.

        Raises:
            DataError: A knob or choice is not declared, a weight is below 0, or a knob has no
                choice with a weight above 0.
        """
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
        """Draw a choice of the knob `knob`, by the weights."""
        choices, sums = self._table[knob]
        return rng.choices(choices, cum_weights=sums)[0]

    def may(self, rng: random.Random, knob: str) -> bool:
        """Draw "no" or "yes" of the knob `knob`; return True for "yes"."""
        return self.pick(rng, knob) == "yes"


def _check(name: str, choices: Mapping[str, float]) -> None:
    knob = KNOBS.get(name)
    if knob is None:
        raise DataError(f"weights: there is no knob {name!r}; the knobs: {', '.join(KNOBS)}")
    for choice, weight in choices.items():
        if choice not in knob.weights:
            known = ", ".join(knob.weights)
            raise DataError(f"weights: knob {name!r} has no choice {choice!r}; it has {known}")
        if weight < 0:
            raise DataError(f"weights: {name}.{choice} is {weight:g}, must be 0 or more")


def parse(text: str) -> dict[str, dict[str, float]]:
    """Return the overrides {knob: {choice: weight}} of a JSON text.

    Raises:
        DataError: The text is malformed, or names an unknown knob or choice.
    """
    found = typed(dict[str, dict[str, float]], parse_json(text), "weights")
    Weights(found)
    return found


def from_environment() -> dict[str, dict[str, float]]:
    """Return the overrides in NF_WEIGHTS, {} if it is not set; DataError as `parse`."""
    return parse(os.environ.get("NF_WEIGHTS") or "{}")


class Hint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hints for the bins of some cover points.

    Attributes:
        points: Globs of names of cover points.
        words: For a word of a bin's name, choices as `knob=choice; knob=choice`.
    """

    points: list[str]
    words: dict[str, str]


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    texts: dict[str, str]
    hints: list[Hint]


def _read() -> list[Hint]:
    source = Path(__file__).with_name("bin_hints.toml").read_bytes()
    table = msgspec.toml.decode(source, type=_Table)
    hints = [
        Hint(one.points, {w: Template(t).substitute(table.texts) for w, t in one.words.items()})
        for one in table.hints
    ]
    return [*hints, Hint(["workers"], {str(n): f"workers={n}" for n in range(1, 65)})]


HINTS: Final = _read()


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield (knob, choice) for each part of a text `knob=choice; knob=choice`."""
    for part in text.split("; "):
        knob, _, choice = part.partition("=")
        yield knob, choice


CHEAP: Final = frozenset(
    pairs(
        "lines=1; lines=2..8; lines=16..64; latency=1..3; latency=2..12; stalls=none; stalls=some; "
        "host_gaps=none; ready=always; credits=many"
    )
)
"""Choices that cost few cycles, for knobs without a hint."""


@cache
def hints(point: str, bin_name: str) -> frozenset[tuple[str, str]]:
    """Return (knob, choice) pairs that make a bin likelier and the run short; empty without a hint.

    The words of a bin are its axis values and their parts between spaces. Knobs without a hint get
    the choices of CHEAP.

    Args:
        point: Name of the cover point.
        bin_name: Name of the bin.
    """
    values = bin_name.split(BETWEEN)
    words = {"", *values, *(word for value in values for word in value.split())}
    found = {
        pair
        for hint in HINTS
        if any(fnmatch.fnmatch(point, glob) for glob in hint.points)
        for word in words & hint.words.keys()
        for pair in pairs(hint.words[word])
    }
    if not found:
        return frozenset()
    knobs = {knob for knob, _ in found}
    return frozenset(found | {(knob, choice) for knob, choice in CHEAP if knob not in knobs})
