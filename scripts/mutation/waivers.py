# SPDX-License-Identifier: Apache-2.0
"""Mutants that live for a reason that somebody has written down (`verif/mutation_waivers.yaml`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.common import data
from scripts.common.paths import ROOT, shown
from scripts.mutation.mutant import Mutant
from scripts.mutation.mutant_outcome import Outcome, State

FILE = ROOT / "verif" / "mutation_waivers.yaml"


def read(path: Path = FILE) -> dict[str, str]:
    """Reason by id of the mutant; a mutant that is listed twice keeps its last reason."""
    return {one["id"]: one["reason"] for one in data.load(path, "mutation_waivers")["waivers"]}


def unmatched(waived: Mapping[str, str], mutants: Iterable[Mutant]) -> list[str]:
    """Waivers of mutants that do not exist, a line each."""
    known = {mutant.id for mutant in mutants}
    return [
        f"{shown(FILE)}: there is no mutant {id} (`nf mutate --list --all`)"
        for id in waived
        if id not in known
    ]


def needless(waived: Mapping[str, str], outcomes: Iterable[Outcome]) -> list[str]:
    """Waivers of mutants that a test kills, or that are proved equivalent, a line each."""
    out = []
    for outcome in outcomes:
        if outcome.id in waived and outcome.state in (State.KILLED, State.EQUIVALENT):
            how = f"{outcome.test} kills it" if outcome.test else "it is proved equivalent"
            out.append(f"{shown(FILE)}: {outcome.id} needs no waiver: {how}")
    return out
