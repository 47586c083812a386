# SPDX-License-Identifier: Apache-2.0
"""`nf lint`: lint every build of the RTL with slang, Verilator and Icarus.

examples:
  nf lint                                    lint every build with three readers
  nf lint --build small                      lint one parameter set
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.build.filelist import FileList, read_filelist
from scripts.build.simulator import Simulator
from scripts.build.slang import analyse
from scripts.checks import rtl_style, tracked_files
from scripts.cli.steps import command, run_checks
from scripts.common.arguments import REPEATED
from scripts.common.paths import ROOT, shown
from scripts.common.records import Dut
from scripts.plan import testplan
from scripts.plan.testplan import NamedBuild

LINT_WAIVERS = ROOT / "hdl" / "lint"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option of `nf lint`."""
    parser.add_argument("--build", **REPEATED, help="named parameter set (all)")


def run(args: argparse.Namespace) -> int:
    """Lint every build with slang, Verilator and Icarus: each finds what the others miss."""
    plan = testplan.read()
    names = args.build or list(plan.builds)
    checks: dict[str, Callable[[], list[str]]] = {
        "every test is planned": lambda: testplan.problems(plan, tracked_files.cocotb_tests(ROOT)),
        "style of the RTL": partial(rtl_style.violations, ROOT),
    }
    simulators, missing = registry.choose(registry.ALL)
    seen: set[object] = set()
    for name in names:
        build = plan.build(name)
        design = build.top, build.filelist, build.parameters
        # Builds of one design differ in what tests may see; MyHDL writes its Verilog itself.
        if design in seen or build.dut is not Dut.RTL:
            continue
        seen.add(design)
        files = read_filelist(ROOT, build.filelist)
        checks[f"slang, build {name}"] = partial(analyse, build.top, build.parameters, files)
        for simulator in map(registry.get, simulators):
            check = partial(_read, simulator, build, files)
            checks[f"{simulator.lint_title}, build {name}"] = check
    if missing:
        say(missing)
    return run_checks("nf lint", checks)


def _read(simulator: type[Simulator], build: NamedBuild, files: FileList) -> list[str]:
    """Return the messages of a simulator's linter for a build, without those that say nothing."""
    waivers = [shown(path) for path in sorted(LINT_WAIVERS.glob("*.vlt"))]
    files = files.with_bound(simulator.bound, ROOT)
    words, env = simulator.lint_command(build.top, build.parameters, files, waivers)
    return [line for line in command(words, env=env) if not simulator.says_nothing(line)]
