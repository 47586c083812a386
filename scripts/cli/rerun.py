# SPDX-License-Identifier: Apache-2.0
"""`nf rerun`: run a recorded run again with the same build, seed and options.

examples:
  nf rerun 812                               rerun run 812 of `nf history`
  nf rerun 812 --waves                       rerun it with waves
  nf rerun 812 --pdb                         debug it with pdb in this terminal
  nf rerun test_modes.fp32-icarus-default-s7  rerun the last run of that name
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace as with_fields

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli.main import load
from scripts.cli.run import debug, execute
from scripts.common import secret_values
from scripts.common.arguments import TIMEOUT_HELP, add_flags, seconds
from scripts.common.errors import NfError
from scripts.common.records import SOLVER, Waves
from scripts.history.database import History
from scripts.plan.depends import Dependencies
from scripts.run import debug_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="number of a run (`nf history GLOB`), or its id")
    add_flags(parser, waves="write waves", pdb="debug it with pdb in this terminal")
    parser.add_argument("--timeout", type=seconds, metavar="S", help=TIMEOUT_HELP)


def run(args: argparse.Namespace) -> int:
    """Run a recorded run again with the same build, seed and options; return the exit code.

    A proof and a replay are recorded with their command line, since their result depends on files
    that a RunSpec does not hold: that command is executed again.
    """
    with History(write=False) as history:
        found = history.find(args.id)
    spec = found.spec
    secret_values.check(spec)
    if spec.build.sim == SOLVER:
        return _again("prove", spec.rerun)
    name = registry.get(spec.build.sim).variable
    then = dict(found.record.environment).get(name, "")
    if then != os.environ.get(name, ""):
        what = f"with {name}={then}: set it so" if then else f"without {name}: unset it"
        raise NfError(f"run {found.id} was made {what}, or use `nf run`.")
    if spec.rerun:
        more = ["--waves"] if args.waves else []
        more += ["--timeout", f"{args.timeout:g}"] if args.timeout else []
        return _again("replay", spec.rerun, more)
    registry.choose(spec.build.sim)  # reports a missing simulator in one line
    if found.fingerprint and found.fingerprint != Dependencies().fingerprint(spec):
        say(f"nf rerun: files of {spec.name} have changed since run {found.id}.")
    if args.waves:
        spec = with_fields(spec, build=with_fields(spec.build, waves=Waves.FST))
    if args.pdb:
        debug_terminal.check()
        return debug([spec])
    if args.timeout:
        spec = with_fields(spec, timeout_s=args.timeout)
    return execute([spec], 1, f"nf rerun: {spec.name}", rerun=False)


def _again(verb: str, command: str, more: Sequence[str] = ()) -> int:
    """Execute the recorded command line of a proof or a replay, with further options.

    Args:
        verb: Name of the verb.
        command: The command line.
        more: Further words.
    """
    _nf, name, *words = shlex.split(command)
    parser, loaded = argparse.ArgumentParser(prog=f"nf {name}"), load(verb)
    loaded.add_arguments(parser)
    return loaded.run(parser.parse_args([*words, *more]))
