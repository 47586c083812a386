# SPDX-License-Identifier: Apache-2.0
"""`nf completion`: the lines that teach a shell to complete verbs, options, tests and suites."""

from __future__ import annotations

import argparse
import sys

EXAMPLES = """examples:
  eval "$(nf completion bash)"               in ~/.bashrc
  eval "$(nf completion zsh)"                in ~/.zshrc, after compinit
  nf completion fish | source                in ~/.config/fish/config.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["nf"], shell=args.shell) + "\n")
    return 0
