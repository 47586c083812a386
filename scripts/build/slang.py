# SPDX-License-Identifier: Apache-2.0
"""Use of slang, a SystemVerilog front end, as linter of the RTL and as source of port lists."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scripts.build.filelist import FileList, read_filelist
from scripts.common import process, tool_environment
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST, TOP

# Warnings that are style here, with the reason.
_QUIET = (
    "-Wno-unused",  # Verilator's -Wall is the judge of unused nets, with reasoned waivers
    "-Wno-useless-cast",  # a cast that states a width stays right when a parameter changes
)
_READ = ("slang", "--single-unit", "-DVERILATOR")


_alive: list[Any] = []


class Port(NamedTuple):
    """A port of the top module: its name, whether it is an input, and its width in bits."""

    name: str
    is_input: bool
    width: int


def top_ports(
    top: str, files: FileList, root: Path = ROOT, parameters: Sequence[tuple[str, int]] = ()
) -> list[Port]:
    """Return the ports of `top` in the order of their declaration.

    Args:
        top: Top module.
        files: Sources and include directories.
        root: Folder to which they are relative.
        parameters: Parameters of the top, which may determine widths.

    Raises:
        BuildError: The sources have errors or no such module.
    """
    import pyslang

    instances = elaborate(top, files, root, parameters).getRoot().topInstances
    found = [i for i in instances if i.name == top]
    if not found:
        raise BuildError(f"no module {top} in the sources.")
    inward = pyslang.ast.ArgumentDirection.In
    ports = found[0].body.portList
    return [Port(p.name, p.direction == inward, p.type.bitWidth) for p in ports]


def elaborate(
    top: str, files: FileList, root: Path = ROOT, parameters: Sequence[tuple[str, int]] = ()
) -> Any:
    """Parse and elaborate a design; return slang's `Compilation`. Arguments as in `top_ports`.

    Raises:
        BuildError: A source has a syntax error.
        NfError: slang rejects the command line.
    """
    driver = _driver([*_READ, *_words(top, parameters, files, root)])
    if driver is None:
        raise NfError(f"slang does not take the file list of {top}.")
    if not (driver.processOptions() and driver.parseAllSources()):
        raise BuildError(f"slang cannot read the sources of {top} (`nf lint` tells why).")
    compilation = driver.createCompilation()
    compilation.getRoot()
    _alive.append(driver)  # the compilation points into it
    return compilation


def package_type(package: str, name: str) -> Any:
    """Return a type of a package of the controller, which slang lists by its fields or members.

    Raises:
        NfError: The controller has no such package or type.
    """
    found = next((one for one in _controller().getPackages() if one.name == package), None)
    symbol = found.find(name) if found is not None else None
    if symbol is None:
        raise NfError(f"the controller has no type {package}::{name}.")
    return symbol.targetType.type.canonicalType


@functools.cache
def _controller() -> Any:
    return elaborate(TOP, read_filelist(ROOT, FILELIST))


def analyse(top: str, parameters: Sequence[tuple[str, int]], files: FileList) -> list[str]:
    """Lint a design with slang, in a child process, since slang prints to stderr.

    Returns:
        All output lines if there are errors or warnings; [] if slang accepts the design.
    """
    words = [*_READ, "--timescale", "1ns/1ps", *_QUIET, "-Wextra", "-Wno-unused-result"]
    words += _words(top, parameters, files, Path())
    env = tool_environment.tools({"PYTHONPATH": str(ROOT)})
    done = process.captured([sys.executable, "-m", "scripts.build.slang", *words], env=env)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines if done.returncode else []


def _words(
    top: str, parameters: Sequence[tuple[str, int]], files: FileList, root: Path
) -> list[str]:
    values = [f"-G{name}={value}" for name, value in parameters]
    includes = [f"+incdir+{root / path}" for path in files.includes]
    return ["--top", top, *values, *includes, *(str(root / path) for path in files.sources)]


def _driver(words: Sequence[str]) -> Any:
    """Return a slang driver configured by command-line words; None if it rejects them."""
    import pyslang

    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    text = " ".join(f'"{word}"' for word in words)
    good = driver.parseCommandLine(text, pyslang.driver.CommandLineOptions())
    return driver if good else None


def main(words: Sequence[str]) -> int:
    """Lint the design that command-line words of slang describe; print errors and warnings.

    Returns:
        Exit code: 1 if anything is reported, else 0.
    """
    driver = _driver(words)
    if driver is None:
        return 1
    if not (driver.processOptions() and driver.parseAllSources()):
        driver.reportParseDiags()
        return 1
    compilation = driver.createCompilation()
    driver.reportCompilation(compilation, True)
    driver.runAnalysis(compilation)
    good = driver.reportDiagnostics(True)
    engine = driver.diagEngine
    return 0 if good and engine.numErrors == 0 and engine.numWarnings == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
