# SPDX-License-Identifier: Apache-2.0
"""Test that only the files of the simulators and the registry name simulators."""

from __future__ import annotations

import ast
import re

import pytest

from scripts.build import registry
from scripts.common.errors import NfError
from scripts.common.paths import ROOT


def test_an_unknown_name_is_one_line() -> None:
    with pytest.raises(NfError, match=r"unknown simulator 'x'; there are: verilator, icarus\."):
        registry.choose("x")


# The two backends; what links the C++ host of bulk replay with each; the
# night, whose million flits are for the faster one; and its other versions.
OWN = {"verilator.py", "icarus.py", "registry.py", "bulk_build.py", "nightly.py"}
OWN |= {"simulator_versions.py"}
NAMED = re.compile(r"verilator|icarus|iverilog|vvp", re.IGNORECASE)


def mentions(source: str) -> list[str]:
    """Return the names of simulators in Python code: whole strings, names and attributes."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value] if NAMED.fullmatch(node.value) else []
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            found += [name] if NAMED.search(name) else []
    return found


def test_no_other_file_names_a_simulator() -> None:
    files = [
        path
        for path in sorted((ROOT / "scripts").rglob("*.py"))
        if path.name not in OWN and not path.name.startswith(("test_", "conftest"))
    ]
    assert len(files) > 80
    found = {path.name: names for path in files if (names := mentions(path.read_text("utf-8")))}
    assert found == {}


def test_a_named_simulator_is_seen() -> None:
    assert mentions('"""Verilator is fine."""\nif sim == "icarus": x.find_verilator()') == [
        "icarus",
        "find_verilator",
    ]
