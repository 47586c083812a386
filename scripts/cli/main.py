# SPDX-License-Identifier: Apache-2.0
"""Command line of `nf`: the verb table, the parser and the exit codes of every verb.

Exit codes: 0 done, 1 a test or a check failed, 2 the command cannot be executed (bad input gets one
line, never a traceback), 130 interrupted.

examples:
  nf run --suite smoke --jobs 2              run the smoke suite on every simulator
  nf run test_modes::g_ternary --seed 7 --waves  run one test with waves
  nf history 'test_modes*' --result failed   show when and why tests failed
  nf replay captures/digits-resnet-8x        replay captured gradients through the design
  nf capture --steps 3,60 -- train.py --lr 1 capture gradients of your own training
`nf VERB --help` shows more of them.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import io
import os
import re
import signal
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from neuron_fabric.arguments import intermixed
from neuron_fabric.errors import LineError, say, settle_output
from neuron_fabric.printable import one_line
from scripts.cli import completion
from scripts.common import interrupt, terminal
from scripts.common.arguments import Command, seconds
from scripts.common.errors import NfError, did_you_mean
from scripts.common.paths import ROOT
from scripts.common.plain_names import named, temporary_problem

# The verb table: section, verb and help text. It is here so that `nf --help` and a misspelt verb
# load no other module. A name of two words is a verb of a group.
SECTIONS: dict[str, dict[str, str]] = {
    "run tests": {
        "run": "run tests by name or suite; print each result and a summary",
        "list": "print tests, suites or builds, with stage and feature",
        "rerun": "rerun a recorded run with the same build, seed and options",
        "waves": "open the waves of a failed run in GTKWave or Surfer, at the failure",
        "history": "print recorded commands, runs, causes of failures and durations",
        "report": "write the HTML report of a recorded command again",
        "report flits": "print a recorded link trace, slot by slot",
        "cov": "merge coverage of many runs; print holes, ranks and differences",
        "close": "choose tests, seeds and weights for open bins; compare with random seeds",
    },
    "captured gradients": {
        "replay": "drive a capture through the design and check every result against the models",
        "analyse": "print what each route makes of captured gradients; write a page and numbers",
        "capture": "run a training script and store its gradients; check a capture",
        "serve": "reduce gradients of local trainings with the models or the RTL",
    },
    "collectives of hosts": {
        "collectives check": "check schedules: races, outputs, load; or try mutants of them",
        "collectives litmus": "visit every order of small programs; count forbidden outcomes",
        "collectives faults": "break hosts of modelled pools; judge outputs, reports and zombies",
        "collectives show": "draw a schedule as lanes over time, or print it as JSON",
        "collectives run": "run collectives on the RTL and compare all outputs bit for bit",
    },
    "check the project": {
        "check": "check format, types, imports, names, generated files, documents and the testplan",
        "lint": "lint the RTL with Verilator, slang and Icarus",
        "prove": "prove properties of the RTL; write counterexamples as waves and a stimulus",
        "mutate": "break the RTL and the package on purpose; print mutants that no test catches",
        "fuzz": "run commands with bad input, faults and signals; print each case that misbehaves",
        "test": "run every check that CI runs; print a table of steps",
        "regress": "replay the shipped capture, run each smoke test once, write the report",
        "nightly": "run the long checks: ten seeds with coverage, all mutants, fuzz, figures",
    },
    "experiments": {
        "train calibrate": "measure a training and write an operating profile for it",
        "train profile": "draft, print, check, compare and derive operating profiles",
        "train monitor": "print states, signals and decisions of a recorded low-bit training",
        "train check": "run the published low-bit trainings; print targets, results and bytes sent",
        "train exact": "check that FP32 gradients with the hook are bit-identical to plain DDP",
        "train nodes": "train on emulated nodes with slow links and a dead node; compare decisions",
        "train scale": "apply a profile to a model of a billion parameters; print traffic",
        "measure bench": "measure speed of runner, replay and hook; compare with goals",
        "measure hooks": "compare communication hooks over a training: bytes, time, CPU, loss",
        "measure figures": "measure traffic, timing and area, and write one HTML page",
        "measure capacity": "print which buckets fit a reducer, and where low-bit is faster",
        "measure synth": "map the RTL with yosys; print cells and memories",
    },
    "this checkout": {
        "doctor": "print every tool with its version, and the missing ones",
        "clean": "remove old builds, or everything that was generated",
        "completion": "print the completion script of a shell",
    },
}
# Where a verb is implemented, if not in the module of its name: `add_arguments`, `run` and examples
# (`EXAMPLES`, or the end of the docstring).
MODULES = {
    "analyse": "neuron_fabric.analysis.analyse_command",
    "collectives check": "scripts.collectives.check_schedules",
    "collectives faults": "scripts.collectives.inject_faults",
    "collectives litmus": "scripts.collectives.litmus_tests",
    "collectives show": "scripts.collectives.show_schedule",
    "collectives run": "scripts.collectives.run_collectives",
    "train profile": "neuron_fabric.profile.profile_command",
    "train monitor": "neuron_fabric.monitor.monitor_command",
    "train check": "scripts.cli.train_check",
    "train exact": "neuron_fabric.hook.exact_command",
    "measure bench": "scripts.benchmarks.bench_command",
    "measure figures": "scripts.figures.figures_command",
    "measure capacity": "scripts.benchmarks.measure_capacity_command",
}
VERBS = {name: verb for section in SECTIONS.values() for name, verb in section.items()}
GROUPS = {
    "collectives": "check, draw, run and break collectives over a pool of devices",
    "train": "run an experiment with low-bit trainings",
    "measure": "measure speed, traffic, timing, area or capacity",
}
_CHOICE = re.compile(r"invalid choice: '(.+)' \(choose from (.+)\)")
_MARKS = ("scripts/cli/main.py", "scripts/nf.sh")  # files of every checkout of this project


class _WholeWords(argparse.RawDescriptionHelpFormatter):
    """Help with texts as they are; the texts of options wrap between words."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


class OneLineParser(argparse.ArgumentParser):
    """Parser that reports a wrong command line in one line."""

    def error(self, message: str) -> NoReturn:
        choice = _CHOICE.search(message)
        hint = did_you_mean(choice[1], re.findall("'(.+?)'", choice[2])) if choice else ""
        self.exit(2, f"{self.prog}: {one_line(message, 600)}{hint} (see `{self.prog} --help`)\n")

    def _get_formatter(self) -> argparse.HelpFormatter:
        return _WholeWords(self.prog)


class _OverviewParser(OneLineParser):
    """Parser of `nf` itself: its help lists the verbs by section."""

    def format_help(self) -> str:
        lines = ["usage: nf VERB ...", "", "Build, run and check the neuron-fabric controller.", ""]
        for title, verbs in SECTIONS.items():
            lines += [f"{title}:", *(f"  {name:16}  {text}" for name, text in verbs.items())]
            lines.append("")
        return "\n".join([*lines, examples_in(__doc__), ""])


def load(name: str) -> Command:
    """Import the module of a verb and return its options, function and examples."""
    module = importlib.import_module(MODULES.get(name, f"scripts.cli.{name.split()[-1]}"))
    examples = getattr(module, "EXAMPLES", examples_in(module.__doc__))
    return Command(module.add_arguments, module.run, examples)


def examples_in(docstring: str | None) -> str:
    """Return the part of a docstring from "examples:" on, shown at the end of `--help`.

    "" if there is none.
    """
    _, head, rest = inspect.cleandoc(docstring or "").partition("examples:\n")
    return head + rest


def verb_of(words: Iterable[str]) -> str | None:
    """Return the verb that a command line begins with: "run", "train check", a group or None.

    Raises:
        NfError: There is no such verb; the message names the closest one.
    """
    first, second = [*(word for word in words if not word.startswith("-")), "", ""][:2]
    if not first:
        return None
    both = f"{first} {second}"
    if both in VERBS or first in VERBS:
        return both if both in VERBS else first
    if first not in GROUPS:
        hint = did_you_mean(first, {name.split()[0] for name in VERBS})
        raise NfError(f"unknown verb {first!r}{hint} (see `nf --help`)")
    if second:
        hint = did_you_mean(second, _below(first))
        raise NfError(f"unknown verb {both!r}{hint} (see `nf {first} --help`)")
    return first


def _below(group: str) -> list[str]:
    """Return the second words of the verbs of a group: "check", .. for "train"."""
    return [name.split()[1] for name in VERBS if name.startswith(f"{group} ")]


def make_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of `nf`.

    Only the verb `chosen` has its options; the modules of all others are not imported.
    """
    parser = _OverviewParser(prog="nf")
    commands = parser.add_subparsers(
        dest="verb", required=True, metavar="VERB", parser_class=OneLineParser
    )
    parsers = {"": commands}
    for name, text in VERBS.items():
        group, _, verb = name.rpartition(" ")
        if group in VERBS and chosen != name:
            continue  # `report` takes a number where `report flits` has a verb
        if group not in parsers:
            sub = commands.add_parser(group, help=GROUPS.get(group), description=GROUPS.get(group))
            parsers[group] = sub.add_subparsers(dest="below", required=True, metavar="VERB")
        if name == chosen or not (chosen or "").startswith(f"{name} "):
            sub = parsers[group].add_parser(verb, help=text, description=text)
        if name == chosen:
            command = load(name)
            sub.epilog = command.examples
            command.add_arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one `nf` command and return its exit code (see the head of this module).

    `argv` are the words after `nf`; None takes those of this process.
    """
    open_streams()
    with terminal.installed(), interrupt.ended_in_order():
        code = _main(argv)
    if code == interrupt.INTERRUPT_CODE:
        interrupt.deaf_at_exit()
    return code


def _main(argv: Sequence[str] | None) -> int:
    asked = completion.asked()
    words = asked or list(sys.argv[1:] if argv is None else argv)
    verb: str | None = None
    try:
        if asked is not None:
            with suppress(NfError):  # a verb that is not yet whole
                verb = verb_of(words)
            completion.answer(make_parser(verb))
        verb = verb_of(words)
        parser = make_parser(verb)
        intermixed(parser)
        args = parser.parse_args(words)
        check_environment()
        assert verb is not None  # the parser has refused a command line without one
        code = load(verb).run(args)
        sys.stdout.flush()  # a full disk or a closed pipe can still be reported here
        return code
    except LineError as error:
        say(f"nf: {error}", file=sys.stderr)
        return 2
    except (MemoryError, RecursionError):
        say("nf: not enough memory for that.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return interrupt.interrupted()
    except interrupt.Terminated as end:
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


def open_streams() -> None:
    """Open /dev/null for each standard stream that the caller closed.

    A file that is opened later must not become standard output. Characters that the encoding of
    the terminal lacks are escaped.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # returns the lowest free number: this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def check_environment() -> None:
    """Raise NfError if this `nf` belongs to another checkout than the user means, or cannot work.

    The latter concerns variables that disable checks, and temporary folders that cannot be written.
    """
    here = checkout(Path.cwd())
    meant = here or checkout(Path(sys.prefix))
    if meant is not None and not meant.samefile(ROOT):
        where = "the current directory" if here else "the Python environment"
        raise NfError(
            f"this `nf` tests checkout {named(ROOT)}, but {where} belongs to checkout "
            f"{named(meant)}; run `make setup` there and use {named(meant) / '.venv/bin/nf'}."
        )
    if os.environ.get("NF_CHECKERS_OFF"):
        raise NfError(
            "NF_CHECKERS_OFF disables checkers, so that a pass would mean nothing; unset it "
            "(`nf mutate --without` sets it for its own runs)."
        )
    if sys.flags.optimize:
        raise NfError("PYTHONOPTIMIZE (python -O) removes assertions; unset it.")
    try:  # -1 would leave one transaction of a sequence, and that would pass
        seconds(os.environ.get("NF_SCALE", "1"))
    except argparse.ArgumentTypeError as error:
        raise NfError(f"NF_SCALE: {error}: unset it, or give a factor.") from None
    problem = temporary_problem()
    if problem is not None:
        raise NfError(problem)


def checkout(folder: Path) -> Path | None:
    """Return the checkout of this project that contains a folder, or None."""
    for place in (folder, *folder.parents):
        if all((place / name).is_file() for name in _MARKS):
            return place
    return None


if __name__ == "__main__":
    sys.exit(main())
