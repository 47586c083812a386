# SPDX-License-Identifier: Apache-2.0
"""Contract types of import-linter for this tree: layers of sources, and no circle of imports.

The contracts are listed in pyproject.toml. Both types ignore tests where the tree allows these to
import more than the sources: a pytest of the testbench may start a simulator. Imports inside
functions and under TYPE_CHECKING count; only the verb table of `nf` imports by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.contracts.layers import LayersContract

from scripts.checks.tracked_files import is_test


class SourceLayers(LayersContract):
    """Layers contract that leaves out the tests of some packages."""

    type_name = "source_layers"
    without_tests_of: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        remove_imports_of_tests(graph, self.without_tests_of)
        return super().check(graph, verbose)


class NoCircles(Contract):
    """Contract that no modules import each other, directly or through others."""

    type_name = "no_circles"
    reexporting: Any = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = circles(graph, self.reexporting or ())
        return ContractCheck(kept=not found, metadata={"circles": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each circle, as the command of import-linter does for its own contracts."""
        for circle in check.metadata["circles"]:
            output.print_error(f"circle of imports: {' -> '.join(circle)}")


def remove_imports_of_tests(graph: ImportGraph, packages: Iterable[str]) -> None:
    """Remove all imports by tests and conftest files of these packages from a graph, in place."""
    above = tuple(f"{package}." for package in packages)
    for module in list(graph.modules):
        if f"{module}.".startswith(above) and is_test(Path(f"{module.split('.')[-1]}.py")):
            for imported in graph.find_modules_directly_imported_by(module):
                graph.remove_import(importer=module, imported=imported)


def circles(graph: ImportGraph, reexporting: Iterable[str] = ()) -> list[list[str]]:
    """Return circles of imports, each from its first module by name back to it.

    Each module is in one circle at most: those of a circle are removed before the next is searched.
    Imports by the ``reexporting`` packages are ignored: they are for type checkers alone.
    """
    imports = {
        module: set() if module in reexporting else graph.find_modules_directly_imported_by(module)
        for module in graph.modules
        if not is_test(Path(f"{module.split('.')[-1]}.py"))
    }
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            circle = error.args[1][:0:-1]
            at = circle.index(min(circle))
            found.append(circle[at:] + circle[: at + 1])
            imports = {name: imports[name] - set(circle) for name in imports.keys() - set(circle)}
        else:
            return found
