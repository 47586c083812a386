# SPDX-License-Identifier: Apache-2.0
"""Mutants of the RTL listed in YAML, each with the tests that must fail on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from neuron_fabric.data import DataError
from neuron_fabric.typed import FieldRule
from scripts.build import registry, sources
from scripts.common.data import Id, Positive, Seed, Some, Text, Why, like, load_list, with_edits
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.common.records import BuildSpec, Dut, Edit, FailureKind, RunRecord, RunSpec
from scripts.plan import testplan
from scripts.plan.discover import TestCase
from scripts.plan.testplan import Plan

FOLDER = ROOT / "verif" / "mutants"
_CATCHES = (FailureKind.MISMATCH, FailureKind.ASSERTION, FailureKind.TIME_OUT)
_Catch = Annotated[FailureKind, FieldRule(_CATCHES.__contains__, "a catch")]


@dataclass(frozen=True)
class ListedMutant:
    """One mutant of a YAML list: textual edits, and the tests that must catch it.

    Attributes:
        id: Unique name.
        why: The fault that it stands for.
        edits: Changes of the sources.
        tests: Ids of the tests, each of which must fail; empty with `survives`.
        survives: Reason why no test can catch it; it is not run. "" for none.
    """

    id: Id
    why: Why
    edits: Some[Edit]
    tests: tuple[str, ...] = ()
    survives: Why = ""

    def __post_init__(self) -> None:
        """Raise DataError unless there are either tests or a reason why the mutant survives."""
        if bool(self.tests) == bool(self.survives):
            raise DataError(f"mutant {self.id}: either 'tests' or 'survives' must be there")


@dataclass(frozen=True)
class Mutant(ListedMutant):
    """One mutant of the RTL.

    Attributes:
        caught_by: Failure kinds that count as a catch.
        cause: Regular expression that the cause of the failure must match.
        sim: Simulator.
        build: Named build of the testplan.
        seed: Seed of the runs.
        timeout: Limit of a run in seconds of processor time.
        scale: Factor of the amount of traffic.
    """

    tests: tuple[Annotated[str, like(r"^test_\w+::\w+(/\w+=\w+)?$")], ...] = ()
    caught_by: Some[_Catch] = _CATCHES[:2]
    cause: str = ""
    sim: Text = field(default_factory=lambda: registry.quick().name)
    build: str = "default"
    seed: Seed = 1
    timeout: Positive = testplan.DEFAULT_TIMEOUT_S
    scale: Positive = 1.0

    def __post_init__(self) -> None:
        """Raise DataError for an unknown simulator, and a cause that is no regular expression."""
        super().__post_init__()
        try:
            registry.get(self.sim)
            re.compile(self.cause)
        except (NfError, re.error) as error:
            raise DataError(f"mutant {self.id}: {error}") from None


@dataclass(frozen=True)
class ForeignMutant(Mutant):
    """One mutant of a list outside the tree: it may name no test, and others may catch it."""

    def __post_init__(self) -> None:
        """Accept what `Mutant` refuses."""


def read_foreign(path: Path) -> list[ForeignMutant]:
    """Read and check the mutants of a YAML file outside the tree."""
    return load_list(path, "mutants", ForeignMutant, with_edits, least=1)


def read(path: Path = FOLDER) -> list[Mutant]:
    """Read and check the mutants of a YAML file, or of all files of a folder in order of name."""
    return load_list(path, "mutants", Mutant, with_edits, least=1)


def problems(mutants: Sequence[Mutant], plan: Plan, tests: Sequence[TestCase]) -> list[str]:
    """Return an error line for each mutant that is listed twice or cannot be run.

    Errors are a missing test, a missing build, and an edit that does not match once.

    Args:
        mutants: Mutants to check.
        plan: Testplan, with the builds.
        tests: All existing tests.
    """
    known = {test.id for test in tests}
    out: list[str] = []
    seen: set[str] = set()
    texts: dict[BuildSpec, dict[str, str]] = {}
    for mutant in mutants:
        if mutant.id in seen:
            out.append(f"mutant {mutant.id} is listed twice")
        seen.add(mutant.id)
        gone = [t for t in mutant.tests if t.partition("/")[0] not in known]  # less its parameter
        out += [f"mutant {mutant.id}: no test {t}" for t in gone]
        try:
            spec = testplan.build_spec(plan, mutant.build, mutant.sim)
            if spec.dut is not Dut.RTL:  # a twin is converted after its edits
                sources.collect(replace(spec, edits=mutant.edits))
                continue
            if spec not in texts:
                texts[spec] = sources.collect(spec).texts
            sources.apply_edits(texts[spec], mutant.edits)
        except NfError as error:
            out.append(f"mutant {mutant.id}: {error}")
    return out


def runs_of(mutant: Mutant, plan: Plan) -> list[RunSpec]:
    """Return the runs of a mutant, one for each test that must catch it, compiled with -O0."""
    build = replace(
        testplan.build_spec(plan, mutant.build, mutant.sim),
        edits=mutant.edits,
        opt="-O0",  # run once, for a second or two: what counts is the time of the compiler
    )
    return [
        RunSpec(
            build,
            f"verif.tests.{test.partition('::')[0]}",
            (test.partition("::")[2],),
            mutant.seed,
            mutant.timeout,
            env=testplan.scale_environment(mutant.scale),
            build_name=f"mutant-{mutant.id}",
            rerun=f".venv/bin/nf mutate {mutant.id}",
        )
        for test in mutant.tests
    ]


def caught(mutant: Mutant, record: RunRecord) -> bool:
    """Return whether a run of a mutant failed, by a kind and a cause that count as a catch."""
    return (
        not record.passed
        and record.kind in mutant.caught_by
        and re.search(mutant.cause, record.cause) is not None
    )


def catches(mutants: Sequence[Mutant]) -> Counter[tuple[str, str]]:
    """Count, for each RTL module and test, the mutants in this module that the test must catch.

    Keys are the file name without suffix and the id of the test without parameter values.
    """
    return Counter(
        (Path(edit.file).stem, test.partition("/")[0])
        for mutant in mutants
        for edit in mutant.edits
        for test in mutant.tests
    )


def watchers(
    mutants: Sequence[Mutant], sources: Mapping[str, str]
) -> dict[tuple[str, int], frozenset[str]]:
    """Return the tests that must catch a change of a source line, according to the listed mutants.

    Args:
        mutants: Listed mutants.
        sources: Text of each source by file name.

    Returns:
        By file and line number (from 1): names "TEST_ID BUILD".
    """
    found: dict[tuple[str, int], set[str]] = {}
    for mutant in mutants:
        names = {f"{test.partition('/')[0]} {mutant.build}" for test in mutant.tests}
        for edit in mutant.edits:
            before, old, _ = sources.get(edit.file, "").partition(edit.old)
            first = before.count("\n") + 1
            for line in range(first, first + edit.old.count("\n") + 1) if old else ():
                found.setdefault((edit.file, line), set()).update(names)
    return {place: frozenset(names) for place, names in found.items()}
