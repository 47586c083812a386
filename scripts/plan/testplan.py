# SPDX-License-Identifier: Apache-2.0
"""The testplan: features, tests, stages, named builds, and suites with their seeds."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts.build import registry
from scripts.common import data
from scripts.common.errors import NfError, did_you_mean
from scripts.common.paths import TESTPLAN, shown
from scripts.common.records import FILELIST, TOP, BuildSpec, Dut, RunSpec
from scripts.plan.discover import TestCase, select

DEFAULT_TIMEOUT_S = 300.0
STAGES = ("V1", "V2", "V3")
MAX_RUNS = 100_000  # of one command: some days
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A planned test: its feature and stage, and the builds and simulators that it runs on."""

    test: str
    feature: str
    stage: str
    builds: tuple[str, ...] = ("default",)
    sims: tuple[str, ...] = field(default_factory=registry.names)
    timeout: float = DEFAULT_TIMEOUT_S


@dataclass(frozen=True)
class NamedBuild:
    """A parameter set of a design under test."""

    reason: str = ""
    top: str = TOP
    filelist: str = FILELIST
    parameters: tuple[tuple[str, int], ...] = ()
    public: tuple[str, ...] = ()
    opt: str = BuildSpec.opt
    dut: Dut = Dut.RTL


@dataclass(frozen=True)
class Skip:
    """Runs that a suite leaves out, by patterns of their names."""

    why: str
    test: str = "*"
    build: str = "*"
    sim: str = "*"

    def fits(self, test: str, build: str, sim: str) -> bool:
        """Return whether that run is left out."""
        pairs = ((test, self.test), (build, self.build), (sim, self.sim))
        return all(fnmatchcase(name, pattern) for name, pattern in pairs)


@dataclass(frozen=True)
class Narrow(Skip):
    """Runs of a suite with one value of their parameter: ``values`` is NAME=VALUE.

    Tests with other parameters are not affected.
    """

    values: str = ""

    def meant(self, test: TestCase, build: str, sim: str) -> bool:
        """Return whether the rule applies to that run."""
        name = self.values.partition("=")[0]
        return test.parameters == (name,) and self.fits(test.id, build, sim)


@dataclass(frozen=True)
class Suite:
    """A named list of tests; `seeds` runs of each: seed 1, or several that are drawn."""

    name: str
    tests: tuple[str, ...]
    seeds: int
    reason: str
    stages: tuple[str, ...] = ()
    group: bool = False
    scale: tuple[tuple[str, float], ...] = ()
    skip: tuple[Skip, ...] = ()
    narrow: tuple[Narrow, ...] = ()


@dataclass(frozen=True)
class Kept(Skip):
    """A seed that failed before, which suites with drawn seeds also run where its patterns fit."""

    seed: int = 1


@dataclass(frozen=True)
class Plan:
    """The testplan: all files of its folder, merged."""

    entries: dict[str, Entry]
    builds: dict[str, NamedBuild]
    suites: dict[str, Suite]
    kept: tuple[Kept, ...] = ()

    def suite(self, name: str) -> Suite:
        """Return the suite of that name; NfError with the known names if there is none."""
        if name not in self.suites:
            known = ", ".join(sorted(self.suites)) or "none"
            hint = did_you_mean(name, self.suites)
            raise NfError(f"unknown suite {name!r}{hint}; there are: {known}.")
        return self.suites[name]

    def build(self, name: str) -> NamedBuild:
        """Return the build of that name, also of a name made by `with_dut`; NfError with the
        known names if there is none."""
        plain = name.removesuffix(_TWINS)
        if plain not in self.builds:
            raise NfError(f"unknown build {name!r}; there are: {', '.join(sorted(self.builds))}.")
        found = self.builds[plain]
        return found if plain == name else replace(found, dut=Dut.MYHDL)

    def has_build(self, name: str) -> bool:
        """Return whether `build` knows that name."""
        try:
            self.build(name)
        except NfError:
            return False
        return True


_TWINS = f"-{Dut.MYHDL}"


def with_dut(name: str, dut: Dut) -> str:
    """Return the name of a build with another design under test: `small` and MYHDL give
    `small-myhdl`."""
    return name.removesuffix(_TWINS) + (_TWINS if dut is Dut.MYHDL else "")


def read(folder: Path = TESTPLAN) -> Plan:
    """Read every `*.yaml` of the folder. Names must be unique over all files."""
    plan = Plan({}, {"default": NamedBuild()}, {})
    kept: list[Kept] = []
    for path in sorted(folder.glob("*.yaml")):
        content = data.load(path, "testplan")
        try:
            for name, value in content.get("builds", {}).items():
                pairs = sorted(value.get("parameters", {}).items())
                _add(plan.builds, name, typed(NamedBuild, {**value, "parameters": pairs}))
            for name, value in content.get("suites", {}).items():
                pairs = [[registry.get(sim).name, x] for sim, x in value.get("scale", {}).items()]
                _add(plan.suites, name, typed(Suite, {**value, "name": name, "scale": pairs}))
            kept += typed(list[Kept], content.get("kept", []))
            for feature in content.get("features", ()):
                for value in feature["tests"]:
                    entry = typed(Entry, {**value, "feature": feature["name"]})
                    for sim in entry.sims:
                        registry.get(sim)
                    _add(plan.entries, entry.test, entry)
        except (NfError, DataError) as error:
            raise NfError(f"{shown(path)}: {error}") from None
    for name in (name for entry in plan.entries.values() for name in entry.builds):
        plan.build(name)
    return replace(plan, kept=tuple(kept))


def _add(known: dict[str, T], name: str, value: T) -> None:
    if name in known:
        raise NfError(f"{name} is in the testplan twice.")
    known[name] = value


def problems(plan: Plan, tests: Sequence[TestCase]) -> list[str]:
    """Return a line for each test without an entry, entry without a test, and rule that matches
    no run."""
    existing = {test.id for test in tests}
    out = [f"{t.id} has no entry in the testplan" for t in tests if t.id not in plan.entries]
    missing = [entry for entry in plan.entries if entry not in existing]
    out += [f"the testplan names {entry}, which no file defines" for entry in missing]
    by_id = {test.id: test for test in tests}
    runs = [
        (e.test, build, sim) for e in plan.entries.values() for build in e.builds for sim in e.sims
    ]
    for suite in plan.suites.values():
        for skip in suite.skip:
            if not any(skip.fits(*one) for one in runs):
                out.append(f"suite {suite.name} leaves out what is not there: {skip.why}")
        for narrow in suite.narrow:
            if not any(name in by_id and narrow.meant(by_id[name], *at) for name, *at in runs):
                out.append(f"suite {suite.name} narrows what is not there: {narrow.why}")
    for one in plan.kept:
        if not any(one.fits(*at) for at in runs):
            out.append(f"no run fits the kept seed {one.seed} of {one.test}: {one.why}")
    return out


def of_suite(plan: Plan, suite: Suite, tests: Sequence[TestCase]) -> list[TestCase]:
    """Return the tests of a suite."""
    chosen = select(tests, suite.tests)
    if suite.stages:
        entries = ((test, plan.entries.get(test.id)) for test in chosen)
        chosen = [test for test, entry in entries if entry and entry.stage in suite.stages]
    if not chosen:
        raise NfError(f"suite {suite.name!r} holds no test.")
    return chosen


def narrowed(
    plan: Plan, tests: Sequence[TestCase], stages: Sequence[str], features: Sequence[str]
) -> list[TestCase]:
    """Return the tests of these stages and features (none named: all). NfError for none."""
    known = {entry.feature for entry in plan.entries.values()}
    if unknown := set(features) - known:
        raise NfError(f"unknown feature {min(unknown)!r}; there are: {', '.join(sorted(known))}.")
    if not stages and not features:
        return list(tests)
    entries = ((test, plan.entries.get(plain(test))) for test in tests)
    found = [
        test
        for test, entry in entries
        if entry
        and (not stages or entry.stage in stages)
        and (not features or entry.feature in features)
    ]
    if not found:
        raise NfError(f"none of these tests is of {' '.join([*stages, *features])} (`nf list`).")
    return found


def plain(test: TestCase) -> str:
    """Return the name of a test without the value of its parameter."""
    return test.id.partition("/")[0]


def main_build(builds: Sequence[str]) -> str:
    """Return the build that a test runs on unless others are named."""
    return "default" if "default" in builds else builds[0]


def left_out(plan: Plan, tests: Sequence[TestCase]) -> str:
    """Return the line that names the builds that `Options.main_only` takes and leaves out; ""
    when tests have the default build alone."""
    planned = [e.builds for test in tests if (e := plan.entries.get(plain(test)))]
    taken = Counter(map(main_build, planned))
    left = sorted({name for builds in planned for name in builds if name != main_build(builds)})
    if not left and not taken.keys() - {"default"}:
        return ""
    each = ", ".join(f"{name} ({count} test{'s' * (count > 1)})" for name, count in taken.items())
    rest = f"; left out: {', '.join(left)} (--build NAME, or --build '*' for all)" if left else ""
    return f"one build for each test: {each}{rest}"


@dataclass(frozen=True)
class Options:
    """Options of the command line that apply to the plan."""

    sims: tuple[str, ...]
    seeds: Sequence[int]
    builds: tuple[str, ...] = ()  # names and patterns; empty: those of the plan entry
    main_only: bool = False  # without `builds`: the default build of each test, or its first
    planned_only: bool = False  # `builds` choose among those of the plan entry
    timeout_s: float | None = None
    waves: bool = False
    coverage: bool = False
    group: bool = False
    once: bool = False  # each test on the first build and simulator that is left for it
    scale: tuple[tuple[str, float], ...] = ()  # traffic of the tests, by simulator; 1 else
    skip: tuple[Skip, ...] = ()
    narrow: tuple[Narrow, ...] = ()
    dut: Dut | None = None  # in place of the one that the builds name


def expand(plan: Plan, tests: Sequence[TestCase], options: Options) -> list[RunSpec]:
    """Return every run of the tests: builds x simulators x seeds, grouped if asked.

    NfError for more than MAX_RUNS runs: `--seeds 1000000000` is a typing error.
    """
    most = len(tests) * len(options.sims) * len(options.seeds)
    if most > MAX_RUNS:
        raise NfError(f"that is {most:,} runs, more than {MAX_RUNS:,}: take fewer seeds or tests.")
    specs: dict[tuple[object, ...], RunSpec] = {}
    for test in tests:
        entry = plan.entries.get(plain(test))
        wanted_builds = _builds(entry.builds if entry else ("default",), options)
        allowed = entry.sims if entry else registry.names()
        planned = entry.timeout if entry else DEFAULT_TIMEOUT_S
        timeout = options.timeout_s or planned
        if options.dut:
            named = (with_dut(name, options.dut) for name in wanted_builds)
            wanted_builds = tuple(dict.fromkeys(named))
        places = [
            (name, sim)
            for name in wanted_builds
            for sim in options.sims
            if sim in allowed and not any(s.fits(plain(test), name, sim) for s in options.skip)
        ]
        for name, sim in places[:1] if options.once else places:
            values = [n.values for n in options.narrow if n.meant(test, name, sim)][:1]
            chosen = test.name if "/" in test.name else "/".join([test.name, *values])
            for seed in options.seeds:
                build = build_spec(plan, name, sim, options.waves, options.coverage)
                one = RunSpec(
                    build,
                    test.module,
                    (chosen,),
                    seed,
                    timeout,
                    env=scale_environment(dict(options.scale).get(sim, 1.0)),
                    build_name=name,
                )
                key = (test.module, name, sim, seed) + (() if options.group else (test.name,))
                old = specs.get(key)
                specs[key] = one if old is None else _join(old, one)
    return list(specs.values())


def _builds(planned: Sequence[str], options: Options) -> tuple[str, ...]:
    """Return the builds that a test runs on."""
    if not options.builds:
        return (main_build(planned),) if options.main_only else tuple(planned)
    found = []
    for text in options.builds:
        fits = fnmatch.filter(planned, text)
        found += fits if fits or options.planned_only or is_pattern(text) else [text]
    return tuple(dict.fromkeys(found))


def is_pattern(text: str) -> bool:
    """Return whether a name of a build is a pattern."""
    return any(character in text for character in "*?[")


def _join(first: RunSpec, second: RunSpec) -> RunSpec:
    timeout_s = first.timeout_s + second.timeout_s
    return replace(first, tests=first.tests + second.tests, timeout_s=timeout_s)


def scale_environment(scale: float) -> tuple[tuple[str, str], ...]:
    """Return the variable that sets the amount of traffic of a bench."""
    return (("NF_SCALE", f"{scale:g}"),) if scale != 1 else ()


def build_spec(
    plan: Plan, name: str, sim: str, waves: bool = False, coverage: bool = False
) -> BuildSpec:
    """Return the BuildSpec of a named build on a simulator.

    Code coverage is on only where the simulator collects it and the lines are those of the tree.
    """
    named, simulator = plan.build(name), registry.get(sim)
    spec = BuildSpec(
        sim=sim,
        top=named.top,
        filelist=named.filelist,
        parameters=named.parameters,
        public=named.public,
        opt=named.opt,
        dut=named.dut,
        waves=simulator.wave_format if waves else None,
        coverage=coverage and simulator.coverage_file is not None and named.dut is Dut.RTL,
    )
    return simulator.as_it_builds(spec)
