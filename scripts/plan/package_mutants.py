# SPDX-License-Identifier: Apache-2.0
"""Mutants of `neuron_fabric` and of the C++ host in YAML, with the pytest cases that must fail."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from neuron_fabric.typed import FieldRule
from scripts.build.filelist import read_source
from scripts.build.sources import apply_edits
from scripts.common.data import Some, like, load_list, with_edits
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.common.records import Edit
from scripts.plan.listed_mutants import ListedMutant

FOLDER = ROOT / "verif" / "mutants" / "package"
HOST = "verif/host/"


def _is_of_package(edit: Edit) -> bool:
    cpp = edit.file.startswith(HOST) and edit.file.endswith((".cpp", ".h"))
    return cpp or (edit.file.startswith("neuron_fabric/") and edit.file.endswith((".py", ".c")))


_PackageEdit = Annotated[Edit, FieldRule(_is_of_package, "an edit of neuron_fabric or its host")]


@dataclass(frozen=True)
class PackageMutant(ListedMutant):
    """One mutant of the Python package or of the C++ host; `tests` are pytest ids."""

    edits: Some[_PackageEdit]
    tests: tuple[Annotated[str, like(r"^[\w/]+/test_\w+\.py::test_\w+(\[.+\])?$")], ...] = ()


def read(path: Path = FOLDER) -> list[PackageMutant]:
    """Read and check the mutants of a YAML file, or of all files of a folder in order of name."""
    return load_list(path, "mutants", PackageMutant, with_edits, least=1)


def problems(mutants: Sequence[PackageMutant], taken: Sequence[str] = ()) -> list[str]:
    """Return an error line for each mutant that cannot be run.

    Errors are an id that is listed twice or in ``taken``, a test that does not exist, an edit that
    does not match, and an edited file that is no Python.
    """
    out: list[str] = []
    seen = {*taken}
    for mutant in mutants:
        if mutant.id in seen:
            out.append(f"mutant {mutant.id} is listed twice")
        seen.add(mutant.id)
        out += [f"mutant {mutant.id}: no test {t}" for t in mutant.tests if not _exists(t)]
        try:
            for name, text in edited(mutant.edits).items():
                if name.endswith(".py"):
                    ast.parse(text)
        except (NfError, SyntaxError) as error:
            out.append(f"mutant {mutant.id}: {error}")
    return out


def edited(edits: Sequence[Edit]) -> dict[str, str]:
    """Apply edits to the sources in memory.

    Returns:
        The new text of each changed file, by its path from the root.

    Raises:
        NfError: An old text does not occur exactly once.
    """
    return apply_edits(
        {edit.file: read_source(ROOT / edit.file, edit.file) for edit in edits}, edits
    )


def _exists(test: str) -> bool:
    """Return whether the file of a pytest id defines a function with the name of the test.

    Parameters in brackets are not checked; pytest does.
    """
    file, _, name = test.partition("::")
    path = ROOT / file
    if not path.is_file():
        return False
    return f"def {name.partition('[')[0]}(" in path.read_text(encoding="utf-8")
