# SPDX-License-Identifier: Apache-2.0
"""Which nets the bench may see under Verilator: the ports of the top, and nothing by accident.

cocotb's runner makes every net public, which costs a third of the speed and hides that a test
leans on internals. Here the top-level ports are read from the source and named in a control file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyslang

from scripts.common.errors import BuildError, NfError
from scripts.common.records import BuildSpec


def top_ports(top: str, files: Sequence[Path], includes: Sequence[Path]) -> list[tuple[str, bool]]:
    """Ports of `top` as (name, is_input), in order."""
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    arguments = [str(path) for path in files] + [f"+incdir+{path}" for path in includes]
    quoted = " ".join(f'"{a}"' for a in ["slang", "--single-unit", "-DVERILATOR", *arguments])
    if not driver.parseCommandLine(f'{quoted} --top "{top}"', pyslang.driver.CommandLineOptions()):
        raise NfError(f"slang does not take the file list of {top}.")
    if not (driver.processOptions() and driver.parseAllSources()):
        raise BuildError(f"slang cannot read the sources of {top} (`nf lint` tells why).")
    instances = driver.createCompilation().getRoot().topInstances
    found = [i for i in instances if i.name == top]
    if not found:
        raise BuildError(f"no module {top} in the sources.")
    directions = pyslang.ast.ArgumentDirection
    return [(p.name, p.direction == directions.In) for p in found[0].body.portList]


def public_control_file(spec: BuildSpec, files: Sequence[Path], includes: Sequence[Path]) -> str:
    """Text of the Verilator control file for a build."""
    lines = ["`verilator_config"]
    for name, is_input in top_ports(spec.top, files, includes):
        access = "public_flat_rw" if is_input else "public_flat_rd"
        lines.append(f'{access} -module "{spec.top}" -var "{name}"')
    for entry in spec.public:
        module, _, variable = entry.rpartition(".")
        if not module:
            raise NfError(f"public variable {entry!r} must be written module.variable.")
        lines.append(f'public_flat_rd -module "{module}" -var "{variable}"')
    return "\n".join(lines) + "\n"
