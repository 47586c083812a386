# SPDX-License-Identifier: Apache-2.0
"""`nf collectives run`: runs collectives on the RTL, with hosts, a switch and devices.

The signal-level bench runs each collective passively and, where it adds, with the device and every
route, in all traffic profiles. The outputs of all ranks are compared with the oracle bit for bit.
With --bulk a C++ host drives devices in threads, and clocks are printed. With --processes real
processes run the passive schedules through shared memory.

examples:
  nf collectives run all_gather              4 hosts, 2 devices, on Verilator and Icarus
  nf collectives run all --hosts 3 --sim verilator --seeds 20
  nf collectives run all --bulk              larger ones by the bulk host: digests and clocks
  nf collectives run all --processes         the same schedules by processes: the same digests
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from itertools import product

from neuron_fabric.collectives.schedule import Collective
from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli.options import add_simulators
from scripts.cli.run import execute
from scripts.collectives.bulk_run import LINES, run_bulk
from scripts.collectives.process_run import run_processes
from scripts.common.arguments import add_flags, up_to
from scripts.common.errors import NfError, did_you_mean
from scripts.common.records import RunSpec
from scripts.plan import testplan

VARIABLE = "NF_COLLECTIVES"
BUILD = "pool"
TIMEOUT_S = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf collectives run`."""
    add = parser.add_argument
    add("what", nargs="?", default="all", metavar="NAME", help="all, or a collective")
    add("--hosts", type=up_to(16, first=2), default=4, metavar="W", help="number of hosts (4)")
    add("--devices", type=up_to(8), default=2, metavar="D", help="number of devices (2)")
    what = "lines of each (drawn; 100 with --bulk, --processes); run.log has the digests"
    add("--lines", type=up_to(100), metavar="N", help=what)
    add("--seeds", type=up_to(10_000), default=1, metavar="N", help="seeds 1 to N (1)")
    add_flags(
        parser,
        bulk="drive the devices by the bulk host; print clocks and digests",
        processes="run processes that share memory, without devices; print digests",
    )
    add_simulators(parser)


def run(args: argparse.Namespace) -> int:
    """Run the collectives; return 0 if every output was right."""
    known = [one.value for one in Collective]
    if args.what not in ("all", *known):
        hint = did_you_mean(args.what, known)
        raise NfError(f"no collective {args.what!r}{hint}; there are: all, {', '.join(known)}.")
    names = known if args.what == "all" else [args.what]
    if args.processes:
        lines = args.lines or LINES
        for seed, name in product(range(1, args.seeds + 1), names):
            found = run_processes(Collective(name), args.hosts, args.devices, lines, seed)
            say(*found, flush=True)
        return 0
    sims, missing = registry.choose(args.sim)
    if missing:
        say(missing)
    if args.bulk:
        lines = args.lines or LINES
        for (sim, seed), name in product(product(sims, range(1, args.seeds + 1)), names):
            say(*run_bulk(Collective(name), args.hosts, args.devices, lines, seed, sim), flush=True)
        return 0
    plan = testplan.read()
    job = json.dumps({"names": names, "hosts": args.hosts, "lines": args.lines})
    given = f" --lines {args.lines}" if args.lines else ""
    specs = []
    for sim in sims:
        build = testplan.build_spec(plan, BUILD, sim)
        parameters = tuple(sorted({**dict(build.parameters), "DEVICES": args.devices}.items()))
        again = f".venv/bin/nf collectives run {args.what} --hosts {args.hosts}{given}"
        again += f" --devices {args.devices} --seeds {args.seeds} --sim {sim}"
        specs += [
            RunSpec(
                replace(build, parameters=parameters),
                "verif.tests.test_collectives",
                ("collectives",),
                seed,
                TIMEOUT_S,
                ((VARIABLE, job),),
                BUILD,
                again,
            )
            for seed in range(1, args.seeds + 1)
        ]
    return execute(specs, args.jobs, "nf collectives run", rerun=False)
