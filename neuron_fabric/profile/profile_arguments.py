# SPDX-License-Identifier: Apache-2.0
"""Types of argparse for routes and kinds, which two commands share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeVar

from neuron_fabric.codec.routes import Route
from neuron_fabric.profile.profile_types import Kind

Name = TypeVar("Name", bound=str)
PROTECT = "kinds that get no votes, or none (head,embedding)"


def routes_of(word: str) -> tuple[Route, ...]:
    """Return the routes in a comma-separated list, for argparse. Raises ArgumentTypeError."""
    return _listed(word, [one for one in Route if one != Route.FP32], "no list of routes")


def kinds_of(word: str) -> tuple[Kind, ...]:
    """Return the kinds in a comma-separated list, () for "none", for argparse.

    Raises ArgumentTypeError for another text.
    """
    return () if word == "none" else _listed(word, list(Kind), "neither none nor kinds")


def _listed(word: str, known: Sequence[Name], what: str) -> tuple[Name, ...]:
    members, names = {str(one): one for one in known}, word.split(",")
    if not set(names) <= set(members) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{word!r} is {what}: {','.join(members)}")
    return tuple(members[one] for one in names)
