# SPDX-License-Identifier: Apache-2.0
"""Backend for Icarus Verilog 11: detection, build and run."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cocotb_tools import runner

from scripts.build.filelist import FileList
from scripts.build.simulator import Simulator, cocotb_identity
from scripts.common import tool_versions
from scripts.common.records import BuildSpec, RunSpec
from scripts.common.tool_versions import Finding

# cocotb's module that writes waves, and one that can start late and end early.
_DUMP = Path(__file__).with_name("icarus_dump.v")


@functools.cache
def _version_line() -> str | None:
    """Return the first line of `iverilog -V`, or None when Icarus is not installed."""
    path = shutil.which("iverilog")
    if path is None or shutil.which("vvp") is None:
        return None
    return tool_versions.first_line([path, "-V"])


class Icarus(Simulator, runner.Icarus):
    """Icarus Verilog, an interpreter: builds in a moment, simulates slowly, four-valued."""

    name = "icarus"
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
        return f"{_version_line()} {cocotb_identity()}"

    @classmethod
    def version(cls) -> str:
        return tool_versions.version_number(_version_line() or "")

    @classmethod
    def findings(cls) -> list[Finding]:
        found = shutil.which("iverilog") if cls.available() else None
        remedy = "apt-get install iverilog"
        return [Finding("icarus", "advised", cls.version(), found, remedy)]

    @classmethod
    def lack_at_run(cls) -> str:
        return "" if shutil.which("vvp") else "no Icarus Verilog (vvp)"

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
        words = ["iverilog", "-g2012", "-t", "null", "-s", top]
        words += [f"-P{top}.{name}={value}" for name, value in parameters]
        return [*words, *(f"-I{path}" for path in files.includes), *files.sources], {}

    def _create_iverilog_dump_file(self) -> None:
        text = _DUMP.read_text(encoding="utf-8").replace("TOP", str(self.hdl_toplevel))
        Path(self.iverilog_dump_file).write_text(text, encoding="utf-8")

    def _set_env_test(self) -> None:
        super()._set_env_test()
        # Icarus 11 silently gives other results with it.
        self.env.pop("COCOTB_TRUST_INERTIAL_WRITES", None)

    def _test_command(self) -> list[list[str]]:
        return [[word for word in words if word != "-fst"] for words in super()._test_command()]

    @classmethod
    def wave_plusargs(cls, spec: RunSpec, folder: Path) -> list[str]:
        if spec.build.waves is None:
            return []
        extra = [f"+dumpfile_path={cls.dump_file(folder)}"]
        if spec.window_ns:
            first, last = (round(time_ns) for time_ns in spec.window_ns)
            extra += [f"+dump_from_ns={first}", f"+dump_for_ns={max(1, last - first)}"]
        return extra
