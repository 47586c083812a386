# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs share: simulators, filters of tests, parts of a long check."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from scripts.build import registry
from scripts.cli.completion import with_completer
from scripts.common.arguments import REPEATED, add_jobs, positive
from scripts.common.errors import NfError
from scripts.plan import testplan
from scripts.plan.discover import discover


def add_filters(parser: argparse._ActionsContainer) -> None:
    """Add the options `--stage` and `--feature`, which restrict the selection of tests."""
    add = parser.add_argument
    add("--stage", **REPEATED, choices=testplan.STAGES, help="tests of this stage")
    feature = add("--feature", **REPEATED, metavar="F", help="tests of this feature")
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


def add_simulators(parser: argparse.ArgumentParser) -> None:
    """Add the options `--sim` (one simulator, or all) and `--jobs`."""
    what = registry.HELP
    parser.add_argument("--sim", choices=registry.choices(), default=registry.ALL, help=what)
    add_jobs(parser)


def add_parts(parser: argparse.ArgumentParser, names: Iterable[str], seed: str) -> None:
    """Add the options of a long check: `--sim`, `--jobs`, `--only` a part, and `--seed`."""
    add_simulators(parser)
    first = ", ".join(dict.fromkeys(name.split()[0] for name in names))
    what = f"run only this part, one of: {first}; may be repeated"
    parser.add_argument("--only", **REPEATED, metavar="PART", help=what)
    parser.add_argument("--seed", type=positive, help=seed)


def chosen(names: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return the names that `--only` selects, whole or by their first word; all without `--only`.

    Raises:
        NfError: There is none.
    """
    found = [name for name in names if not only or name in only or name.split()[0] in only]
    if not found:
        raise NfError(f"no part {' '.join(only)!r}; there are: {', '.join(names)}.")
    return found
