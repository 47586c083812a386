# SPDX-License-Identifier: Apache-2.0
"""Masking of values that look like credentials in command lines and variables.

History, records and reports hold `***` in their place; a rerun asks the user for them.
"""

from __future__ import annotations

import getpass
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from scripts.common.errors import NfError
from scripts.common.records import RunSpec

MASK = "***"
_SECRET = re.compile("token|key|secret|passw", re.IGNORECASE)
# `--api-key=V`, `API_KEY=V`, `+api_key=V`, `user.password=V`; no glob: `--route '*.key.*=FP32'`.
_ASSIGNED = re.compile(r"[+-]*[\w.-]+")
# In a word with spaces: `sh -c 'API_KEY=V train'`, `-H 'X-Token: V'`.
_NESTED = re.compile(rf"([\w.-]*(?:{_SECRET.pattern})[\w.-]*)(=|: ?)([^\s,;&|'\"]+)", re.IGNORECASE)
_URL = re.compile(r"(\w+://[^\s/:@]*):([^\s/@]+)(?=@)")
_ROUTE = "--route"  # names of tensors, which may well have a key

Change = Callable[[str, str], str]


def command() -> str:
    """Return the command line of this process as one shell line with secret values masked."""
    return shlex.join(["nf", *masked(sys.argv[1:])])


def masked(words: Sequence[str]) -> list[str]:
    """Return words of a command line with the values of secret options and variables as `***`."""
    return _changed(words, _masked)


def masked_line(command: str) -> str:
    """Return a shell command line without the values of secret options and variables."""
    return _line(command, _masked)


def masked_spec(spec: RunSpec) -> RunSpec:
    """Return a run with secret values in variables and rerun line replaced by `***`."""
    return _spec(spec, _masked)


def revealed_spec(spec: RunSpec) -> RunSpec:
    """Return a recorded run with each `***` replaced by a value that the user types.

    Raises:
        NfError: stdin is no terminal.
    """
    return _spec(spec, _asked)


def _spec(spec: RunSpec, change: Change) -> RunSpec:
    return replace(
        spec,
        env=tuple((k, change(k, v) if _SECRET.search(k) else v) for k, v in spec.env),
        rerun=_line(spec.rerun, change),
    )


def _line(command: str, change: Change) -> str:
    try:
        words = shlex.split(command)
    except ValueError:  # no line of ours
        words = command.split()
    new = _changed(words, change)
    return command if new == words else shlex.join(new)


def _changed(words: Sequence[str], change: Change) -> list[str]:
    out: list[str] = []
    before = ""
    for word in words:
        if before.startswith("-") and "=" not in before and _SECRET.search(before):
            # The next word is its value, unless that is an option, too.
            out.append(word if word.startswith("-") else change(before, word))
        else:
            out.append(word if before == _ROUTE else _within(word, change))
        before = word
    return out


def _within(word: str, change: Change) -> str:
    """Return one word of a command line with its secret values replaced by ``change``.

    Secret are values assigned to a name like TOKEN or KEY, and the password of a URL.
    """
    name, assigned, value = word.partition("=")
    if assigned and _ASSIGNED.fullmatch(name):
        secret = _SECRET.search(name)
        return f"{name}={change(name, value) if secret else _within(value, change)}"
    if " " in word:
        word = _NESTED.sub(lambda found: found[1] + found[2] + change(found[1], found[3]), word)
    return _URL.sub(lambda found: f"{found[1]}:{change(found[1], found[2])}", word)


def _masked(_: str, value: str) -> str:
    return MASK if value else value


def _asked(name: str, value: str) -> str:
    if value != MASK:
        return value
    if not sys.stdin.isatty():
        raise NfError(
            f"the value of {name} is not recorded ({MASK}): rerun in a terminal, which asks for it."
        )
    return getpass.getpass(f"{name} (not recorded): ")
