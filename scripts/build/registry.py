# SPDX-License-Identifier: Apache-2.0
"""The simulators that there are, by name. A new backend is its file and a line at the end here."""

from __future__ import annotations

from scripts.build.icarus import Icarus
from scripts.build.simulator import Simulator
from scripts.build.verilator import Verilator
from scripts.common.errors import NfError

ALL = "both"  # `--sim both`: every simulator that is installed
HELP = "simulator (every one that is installed)"
_known: dict[str, type[Simulator]] = {}


def register(simulator: type[Simulator]) -> None:
    """Make a simulator known; those that were registered first are preferred."""
    _known[simulator.name] = simulator


def forget(name: str) -> None:
    """The inverse of `register`."""
    del _known[name]


def simulators() -> list[type[Simulator]]:
    """All of them, in the order of their registration."""
    return list(_known.values())


def names() -> tuple[str, ...]:
    """Their names, in the order of their registration."""
    return tuple(_known)


def choices() -> tuple[str, ...]:
    """What `--sim` takes where several simulators may be meant."""
    return (*_known, ALL)


def get(name: str) -> type[Simulator]:
    """The simulator of that name; an NfError that lists the names else."""
    if name not in _known:
        raise NfError(f"unknown simulator {name!r}; there are: {', '.join(_known)}.")
    return _known[name]


def quick() -> type[Simulator]:
    """The one to take where the simulator does not matter: it compiles at once."""
    return min(_known.values(), key=lambda simulator: simulator.compiles_slowly)


def choose(wanted: str) -> tuple[list[str], str | None]:
    """Simulators for a name or `both`, and a line to show if one is left out.

    Raises NfError when the one asked for by name, or one that is always needed, is missing.
    """
    if wanted != ALL:
        if not get(wanted).available():
            raise NfError(f"simulator {wanted} is not installed: see `nf doctor`.")
        return [wanted], None
    absent = [simulator for simulator in simulators() if not simulator.available()]
    for simulator in absent:
        if simulator.required:
            raise NfError(simulator.missing)
    note = " ".join(simulator.missing for simulator in absent)
    return [one.name for one in simulators() if one not in absent], note or None


register(Verilator)
register(Icarus)
