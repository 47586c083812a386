# SPDX-License-Identifier: Apache-2.0
"""Listed mutants of the package `neuron_fabric`, each with the pytest cases that must fail."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.build.filelist import read_source
from scripts.build.sources import apply_edits
from scripts.common import data
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.common.records import Edit

FOLDER = ROOT / "verif" / "mutants" / "package"


@dataclass(frozen=True)
class PackageMutant:
    """One mutant.

    ``tests`` are pytest ids, each of which must fail; none where ``survives`` explains why no
    test can.
    """

    id: str
    why: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...] = ()
    survives: str = ""


def read(path: Path = FOLDER) -> list[PackageMutant]:
    """Read and check a list, or all lists of a folder in the order of their names."""
    return data.load_list(path, "package_mutants", PackageMutant)


def problems(mutants: Sequence[PackageMutant], taken: Sequence[str] = ()) -> list[str]:
    """Return a line for each mutant that cannot be run: an id that is ``taken``, a missing test,
    an edit that does not match or that makes no Python."""
    out: list[str] = []
    seen = {*taken}
    for mutant in mutants:
        if mutant.id in seen:
            out.append(f"mutant {mutant.id} is listed twice")
        seen.add(mutant.id)
        out += [f"mutant {mutant.id}: no test {t}" for t in mutant.tests if not _exists(t)]
        try:
            for text in edited(mutant.edits).values():
                ast.parse(text)
        except (NfError, SyntaxError) as error:
            out.append(f"mutant {mutant.id}: {error}")
    return out


def edited(edits: Sequence[Edit]) -> dict[str, str]:
    """Return the text of each changed file by its path from the root; NfError where an old text
    does not occur exactly once."""
    return apply_edits(
        {edit.file: read_source(ROOT / edit.file, edit.file) for edit in edits}, edits
    )


def _exists(test: str) -> bool:
    """Return whether the file of a test has a function of that name; pytest judges its
    parameters."""
    file, _, name = test.partition("::")
    path = ROOT / file
    if not path.is_file():
        return False
    return f"def {name.partition('[')[0]}(" in path.read_text(encoding="utf-8")
