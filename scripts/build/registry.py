# SPDX-License-Identifier: Apache-2.0
"""Registry of simulators by name.

A new backend is one file, and its name in this module.
"""

from __future__ import annotations

from scripts.build.icarus import Icarus
from scripts.build.simulator import Simulator
from scripts.build.verilator import Verilator
from scripts.common.errors import NfError

ALL = "both"  # `--sim both`: every simulator that is installed
HELP = "simulator (every one that is installed)"
_ALL: tuple[type[Simulator], ...] = (Verilator, Icarus)
"""In order of preference."""
_known = {one.name: one for one in _ALL}


def simulators() -> list[type[Simulator]]:
    """Return all simulators in order of preference."""
    return list(_known.values())


def names() -> tuple[str, ...]:
    """Return the names of all simulators in order of preference."""
    return tuple(_known)


def choices() -> tuple[str, ...]:
    """Return the values of `--sim` where several simulators are allowed: the names, and `both`."""
    return (*_known, ALL)


def get(name: str) -> type[Simulator]:
    """Return the simulator of that name; NfError with the known names if there is none."""
    if name not in _known:
        raise NfError(f"unknown simulator {name!r}; there are: {', '.join(_known)}.")
    return _known[name]


def quick() -> type[Simulator]:
    """Return the simulator that compiles fastest, for uses where any will do."""
    return min(_known.values(), key=lambda simulator: simulator.compiles_slowly)


def choose(wanted: str) -> tuple[list[str], str | None]:
    """Resolve the value of `--sim`, a name or `both`, to installed simulators.

    Args:
        wanted: The value.

    Returns:
        The names, and a line for the user if `both` leaves one out, else None.

    Raises:
        NfError: The named simulator, or one that `both` requires, is not installed.
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
