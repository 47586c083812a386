# SPDX-License-Identifier: Apache-2.0
"""Constants and packed structures of the packages in hdl/pkg, and parameters of the RTL."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pyslang

from verif.parameters import build_parameters

FOLDER = Path(__file__).resolve().parents[2] / "hdl/pkg"
PACKAGES = ("nf_pkg", "nf_core_pkg", "nf_fp32_pkg", "nf_ram_pkg")
TOP = Path(__file__).resolve().parents[2] / "hdl/nf_controller.sv"


@functools.cache
def _compiled() -> pyslang.ast.Compilation:
    compilation = pyslang.ast.Compilation()
    for package in PACKAGES:
        tree = pyslang.syntax.SyntaxTree.fromFile(str(FOLDER / f"{package}.sv"))
        compilation.addSyntaxTree(tree)
    return compilation


@functools.cache
def structure(name: str) -> pyslang.ast.Type:
    """Return a packed structure of the packages in hdl/pkg, as slang reads it.

    Raises:
        KeyError: No package has this structure.
    """
    for package in PACKAGES:
        found = _compiled().getPackage(package).find(name)
        if isinstance(found, pyslang.ast.TypeAliasType):
            return found.canonicalType
    raise KeyError(f"no package has a structure {name}")


@functools.cache
def constant(name: str) -> int:
    """Return the value of a localparam of the packages in hdl/pkg.

    Raises:
        KeyError: No package has this constant.
    """
    for package in PACKAGES:
        found = _compiled().getPackage(package).find(name)
        if isinstance(found, pyslang.ast.ParameterSymbol):
            return int(str(found.value))
    raise KeyError(f"no package has a constant {name}")


def parameter(name: str) -> int:
    """Return an RTL parameter of the build, or its default in the top module.

    Raises:
        KeyError: The top module has no such parameter.
    """
    if name in (built := build_parameters()):
        return built[name]
    found = re.search(rf"parameter int {name}\s*=\s*(\d+)", TOP.read_text(encoding="utf-8"))
    if found is None:
        raise KeyError(f"{TOP.name} has no parameter {name}")
    return int(found[1])
