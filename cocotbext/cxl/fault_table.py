# SPDX-License-Identifier: Apache-2.0
"""Injected, detected and recovered faults by kind, judged against the counters of both ends.

Detection is what receivers counted: the device's registers for M2S, the host partner's counters
for S2M. Kinds that share a counter are judged by their sum: where it is exact, each was detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field

from cocotbext.cxl.faults import CRC_KINDS, EPISODES, LOST_KINDS, FaultInjector, FaultKind
from cocotbext.cxl.wire.flits import Direction

_EXACT = {
    "CRC_ERROR": CRC_KINDS,
    "PID_CORRECTABLE": frozenset({FaultKind.PID_HALF}),
    "PID_UNCORRECTABLE": frozenset({FaultKind.PID_BOTH}),
}
COUNTERS = (*_EXACT, "RETRY_LOCAL", "RETRY_REMOTE", "RETRY_TIMEOUT", "PHY_REINIT")
"""Registers of the device that a table needs; the host's counters have the same names."""
_CAUGHT_BY_RETRAIN = 4
"""Flits that a falling phy_up may catch between the pins and the device's checks."""


@dataclass
class FaultRow:
    """One kind on one direction."""

    kind: str
    direction: str
    injected: int = 0
    detected: int = 0
    recovered: int = 0


@dataclass
class FaultTable:
    """``problems``: what does not add up, one line each."""

    rows: list[FaultRow] = field(default_factory=list)
    flits: tuple[int, int] = (0, 0)
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The table for a log."""
        head = f"{'fault':26} {'way':4} {'injected':>9} {'detected':>9} {'recovered':>9}"
        lines = [head]
        lines += [
            f"{r.kind:26} {r.direction:4} {r.injected:9} {r.detected:9} {r.recovered:9}"
            for r in self.rows
        ]
        lines.append(f"flits: {self.flits[0]} M2S, {self.flits[1]} S2M")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """For the run's record."""
        return {"rows": [list(astuple(row)) for row in self.rows], "flits": list(self.flits)}


def judge(
    faults: FaultInjector,
    device: Mapping[str, int],
    host: Mapping[str, int],
    flits: tuple[int, int] = (0, 0),
) -> FaultTable:
    """The table of a finished run. ``device`` / ``host``: counters by the names of COUNTERS."""
    table = FaultTable(flits=flits)
    for direction, counted in ((Direction.M2S, device), (Direction.S2M, host)):
        detected = _detected(faults, direction, counted, table.problems)
        for kind in FaultKind:
            injected = faults.injected[kind, direction]
            if not injected:
                continue
            got = detected.get(kind, 0)
            if kind in LOST_KINDS:
                # Nobody sees a flit that is not there: the end that waits for it times out. Both
                # ends may wait for a Frame, so their time-outs are taken together.
                got = min(injected, device["RETRY_TIMEOUT"] + host["RETRY_TIMEOUT"])
                # A retrain that comes first makes it ask anew without.
                if not got and not device["PHY_REINIT"] + host["PHY_REINIT"]:
                    table.problems.append(f"{kind.value} {direction.value}: nobody timed out")
            recovered = faults.recovered[kind, direction]
            if recovered != injected:
                table.problems.append(
                    f"{kind.value} {direction.value}: {injected} injected, {recovered} recovered"
                )
            table.rows.append(FaultRow(kind.value, direction.value, injected, got, recovered))
    if not table.rows:
        table.problems.append("no fault was injected: nothing was tested")
    return table


def _detected(
    faults: FaultInjector, direction: Direction, counted: Mapping[str, int], problems: list[str]
) -> dict[FaultKind, int]:
    out: dict[FaultKind, int] = {}
    retrains = sum(faults.injected[FaultKind.PHY_REINIT, way] for way in Direction)
    slack = 0
    if direction is Direction.M2S:
        slack = _CAUGHT_BY_RETRAIN * max(retrains, counted["PHY_REINIT"])
    for name, kinds in _EXACT.items():
        injected = {kind: faults.injected[kind, direction] for kind in kinds}
        total, seen = sum(injected.values()), counted[name]
        if not total - slack <= seen <= total:
            problems.append(f"{direction.value} {name} is {seen}, {total} flits were damaged")
        short = total - seen
        for kind, number in injected.items():
            out[kind] = number - min(short, number) if short > 0 else number
            short -= number - out[kind]
    # Either hook may ask for a retrain; both ends see every one.
    if counted["PHY_REINIT"] < retrains:
        problems.append(f"{direction.value} PHY_REINIT is {counted['PHY_REINIT']} of {retrains}")
    phy = faults.injected[FaultKind.PHY_REINIT, direction]
    out[FaultKind.PHY_REINIT] = min(phy, counted["PHY_REINIT"])
    for kind in EPISODES:
        out[kind] = faults.noticed[kind, direction]
    return out
