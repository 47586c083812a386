# SPDX-License-Identifier: Apache-2.0
"""Draw the cases of each group by a seed, select them by name, and print how to repeat a failure.

Without `nf fuzz` only the cases run that a group always runs.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from random import Random

import pytest

from scripts.fuzz.fuzz_case import GROUPS, FuzzCase, chosen, name_of

MODULES = ("fuzz/test_files.py", "fuzz/test_words.py", "fuzz/test_faults.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    options = parser.getgroup("nf fuzz")
    options.addoption("--fuzz-seed", type=int, default=1, help="seed of the drawn cases")
    options.addoption("--fuzz-only", action="append", default=[], help="glob of groups, or a case")
    options.addoption("--fuzz-most", type=int, help="number of cases, drawn from all")


def _option(config: pytest.Config, name: str, usual: object) -> object:
    """Return an option, which pytest only knows if it was started with this folder."""
    return getattr(config.option, name, usual)


def _case_name(item: pytest.Item) -> str | None:
    """Return "group[value, value]" of a fuzz case, and None for other tests."""
    name, _, values = item.name.partition("[")
    group = name_of(name)
    if group not in GROUPS:
        return None
    return f"{group}[{values}" if values else group


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    group = GROUPS.get(name_of(metafunc.function.__name__))
    if group is None or not group.axes:
        return
    seed = int(str(_option(metafunc.config, "fuzz_seed", 1)))
    cases = group.drawn(name_of(metafunc.function.__name__), seed)
    params = [
        pytest.param(*values, id=name, marks=[] if name in group.always else [pytest.mark.fuzz])
        for name, values in cases.items()
    ]
    metafunc.parametrize(list(group.axes), params)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the selected cases, and a sample of these if a number of cases is given."""
    for item in items:
        if _case_name(item) and not hasattr(item, "callspec"):
            item.add_marker(pytest.mark.fuzz)
    only = list(getattr(config.option, "fuzz_only", []))
    most = getattr(config.option, "fuzz_most", None)
    kept = [item for item in items if not only or _selected(_case_name(item), only)]
    if most is not None and most < len(kept):
        kept = Random(int(str(_option(config, "fuzz_seed", 1)))).sample(kept, most)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _selected(name: str | None, only: list[str]) -> bool:
    group, _, values = (name or "").partition("[")
    return chosen(group, values.removesuffix("]"), only)


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> FuzzCase:
    """Folder of a case, and random numbers by its name and the seed."""
    seed = _option(request.config, "fuzz_seed", 1)
    return FuzzCase(tmp_path, Random(f"{seed} {_case_name(request.node)}"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the command that repeats each failed case."""
    for report in terminalreporter.stats.get("failed", []):
        file, _, test = report.nodeid.partition("::")
        name, _, values = test.partition("[")
        if file.endswith(MODULES):  # this process has not imported them if workers run the tests
            case = shlex.quote(name_of(name) + (f"[{values}" if values else ""))
            seed = _option(config, "fuzz_seed", 1)
            terminalreporter.write_line(f"again: .venv/bin/nf fuzz --seed {seed} {case}")
