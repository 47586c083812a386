# SPDX-License-Identifier: Apache-2.0
"""cocotb's runners, bent where the measured facts ask for it.

Verilator: only ports (and variables named on purpose) are public, not every net; the generated
C++ is compiled with the optimisation asked for, by ccache where there is one. Both: commands run
in a process group of their own, with a log, and their exit code is kept instead of raised.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cocotb_tools import config, runner

from scripts.run import forkserver
from scripts.common import process
from scripts.build import toolchain
from scripts.common.errors import BuildError
from scripts.common.paths import by_link
from scripts.common.places import plain
from scripts.common.process import Finished
from scripts.common.records import Sim

# Variables of the caller's shell that would change what a run does.
_STRAY = (
    *("WAVES", "GUI", "VERILATOR_ROOT", "COCOTB_TEST_FILTER", "COCOTB_TESTCASE"),
    "PYTHONDONTWRITEBYTECODE",
)


# cocotb looks behind every link, also behind the one that stands for a folder whose name the tools
# do not take (`places`). Python itself may lie in such a folder while the checkout does not.
runner.get_abs_path = lambda path: Path(path).absolute()
for _name in ("libs_dir", "share_dir"):
    setattr(config, _name, plain(Path(by_link(str(getattr(config, _name))))))


class _Grouped(runner.Runner):
    """Shared by both simulators: how commands are executed and the environment is made."""

    sim: Sim
    command_log: Path
    timeout_s: float | None = None
    overrides: Mapping[str, str]
    finished: Finished | None = None
    forked = False  # ask a server for the process; see scripts.run.forkserver

    def __init__(self, log: Path, overrides: Mapping[str, str], timeout_s: float | None) -> None:
        super().__init__()
        self.command_log = log
        self.overrides = dict(overrides)
        self.timeout_s = timeout_s

    def _set_env_common(self) -> None:
        self.env.update(self.overrides)  # LIBPYTHON_LOC spares a search of the disk
        super()._set_env_common()
        for name in _STRAY:
            if name not in self.overrides:
                self.env.pop(name, None)
        self.env.update(self.overrides)
        # The project itself must be importable inside the simulator, whatever the caller's path.
        self.env["PYTHONPATH"] = os.pathsep.join(
            dict.fromkeys([*self.overrides.get("PYTHONPATH", "").split(os.pathsep), *_paths()])
        ).lstrip(os.pathsep)

    def _execute(
        self,
        cmds: Sequence[Sequence[str]],
        cwd: os.PathLike[str] | str,
    ) -> None:
        for number, command in enumerate(cmds):
            self.finished = self._launch(command, Path(cwd), append=number > 0)
            if self.finished.returncode != 0 or self.finished.timed_out:
                return

    def _launch(self, command: Sequence[str], cwd: Path, append: bool) -> Finished:
        log, env, limit = self.command_log, self.env, self.timeout_s
        if self.forked:
            with contextlib.suppress(forkserver.ServerError):
                return forkserver.run_forked(command, log, cwd=cwd, env=env, timeout_s=limit)
        return process.run_logged(command, log, cwd=cwd, env=env, timeout_s=limit, append=append)


def _paths() -> list[str]:
    return [path for path in sys.path if path]


class NfVerilator(_Grouped, runner.Verilator):
    """Verilator without `--public-flat-rw` and with the optimisation level of the build."""

    sim = Sim.VERILATOR
    opt = "-O3"
    make_jobs = 2

    def _simulator_in_path_build_only(self) -> None:
        executable = toolchain.find_verilator()
        if executable is None:
            raise BuildError("Verilator is not installed (`make setup`).")
        self.executable = executable

    def _set_env_build(self) -> None:
        super()._set_env_build()
        self.env.update(toolchain.build_environment())

    def _build_command(self) -> list[list[str]]:
        verilate, make = super()._build_command()
        verilate = [arg for arg in verilate if arg != "--public-flat-rw"]
        make = [f"{self.make_jobs}" if last == "-j" else arg for last, arg in _pairs(make)]
        make += [f"OPT_FAST={self.opt}", f"OPT_SLOW={self.opt}", f"OPT_GLOBAL={self.opt}"]
        # The wheel was built where Python is called `python`, which Debian has not.
        make += [f"PYTHON3={sys.executable}", toolchain.SPACE_IS_FINE]
        return [verilate, make]


class NfIcarus(_Grouped, runner.Icarus):
    """Icarus 11, with the writes it gets right."""

    sim = Sim.ICARUS

    def _create_iverilog_dump_file(self) -> None:
        """cocotb's module that writes waves, and one that can start late and end early."""
        Path(self.iverilog_dump_file).write_text(
            _ICARUS_DUMP.format(top=self.hdl_toplevel), encoding="utf-8"
        )

    def _set_env_test(self) -> None:
        super()._set_env_test()
        # Icarus 11 silently gives other results with it.
        self.env.pop("COCOTB_TRUST_INERTIAL_WRITES", None)


_ICARUS_DUMP = """\
module cocotb_iverilog_dump();
  reg [8*4096-1:0] path;
  reg [63:0] from_ns, for_ns;
  initial if ($value$plusargs("dumpfile_path=%s", path)) begin
    $dumpfile(path);
    if ($value$plusargs("dump_from_ns=%d", from_ns)) #(from_ns);
    $dumpvars(0, {top});
    if ($value$plusargs("dump_for_ns=%d", for_ns)) begin
      #(for_ns) $dumpoff;
    end
  end
endmodule
"""


def _pairs(items: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(["", *items[:-1]], items, strict=True))


def make_runner(
    sim: Sim, log: Path, overrides: Mapping[str, str], timeout_s: float | None = None
) -> NfVerilator | NfIcarus:
    """The runner for a simulator; commands write to `log`, `overrides` win over the environment."""
    if sim is Sim.VERILATOR:
        return NfVerilator(log, overrides, timeout_s)
    return NfIcarus(log, overrides, timeout_s)


_ERROR_LINE = re.compile(
    r"(%Error|: error|: syntax error|error:|sorry:|undefined reference|: not found|\*\*\*)"
)


def first_error(log: Path) -> str:
    """The line of a build log that says what is wrong."""
    lines = log.read_text(errors="replace", encoding="utf-8").splitlines() if log.is_file() else []
    for line in lines:
        if _ERROR_LINE.search(line) and "constant selects in always" not in line:
            return line.strip()
    return lines[-1].strip() if lines else "the build left no log"
