# SPDX-License-Identifier: Apache-2.0
"""Results of the last `nf prove` for the report: each property with method, depth and result."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from scripts.common import data
from scripts.common.paths import BUILD

PROOFS = BUILD / "prove.json"
RESULTS = ("proved", "bounded", "broken", "unknown")


@dataclass(frozen=True)
class ProofRow:
    """One property at a ``revision`` of the tree; ``seconds`` are those of its whole proof.

    `bounded`: proved in the first ``depth`` clocks; `unknown`: not proved in time, or of a proof in
    which another property is broken.
    """

    proof: str
    property: str
    method: str
    depth: int
    result: str
    seconds: float
    revision: str


@dataclass(frozen=True)
class Proofs:
    """Last result of each proof, and the last command."""

    command: str
    rows: tuple[ProofRow, ...]

    def renewed(self, command: str, rows: Sequence[ProofRow], listed: Collection[str]) -> Proofs:
        """Return the results with the rows of repeated proofs; proofs that are no longer listed
        go.
        """
        now = {row.proof for row in rows}
        kept = [row for row in self.rows if row.proof in listed and row.proof not in now]
        return Proofs(command, (*kept, *rows))

    @property
    def counts(self) -> dict[str, int]:
        """Count properties by result."""
        return {word: sum(row.result == word for row in self.rows) for word in RESULTS}

    @property
    def grouped(self) -> list[tuple[tuple[str, str, int, str], list[ProofRow]]]:
        """Group the rows of a proof with one result: (proof, method, depth, result), rows."""

        def key(row: ProofRow) -> tuple[str, str, int, str]:
            return row.proof, row.method, row.depth, row.result

        return [(name, list(rows)) for name, rows in groupby(sorted(self.rows, key=key), key)]


def write(found: Proofs, path: Path = PROOFS) -> None:
    """Write the results for later reports."""
    data.keep(path, found)


def read(path: Path = PROOFS) -> Proofs | None:
    """Return the last results, or None if there are none that can be read."""
    return data.kept(path, Proofs)
