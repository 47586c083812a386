# SPDX-License-Identifier: Apache-2.0
"""`nf lint`: style of the RTL, three readers of it (each finds what others miss), the testplan."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable

from neuron_fabric.text import say
from scripts.build import toolchain
from scripts.build.slang import analyse
from scripts.build.sources import FileList, read_filelist
from scripts.checks import rtl_style
from scripts.cli.check import plan_problems
from scripts.cli.steps import Steps, command
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, shown
from scripts.plan import testplan
from scripts.plan.testplan import NamedBuild

WAIVERS = ROOT / "hdl" / "lint"
# Icarus says this of every indexed constant in always_comb; it simulates it right.
_HARMLESS = ("constant selects in always_", "sorry: constant selects")

EXAMPLES = """examples:
  nf lint                                    every build by three readers
  nf lint --build small                      one parameter set
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--build", action="append", default=[], help="named parameter set")


def run(args: argparse.Namespace) -> int:
    plan = testplan.read()
    names = args.build or list(plan.builds)
    steps = Steps("nf lint")
    steps.run("every test is planned", plan_problems)
    steps.run("style of the RTL", lambda: rtl_style.violations(ROOT))
    for name in names:
        build = plan.build(name)
        files = read_filelist(ROOT, build.filelist)
        steps.run(f"verilator -Wall, build {name}", _bind(_verilator, build, files))
        steps.run(f"slang, build {name}", _bind(_slang, build, files))
        if toolchain.icarus_version():
            steps.run(f"icarus accepts, build {name}", _bind(_icarus, build, files))
    if toolchain.icarus_version() is None:
        say(toolchain.MISSING_ICARUS)
    return steps.close()


_Check = Callable[[NamedBuild, FileList], list[str]]


def _bind(check: _Check, build: NamedBuild, files: FileList) -> Callable[[], list[str]]:
    return lambda: check(build, files)


def _verilator(build: NamedBuild, files: FileList) -> list[str]:
    tool = toolchain.find_verilator()
    if tool is None:
        raise NfError("Verilator is not installed: run `make setup`.")
    waivers = [shown(path) for path in sorted(WAIVERS.glob("*.vlt"))]
    return command(
        [tool, "--lint-only", "-Wall", "--timescale", "1ns/1ps", "--top-module", build.top]
        + [f"-G{name}={value}" for name, value in build.parameters]
        + [f"-I{path}" for path in files.includes]
        + waivers
        + [*files.control, *files.sources],
        env=toolchain.verilator_environment(),
    )


def _slang(build: NamedBuild, files: FileList) -> list[str]:
    return analyse(build.top, build.parameters, files)


def _icarus(build: NamedBuild, files: FileList) -> list[str]:
    tool = shutil.which("iverilog") or "iverilog"
    lines = command(
        [tool, "-g2012", "-t", "null", "-s", build.top]
        + [f"-P{build.top}.{name}={value}" for name, value in build.parameters]
        + [f"-I{path}" for path in files.includes]
        + list(files.sources)
    )
    return [line for line in lines if not any(text in line for text in _HARMLESS)]
