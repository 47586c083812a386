# SPDX-License-Identifier: Apache-2.0
"""Compilation of the controller for bulk replay.

The result is a library of the verilated RTL with the C++ host, or a design for Icarus and the same
host as a VPI module.

The pins of the host and the constants that it shares with Python are generated first, from the
ports of the RTL and from Python modules (`verif/host/generated_sources.py`). The RTL is built with
all its assertions and without a single public net. The code runs on every machine of this
architecture, also on cluster workers: code for this very processor was no faster.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.build import icarus, verilator
from scripts.build.build_cache import once
from scripts.build.icarus import Icarus
from scripts.build.simulator import TIMESCALE
from scripts.build.slang import top_ports
from scripts.build.sources import Sources, collect, write_copy
from scripts.common import process, tool_versions
from scripts.common.errors import BuildError
from scripts.common.paths import ROOT, SIM_BUILDS
from scripts.common.records import FILELIST, TOP, BuildSpec, Dut, Edit
from verif.host import generated_sources
from verif.host.bulk_device import BulkModel, IcarusModel, VerilatedModel

SOURCES = ROOT / "verif" / "host"
HOST = (
    "host.cpp",
    "link_tx.cpp",
    "link_rx.cpp",
    "flit_packer.cpp",
    "flit_unpacker.cpp",
    "axil_manager.cpp",
    "axi_memory.cpp",
)
LIBRARY = "libnf_bulk.so"
VPI_MODULE = "nf_bulk"
DESIGN = "nf_bulk.vvp"
CLOCKED = "nf_bulk_top"
BENCH = "nf_bulk_bench"
PROBE = "nf_stage_probe.sv"
MODEL = "Vnf__ALL"  # without Verilator's own files, which are compiled here in another way
COMPILE = ("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", f"-I{SOURCES}")
FAST: tuple[str, ...] = ("-O3",)
if platform.machine() == "x86_64":
    # Verilator clears every wide temporary when a function begins. g++ does that with `rep stos`,
    # which takes longer to start than to do: 80 bytes each, some 40 of them in a clock.
    FAST += ("-mmemset-strategy=unrolled_loop:256:noalign,libcall:-1:noalign",)
# Code that runs once, and RTL that is broken on purpose: compiling hard takes longer than it saves.
QUICK = ("-O1",)


def build(
    sim: str,
    parameters: Mapping[str, int] | None = None,
    edits: Sequence[Edit] = (),
    dut: Dut = Dut.RTL,
    base: Path = SIM_BUILDS,
    stages: bool = False,
    quick: bool = False,
) -> VerilatedModel | IcarusModel:
    """Compile the controller for bulk replay, unless a build of the same content exists.

    Args:
        sim: "verilator" or "icarus".
        parameters: Parameters of the top module.
        edits: Changes made in copies of the sources.
        dut: Implementation of the modules with a MyHDL twin.
        base: Folder of all builds.
        stages: Add the probe that reports when an access passes a stage of the core (Verilator
            only).
        quick: Compile with -O1 instead of -O3.

    Raises:
        BuildError: It does not compile; the first error line.
        NfError: A source or the simulator is missing.
    """
    given = tuple(sorted((parameters or {}).items()))
    spec = BuildSpec(sim, TOP, FILELIST, parameters=given, edits=tuple(edits), dut=dut)
    sources = collect(spec, bound=False)  # bulk replay counts no coverage, and is for speed
    quick = quick or os.environ.get("NF_BULK_QUICK") == "1"
    name = f"bulk-{sim}-{build_key(sources.key)}" + "-quick" * quick + "-stages" * stages
    directory = base / name
    make = _verilator if sim == "verilator" else _icarus
    optimise = QUICK if edits or quick or stages else FAST

    def compile_all(target: Path) -> None:
        make(BulkDesign(spec, sources, target, stages), optimise)

    products = (LIBRARY,) if sim == "verilator" else (DESIGN, f"{VPI_MODULE}.vpi")
    return found(sim, directory, once(directory, compile_all, products).seconds)


def found(sim: str, directory: Path, seconds: float = 0.0) -> VerilatedModel | IcarusModel:
    """Return the model of a finished build, made here or copied from another machine.

    Args:
        sim: Name of the simulator.
        directory: Folder of the build.
        seconds: Time that this call spent on building.

    Raises:
        NfError: Icarus is not installed.
    """
    if sim == "verilator":
        return VerilatedModel(directory / LIBRARY, seconds)
    module = ("-M", str(directory), "-m", VPI_MODULE)
    command = (icarus.program("vvp"), "-n", *module, str(directory / DESIGN))
    return IcarusModel(command, seconds, process.start)


def directory_of(model: BulkModel) -> Path:
    """Return the folder of the build of a model."""
    if isinstance(model, VerilatedModel):
        return model.library.parent
    assert isinstance(model, IcarusModel)
    return Path(model.command[-1]).parent


def host_sources(*more: str) -> list[Path]:
    """Return the C++ source files of the host, and the files ``more`` of the same folder."""
    return [SOURCES / name for name in (*HOST, *more)]


def build_key(start: str) -> str:
    """Return a hash, 16 hex digits, of everything that determines a library.

    It covers the C++ host, the generated constants, this module and the machine's architecture.
    ``start`` is the key of the RTL.
    """
    digest = hashlib.sha256(f"{start} {platform.machine()}".encode())
    files = [p for p in sorted(SOURCES.iterdir()) if p.suffix in (".cpp", ".h", ".sv", ".j2")]
    files += [Path(__file__), Path(generated_sources.__file__)]
    texts = {p.name: p.read_text(encoding="utf-8") for p in files}
    for name, text in {**texts, **generated_sources.constants()}.items():
        digest.update(f"\0{name}\0{text}".encode())
    return digest.hexdigest()[:16]


class BulkDesign:
    """One build in progress: the RTL with its edits, the sources generated from it, and its log."""

    def __init__(
        self,
        spec: BuildSpec,
        sources: Sources,
        directory: Path,
        stages: bool = False,
    ) -> None:
        self.spec, self.directory, self.stages = spec, directory, stages
        self.root = spec.root
        if spec.copied:
            self.root = directory / "src"
            write_copy(sources, self.root)
        files = sources.files
        self.control, self.rtl, self.includes = (
            [self.root / name for name in names]
            for names in (files.control, files.sources, files.includes)
        )
        self.include = f"-I{directory}"
        ports = top_ports(spec.top, files, self.root, spec.parameters)
        generated_sources.write_sources(directory, spec.top, ports, dict(spec.parameters))
        self._more = verilator.build_environment()

    def rtl_under(self, wrapper: str) -> list[Path]:
        """Return the RTL files to compile below a wrapper module.

        These are the RTL, the generated pins, `<wrapper>.sv` which drives them, and the probe with
        `stages`.
        """
        pins = self.directory / generated_sources.PINS_MODULE
        probe = [SOURCES / PROBE] if self.stages else []
        return [*self.rtl, pins, SOURCES / f"{wrapper}.sv", *probe]

    def run(self, *command: str | Path) -> None:
        """Run a command of the build in its folder, with its output appended to `build.log`.

        Raises:
            BuildError: It fails; the first error line of the log.
        """
        words, log = [str(word) for word in command], self.directory / "build.log"
        done = process.run_logged(words, log, cwd=self.directory, more=self._more, append=True)
        if done.returncode:
            raise BuildError(Icarus.first_error(log))


def _verilator(design: BulkDesign, optimise: tuple[str, ...]) -> None:
    program = verilator.program()
    design.run(
        *(program, "--cc", "-O3", "--assert", "--x-assign", "fast", "--x-initial", "unique"),
        *("-Wno-fatal", "--timescale", "/".join(TIMESCALE), "--prefix", "Vnf", "-CFLAGS", "-fPIC"),
        *("--Mdir", design.directory, "--top-module", CLOCKED),
        *(f"+incdir+{path}" for path in design.includes),
        *(*design.control, *design.rtl_under(CLOCKED)),
    )
    fast = " ".join(optimise)
    design.run(
        *("make", "-f", "Vnf.mk", f"-j{os.cpu_count() or 1}", f"{MODEL}.a"),
        *(f"PYTHON3={sys.executable}", verilator.SPACE_IS_FINE),
        *(f"OPT_FAST={fast}", "OPT_SLOW=-O0", f"OPT_GLOBAL={fast}"),  # slow: at the start, once
    )
    include = _include(program)
    system = [_system(path) for path in (include, include / "vltstd", design.directory)]
    run_time: list[str] = []
    for name in ("verilated", "verilated_threads"):
        run_time.append(f"nf_{name}.o")
        design.run(
            *("g++", "-c", "-std=c++17", *optimise, "-fPIC", "-DVM_COVERAGE=0", "-DVM_TRACE=0"),
            *(*system, "-include", str(SOURCES / "print.h")),
            *(str(include / f"{name}.cpp"), "-o", run_time[-1]),
        )
    common: tuple[str | Path, ...] = (*COMPILE, *optimise, *system)
    rest = (*run_time, f"{MODEL}.a", "-lpthread")
    design.run(*common, "-shared", *host_sources("verilated_device.cpp"), *rest, "-o", LIBRARY)


def _system(path: Path) -> str:
    """Return the option for an include directory whose warnings are suppressed."""
    return f"-isystem{path}"


def _include(program: str) -> Path:
    words = [program, "--getenv", "VERILATOR_ROOT"]
    root = Path(tool_versions.first_line(words, verilator.environment()))
    if not (root / "include" / "verilated.h").is_file():
        raise BuildError(f"Verilator's headers are not in {root / 'include'}.")
    return root / "include"


def _icarus(design: BulkDesign, optimise: tuple[str, ...]) -> None:
    flags = tool_versions.first_line([icarus.program("iverilog-vpi"), "--cflags"]).split()
    system = [_system(Path(flag[2:])) for flag in flags if flag.startswith("-I")]
    common = (*COMPILE, *optimise, *system, design.include)
    design.run(*common, "-shared", *host_sources("vpi_device.cpp"), "-o", f"{VPI_MODULE}.vpi")
    design.run(
        *(icarus.program(), "-g2012", "-s", BENCH, "-o", DESIGN),
        *(f"-I{path}" for path in design.includes),
        *design.rtl_under(BENCH),
    )
