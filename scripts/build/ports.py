# SPDX-License-Identifier: Apache-2.0
"""The ports of a module, read from the SystemVerilog source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyslang

from scripts.common.errors import BuildError, NfError


class Port(NamedTuple):
    """A port of the top; ``width`` in bits."""

    name: str
    is_input: bool
    width: int


def top_ports(
    top: str,
    files: Sequence[Path],
    includes: Sequence[Path],
    parameters: Sequence[tuple[str, int]] = (),
) -> list[Port]:
    """Ports of `top` in order, with the widths that they have under ``parameters``."""
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    arguments = [str(path) for path in files] + [f"+incdir+{path}" for path in includes]
    arguments += [f"-G{name}={value}" for name, value in parameters]
    quoted = " ".join(f'"{a}"' for a in ["slang", "--single-unit", "-DVERILATOR", *arguments])
    if not driver.parseCommandLine(f'{quoted} --top "{top}"', pyslang.driver.CommandLineOptions()):
        raise NfError(f"slang does not take the file list of {top}.")
    if not (driver.processOptions() and driver.parseAllSources()):
        raise BuildError(f"slang cannot read the sources of {top} (`nf lint` tells why).")
    instances = driver.createCompilation().getRoot().topInstances
    found = [i for i in instances if i.name == top]
    if not found:
        raise BuildError(f"no module {top} in the sources.")
    inward = pyslang.ast.ArgumentDirection.In
    ports = found[0].body.portList
    return [Port(p.name, p.direction == inward, p.type.bitWidth) for p in ports]
