# SPDX-License-Identifier: Apache-2.0
"""`nf list`: print tests with stage and feature, suites, or builds.

examples:
  nf list                                    list every test with feature and stage
  nf list --suite smoke --stage V1           list tests of a suite and stage
  nf list --suites                           list suites with seeds and reasons
  nf list --builds                           list named parameter sets
"""

from __future__ import annotations

import argparse

from neuron_fabric.errors import say
from scripts.cli import options
from scripts.cli.completion import with_completer
from scripts.common.terminal import TextTable
from scripts.plan import testplan
from scripts.plan.discover import discover, select


def add_arguments(parser: argparse.ArgumentParser) -> None:
    with_completer(
        parser.add_argument("globs", nargs="*", default=["*"], metavar="GLOB", help="test names"),
        options.tests,
    )
    suite = parser.add_argument("--suite", metavar="S", help="tests of this suite")
    with_completer(suite, lambda: testplan.read().suites)
    options.add_filters(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--suites", action="store_true", help="list the suites with their reasons")
    what.add_argument("--builds", action="store_true", help="list the named parameter sets")


def run(args: argparse.Namespace) -> int:
    plan = testplan.read()
    if args.suites:
        suites = [(one.name, one.seeds, one.reason) for one in plan.suites.values()]
        TextTable("{:12} {} seed(s)  {}", suites).show()
        return 0
    if args.builds:
        builds = [
            (
                *(name, build.top),
                " ".join(f"{k}={v}" for k, v in build.parameters) or "as in the source",
            )
            for name, build in plan.builds.items()
        ]
        TextTable("{:12} {}: {}", builds).show()
        return 0
    tests = discover()
    if args.suite:
        tests = testplan.of_suite(plan, plan.suite(args.suite), tests)
    tests = testplan.narrowed(plan, select(tests, args.globs), args.stage, args.feature)
    rows = []
    for test in tests:
        entry = plan.entries.get(test.id)
        where = f"{entry.stage} {entry.feature}" if entry else "not in the testplan"
        rows.append((test.id, where, test.summary))
    TextTable("{:58} {:28} {}", rows).show()
    say(f"{len(tests)} tests")
    return 0
