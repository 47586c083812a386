# SPDX-License-Identifier: Apache-2.0
"""Masking of values that look like credentials in command lines and variables.

History, records and reports hold `***` in their place.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
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


def command() -> str:
    """Return the command line of this process as one shell line with secret values masked."""
    return shlex.join(["nf", *masked(sys.argv[1:])])


def masked(words: Sequence[str]) -> list[str]:
    """Return words of a command line with the values of secret options and variables as `***`."""
    out: list[str] = []
    before = ""
    for word in words:
        if before.startswith("-") and "=" not in before and _SECRET.search(before):
            # The next word is its value, unless that is an option, too.
            out.append(word if word.startswith("-") else _mask(word))
        else:
            out.append(word if before == _ROUTE else _within(word))
        before = word
    return out


def masked_line(command: str) -> str:
    """Return a shell command line without the values of secret options and variables."""
    try:
        words = shlex.split(command)
    except ValueError:  # no line of ours
        words = command.split()
    new = masked(words)
    return command if new == words else shlex.join(new)


def masked_spec(spec: RunSpec) -> RunSpec:
    """Return a run with secret values in variables and rerun line replaced by `***`."""
    env = tuple((k, _mask(v) if _SECRET.search(k) else v) for k, v in spec.env)
    return replace(spec, env=env, rerun=masked_line(spec.rerun))


def check(spec: RunSpec) -> None:
    """Raise NfError if a recorded run lacks a value: it cannot be repeated from its record."""
    names = [name for name, value in spec.env if value == MASK]
    if names or MASK in spec.rerun:
        what = ", ".join(names) or "an option"
        raise NfError(
            f"the value of {what} is not recorded ({MASK}): run the command itself again."
        )


def _within(word: str) -> str:
    """Return one word of a command line with `***` for its secret values.

    Secret are values assigned to a name like TOKEN or KEY, and the password of a URL.
    """
    name, assigned, value = word.partition("=")
    if assigned and _ASSIGNED.fullmatch(name):
        return f"{name}={_mask(value) if _SECRET.search(name) else _within(value)}"
    if " " in word:
        word = _NESTED.sub(rf"\1\2{MASK}", word)
    return _URL.sub(rf"\1:{MASK}", word)


def _mask(value: str) -> str:
    return MASK if value else value
