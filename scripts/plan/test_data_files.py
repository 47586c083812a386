# SPDX-License-Identifier: Apache-2.0
"""Tests of the YAML data files of the suite: any mistake in one is reported in one line."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.checks import traceability
from scripts.common.errors import NfError
from scripts.coverage import code_waivers, functional_coverage
from scripts.mutation import mutant_outcome
from scripts.plan import listed_mutants, package_mutants, testplan
from scripts.plan.discover import TestCase
from verif.coverage.cover_model import CoverModel

TESTS = [TestCase("verif.tests.test_x", "one", "", cases=("one",))]


def _plan(folder: Path) -> None:
    plan = testplan.read(folder)
    testplan.problems(plan, TESTS)
    for suite in plan.suites.values():
        chosen = testplan.of_suite(plan, suite, TESTS)
        options = testplan.Options(("icarus",), range(1, suite.seeds + 1), scale=suite.scale)
        for spec in testplan.expand(plan, chosen, options):
            assert spec.to_json()
            assert spec.id


def _mutants(folder: Path) -> None:
    found = listed_mutants.read(folder)
    plan = testplan.Plan({}, {"default": testplan.NamedBuild("", "t", "no.f")}, {})
    listed_mutants.problems(found, plan, TESTS)
    listed_mutants.watchers(found, {})
    for mutant in found:
        listed_mutants.runs_of(mutant, plan)


def _first(folder: Path) -> Path:
    return next(folder.glob("*.yaml"))


def _audit(folder: Path) -> None:
    (folder / "verif").mkdir(exist_ok=True)
    _first(folder).rename(folder / "verif" / "audit.yaml")
    traceability.read(folder)


# The reader of each kind of file; there is a complete one of each in the YAML file of this test.
READERS: dict[str, Callable[[Path], object]] = {
    "suites": _plan,
    "mutants": _mutants,
    "package mutants": lambda folder: package_mutants.problems(package_mutants.read(folder)),
    "waivers": lambda folder: functional_coverage.problems(
        functional_coverage.read_waivers(_first(folder)), CoverModel()
    ),
    "mutation waivers": lambda folder: mutant_outcome.read_waivers(_first(folder)),
    "code waivers": lambda folder: code_waivers.problems(code_waivers.read(_first(folder))),
    "audit": _audit,
}
FILES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
ODD: list[Any] = [
    *(None, True, 0, -1, 1, 2.0, 1e300, 10**30, float("inf"), float("nan"), "", " ", "1", "\0"),
    *("\ud800", "x" * 400, "(", "[", "*", "../..", "/", "a\nb", "vcs", "2026-13-01", [], {}, [[]]),
    *([None], {"x": 1}, {1: 2}, {True: 1}, {None: 1}, {"": ""}, b"x", "test_x::one", "default"),
]


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    holds = isinstance(value, dict | list)
    items = value.items() if isinstance(value, dict) else enumerate(value) if holds else ()
    for key, below in items:
        yield from _places(below, (*at, key))


def _put(value: Any, at: tuple[Any, ...], new: Any, how: str) -> Any:
    """Return a copy of a value with one change at the place `at`.

    `how` is "value" (replace it by `new`), "none" (remove it), "key" (rename it) or "twice".
    """
    if not at:
        return new
    value = copy.deepcopy(value)
    holder = value
    for key in at[:-1]:
        holder = holder[key]
    if how == "value":
        holder[at[-1]] = new
        return value
    old = holder.pop(at[-1])
    if how == "key" and isinstance(holder, dict) and isinstance(new, str | int | float | None):
        holder[new] = old
    elif how == "twice" and isinstance(holder, list):
        holder += [old, old]
    return value


def _used(folder: Path, kind: str, text: str) -> str:
    """Return the error that a reader reports for a YAML text; "" if the text is valid."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.yaml").write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        READERS[kind](folder)
    except NfError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said
    return said


@pytest.mark.parametrize("kind", FILES)
def test_the_samples_are_right(tmp_path: Path, kind: str) -> None:
    assert _used(tmp_path, kind, yaml.safe_dump(FILES[kind])) == ""


@pytest.mark.parametrize(
    ("kind", "old", "new", "says"),
    [
        ("suites", "seeds: 2", "seeds: 2.0", "suites.smoke.seeds: 2.0 is not an integer"),
        ("suites", "smoke:", "1:", "x.yaml:21: key 1 is no text; write it in quotes."),
        ("suites", "smoke:", "yes:", "key True is no text"),
        ("suites", "icarus: 0.5", "vcs: 0.5", "x.yaml: unknown simulator 'vcs'"),
        ("mutants", "sim: icarus", "sim: vcs", "mutants[0]: mutant one: unknown simulator 'vcs'"),
        ("mutants", "seed: 3", "seed: 3.0", "mutants[0].seed: 3.0 is not an integer"),
        ("mutants", "cause: x", "cause: (", "mutants[0]: mutant one: missing )"),
        ("mutants", "cause: x", r'cause: "x\0"', "holds a NUL or half of a surrogate pair"),
        ("code waivers", "every: 8", "every: 8.0", "waivers[0].every: 8.0 is not an integer"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, kind: str, old: str, new: str, says: str) -> None:
    text = yaml.safe_dump(FILES[kind])
    assert old in text
    assert says in _used(tmp_path, kind, text.replace(old, new))


CHANGES = st.tuples(
    st.integers(0, 99), st.sampled_from(ODD), st.sampled_from(("value", "key", "none", "twice"))
)


@pytest.mark.parametrize("kind", FILES)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes=st.lists(CHANGES, min_size=1, max_size=2))
def test_no_change_of_a_file_is_a_traceback(
    tmp_path: Path, kind: str, changes: list[tuple[int, Any, str]]
) -> None:
    value = FILES[kind]
    for place, new, how in changes:
        places = list(_places(value))
        value = _put(value, places[place % len(places)], new, how)
    _used(tmp_path, kind, yaml.dump(value, Dumper=yaml.SafeDumper))
