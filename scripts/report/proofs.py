# SPDX-License-Identifier: Apache-2.0
"""What the last `nf prove` found, for the report: each property with method, depth and result."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, read_json
from neuron_fabric.typed import typed
from scripts.common.paths import BUILD

PROOFS = BUILD / "prove.json"
RESULTS = ("proved", "bounded", "broken", "unknown")


@dataclass(frozen=True)
class Row:
    """One property at a ``revision`` of the tree; ``seconds`` are those of its whole proof.
    `bounded`: in the first ``depth`` clocks; `unknown`: not shown in time, or of a proof in which
    another one is broken."""

    proof: str
    property: str
    method: str
    depth: int
    result: str
    seconds: float
    revision: str


@dataclass(frozen=True)
class Proofs:
    """What was found last of each proof, and the command that ran last."""

    command: str
    rows: tuple[Row, ...]

    def renewed(self, command: str, rows: Sequence[Row], listed: Collection[str]) -> Proofs:
        """With the rows of proofs that ran again; of proofs that are no longer listed none."""
        now = {row.proof for row in rows}
        kept = [row for row in self.rows if row.proof in listed and row.proof not in now]
        return Proofs(command, (*kept, *rows))

    @property
    def counts(self) -> dict[str, int]:
        """Properties by result."""
        return {word: sum(row.result == word for row in self.rows) for word in RESULTS}

    @property
    def grouped(self) -> list[tuple[tuple[str, str, int, str], list[Row]]]:
        """Rows of a proof with one result together: (proof, method, depth, result), the rows."""

        def key(row: Row) -> tuple[str, str, int, str]:
            return row.proof, row.method, row.depth, row.result

        return [(name, list(rows)) for name, rows in groupby(sorted(self.rows, key=key), key)]


def write(found: Proofs, path: Path = PROOFS) -> None:
    """Keep the results for the reports that follow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(path, json.dumps(asdict(found), indent=1))


def read(path: Path = PROOFS) -> Proofs | None:
    """The last results; None where there are none that can be read."""
    try:
        return typed(Proofs, read_json(path))
    except (OSError, DataError):
        return None
