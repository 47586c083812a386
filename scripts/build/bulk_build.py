# SPDX-License-Identifier: Apache-2.0
"""Compiles the controller for bulk replay: a library of the verilated RTL and the C++ host, or a
design for Icarus and the same host as a VPI module.

The RTL is built with all its assertions and without a single public net. The code is made for the
machine that it is compiled on, which is part of the build's key.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from scripts.build import toolchain
from scripts.build.build_cache import TIMESCALE, once, read_stamp
from scripts.build.simulators import first_error
from scripts.build.sources import Sources, collect, write_copy
from scripts.common import process
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import ROOT, SIM_BUILDS
from scripts.common.records import BuildSpec, Edit, Sim
from scripts.run.simulate import FILELIST, TOP
from verif.replay.bulk.opening import IcarusModel, VerilatedModel

SOURCES = ROOT / "verif" / "host"
HOST = ("host.cpp", "host_send.cpp", "host_receive.cpp", "memory.cpp")
LIBRARY = "libnf_bulk.so"
HOST_LIBRARY = "libnf_host.so"
BARE = "bare"
VPI_MODULE = "nf_bulk"
DESIGN = "nf_bulk.vvp"
PINS = "nf_bulk_pins.sv"
CLOCKED = "nf_bulk_top"
BENCH = "nf_bulk_bench"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
FAST = ("-O3", "-march=native")
# Code that runs once, and RTL that is broken on purpose: compiling hard takes longer than it saves.
QUICK = ("-O1",)


def build(
    sim: Sim | str,
    parameters: Mapping[str, int] | None = None,
    edits: Sequence[Edit] = (),
    base: Path = SIM_BUILDS,
) -> VerilatedModel | IcarusModel:
    """Compile unless it has been done; BuildError (first error line) or NfError."""
    kind = Sim(sim)
    spec = BuildSpec(
        kind,
        TOP,
        FILELIST,
        parameters=tuple(sorted((parameters or {}).items())),
        edits=tuple(edits),
    )
    sources = collect(spec)
    directory = base / f"bulk-{kind}-{_key(sources.key)}"
    make = _verilator if kind is Sim.VERILATOR else _icarus
    optimise = QUICK if edits else FAST

    def compile_all(target: Path) -> dict[str, str]:
        make(spec, sources, target, optimise)
        return {"top": spec.top, "sim": kind}

    products = (LIBRARY, BARE) if kind is Sim.VERILATOR else (DESIGN, f"{VPI_MODULE}.vpi")
    seconds = once(directory, compile_all, products).seconds
    took = read_stamp(directory).seconds
    if kind is Sim.VERILATOR:
        return VerilatedModel(directory / LIBRARY, directory / BARE, seconds, took)
    module = ("-M", str(directory), "-m", VPI_MODULE)
    command = (_vvp(), "-n", *module, str(directory / DESIGN))
    return IcarusModel(command, seconds, took, _start)


def _start(
    command: Sequence[str], out: IO[bytes], env: Mapping[str, str], files: Sequence[int]
) -> process.Child:
    return process.start(command, out, cwd=".", env=env, pass_fds=files)


def build_host(base: Path = SIM_BUILDS) -> Path:
    """A library of the host alone, for its tests; BuildError or NfError."""

    def compile_host(target: Path) -> dict[str, str]:
        host = [str(SOURCES / name) for name in (*HOST, "host_only.cpp")]
        command = ["g++", "-std=c++17", "-O1", *WARNINGS, "-fPIC", "-shared", f"-I{SOURCES}"]
        _Commands(target).run(*command, *host, "-o", target / HOST_LIBRARY)
        return {"top": "host"}

    directory = base / f"bulk-host-{_key(toolchain.gxx_version())}"
    once(directory, compile_host, [HOST_LIBRARY])
    return directory / HOST_LIBRARY


def _key(start: str) -> str:
    digest = hashlib.sha256(f"{start} {_machine()}".encode())
    for path in (Path(__file__), *sorted(SOURCES.glob("*.[chs]*"))):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _machine() -> str:
    """What -march=native depends on."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    lines = re.findall(r"^(?:model name|flags)\s*:.*$", text, re.MULTILINE)
    return "\n".join(dict.fromkeys(lines))


def _vvp() -> str:
    path = shutil.which("vvp")
    if path is None:
        raise NfError(toolchain.MISSING_ICARUS)
    return path


class _Commands:
    """Commands of one build, with their log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "build.log"
        self.env = {**os.environ, **toolchain.build_environment()}

    def run(self, *command: str | Path) -> None:
        """BuildError with the first error line of the log."""
        done = process.run_logged(
            [str(word) for word in command],
            self.log,
            cwd=self.directory,
            env=self.env,
            append=True,
        )
        if done.returncode:
            raise BuildError(first_error(self.log))


def _root(spec: BuildSpec, sources: Sources, directory: Path) -> Path:
    if not spec.edits:
        return spec.root
    write_copy(sources, directory / "src")
    return directory / "src"


def _verilator(
    spec: BuildSpec, sources: Sources, directory: Path, optimise: tuple[str, ...]
) -> None:
    verilator = toolchain.find_verilator()
    if verilator is None:
        raise BuildError("Verilator is not installed (`make setup`).")
    root, files, commands = _root(spec, sources, directory), sources.files, _Commands(directory)
    commands.run(
        *(verilator, "--cc", "-O3", "--assert", "--x-assign", "fast", "--x-initial", "unique"),
        *("-Wno-fatal", "--timescale", "/".join(TIMESCALE), "--prefix", "Vnf", "-CFLAGS", "-fPIC"),
        *("--Mdir", directory, "--top-module", CLOCKED),
        *(f"-G{name}={value}" for name, value in spec.parameters),
        *(f"+incdir+{root / name}" for name in files.includes),
        *(str(root / name) for name in (*files.control, *files.sources)),
        *(str(SOURCES / name) for name in (PINS, f"{CLOCKED}.sv")),
    )
    fast = " ".join(optimise)
    commands.run(
        *(
            "make",
            "-f",
            "Vnf.mk",
            f"-j{os.cpu_count() or 1}",
            "libVnf",
            f"PYTHON3={sys.executable}",
            toolchain.SPACE_IS_FINE,
        ),
        *(f"OPT_FAST={fast}", f"OPT_SLOW={QUICK[0]}", f"OPT_GLOBAL={fast}"),
    )
    include = _include(verilator)
    system = [_system(path) for path in (include, include / "vltstd", directory)]
    run_time: list[Path] = []
    for name in ("verilated", "verilated_threads"):
        run_time.append(directory / f"nf_{name}.o")
        commands.run(
            *("g++", "-c", "-std=c++17", *optimise, "-fPIC", "-DVM_COVERAGE=0", "-DVM_TRACE=0"),
            *(*system, "-include", str(SOURCES / "print.h")),
            *(str(include / f"{name}.cpp"), "-o", str(run_time[-1])),
        )
    host = [SOURCES / name for name in (*HOST, "verilated_device.cpp")]
    common: list[str | Path] = [
        "g++",
        "-std=c++17",
        *optimise,
        *WARNINGS,
        "-fPIC",
        *system,
        f"-I{SOURCES}",
    ]
    rest: list[str | Path] = [*run_time, directory / "Vnf__ALL.a", "-lpthread"]
    commands.run(*common, "-shared", *host, *rest, "-o", directory / LIBRARY)
    # The harness that the bench compares with: the same model, no Python, no checks.
    bare = [*host, SOURCES / "bare.cpp"]
    commands.run(*common, "-DNF_BULK_CHECKS=0", *bare, *rest, "-o", directory / BARE)


def _system(path: Path) -> str:
    """An include directory whose warnings are not ours."""
    return f"-isystem{path}"


def _include(verilator: str) -> Path:
    env = {**os.environ, **toolchain.verilator_environment()}
    root = Path(toolchain.first_line([verilator, "--getenv", "VERILATOR_ROOT"], env))
    if not (root / "include" / "verilated.h").is_file():
        raise BuildError(f"Verilator's headers are not in {root / 'include'}.")
    return root / "include"


def _icarus(spec: BuildSpec, sources: Sources, directory: Path, optimise: tuple[str, ...]) -> None:
    root, files, commands = _root(spec, sources, directory), sources.files, _Commands(directory)
    flags = toolchain.first_line(["iverilog-vpi", "--cflags"]).split()
    includes = [_system(Path(flag[2:])) for flag in flags if flag.startswith("-I")]
    host = [SOURCES / name for name in (*HOST, "vpi_device.cpp")]
    commands.run(
        *("g++", "-std=c++17", *optimise, *WARNINGS, "-fPIC", "-shared", *includes, f"-I{SOURCES}"),
        *map(str, host),
        *("-o", str(directory / f"{VPI_MODULE}.vpi")),
    )
    commands.run(
        *("iverilog", "-g2012", "-s", BENCH, "-o", str(directory / DESIGN)),
        *(f"-P{BENCH}.{name}={value}" for name, value in spec.parameters),
        *(f"-I{root / name}" for name in files.includes),
        *(str(root / name) for name in files.sources),
        *(str(SOURCES / name) for name in (PINS, f"{BENCH}.sv")),
    )
