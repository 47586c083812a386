# SPDX-License-Identifier: Apache-2.0
"""Command line of the package: `python -m neuron_fabric VERB`.

Bad arguments and bad input give one line and exit code 2, never a traceback.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from neuron_fabric.analysis import analyse_command
from neuron_fabric.arguments import intermixed
from neuron_fabric.calibration import calibrate_command
from neuron_fabric.capacity import capacity_command, scale_command
from neuron_fabric.errors import LineError, say, settle_output
from neuron_fabric.hook import exact_command
from neuron_fabric.monitor import monitor_command
from neuron_fabric.printable import one_line
from neuron_fabric.profile import profile_command

# Each module has HELP, EXAMPLES, add_arguments(parser) and run(args), which returns the exit code.
VERBS = {
    "profile": profile_command,
    "calibrate": calibrate_command,
    "monitor": monitor_command,
    "analyse": analyse_command,
    "capacity": capacity_command,
    "scale": scale_command,
    "exact": exact_command,
}


class _Parser(argparse.ArgumentParser):
    """Parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message, 600)} (see `{self.prog} --help`)\n")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs; the help of each names this command, not `nf`."""
    parser = _Parser(prog="python -m neuron_fabric", description="Low-bit gradients of a training.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    for name, found in VERBS.items():
        sub = verbs.add_parser(
            name,
            help=found.HELP,
            description=found.HELP,
            epilog=re.sub(r"\bnf (?:train |measure )?", "python -m neuron_fabric ", found.EXAMPLES),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        found.add_arguments(sub)
    intermixed(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code: 0 success, 1 negative result, 2 error."""
    args = make_parser().parse_args(argv)
    try:
        code: int = VERBS[args.verb].run(args)
        sys.stdout.flush()  # while a closed pipe can still be reported
        return code
    except LineError as error:
        say(f"neuron_fabric: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("neuron_fabric: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # `... | head`
        settle_output()
        return 1
    except OSError as error:  # a full disk
        settle_output()
        where = f": {one_line(error.filename)}" if error.filename else ""
        say(f"neuron_fabric: {error.strerror or error}{where}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
