# SPDX-License-Identifier: Apache-2.0
"""`nf lint`: style of the RTL, three readers of it (each finds what others miss), the testplan."""

from __future__ import annotations

import argparse
from functools import partial

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.build.filelist import FileList, read_filelist
from scripts.build.simulator import Simulator
from scripts.build.slang import analyse
from scripts.checks import rtl_style
from scripts.cli.check import plan_problems
from scripts.cli.steps import Steps, command
from scripts.common.paths import ROOT, shown
from scripts.common.records import Dut
from scripts.plan import testplan
from scripts.plan.testplan import NamedBuild

WAIVERS = ROOT / "hdl" / "lint"

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
    simulators, missing = registry.choose(registry.ALL)
    seen: set[object] = set()
    for name in names:
        build = plan.build(name)
        design = build.top, build.filelist, build.parameters
        if design in seen:  # they differ in what tests may see
            continue
        if build.dut is not Dut.RTL:
            continue  # Verilog as MyHDL writes it
        seen.add(design)
        files = read_filelist(ROOT, build.filelist)
        steps.run(f"slang, build {name}", partial(analyse, build.top, build.parameters, files))
        for simulator in map(registry.get, simulators):
            check = partial(_read, simulator, build, files)
            steps.run(f"{simulator.lint_title}, build {name}", check)
    if missing:
        say(missing)
    return steps.close()


def _read(simulator: type[Simulator], build: NamedBuild, files: FileList) -> list[str]:
    waivers = [shown(path) for path in sorted(WAIVERS.glob("*.vlt"))]
    files = files.with_bound(simulator.bound, ROOT)
    words, env = simulator.lint_command(build.top, build.parameters, files, waivers)
    return [line for line in command(words, env=env) if not simulator.says_nothing(line)]
