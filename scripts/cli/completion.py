# SPDX-License-Identifier: Apache-2.0
"""`nf completion`: prints the completion script of a shell, and answers its requests.

argcomplete asks the parser itself, so that a new option needs no second list; tests, suites and
builds are looked up on request.

examples:
  eval "$(nf completion bash)"               in ~/.bashrc
  eval "$(nf completion zsh)"                in ~/.zshrc, after compinit
  nf completion fish | source                in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell")


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["nf"], shell=args.shell) + "\n")
    return 0


Source = Callable[[], Iterable[str]]


def asked() -> list[str] | None:
    """Return the words typed after `nf` if a shell requests completion, else None.

    The request is read from the environment (`_ARGCOMPLETE`, `COMP_LINE`, `COMP_POINT`). The line
    is cut at the cursor, so the last word may be incomplete.
    """
    if "_ARGCOMPLETE" not in os.environ:
        return None
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT") or 0) or None]
    return line.split()[1:]


def answer(parser: argparse.ArgumentParser) -> None:
    """Print the completions for the shell, and exit."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options="long")


def with_completer(action: argparse.Action, source: Source) -> None:
    """Set the function that lists the possible values of an argument for completion by the shell.

    If it raises, no value is offered.
    """

    def complete(**_: object) -> list[str]:
        try:
            return list(source())
        except Exception:  # a traceback would disturb typing
            return []

    action.completer = complete  # type: ignore[attr-defined]
