# SPDX-License-Identifier: Apache-2.0
"""`nf fuzz`: run generated cases of bad input, faults and hostile use with pytest.

examples:
  nf fuzz                                    run every case, 20 minutes on two cores
  nf fuzz --seed 7                           draw other cases of the same groups
  nf fuzz 'manifest-*' --cases 20            run 20 cases of some groups
  nf fuzz --interleave 100                   run commands at once in one tree, half an hour
  nf fuzz --journals 500                     mix damaged journals, shards and captures
  nf fuzz --list                             list the groups with their promises
"""

from __future__ import annotations

import argparse
import sys

from neuron_fabric.errors import say
from scripts.cli import steps
from scripts.common import paths, process
from scripts.common.arguments import positive
from scripts.common.errors import NfError
from scripts.fuzz import interleave
from scripts.fuzz import test_faults as faults
from scripts.fuzz import test_files as files
from scripts.fuzz import test_words as words
from scripts.fuzz.fuzz_case import SHARED_BUILDS, name_of

MODULES = (files, words, faults)
_NOTHING = 5  # pytest.ExitCode.NO_TESTS_COLLECTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("globs", nargs="*", metavar="GLOB", help="groups, or one case as it is printed")
    add("--seed", type=positive, default=1, help="seed of drawn cases and of times of signals (1)")
    add("--cases", type=positive, metavar="N", help="run at most N cases, drawn from all")
    add("--jobs", "-j", type=positive, default=process.cores(), help="cases at once (all cores)")
    add("--interleave", type=positive, metavar="N", help="run N mixes of commands at once instead")
    add("--journals", type=positive, metavar="N", help="run N mixes of damaged journals instead")
    add("--list", action="store_true", help="list the groups")


def run(args: argparse.Namespace) -> int:
    if args.list:
        for test in (one for module in MODULES for one in vars(module).values()):
            if hasattr(test, "take"):
                promise = test.__doc__.splitlines()[0]
                say(f"{name_of(test.__name__):24} {test.kind:10} {promise}")
        return 0
    if args.interleave:
        return interleave.campaign(args.interleave, args.seed, paths.BUILD / "fuzz" / "interleave")
    if args.journals:
        from scripts.fuzz import journals  # needs the device model of the tests of replay

        return journals.campaign(args.journals, args.seed)
    paths.writable(SHARED_BUILDS)
    pytest = [sys.executable, "-m", "pytest", "-m", "", "-n", str(args.jobs), "-rfE", "--tb=line"]
    pytest += [f"--fuzz-seed={args.seed}", *(f"--fuzz-only={glob}" for glob in args.globs)]
    pytest += [f"--fuzz-most={args.cases}"] if args.cases else []
    pytest += [*(str(module.__file__) for module in MODULES)]
    done = steps.run("fuzz", pytest)
    if done.returncode == _NOTHING:
        raise NfError(f"no case matches {' '.join(args.globs)!r} (`nf fuzz --list`).")
    return 0 if done.returncode == 0 and done.passed else 1
