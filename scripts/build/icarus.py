# SPDX-License-Identifier: Apache-2.0
"""Backend for Icarus Verilog 11: detection, build and run."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cocotb_tools import runner

from scripts.build.filelist import FileList
from scripts.build.simulator import Simulator, cocotb_identity
from scripts.common import tool_versions
from scripts.common.errors import NfError
from scripts.common.records import BuildSpec, RunSpec
from scripts.common.tool_versions import Finding

# cocotb's module that writes waves, and one that can start late and end early.
_DUMP = Path(__file__).with_name("icarus_dump.v")


_COMPILER = "iverilog"
_VARIABLE = "NF_ICARUS"


def find(name: str = _COMPILER) -> str | None:
    """Return the path of a program of Icarus, or None.

    It belongs to the installation that the user names, else it is on PATH.

    Raises:
        NfError: The user names another program, or an installation without this one.
    """
    own = tool_versions.named_by(_VARIABLE, _COMPILER)
    if own is None:
        return shutil.which(name)
    path = own.with_name(own.name.replace(_COMPILER, name))  # iverilog-12 has a vvp-12
    if not _first_line(str(own)).startswith("Icarus "):
        raise NfError(f"{_VARIABLE}={own} is no Icarus Verilog: give the path of `{_COMPILER}`.")
    if not path.is_file():
        raise NfError(f"{_VARIABLE}={own} has no {path.name} next to it, and others do not fit.")
    return str(path)


def program(name: str = _COMPILER) -> str:
    """Return the path of a program of Icarus; NfError if it is not installed."""
    found = find(name)
    if found is None:
        raise NfError(Icarus.missing)
    return found


@functools.cache
def _first_line(path: str) -> str:
    return tool_versions.first_line([path, "-V"])


def _version_line() -> str | None:
    """Return the first line of `iverilog -V`, or None when Icarus is not installed."""
    path = find()
    return _first_line(path) if path and find("vvp") else None


class Icarus(Simulator, runner.Icarus):
    """Icarus Verilog, an interpreter: builds in a moment, simulates slowly, four-valued."""

    name = "icarus"
    variable = _VARIABLE
    missing = "Icarus Verilog is not installed (apt-get install iverilog): Verilator alone runs."
    texts = (_DUMP,)
    lint_title = "icarus accepts"
    # Said of every indexed constant in always_comb, which Icarus simulates right.
    harmless = ("constant selects in always_",)
    message_start = r"\S*vvp\b"
    severities = ("ERROR", "FATAL")

    @classmethod
    def available(cls) -> bool:
        return _version_line() is not None

    @classmethod
    def identity(cls) -> str:
        own = f" {find()}" if os.environ.get(_VARIABLE) else ""
        return f"{_version_line()}{own} {cocotb_identity()}"

    @classmethod
    def version(cls) -> str:
        return tool_versions.version_number(_version_line() or "")

    @classmethod
    def findings(cls) -> list[Finding]:
        found = find() if cls.available() else None
        remedy = "apt-get install iverilog"
        return [Finding("icarus", "advised", cls.version(), found, remedy)]

    @classmethod
    def lack_at_run(cls) -> str:
        return "" if find("vvp") else "no Icarus Verilog (vvp)"

    @classmethod
    def products(cls, top: str) -> list[str]:
        return ["sim.vvp"]

    @classmethod
    def as_it_builds(cls, spec: BuildSpec) -> BuildSpec:
        return replace(spec, public=(), opt=BuildSpec.opt)

    @classmethod
    def lint_command(
        cls, top: str, parameters: Sequence[tuple[str, int]], files: FileList, waivers: list[str]
    ) -> tuple[list[str], dict[str, str]]:
        words = [program(), "-g2012", "-t", "null", "-s", top]
        words += [f"-P{top}.{name}={value}" for name, value in parameters]
        return [*words, *(f"-I{path}" for path in files.includes), *files.sources], {}

    def _simulator_in_path(self) -> None:
        pass  # the commands say it

    def _build_command(self) -> list[list[str]]:
        return [[program(), *words[1:]] for words in super()._build_command()]

    def _create_iverilog_dump_file(self) -> None:
        text = _DUMP.read_text(encoding="utf-8").replace("TOP", str(self.hdl_toplevel))
        Path(self.iverilog_dump_file).write_text(text, encoding="utf-8")

    def _set_env_test(self) -> None:
        super()._set_env_test()
        # Icarus 11 silently gives other results with it.
        self.env.pop("COCOTB_TRUST_INERTIAL_WRITES", None)

    def _test_command(self) -> list[list[str]]:
        return [
            [program("vvp"), *(word for word in words[1:] if word != "-fst")]
            for words in super()._test_command()
        ]

    @classmethod
    def wave_plusargs(cls, spec: RunSpec, folder: Path) -> list[str]:
        if spec.build.waves is None:
            return []
        extra = [f"+dumpfile_path={cls.dump_file(folder)}"]
        if spec.window_ns:
            first, last = (round(time_ns) for time_ns in spec.window_ns)
            extra += [f"+dump_from_ns={first}", f"+dump_for_ns={max(1, last - first)}"]
        return extra
