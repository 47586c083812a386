# SPDX-License-Identifier: Apache-2.0
"""Selection of runs: from the arguments of `nf run` to RunSpecs."""

from __future__ import annotations

import argparse
import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.common.errors import NfError
from scripts.common.records import FIXED_SEED, Dut, RunSpec
from scripts.history.database import History, Key, keys_of
from scripts.plan import depends, testplan
from scripts.plan.discover import TestCase, discover, select
from scripts.plan.run_order import Memory, fingerprints
from scripts.plan.testplan import Options, Plan, Suite

REPEAT = "repeat"  # --seed repeat
STIMULUS = ("NF_WEIGHTS", "NF_SCENARIO")  # of scenario tests
FROM_USERS = ("NF_SCALE", *STIMULUS)  # options have the last word
DRAWN = 10**9  # drawn seeds are smaller, so that --until-fail can go on from the largest
KEPT = 5
_SHOWN = 20
GREEN = ""  # --changed without a revision: since each test was green


class NothingToDo(NfError):
    """An empty selection that is no mistake: no test failed, or no file changed."""


def plan_runs(args: argparse.Namespace) -> list[RunSpec]:
    """Return the runs that the arguments of `nf run` ask for, in the order of the testplan.

    Raises:
        NfError: An argument is wrong, or no test matches.
        NothingToDo: With --failed no test failed, or with --changed no file changed.
    """
    filters = (args.globs, args.suite, args.stage, args.feature, args.failed)
    if not any(filters) and args.changed is None:
        raise NfError("name tests or a suite: `nf run GLOB..` or `nf run --suite smoke`.")
    if args.seed_base and (args.seed is not None or args.failed or args.until_fail):
        raise NfError("--seed-base draws seeds: leave out --seed, --failed and --until-fail.")
    plan = testplan.read()
    for name in args.build:
        if not testplan.is_pattern(name):
            plan.build(name)  # raises for an unknown one
    suite = plan.suite(args.suite) if args.suite else None
    tests, options = discover(), _options(args, suite)
    if suite:
        tests = testplan.of_suite(plan, suite, tests)
    if args.globs or not suite:
        tests = select(tests, args.globs or ["*"])
    tests = testplan.narrowed(plan, tests, args.stage, args.feature)
    base = _base(args, suite)
    options = replace(options, seeds=_seeds(args, suite, base))
    if args.failed:
        specs = _red(plan, tests, options)
        if not specs:
            raise NothingToDo("none of these tests was red in its last run.")
    else:
        specs = _expanded(plan, tests, options, kept=bool(suite and base))
    if args.seed == REPEAT:
        specs = _with_last_seeds(specs)
    if args.changed is not None:
        specs = _changed(specs, args.changed)
    return [_with_environment(spec, args) for spec in specs]


def _options(args: argparse.Namespace, suite: Suite | None) -> Options:
    """Return the options for `testplan.expand` from the command line, completed by a suite's.

    A line is printed if the chosen simulators are not all installed.
    """
    sims, missing = registry.choose(args.sim)
    if missing:
        say(missing)
    scale = tuple((sim, args.scale) for sim in registry.names()) if args.scale else ()
    options = Options(
        sims=tuple(sims),
        seeds=(1,),
        builds=tuple(args.build),
        main_only=not args.suite and any((args.globs, args.stage, args.feature)),
        timeout_s=args.timeout,
        **{name: getattr(args, name) for name in ("waves", "coverage", "group", "once")},
        scale=scale,
        dut=Dut(args.dut) if args.dut else None,
    )
    return options.of_suite(suite) if suite else options


def _expanded(plan: Plan, tests: Sequence[TestCase], options: Options, kept: bool) -> list[RunSpec]:
    """Return the runs of the tests, for the builds, simulators and seeds of `options`.

    Args:
        plan: Testplan.
        tests: Tests to run.
        options: Options of the command line and the suite.
        kept: Whether to add runs of seeds that failed before; see `_kept`.

    Raises:
        NfError: The testplan allows no run, or there are too many.
    """
    if options.main_only and not options.builds and (line := testplan.left_out(plan, tests)):
        say(f"nf run: {line}")
    specs = testplan.expand(plan, tests, options)
    if not specs:
        raise NfError(
            "no run is left: the testplan allows none of these tests on that simulator and build."
        )
    return specs + (_kept(plan, tests, options, {spec.id for spec in specs}) if kept else [])


def _with_environment(spec: RunSpec, args: argparse.Namespace) -> RunSpec:
    """Return the run with variables for the simulation: from options, then from the user's shell.

    Options set NF_WEIGHTS, NF_SCENARIO, NF_LINK_TRACE and COCOTB_LOG_LEVEL; from the shell come
    those of FROM_USERS that are not set yet, since the record of the run must hold them.
    """
    env = [*spec.env]
    options = zip(STIMULUS, (args.weights, args.scenario), strict=True)
    env += [(name, value) for name, value in options if value]
    known = dict(env)
    env += [(n, os.environ[n]) for n in FROM_USERS if os.environ.get(n) and n not in known]
    if args.link_trace:  # link.trace in the folder of the run
        env.append(("NF_LINK_TRACE", "1"))
    if args.verbosity:
        env.append(("COCOTB_LOG_LEVEL", args.verbosity.upper()))
    return replace(spec, env=tuple(env))


def date_base() -> int:
    """Return the base of tonight's random seeds: the UTC date as a number, 20261231."""
    return int(f"{datetime.now(UTC):%Y%m%d}")


def _base(args: argparse.Namespace, suite: Suite | None) -> int:
    """Return the base from which random seeds are drawn; 0 if they are given or counted from 1.

    It is `--seed-base`, or the date for a suite with several seeds.
    """
    if args.seed_base:
        return int(args.seed_base)
    given = args.seed is not None or args.seeds or args.failed or args.until_fail
    return 0 if given or suite is None or suite.seeds == 1 else date_base()


def _seeds(args: argparse.Namespace, suite: Suite | None, base: int) -> Sequence[int]:
    """Return the seeds that each test runs with, and print drawn ones.

    Args:
        args: Command line.
        suite: Suite, with its number of seeds, of which one is `FIXED_SEED`; None for none.
        base: Base of the drawing; 0 counts from 1.
    """
    if isinstance(args.seed, int):
        return (args.seed,)
    number = 1 if args.seed else args.seeds or (suite.seeds if suite else 1)
    if not base:
        return range(1, number + 1)
    if number > testplan.MAX_RUNS:
        raise NfError(f"--seeds {number}: more than {testplan.MAX_RUNS:,} runs; take fewer seeds.")
    drawn = random.Random(f"night {base}").sample(range(FIXED_SEED + 1, DRAWN), number)
    if suite:
        drawn[0] = FIXED_SEED  # reaches the same bins on every date
    some = ", ".join(map(str, drawn[:_SHOWN])) + (", .." if number > _SHOWN else "")
    say(f"nf run: seeds {some} (--seed-base {base} draws the same)")
    return drawn


def _kept(
    plan: Plan, tests: Sequence[TestCase], options: Options, known: set[str]
) -> list[RunSpec]:
    """Return additional runs with seeds that failed before, and print their number.

    These are the seeds listed in the testplan (`kept`), and the last KEPT seeds of each test,
    simulator and build whose last run in the history failed.

    Args:
        plan: Testplan.
        tests: Tests to run.
        options: Options of the command line and the suite.
        known: Ids of runs that are planned already and not returned again.
    """
    found: dict[str, RunSpec] = {}
    by_id = {testplan.plain(test): test for test in tests}
    for one in plan.kept:
        if test := by_id.get(one.test):
            alone = replace(options, seeds=(one.seed,), group=False)
            for spec in testplan.expand(plan, [test], alone):
                if one.fits(one.test, spec.build_name, spec.build.sim):
                    found[spec.id] = spec
    with suppress(NfError):  # no history, or a damaged one, which the recorder reports
        counts: Counter[Key] = Counter()
        for spec in _red(plan, tests, options):
            if any(name in STIMULUS for name, _ in spec.env):
                continue  # an experiment, whose scenario may be gone
            (key, *_) = keys_of(spec)
            counts[key] += 1
            if counts[key] <= KEPT:
                found[spec.id] = spec
    out = [spec for id, spec in found.items() if id not in known]
    if out:
        say(f"nf run: and {len(out)} runs of seeds that failed before")
    return out


def _red(plan: Plan, tests: Sequence[TestCase], options: Options) -> list[RunSpec]:
    """Return the runs of the history that failed last, newest first, as they would be planned now.

    They keep simulator, build, seed, amount of traffic and stimulus; runs that `options` exclude or
    that the testplan no longer knows are left out, from a suite also those of a build that the
    testplan does not name for the test, which somebody has tried by hand.
    """
    with History(write=False) as history:
        red = history.red()
    by_id = {test.id: test for test in tests}
    specs: dict[str, RunSpec] = {}
    for name, run in red:
        test, sim, build = by_id.get(name), run.spec.build.sim, run.spec.build_name
        if test is None or sim not in options.sims or not plan.has_build(build):
            continue
        if options.builds and not any(fnmatchcase(build, one) for one in options.builds):
            continue
        factor = dict(run.spec.env).get("NF_SCALE")
        same = replace(
            options,
            sims=(sim,),
            seeds=(run.spec.seed,),
            builds=(build,),
            group=False,
            scale=options.scale or (((sim, float(factor)),) if factor else ()),
        )
        stimulus = tuple(one for one in run.spec.env if one[0] in STIMULUS)
        for spec in testplan.expand(plan, [test], same):
            specs[spec.id] = replace(spec, env=(*spec.env, *stimulus))
    return list(specs.values())


def _with_last_seeds(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Return each run with the seeds of its tests' last runs in the history, or seed 1 without any.

    Raises:
        NfError: The history holds no run of any of these tests.
    """
    seeds = Memory.read().seeds
    out: list[RunSpec] = []
    known = False
    for spec in specs:
        last = sorted({seed for key in keys_of(spec) for seed in seeds.get(key, ())})
        known = known or bool(last)
        out += [replace(spec, seed=seed) for seed in last or (1,)]
    if not known:
        raise NfError("--seed repeat: the history holds no run of these tests.")
    return out


def _changed(specs: Sequence[RunSpec], reference: str) -> list[RunSpec]:
    """Return the runs that depend on a file that changed since `reference`, in the same order.

    Args:
        specs: Runs to choose from.
        reference: Git revision to compare the working tree with; GREEN selects the runs with a test
            that has not passed with the present files.

    Raises:
        NothingToDo: No run is left.
        NfError: `reference` is no git revision.
    """
    if reference == GREEN:
        memory, prints = Memory.read_if_any(), fingerprints(specs)
        left = [spec for spec in specs if not memory.unchanged(spec, prints[spec.id])]
        since = "since each of these tests passed"
    else:
        try:
            files = depends.changed_since(reference)
        except NfError as error:
            raise NfError(f"--changed takes a git revision, or nothing: {error}") from error
        finder = depends.Dependencies()
        left = [spec for spec in specs if files & finder.files(spec)]
        since = f"since {reference}"
    if not left:
        raise NothingToDo(f"no file that these tests depend on changed {since}.")
    return left


def rounds(specs: Sequence[RunSpec], number: int, largest: int) -> Iterable[list[RunSpec]]:
    """Yield `number` lists of the same runs, each list with one seed that was never used before.

    Seeds count from `largest` + 1. Runs that differ only in their seed (those of a suite) become
    one: they would share a folder.
    """
    for seed in range(largest + 1, largest + 1 + number):
        yield list(dict.fromkeys(replace(spec, seed=seed) for spec in specs))
