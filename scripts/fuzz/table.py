# SPDX-License-Identifier: Apache-2.0
"""The groups of cases, as the YAML tables have them, and the cases that are made of a group."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from neuron_fabric.typed import typed
from scripts.common import data
from scripts.common.errors import NfError
from scripts.fuzz import setup, values

TABLES = Path(__file__).with_name("cases")
NAMED = {
    "json": values.JSON,
    "words": values.WORDS,
    "yaml": values.YAML,
    "damage": (*setup.CONTENTS, *setup.IN_ITS_PLACE),
}
"""Lists of values that an axis may name."""


@dataclass(frozen=True)
class Allow:
    """What may come of a case, beside what no case may do (attempt.py).

    ``exit``: exit codes. ``says``: a regular expression that standard error holds when the exit
    code is not 0. ``same``: files that hold what the undamaged set-up gives, or are not there.
    ``absent``: files that must not be there when the exit code is not 0.
    """

    exit: tuple[int, ...] = (2,)
    says: str = ""
    same: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Cases of one kind. ``axes``: values by name, which ``$name`` stands for in set-up, command
    and environment; every combination is a case, of which ``take`` are drawn. ``build``: the design
    is simulated, with a build that all such cases share. ``stop``: a signal, sent at a random
    moment. ``limits``: resource limits by name. ``stdout``: full, closed, or a pipe without reader.
    """

    name: str
    kind: str
    reason: str
    command: tuple[str, ...]
    setup: tuple[dict[str, Any], ...] = ()
    axes: dict[str, Any] = field(default_factory=dict)
    take: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    allow: Allow = field(default_factory=Allow)
    build: bool = False
    first: tuple[str, ...] = ()
    stop: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    stdout: str = ""
    seconds: float = 60.0


@dataclass(frozen=True)
class Case:
    """One combination of a group's axes; ``id`` names it."""

    group: Group
    choice: Mapping[str, str]

    @property
    def id(self) -> str:
        """``group[value, value]``."""
        words = ", ".join(map(str, self.choice.values()))
        return f"{self.group.name}[{words}]" if words else self.group.name

    def fill(self, value: Any) -> Any:
        """``value`` of the table with every ``$name`` replaced by the choice."""
        if isinstance(value, str):
            if value.startswith("$") and value[1:] in self.choice:
                return self.choice[value[1:]]
            for name, chosen in self.choice.items():
                value = value.replace("${" + name + "}", str(chosen))
            return value
        if isinstance(value, dict):
            return {key: self.fill(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.fill(one) for one in value]
        return value

    def word(self, text: str) -> str:
        """A word of the command or the environment: ``$word`` is the odd word of that name."""
        odd = {
            name: values.WORDS.get(str(one), str(one)) if name == "word" else str(one)
            for name, one in self.choice.items()
        }
        return str(Case(self.group, odd).fill(text))


def read(folder: Path = TABLES) -> list[Group]:
    """Every group of every table; NfError in one line."""
    groups: list[Group] = []
    for path in sorted(folder.glob("*.yaml")):
        content = data.load(path, "fuzz")
        groups += typed(list[Group], content["groups"], path.name)
    twice = {group.name for group in groups if [g.name for g in groups].count(group.name) > 1}
    if twice:
        raise NfError(f"two groups of cases are called {min(twice)}.")
    return groups


def every_case(group: Group) -> list[Case]:
    """Every combination of the group's axes."""
    names = list(group.axes)
    lists = [NAMED[v] if isinstance(v, str) else v for v in group.axes.values()]
    return [Case(group, dict(zip(names, choice, strict=True))) for choice in product(*lists)]


def cases_of(group: Group, seed: int) -> list[Case]:
    """The cases of a group; which ones, where only some are taken, depends on the seed alone."""
    every = every_case(group)
    if group.take is None or group.take >= len(every):
        return every
    return Random(f"{seed} {group.name}").sample(every, group.take)


def choose(groups: Iterable[Group], globs: Iterable[str], seed: int) -> list[Case]:
    """The cases whose group fits a glob, and the one of that id, drawn or not; NfError for none."""
    patterns = list(globs) or ["*"]
    found: list[Case] = []
    for group in groups:
        if any(fnmatch.fnmatchcase(group.name, pattern) for pattern in patterns):
            found += cases_of(group, seed)
        else:
            found += [case for case in every_case(group) if case.id in patterns]
    if not found:
        raise NfError(f"no case matches {' '.join(patterns)!r} (`nf fuzz --list`).")
    return found
