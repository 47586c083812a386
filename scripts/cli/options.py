# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs share, and the names of tests that a shell completes."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from scripts.build import registry
from scripts.cli.completion import with_completer
from scripts.plan import testplan
from scripts.plan.discover import discover


def add_filters(parser: argparse._ActionsContainer) -> None:
    """Add the options `--stage` and `--feature`, which restrict the selection of tests."""
    parser.add_argument(
        "--stage", action="append", default=[], choices=testplan.STAGES, help="tests of this stage"
    )
    feature = parser.add_argument(
        "--feature", action="append", default=[], metavar="F", help="tests of this feature"
    )
    with_completer(
        feature, lambda: sorted({entry.feature for entry in testplan.read().entries.values()})
    )


def add_sim(add: Callable[..., object], what: str = "simulator") -> None:
    """Add the option `--sim`: one simulator, by default the first of the registry."""
    first = registry.names()[0]
    add("--sim", choices=registry.names(), default=first, help=f"{what} ({first})")


def tests() -> list[str]:
    """Return the ids (`test_module::test`) of all cocotb tests."""
    return [test.id for test in discover()]
