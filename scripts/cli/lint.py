# SPDX-License-Identifier: Apache-2.0
"""`nf lint`: lint every build of the RTL with slang, Verilator and Icarus.

examples:
  nf lint                                    lint every build with three readers
  nf lint --build small                      lint one parameter set
  nf lint --quick                            what `make test` runs
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
from scripts.common.arguments import REPEATED, add_flags
from scripts.common.paths import ROOT, shown
from scripts.common.records import Dut
from scripts.plan import testplan
from scripts.plan.testplan import NamedBuild

LINT_WAIVERS = ROOT / "hdl" / "lint"
QUICK_BY_SLANG = {
    "ecp5": "40 s: proofs and mapped netlists take its cells in every change",
    "ecp5_few": "40 s: as ecp5",
    "probe_secded": "7 s: the RTL and the ECC of build secded, with more slots",
    "probe_tern5": "7 s: the RTL and the mode of build tern5, with more slots",
    "tern5_narrow": "5 s: secded has the ECC and CNT_W, tern5 the mode",
    "pool": "6 s: pool_one has one controller instead of two",
    "retry": "5 s: another time-out; link_retry has it too",
}
"""Builds that `--quick` leaves to slang, each with the time that this saves and what stays."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option of `nf lint`."""
    parser.add_argument("--build", **REPEATED, help="named parameter set (all)")
    add_flags(parser, quick="read builds that take long with slang alone; the rest at night")


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
        if args.quick and name in QUICK_BY_SLANG:
            continue
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
