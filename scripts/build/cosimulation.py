# SPDX-License-Identifier: Apache-2.0
"""Compiles one hand-written module for MyHDL's co-simulation: Icarus simulates the module, MyHDL
the rest, and MyHDL's VPI module carries the ports between the two processes.

The VPI module is compiled from the C source that the `myhdl` package brings along.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from models.myhdl.convert import Twin
from scripts.build.build_cache import once
from scripts.build.icarus import Icarus
from scripts.build.sources import collect
from scripts.common import process, toolchain
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import ROOT, SIM_BUILDS
from scripts.common.records import BuildSpec

FILELIST = "verif/twin/nf_twin_pairs.f"
VPI_SOURCES = Path(sys.prefix) / "share" / "myhdl" / "cosimulation" / "icarus"
VPI_MODULE = "myhdl"
BENCH = "nf_cosimulation"
DESIGN = f"{BENCH}.vvp"


def bench(twin: Twin) -> str:
    """Return the Verilog text of the module under test between registers that MyHDL sets and
    nets that it reads."""
    ports = twin.ports
    inputs = {**({"clk": 1} if ports.clocked else {}), **ports.inputs}
    lines = [f"  reg [{width - 1}:0] {name};" for name, width in inputs.items()]
    lines += [f"  wire [{width - 1}:0] {name};" for name, width in ports.outputs.items()]
    values = ", ".join(f".{key.upper()}({value})" for key, value in twin.parameters.items())
    pins = ", ".join(f".{name}({name})" for name in (*inputs, *ports.outputs))
    return "\n".join(
        [
            f"module {BENCH};",
            *lines,
            f"  {twin.name} {f'#({values}) ' if values else ''}dut ({pins});",
            "  initial begin",
            f"    $from_myhdl({', '.join(inputs)});",
            f"    $to_myhdl({', '.join(ports.outputs)});",
            "  end",
            "endmodule",
            "",
        ]
    )


def command(twin: Twin, base: Path = SIM_BUILDS) -> list[str]:
    """Return the command that starts the simulator; compile it unless that was done.

    Raises:
        BuildError: the first error line of the compiler.
        NfError: Icarus is not installed.
    """
    if not Icarus.available():
        raise NfError(Icarus.missing)
    parameters = tuple((key.upper(), value) for key, value in twin.parameters.items())
    sources = collect(BuildSpec("icarus", twin.name, FILELIST, parameters=parameters))
    text = bench(twin)
    digest = hashlib.sha256(f"{sources.key}\0{text}".encode() + Path(__file__).read_bytes())
    directory = base / f"cosimulation-{twin.name}-{digest.hexdigest()[:16]}"

    def make(target: Path) -> dict[str, str]:
        (target / f"{BENCH}.v").write_text(text, encoding="utf-8")
        _run(
            target,
            *("iverilog", "-g2012", "-s", BENCH, "-o", DESIGN),
            *(f"-I{ROOT / name}" for name in sources.files.includes),
            *(str(ROOT / name) for name in sources.files.sources),
            f"{BENCH}.v",
        )
        return {"top": twin.name, "sim": "icarus"}

    once(directory, make, (DESIGN,))
    module = _vpi_module(base)
    return ["vvp", "-n", "-M", str(module), "-m", VPI_MODULE, str(directory / DESIGN)]


def _vpi_module(base: Path) -> Path:
    """Compile MyHDL's VPI module unless that was done, and return its folder."""
    flags = toolchain.first_line(["iverilog-vpi", "--cflags"]).split()
    system = [f"-isystem{flag[2:]}" for flag in flags if flag.startswith("-I")]
    files = [VPI_SOURCES / name for name in ("myhdl.c", "myhdl_table.c")]
    for path in files:
        if not path.is_file():
            raise NfError(f"{path} is missing: run `make setup`.")
    words = ("gcc", "-O2", "-fPIC", "-shared", *system, *map(str, files))
    digest = hashlib.sha256(" ".join([*words, Icarus.identity()]).encode())
    for path in files:
        digest.update(path.read_bytes())
    directory = base / f"cosimulation-vpi-{digest.hexdigest()[:16]}"

    def make(target: Path) -> dict[str, str]:
        _run(target, *words, "-o", f"{VPI_MODULE}.vpi")
        return {"top": VPI_MODULE, "sim": "icarus"}

    return once(directory, make, (f"{VPI_MODULE}.vpi",)).directory


def _run(folder: Path, *words: str) -> None:
    log = folder / "build.log"
    done = process.run_logged(list(words), log, cwd=folder, append=True)
    if done.returncode:
        raise BuildError(Icarus.first_error(log))
