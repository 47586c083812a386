# SPDX-License-Identifier: Apache-2.0
"""`nf rerun`: exactly one recorded run again, with its seed, build and options."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace as with_fields

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli import prove, replay
from scripts.cli.run import execute
from scripts.common import secret_values
from scripts.common.arguments import TIMEOUT_HELP, seconds
from scripts.common.records import SOLVER
from scripts.plan import depends
from scripts.record.database import History

EXAMPLES = """examples:
  nf rerun 812                               run 812 of `nf history`
  nf rerun 812 --waves                       the same with waves
  nf rerun test_modes.fp32-icarus-default-s7 the last run of that name
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="number of a run (`nf history GLOB`), or its id")
    parser.add_argument("--waves", action="store_true", help="write waves")
    parser.add_argument("--timeout", type=seconds, metavar="S", help=TIMEOUT_HELP)


def run(args: argparse.Namespace) -> int:
    with History(write=False) as history:
        number = args.id.isdecimal() and len(args.id) <= 18  # more than SQLite can count
        found = history.run(int(args.id)) if number else history.latest(args.id)
    spec = found.spec
    spec = secret_values.revealed_spec(spec)
    if spec.build.sim == SOLVER:
        return _proof(spec.rerun)
    if spec.rerun:
        return _replay(spec.rerun, args)
    registry.choose(spec.build.sim)  # one line when that simulator is gone
    if found.fingerprint and found.fingerprint != depends.Dependencies().fingerprint(spec):
        say(f"nf rerun: files of {spec.name} have changed since run {found.id}.")
    if args.waves:
        spec = with_fields(
            spec, build=with_fields(spec.build, waves=registry.get(spec.build.sim).wave_format)
        )
    if args.timeout:
        spec = with_fields(spec, timeout_s=args.timeout)
    return execute([spec], 1, f"nf rerun: {spec.name}", rerun=False)


def _proof(command: str) -> int:
    """A proof again, as it is listed now."""
    parser = argparse.ArgumentParser(prog="nf prove")
    prove.add_arguments(parser)
    return prove.run(parser.parse_args(shlex.split(command)[2:]))


def _replay(command: str, args: argparse.Namespace) -> int:
    """A replay again: what it does hangs on its capture, not on a spec alone."""
    words = shlex.split(command)[2:]  # behind `nf replay`
    words += ["--waves"] if args.waves else []
    words += ["--timeout", f"{args.timeout:g}"] if args.timeout else []
    parser = argparse.ArgumentParser(prog="nf replay")
    replay.add_arguments(parser)
    return replay.run(parser.parse_args(words))
