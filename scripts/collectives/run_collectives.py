# SPDX-License-Identifier: Apache-2.0
"""`nf collectives run`: runs collectives on the RTL, with hosts, a switch and devices.

The signal-level bench runs each collective passively and, where it adds, with the device and every
route, in all traffic profiles. The outputs of all ranks are compared with the oracle bit for bit.
With --bulk a C++ host drives devices in threads, and clocks are printed. With --processes real
processes run the passive schedules through shared memory. With --digest all of them and the numpy
model run the same collectives, and must give the same digests.

examples:
  nf collectives run all_gather              4 hosts, 2 devices, on Verilator and Icarus
  nf collectives run all --hosts 3 --sim verilator --seeds 20
  nf collectives run all --bulk              larger ones by the bulk host: digests and clocks
  nf collectives run all --processes         the same schedules by processes: the same digests
  nf collectives run all --digest            one digest for each collective, by all executors
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from neuron_fabric.collectives.schedule import Collective
from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli.options import add_simulators
from scripts.cli.run import execute
from scripts.collectives.executor_runs import (
    LINES,
    bulk_lines,
    compared,
    kinds_of,
    process_lines,
)
from scripts.common.arguments import add_flags, up_to
from scripts.common.errors import NfError, did_you_mean
from scripts.common.records import RunSpec
from scripts.plan import testplan
from scripts.run import simulate
from scripts.run.replay_simulators import Simulators

VARIABLE = "NF_COLLECTIVES"
BUILD = "pool"
TIMEOUT_S = 3600.0
FEW_LINES = 12
"""Lines of a vector or part at signal level, where they are the same for all executors."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf collectives run`."""
    add = parser.add_argument
    add("what", nargs="?", default="all", metavar="NAME", help="all, or a collective")
    add("--hosts", type=up_to(16, first=2), default=4, metavar="W", help="number of hosts (4)")
    add("--devices", type=up_to(8), default=2, metavar="D", help="number of devices (2)")
    what = f"lines of each (drawn; {LINES} with --bulk, --processes; {FEW_LINES} with --digest)"
    add("--lines", type=up_to(100), metavar="N", help=what)
    add("--seeds", type=up_to(10_000), default=1, metavar="N", help="seeds 1 to N (1)")
    add_flags(
        parser,
        bulk="drive the devices by the bulk host; print clocks and digests",
        processes="run processes that share memory, without devices; print digests",
        digest="run all executors; print the digest of each collective, which must be the same",
    )
    add_simulators(parser)


def run(args: argparse.Namespace) -> int:
    """Run the collectives; return 0 if every output was right."""
    known = [one.value for one in Collective]
    if args.what not in ("all", *known):
        hint = did_you_mean(args.what, known)
        raise NfError(f"no collective {args.what!r}{hint} (there are: all, {', '.join(known)}).")
    names = [one for one in Collective if args.what in ("all", one)]
    shape = (args.hosts, args.devices, args.lines or (FEW_LINES if args.digest else LINES))
    seeds = range(1, args.seeds + 1)
    if args.processes and not args.digest:
        for seed, name in product(seeds, names):
            say(*process_lines(name, shape, seed), flush=True)
        if not args.bulk:
            return 0
    sims, missing = registry.choose(args.sim)
    if missing:
        say(missing)
    if args.digest:
        for seed in seeds:
            _compare(args, names, shape, seed, sims)
        return 0
    if args.bulk:
        for (sim, seed), name in product(product(sims, seeds), names):
            model = Simulators(command="nf collectives run").bulk(sim, {})
            say(*bulk_lines(name, shape, seed, sim, model), flush=True)
        return 0
    specs = [_spec(args, names, args.lines, sim, seed) for sim, seed in product(sims, seeds)]
    return execute(specs, args.jobs, "nf collectives run", rerun=False)


def _spec(
    args: argparse.Namespace, names: Sequence[str], lines: int | None, sim: str, seed: int
) -> RunSpec:
    """Return the run at signal level of some collectives, in all traffic profiles."""
    build = testplan.build_spec(testplan.read(), BUILD, sim)
    parameters = tuple(sorted({**dict(build.parameters), "DEVICES": args.devices}.items()))
    given = f" --lines {lines}" if lines else ""
    again = f".venv/bin/nf collectives run {args.what} --hosts {args.hosts}{given}"
    again += f" --devices {args.devices} --seeds {args.seeds} --sim {sim}"
    return RunSpec(
        replace(build, parameters=parameters),
        "verif.tests.test_collectives",
        ("collectives",),
        seed,
        TIMEOUT_S,
        ((VARIABLE, json.dumps({"names": names, "hosts": args.hosts, "lines": lines})),),
        BUILD,
        again,
    )


def _compare(
    args: argparse.Namespace,
    names: Sequence[Collective],
    shape: tuple[int, int, int],
    seed: int,
    sims: Sequence[str],
) -> None:
    """Print the digest of each collective, with the executors that gave it.

    Raises:
        NfError: A run failed, or two executors give different digests.
    """
    models = {sim: Simulators(command="nf collectives run").bulk(sim, {}) for sim in sims}
    signal_level = {}
    for sim in sims:
        record = simulate.run(_spec(args, names, shape[2], sim, seed))
        if not record.passed:
            raise NfError(f"pyuvm ({sim}), seed {seed}: {record.cause}; log {record.log}")
        signal_level[sim] = {
            name: str(value)
            for key, value in record.metrics.items()
            if (name := key.partition(".digest of ")[2])
        }
    say(f"  {'collective':32} {'digest':16}  of {shape[2]} lines, seed {seed}, by")
    for kind in (kind for name in names for kind in kinds_of(name)):
        say(compared(kind, shape, seed, models, signal_level), flush=True)
