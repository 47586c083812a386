# SPDX-License-Identifier: Apache-2.0
"""Checkers that a mutation run disables, to measure how many mutants each of them catches.

NF_CHECKERS_OFF names them, separated by commas. Only a mutation run may set it: `nf` itself refuses
to start with it in its environment.
"""

import os

CHECKERS = {
    "scoreboard": "responses against the device model, DevLoad, requests without an answer",
    "registers": "reads of registers, counters, the interrupt pin",
    "link": "rules of the CXL.mem link at the pins",
    "memory": "AXI4 rules, and what the device does at which line of memory",
    "assertions": "assertions in the RTL (Verilator)",
}


def switched_off() -> frozenset[str]:
    """Return the names of the checkers that NF_CHECKERS_OFF disables, from keys of CHECKERS.

    Raises:
        ValueError: NF_CHECKERS_OFF names an unknown checker.
    """
    names = frozenset(filter(None, os.environ.get("NF_CHECKERS_OFF", "").split(",")))
    unknown = sorted(names - CHECKERS.keys())
    if unknown:
        known = ", ".join(CHECKERS)
        raise ValueError(f"NF_CHECKERS_OFF: {unknown[0]!r} is no checker; there are {known}")
    return names
