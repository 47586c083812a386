# SPDX-License-Identifier: Apache-2.0
"""Testplan of the cocotb tests: features, tests, stages, named builds, and suites with seeds."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypeVar

from neuron_fabric.data import DataError
from neuron_fabric.typed import FieldRule, typed
from scripts.build import registry
from scripts.common import data
from scripts.common.errors import NfError, did_you_mean
from scripts.common.paths import TESTPLAN, shown
from scripts.common.records import FILELIST, TOP, BuildSpec, Dut, RunSpec, Waves
from scripts.plan.discover import TestCase, select

DEFAULT_TIMEOUT_S = 300.0
STAGES = ("V1", "V2", "V3")
MAX_RUNS = 100_000  # of one command: some days
T = TypeVar("T")
Stage = Annotated[str, FieldRule(STAGES.__contains__, f"one of {', '.join(STAGES)}")]
_Build = Annotated[str, data.like("^[a-z][a-z0-9_]*$")]
_Suite = Annotated[str, data.like("^[a-z][a-z0-9_-]*$")]
TestId = Annotated[str, data.like(r"^test_\w+::\w+$")]


@dataclass(frozen=True)
class Entry:
    """A planned test: its feature and stage, and the builds and simulators that it may run on.

    `timeout` is in seconds of processor time.
    """

    test: TestId
    feature: str
    stage: Stage
    builds: data.Some[str] = ("default",)
    sims: data.Some[data.Text] = field(default_factory=registry.names)
    timeout: data.Positive = DEFAULT_TIMEOUT_S


@dataclass(frozen=True)
class NamedBuild:
    """A build of the testplan: a design under test with values of its parameters.

    See `BuildSpec` for the fields; `reason` says why the build exists.
    """

    reason: data.Why
    top: str = TOP
    filelist: str = FILELIST
    parameters: tuple[tuple[str, int], ...] = ()
    public: tuple[Annotated[str, data.like(r"^\w+\.\w+$")], ...] = ()
    opt: Annotated[str, data.like("^-O[0-3]$")] = BuildSpec.opt
    dut: Dut = Dut.RTL


@dataclass(frozen=True)
class Skip:
    """Rule of a suite that leaves out runs, by glob patterns of test id, build and simulator.

    ``but`` are tests that it does not leave out.
    """

    why: data.Why
    test: data.Text = "*"
    build: data.Text = "*"
    sim: data.Text = "*"
    but: tuple[TestId, ...] = ()

    def __post_init__(self) -> None:
        """Raise DataError for a rule that names no test, build or simulator."""
        if (self.test, self.build, self.sim) == ("*", "*", "*"):
            raise DataError("one of 'test', 'build' and 'sim' must be there")

    def fits(self, test: str, build: str, sim: str) -> bool:
        """Return whether test id, build and simulator of a run match the three patterns."""
        pairs = ((test, self.test), (build, self.build), (sim, self.sim))
        fits = all(fnmatchcase(name, pattern) for name, pattern in pairs)
        return fits and test not in self.but


@dataclass(frozen=True, kw_only=True)
class Narrow(Skip):
    """Rule of a suite that runs matching tests with one value of their only parameter.

    ``values`` is NAME=VALUE. Tests with other parameters are not affected.
    """

    values: Annotated[str, data.like(r"^[\w.-]+=[\w.-]+$")]

    def meant(self, test: TestCase, build: str, sim: str) -> bool:
        """Return whether the rule applies: the only parameter is NAME, and the patterns match."""
        name = self.values.partition("=")[0]
        return test.parameters == (name,) and self.fits(test.id, build, sim)


@dataclass(frozen=True)
class Suite:
    """A named list of tests in the testplan.

    Attributes:
        name: Name of the suite.
        tests: Globs of tests.
        seeds: Number of seeds for each test: seed 1, and the others drawn at random.
        reason: Purpose of the suite.
        stages: Stages ("V1"..) that its tests must have; empty for all.
        group: Whether the tests of one module run in one simulator process.
        scale: Factor of the amount of traffic, by simulator.
        skip: Runs to leave out.
        narrow: Runs with one parameter value only.
    """

    name: str
    tests: data.Some[str]
    seeds: Annotated[int, data.within(1, 10_000)]
    reason: data.Why
    stages: tuple[Stage, ...] = ()
    group: bool = False
    scale: tuple[tuple[str, float], ...] = ()
    skip: tuple[Skip, ...] = ()
    narrow: tuple[Narrow, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Kept(Skip):
    """A seed that failed before, kept in the testplan: suites with drawn seeds also run it.

    The inherited patterns name the test, the builds and the simulators.
    """

    test: TestId
    seed: data.Seed


@dataclass(frozen=True)
class Plan:
    """The testplan: all YAML files of its folder, merged.

    Attributes:
        entries: Planned tests by id.
        builds: Named builds.
        suites: Suites by name.
        kept: Seeds that failed before.
    """

    entries: dict[str, Entry]
    builds: dict[str, NamedBuild]
    suites: dict[str, Suite]
    kept: tuple[Kept, ...] = ()

    def suite(self, name: str) -> Suite:
        """Return the suite of that name; NfError with the known names if there is none."""
        if name not in self.suites:
            known = ", ".join(sorted(self.suites)) or "none"
            hint = did_you_mean(name, self.suites)
            raise NfError(f"unknown suite {name!r}{hint} (there are: {known}).")
        return self.suites[name]

    def build(self, name: str) -> NamedBuild:
        """Return the build of that name; `NAME-myhdl` is the build NAME with the MyHDL twins.

        Raises:
            NfError: Unknown name; lists the known ones.
        """
        plain = name.removesuffix(_TWINS)
        if plain not in self.builds:
            raise NfError(f"unknown build {name!r}; there are: {', '.join(sorted(self.builds))}.")
        found = self.builds[plain]
        return found if plain == name else replace(found, dut=Dut.MYHDL)

    def has_build(self, name: str) -> bool:
        """Return whether `build` accepts that name."""
        try:
            self.build(name)
        except NfError:
            return False
        return True


_TWINS = f"-{Dut.MYHDL}"


def with_dut(name: str, dut: Dut) -> str:
    """Return a build's name for another implementation: `small` and MYHDL give `small-myhdl`."""
    return name.removesuffix(_TWINS) + (_TWINS if dut is Dut.MYHDL else "")


@dataclass(frozen=True)
class _Feature:
    name: data.Id
    spec: Annotated[str, data.at_least(3)]
    goal: data.Why
    tests: data.Some[data.Listed]


@dataclass(frozen=True)
class _File:
    builds: dict[_Build, data.Listed] = field(default_factory=dict)
    suites: dict[_Suite, data.Listed] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    features: tuple[_Feature, ...] = ()


def read(folder: Path = TESTPLAN) -> Plan:
    """Read and check every `*.yaml` of the testplan folder.

    Raises:
        NfError: A file is not valid, a name occurs twice, or a build or simulator is unknown.
    """
    plan = Plan({}, {"default": NamedBuild("")}, {})
    kept: list[Kept] = []
    for path in sorted(folder.glob("*.yaml")):
        content = data.load(path, _File)
        kept += content.kept
        try:
            for name, value in content.builds.items():
                at = f"builds.{name}"
                given = typed(dict[str, int], value.get("parameters", {}), f"{at}.parameters")
                value |= {"parameters": sorted(given.items())}
                _add(plan.builds, name, typed(NamedBuild, value, at))
            for name, value in content.suites.items():
                at = f"suites.{name}"
                factors = typed(dict[str, data.Positive], value.get("scale", {}), f"{at}.scale")
                pairs = [[registry.get(sim).name, factor] for sim, factor in factors.items()]
                _add(plan.suites, name, typed(Suite, value | {"name": name, "scale": pairs}, at))
            for feature in content.features:
                for value in feature.tests:
                    value |= {"feature": feature.name}
                    entry = typed(Entry, value, f"features.{feature.name}")
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
    """Return an error line for each difference between the testplan and the existing tests.

    These are a test without an entry, an entry without a test, a rule (skip, narrow, kept seed)
    that matches no run, and a test that rules leave out of a suite everywhere, of which no reason
    says that the night runs it.
    """
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
            out += [f"suite {suite.name} names {t}, no test" for t in skip.but if t not in existing]
        for narrow in suite.narrow:
            if not any(name in by_id and narrow.meant(by_id[name], *at) for name, *at in runs):
                out.append(f"suite {suite.name} narrows what is not there: {narrow.why}")
        out += _left_out_by_chance(suite, runs)
    for one in plan.kept:
        if not any(one.fits(*at) for at in runs):
            out.append(f"no run fits the kept seed {one.seed} of {one.test}: {one.why}")
    return out


def _left_out_by_chance(suite: Suite, runs: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return an error for each test of which a suite leaves out every run, if no reason says that
    the night runs it: each simulator or build may be left out because another one runs it.
    """
    reasons: dict[str, dict[str, None]] = {}
    for name, *at in runs:
        why = next((skip.why for skip in suite.skip if skip.fits(name, *at)), "")
        reasons.setdefault(name, {})[why] = None
    texts = {name: "; ".join(whys) for name, whys in reasons.items() if "" not in whys}
    return [
        f"suite {suite.name} runs {name} nowhere, and no reason says nightly: {text}"
        for name, text in texts.items()
        if "night" not in text
    ]


def of_suite(plan: Plan, suite: Suite, tests: Sequence[TestCase]) -> list[TestCase]:
    """Return the tests of a suite: those that match its globs and have one of its stages.

    Raises:
        NfError: There is none.
    """
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
    """Return those of ``tests`` that have one of the stages and one of the features.

    An empty list of stages or features restricts nothing.

    Raises:
        NfError: A feature is unknown, or no test is left.
    """
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
    """Return the id of a test without the values of its parameters."""
    return test.id.partition("/")[0]


def main_build(builds: Sequence[str]) -> str:
    """Return the build that a test runs on unless others are named: "default", else the first."""
    return "default" if "default" in builds else builds[0]


def left_out(plan: Plan, tests: Sequence[TestCase]) -> str:
    """Return a line that names the builds that `Options.main_only` uses and those that it omits.

    "" if all tests have the default build alone.
    """
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
    """Options of the command line and the suite that determine the runs of a test."""

    sims: tuple[str, ...]
    seeds: Sequence[int]
    builds: tuple[str, ...] = ()  # names and patterns; empty: those of the plan entry
    main_only: bool = False  # without `builds`: the default build of each test, or its first
    planned_only: bool = False  # `builds` choose among those of the plan entry
    timeout_s: float | None = None
    waves: bool = False
    coverage: bool = False
    group: bool = False
    once: bool = False  # each test on one build and simulator: see `_one_place`
    scale: tuple[tuple[str, float], ...] = ()  # traffic of the tests, by simulator; 1 else
    skip: tuple[Skip, ...] = ()
    narrow: tuple[Narrow, ...] = ()
    dut: Dut | None = None  # in place of the one that the builds name

    def of_suite(self, suite: Suite) -> Options:
        """Return the options completed by those of a suite."""
        return replace(
            self,
            planned_only=True,
            group=self.group or suite.group,
            scale=self.scale or suite.scale,
            skip=suite.skip,
            narrow=suite.narrow,
        )


def expand(plan: Plan, tests: Sequence[TestCase], options: Options) -> list[RunSpec]:
    """Return every run of the tests: all combinations of builds, simulators and seeds allowed.

    With `group`, the tests of one module, build, simulator and seed share a run.

    Raises:
        NfError: There would be more than MAX_RUNS runs: `--seeds 1000000000` is a typing error.
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
        for name, sim in _one_place(plan, places) if options.once else places:
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


def _one_place(plan: Plan, places: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return one of the (build, simulator) pairs of a test: its first build.

    A block is built for a simulator that compiles quickly, the controller for the first one: to
    compile a block takes the others longer than its tests.
    """
    first = [(name, sim) for name, sim in places if name == places[0][0]]
    if first and build_spec(plan, *first[0]).top != TOP:
        first.sort(key=lambda place: registry.get(place[1]).compiles_slowly)
    return first[:1]


def _builds(planned: Sequence[str], options: Options) -> tuple[str, ...]:
    """Return the names of the builds that a test runs on, from its entry and the options."""
    if not options.builds:
        return (main_build(planned),) if options.main_only else tuple(planned)
    found = []
    for text in options.builds:
        fits = fnmatch.filter(planned, text)
        found += fits if fits or options.planned_only or is_pattern(text) else [text]
    return tuple(dict.fromkeys(found))


def is_pattern(text: str) -> bool:
    """Return whether the name of a build is a glob pattern (has `*`, `?` or `[`)."""
    return any(character in text for character in "*?[")


def _join(first: RunSpec, second: RunSpec) -> RunSpec:
    timeout_s = first.timeout_s + second.timeout_s
    return replace(first, tests=first.tests + second.tests, timeout_s=timeout_s)


def scale_environment(scale: float) -> tuple[tuple[str, str], ...]:
    """Return the variable NF_SCALE, the factor of the traffic, as pairs; () for factor 1."""
    return (("NF_SCALE", f"{scale:g}"),) if scale != 1 else ()


def build_spec(
    plan: Plan, name: str, sim: str, waves: bool = False, coverage: bool = False
) -> BuildSpec:
    """Return the BuildSpec of a named build of the testplan on a simulator.

    Args:
        plan: Testplan.
        name: Name of the build.
        sim: Name of the simulator.
        waves: Whether to write waves, in the format of the simulator.
        coverage: Whether to collect code coverage; ignored where the simulator has none, and with
            MyHDL twins, whose lines are not those of the tree.
    """
    named, simulator = plan.build(name), registry.get(sim)
    same = ("top", "filelist", "parameters", "public", "opt", "dut")
    spec = BuildSpec(
        sim=sim,
        **{name: getattr(named, name) for name in same},
        waves=Waves.FST if waves else None,
        coverage=coverage and simulator.coverage_file is not None and named.dut is Dut.RTL,
    )
    return simulator.as_it_builds(spec)
