# SPDX-License-Identifier: Apache-2.0
"""Options of pytest for fuzz cases: draw them by a seed, select them by name.

The command that repeats a failure is printed. Without `nf fuzz` only the cases run that a group
always runs.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from random import Random
from typing import Any

import pytest

from scripts.fuzz.fuzz_case import FuzzCase, drawn, is_chosen, name_of

MODULES = ("fuzz/test_files.py", "fuzz/test_words.py", "fuzz/test_faults.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    options = parser.getgroup("nf fuzz")
    options.addoption("--fuzz-seed", type=int, default=1, help="seed of the drawn cases")
    options.addoption("--fuzz-only", action="append", default=[], help="glob of groups, or a case")
    options.addoption("--fuzz-most", type=int, help="number of cases, drawn from all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the fuzz cases that are not drawn by the seed or not selected by name.

    With `--fuzz-most` a random sample of the rest remains. Cases without the marker `fuzz` always
    count as drawn.
    """
    seed, most = config.getoption("fuzz_seed", 1), config.getoption("fuzz_most", None)
    only = config.getoption("fuzz_only", [])
    groups: dict[Any, list[pytest.Item]] = {}
    for item in items:
        function = getattr(item, "function", None)
        groups.setdefault(function if hasattr(function, "take") else None, []).append(item)
    others = groups.pop(None, [])
    kept = [] if only else others
    for function, cases in groups.items():
        names = set(drawn([name_of(one.name) for one in cases], function.take, seed))
        for one in cases:
            name, always = name_of(one.name), one.get_closest_marker("fuzz") is None
            if (always or name in names) and (not only or is_chosen(name, only)):
                kept.append(one)
    if most is not None and most < len(kept):
        kept = Random(seed).sample(kept, most)
    staying = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in staying])
    items[:] = kept


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> FuzzCase:
    """Return the folder of a fuzz case, with random numbers drawn by its name and the seed."""
    seed = request.config.getoption("fuzz_seed", 1)
    return FuzzCase(tmp_path, Random(f"{seed} {name_of(request.node.name)}"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the command that repeats each failed case."""
    for report in terminalreporter.stats.get("failed", []):
        file, _, test = report.nodeid.partition("::")
        if file.endswith(MODULES):  # this process has not imported them if workers run the tests
            case = shlex.quote(name_of(test))
            seed = config.getoption("fuzz_seed", 1)
            terminalreporter.write_line(f"again: .venv/bin/nf fuzz --seed {seed} {case}")
