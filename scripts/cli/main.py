# SPDX-License-Identifier: Apache-2.0
"""`nf`: the command line. A wrong word gets one clear line and exit code 2, never a traceback."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from neuron_fabric.command_line import intermixed
from neuron_fabric.errors import LineError, one_line, say, settle_output
from scripts.cli import completion, start
from scripts.common import process

# Verbs and their help: here, so that `nf --help` and a wrong word load nothing else.
VERBS = {
    "doctor": "show every tool, its version and what is missing",
    "list": "show tests, suites and builds",
    "run": "run tests by name or suite",
    "rerun": "one recorded run again, exactly",
    "history": "what was run before: commands, runs, causes, durations",
    "cov": "coverage of many runs: merge, holes, rank, html, diff",
    "close": "choose tests, seeds and weights toward open bins, beside plain random seeds",
    "report": "write the report of a recorded command again",
    "serve": "a reducer server for trainings here, with the models or the RTL behind it",
    "replay": "drive a capture through the design and check every result",
    "capture": "run a training script with gradient capture on; check a capture",
    "profile": "operating profiles: show, check against a model, diff, run the rule again",
    "calibrate": "an operating profile for a training: measure, choose, verify",
    "train-check": "the published checks of low-bit trainings: targets, bytes both ways",
    "flits": "print a recorded link trace slot by slot",
    "lint": "lint the RTL: Verilator -Wall, slang, Icarus",
    "check": "format, types, imports, names, generated files, documents, testplan",
    "synth": "elaborate and map the RTL with yosys",
    "mutate": "break the RTL on purpose and see each breakage caught",
    "prove": "prove properties of the RTL; counterexamples as waves and a stimulus",
    "fuzz": "bad input, faults and hostile use: generated cases, each of which must hold",
    "test": "every check: check, lint, proofs, pytest, smoke suite, mutants, a short replay",
    "nightly": "what is too long for every change: ten seeds with coverage, all mutants, fuzz",
    "regress": "replay the shipped capture on both simulators, run the smoke suite, report",
    "monitor": "what happened in a low-bit training: states, signals, decisions",
    "ddp-check": "are FP32 gradients under the hooks those of DDP without one, bit for bit",
    "capacity": "whether a reducer can take a bucket, and whether that pays",
    "cluster-check": "a low-bit training on several nodes: same decisions, slow links, a dead node",
    "scale": "what a profile does to a model of a billion parameters, by its shapes alone",
    "bench": "measure the runner against its goals",
    "figures": "what the design is worth: traffic, timing, area; one page of them",
    "clean": "remove old builds (or all that was generated)",
    "completion": "completion for bash, zsh or fish",
}
EPILOG = """examples:
  nf doctor                                  what is installed, what is missing
  nf list 'test_modes::*'                    tests that match
  nf run --suite smoke --jobs 2              the smoke suite on every simulator there is
  nf run 'test_link*' --sim icarus --seeds 3 three seeds of a module under Icarus
  nf run test_modes::g_ternary --seed 7 --waves  one run again, with waves
  nf run --failed --waves                    what was red, again, with waves
  nf history 'test_modes*' --result failed   when and why it was red
  nf replay captures/digits-resnet-8x        captured gradients through the design
  nf capture --steps 3,60 -- train.py --lr 1 gradients of your own training
`nf VERB --help` has more of them.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports a wrong command line in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message, 600)} (see `{self.prog} --help`)\n")


def load(name: str) -> ModuleType:
    """The module of a verb: `EXAMPLES`, `add_arguments(parser)` and `run(args)`, the exit code."""
    return importlib.import_module(f"scripts.cli.{name.replace('-', '_')}")


def make_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser of `nf`. Only the chosen verb is given its options: the rest stays unloaded."""
    parser = _Parser(
        prog="nf",
        description="Build, run and check the neuron-fabric controller.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(
        dest="verb", required=True, metavar="VERB", parser_class=_Parser
    )
    for name, text in VERBS.items():
        sub = commands.add_parser(name, help=text, description=text)
        if name == chosen:
            verb = load(name)
            sub.epilog, sub.formatter_class = verb.EXAMPLES, argparse.RawDescriptionHelpFormatter
            verb.add_arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0 done, 1 something is red, 2 cannot be done."""
    start.streams()
    with process.ended_in_order():
        code = _main(argv)
    if code == process.INTERRUPT_CODE:
        process.deaf_at_exit()
    return code


def _main(argv: Sequence[str] | None) -> int:
    asked = completion.asked()
    words = asked or list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        parser = make_parser(chosen)
        if asked is not None:
            completion.answer(parser)
        intermixed(parser)
        args = parser.parse_args(words)
        start.check()
        code: int = load(args.verb).run(args)
        sys.stdout.flush()  # while a full disk or a closed pipe can still be told
        return code
    except LineError as error:
        say(f"nf: {error}", file=sys.stderr)
        return 2
    except (MemoryError, RecursionError):
        say("nf: not enough memory for that.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return process.interrupted()
    except process.Terminated as end:
        say(f"nf: ended by {signal.Signals(end.args[0]).name}", file=sys.stderr)
        return 128 + int(end.args[0])
    except BrokenPipeError:  # `nf list | head`
        settle_output()
        return 1
    except OSError as error:
        settle_output()
        where = f": {one_line(error.filename)}" if error.filename else ""
        say(f"nf: {error.strerror}{where}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
