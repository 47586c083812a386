# SPDX-License-Identifier: Apache-2.0
"""`nf rerun`: exactly one recorded run again, with its seed, build and options."""

from __future__ import annotations

import argparse
from dataclasses import replace

from neuron_fabric.text import say
from scripts.build import registry
from scripts.cli.run import execute
from scripts.common.arguments import seconds
from scripts.common.records import RunSpec
from scripts.plan import depends
from scripts.record.database import History, Run

EXAMPLES = """examples:
  nf rerun 812                               run 812 of `nf history`
  nf rerun 812 --waves                       the same with waves
  nf rerun test_modes.fp32-icarus-default-s7 the last run of that name
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="number of a run (`nf history GLOB`), or its id")
    parser.add_argument("--waves", action="store_true", help="write waves")
    parser.add_argument("--timeout", type=seconds, metavar="S", help="another wall-clock limit")


def run(args: argparse.Namespace) -> int:
    history = History(write=False)
    try:
        number = args.id.isdecimal() and len(args.id) <= 18  # more than SQLite can count
        found = history.run(int(args.id)) if number else history.latest(args.id)
    finally:
        history.close()
    spec = found.spec
    registry.choose(spec.build.sim)  # one line when that simulator is gone
    if _changed(found, spec):
        say(f"nf rerun: files of {spec.name} have changed since run {found.id}.")
    if args.waves:
        spec = replace(
            spec, build=replace(spec.build, waves=registry.get(spec.build.sim).wave_format)
        )
    if args.timeout:
        spec = replace(spec, timeout_s=args.timeout)
    return execute([spec], 1, f"nf rerun: {spec.name}", rerun=False)


def _changed(found: Run, spec: RunSpec) -> bool:
    now = depends.Dependencies().fingerprint(spec)
    return bool(found.fingerprint) and found.fingerprint != now
