# SPDX-License-Identifier: Apache-2.0
"""Base class of the simulators: the interface that the runner uses.

A backend is one file with one subclass of `Simulator` that also derives from cocotb's runner for
that simulator (`verilator.py`, `icarus.py`), and its name in `registry.py`. The class answers
questions (is it installed, what does it need, which flags make waves); an object makes one build or
one run. Commands run in a separate process group, with a log, and their exit code is stored instead
of raised.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

from cocotb_tools import config, runner

from scripts.build.filelist import FileList
from scripts.common import process, tool_environment, tool_versions
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import ROOT, by_link
from scripts.common.plain_names import plain
from scripts.common.process import Finished
from scripts.common.records import BuildSpec, RunSpec, Waves
from scripts.common.tool_versions import Finding

TIMESCALE = ("1ns", "1ps")
_ERROR_LINE = re.compile(
    r"(%Error|: error|: syntax error|error:|sorry:|undefined reference|: not found|\*\*\*)"
)

# cocotb resolves every link, also the one that stands for a folder whose name the tools
# do not take (`plain_names`). Python itself may lie in such a folder while the checkout does not.
runner.get_abs_path = lambda path: Path(path).absolute()
for _name in ("libs_dir", "share_dir"):
    setattr(config, _name, plain(Path(by_link(str(getattr(config, _name))))))
# cocotb's runner reads WAVES, GUI and PYTEST_CURRENT_TEST of the caller over its arguments.
_NOTHING_SET = SimpleNamespace(
    get_bool=lambda _, default=None: bool(default), get_str=lambda _, default=None: default or ""
)
setattr(runner, "_env", _NOTHING_SET)  # noqa: B010 - private, so mypy does not know it


class Simulator(runner.Runner):
    """A simulator: class attributes describe it, an object makes one build or one run."""

    name: ClassVar[str]
    """Name in `--sim`, records and the history."""
    variable: ClassVar[str]
    """The environment variable that names the program of another installation to use."""
    missing: ClassVar[str]
    """The line that a user reads where it is not installed."""
    package: ClassVar[str] = ""
    """The Python package that brings it; empty where none does."""
    required: ClassVar[bool] = False
    """True if `--sim both` fails without it; else it is left out, with `missing`."""
    compiles_slowly: ClassVar[bool] = False
    """Its builds are started first, and its runs last of those whose duration is unknown."""
    links_c: ClassVar[bool] = False
    """True if a build takes C++ files in addition to the design, as one with many mutants needs."""
    forks: ClassVar[bool] = True
    """True if a run may be a fork of a running simulator (`scripts/run/fork_client.py`)."""
    bound: ClassVar[Mapping[str, str]] = {}
    """Sources that hold a module bound to one of the design, each with the source of that one."""
    coverage_file: ClassVar[str | None] = None
    """Name of the code coverage file in the folder of a run; None where it collects none."""
    lint_title: ClassVar[str]
    """Name in `nf lint` of reading the design with this simulator."""
    harmless: ClassVar[tuple[str, ...]] = ()
    """Texts of messages that say nothing about the design, though they look like errors."""
    message_start: ClassVar[str]
    """Regular expression: how a line begins that the simulator itself has printed."""
    texts: ClassVar[tuple[Path, ...]] = ()
    """Files of this folder that its builds contain."""
    severities: ClassVar[tuple[str, ...]]
    """Words before FILE:LINE with which a failed assertion without a name is reported."""

    def __init__(self, log: Path, overrides: Mapping[str, str], timeout_s: float | None = None):
        """Prepare one build or one run.

        Args:
            log: File for the output of all commands.
            overrides: Variables that win over the environment of tools.
            timeout_s: Limit of a command in seconds of processor time; None for no limit.
        """
        super().__init__()
        self.command_log = log
        self.overrides = dict(overrides)
        self.timeout_s = timeout_s
        self.make_jobs = 1
        self.opt = BuildSpec.opt
        self.launch: Callable[..., Finished] = process.run_logged
        self.finished: Finished | None = None

    # ---- what it is

    @classmethod
    def available(cls) -> bool:
        """Return whether this machine has all that is needed to build with this simulator."""
        raise NotImplementedError

    @classmethod
    def identity(cls) -> str:
        """Return the versions of all tools that determine a build, as text for the build's key."""
        raise NotImplementedError

    @classmethod
    def version(cls) -> str:
        """Return the version to show to a user; "" if it is not installed."""
        raise NotImplementedError

    @classmethod
    def findings(cls) -> list[Finding]:
        """Return the rows of `nf doctor` about this simulator."""
        raise NotImplementedError

    @classmethod
    def lack_at_run(cls) -> str:
        """Return what this machine lacks to run a finished build, as text; "" if nothing."""
        return ""

    # ---- building

    @classmethod
    def products(cls, top: str) -> list[str]:
        """Return the names of the files in the folder of a build that a run loads."""
        raise NotImplementedError

    @classmethod
    def as_it_builds(cls, spec: BuildSpec) -> BuildSpec:
        """Return the spec with fields that this simulator ignores set to their defaults.

        Specs that give the same build become equal.

        Raises:
            NfError: The installation that the user names is not fit for it.
        """
        return spec

    @classmethod
    def lint_command(
        cls, top: str, parameters: Sequence[tuple[str, int]], files: FileList, waivers: list[str]
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command that checks a design without building it, and additional variables.

        Args:
            top: Top module.
            parameters: Its parameters.
            files: Sources of the design.
            waivers: Control files with lint waivers.
        """
        raise NotImplementedError

    def compile_design(
        self, spec: BuildSpec, root: Path, files: FileList, directory: Path, make_jobs: int
    ) -> None:
        """Compile a design into `directory`.

        Args:
            spec: The design.
            root: Folder that `files` are relative to.
            files: Sources.
            directory: Folder of the build.
            make_jobs: Parallel jobs of make.

        Raises:
            BuildError: It does not compile; the first error line.
            NfError: The simulator collects no code coverage, but the spec wants it.
        """
        if spec.coverage and self.coverage_file is None:
            raise NfError(f"{self.name} collects no code coverage.")
        self.make_jobs, self.opt = make_jobs, spec.opt
        sources = [root / name for name in files.sources]
        includes = [root / name for name in files.includes]
        self.build(
            sources=[*self._control_files(spec, root, files, directory), *sources],
            includes=includes,
            defines=dict(spec.defines),
            parameters=dict(spec.parameters),
            build_args=self._build_arguments(spec),
            hdl_toplevel=spec.top,
            build_dir=directory,
            timescale=TIMESCALE,
            waves=spec.waves is not None,
            always=True,
        )
        if self.finished is None or self.finished.returncode != 0:
            raise BuildError(self.first_error(self.command_log))

    def _build_arguments(self, spec: BuildSpec) -> list[str]:
        return []

    def _control_files(
        self, spec: BuildSpec, root: Path, files: FileList, directory: Path
    ) -> list[Path]:
        """Return the files that the compiler must read before the sources; none by default."""
        return []

    @classmethod
    def says_nothing(cls, line: str) -> bool:
        """Return whether an output line is one of the `harmless` messages, which are no errors."""
        return any(text in line for text in cls.harmless)

    @classmethod
    def first_error(cls, log: Path) -> str:
        """Return the first error line of a build log, else its last line."""
        text = log.read_text(errors="replace", encoding="utf-8") if log.is_file() else ""
        lines = text.splitlines()
        for line in lines:
            if _ERROR_LINE.search(line) and not cls.says_nothing(line):
                return line.strip()
        return lines[-1].strip() if lines else "the build left no log"

    # ---- running

    @classmethod
    def run_arguments(cls, spec: RunSpec, folder: Path) -> list[str]:
        """Return the simulator's command-line words for seed, coverage and waves of a run."""
        return []

    @classmethod
    def wave_plusargs(cls, spec: RunSpec, folder: Path) -> list[str]:
        """Return the plusargs that a run needs to write waves to `dump_file`; [] for none."""
        return []

    @staticmethod
    def dump_file(folder: Path) -> Path:
        """Return the path of the VCD file that a run in `folder` writes."""
        return folder / f"waves.{Waves.VCD}"

    @staticmethod
    def waves_file(folder: Path) -> Path:
        """Return the path of the waves of a run in `folder`, made of its VCD file."""
        return folder / f"waves.{Waves.FST}"

    # ---- cocotb's runner: environment and commands

    def _set_env_common(self) -> None:
        """Set the variables that cocotb sets, but start from the allow-list of `tool_environment`.

        cocotb's own method starts from the whole environment of this process.
        """
        env = tool_environment.tools(self.env)
        env["PATH"] = os.pathsep.join([env.get("PATH", os.defpath), str(config.libs_dir)])
        env["PYGPI_PYTHON_BIN"] = sys.executable
        library = self.overrides.get("LIBPYTHON_LOC") or tool_versions.libpython()
        env["GPI_USERS"] = ";".join(filter(None, [library, config.pygpi_entry_point()]))
        self.env = {**env, **self.overrides}
        # The project and what is installed for it, not packages of the caller's PYTHONPATH.
        outside = {"", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
        first = [self.overrides.get("PYTHONPATH", ""), str(ROOT)]
        paths = [*filter(None, first), *(path for path in sys.path if path not in outside)]
        self.env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))

    def _get_sim_cmd_prefix(self) -> list[str]:
        return []  # SIM_CMD_PREFIX and SIM_CMD_SUFFIX of the caller: another command, unrecorded

    _get_sim_cmd_suffix = _get_sim_cmd_prefix

    def _execute(
        self,
        cmds: Sequence[Sequence[str]],
        cwd: os.PathLike[str] | str,
    ) -> None:
        for number, command in enumerate(cmds):
            self.finished = self.launch(
                command,
                self.command_log,
                cwd=Path(cwd),
                env=self.env,
                timeout_s=self.timeout_s,
                append=number > 0,
            )
            if self.finished.returncode != 0 or self.finished.timed_out:
                return


def cocotb_identity() -> str:
    """Return the version of cocotb as the part of `identity` that all simulators share."""
    return f"cocotb={tool_versions.package_version('cocotb')}"
