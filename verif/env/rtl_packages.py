# SPDX-License-Identifier: Apache-2.0
"""Constants and types of the packages in hdl/pkg, as slang reads them."""

from __future__ import annotations

import functools
from pathlib import Path

import pyslang

FOLDER = Path(__file__).resolve().parents[2] / "hdl/pkg"
PACKAGES = ("nf_pkg", "nf_core_pkg", "nf_fp32_pkg", "nf_ram_pkg")


@functools.cache
def _compiled() -> pyslang.ast.Compilation:
    compilation = pyslang.ast.Compilation()
    for package in PACKAGES:
        tree = pyslang.syntax.SyntaxTree.fromFile(str(FOLDER / f"{package}.sv"))
        compilation.addSyntaxTree(tree)
    return compilation


@functools.cache
def structure(name: str) -> pyslang.ast.Type:
    """Return a packed structure of a package; KeyError if there is none."""
    for package in PACKAGES:
        found = _compiled().getPackage(package).find(name)
        if isinstance(found, pyslang.ast.TypeAliasType):
            return found.canonicalType
    raise KeyError(f"no package has a structure {name}")


@functools.cache
def constant(name: str) -> int:
    """Return the value of a localparam of a package; KeyError if there is none."""
    for package in PACKAGES:
        found = _compiled().getPackage(package).find(name)
        if isinstance(found, pyslang.ast.ParameterSymbol):
            return int(str(found.value))
    raise KeyError(f"no package has a constant {name}")
