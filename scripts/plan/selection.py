# SPDX-License-Identifier: Apache-2.0
"""From the words of `nf run` to the runs that they ask for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from neuron_fabric.text import say
from scripts.build import registry
from scripts.common.errors import NfError
from scripts.common.records import Dut, RunSpec
from scripts.plan import depends, testplan
from scripts.plan.discover import TestCase, discover, select
from scripts.plan.order import Memory, fingerprints
from scripts.plan.testplan import Options, Plan
from scripts.record.database import History, keys_of

REPEAT = "repeat"  # --seed repeat
STIMULUS = ("NF_WEIGHTS", "NF_SCENARIO")  # of scenario tests
FROM_USERS = ("NF_SCALE", *STIMULUS)  # options have the last word
GREEN = ""  # --changed without a revision: since each test was green


class NothingToDo(NfError):
    """The choice is empty because all is well, not because a name was wrong."""


def plan_runs(args: argparse.Namespace) -> list[RunSpec]:
    """The runs that the arguments ask for, in the order of the plan.

    Raises NfError when nothing matches, NothingToDo when nothing failed or changed.
    """
    if args.globs and args.suite:
        raise NfError("name tests or a suite, not both.")
    if not args.globs and not args.suite and not args.failed and args.changed is None:
        raise NfError("name tests or a suite: `nf run GLOB..` or `nf run --suite smoke`.")
    plan = testplan.read()
    tests = discover()
    sims, missing = registry.choose(args.sim)
    if missing:
        say(missing)
    options = Options(
        sims=tuple(sims),
        seeds=(1,),
        builds=tuple(args.build),
        timeout_s=args.timeout,
        waves=args.waves,
        coverage=args.coverage,
        group=args.group,
        scale=tuple((sim, args.scale) for sim in registry.names()) if args.scale else (),
        dut=Dut(args.dut) if args.dut else None,
    )
    number = 1
    if args.suite:
        suite = plan.suite(args.suite)
        tests = testplan.of_suite(plan, suite, tests)
        number = suite.seeds
        options = replace(
            options,
            group=options.group or suite.group,
            scale=options.scale or suite.scale,
            skip=suite.skip,
            narrow=suite.narrow,
        )
    else:
        tests = select(tests, args.globs or ["*"])
    if isinstance(args.seed, int):
        options = replace(options, seeds=(args.seed,))
    elif args.seed is None:
        options = replace(options, seeds=range(1, (args.seeds or number) + 1))
    if args.failed:
        specs = _failed(plan, tests, options)
    else:
        specs = testplan.expand(plan, tests, options)
        if not specs:
            raise NfError(
                "no run is left: the testplan allows none of these tests on that simulator."
            )
    if args.seed == REPEAT:
        specs = _with_last_seeds(specs)
    if args.changed is not None:
        specs = _changed(specs, args.changed)
    for name, value in zip(STIMULUS, (args.weights, args.scenario), strict=True):
        if value:
            specs = [replace(spec, env=(*spec.env, (name, value))) for spec in specs]
    for name in FROM_USERS:  # what reaches a run by the environment is a part of its record, too
        if value := os.environ.get(name):
            specs = [
                spec if name in dict(spec.env) else replace(spec, env=(*spec.env, (name, value)))
                for spec in specs
            ]
    if args.link_trace:  # link.trace beside the run's log
        specs = [replace(spec, env=(*spec.env, ("NF_LINK_TRACE", "1"))) for spec in specs]
    return specs


def _failed(plan: Plan, tests: Sequence[TestCase], options: Options) -> list[RunSpec]:
    """Tests whose last run was red, each on the simulator, build and seed of that run."""
    with History(write=False) as history:
        red = history.red()
    by_id = {test.id: test for test in tests}
    specs: dict[str, RunSpec] = {}
    for name, run in red:
        test, sim, build = by_id.get(name), run.spec.build.sim, run.spec.build_name
        if test is None or sim not in options.sims or not plan.has_build(build):
            continue
        if options.builds and build not in options.builds:
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
    if not specs:
        raise NothingToDo("none of these tests was red in its last run.")
    return list(specs.values())


def _with_last_seeds(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Each run with the seeds that its tests had last; what was never run gets seed 1."""
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
    """Runs that a changed file affects."""
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
    """`number` rounds of the same runs, each with a seed that was never used before. Runs that
    differed in their seed alone (those of a suite) become one: they would share a folder."""
    for seed in range(largest + 1, largest + 1 + number):
        yield list(dict.fromkeys(replace(spec, seed=seed) for spec in specs))
