# SPDX-License-Identifier: Apache-2.0
"""View of the waves of a failed run, for GTKWave (`.gtkw`) and Surfer (`.sucl`).

`view.toml` names the signals. Signals of text need no filter file: the RTL has the names of its
states and codes as ASCII (`hdl/common/nf_wave.svh`), and messages are strings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import pywellen

from neuron_fabric import output
from scripts.common.records import RunRecord
from scripts.waves import messages

VIEW = Path(__file__).with_name("view.toml")
TEXT, CONTROLLER = "text", "nf_controller"
BEFORE_NS = 200.0
"""Time that a viewer shows first, up to the failure."""
_UNITS_A_NS = {"us": 1e-3, "ns": 1.0, "ps": 1e3, "fs": 1e6}
# Flags of GTKWave's save files (its man page calls them trace flags).
_RIGHT, _HEX, _BINARY, _ASCII, _BLANK = 0x20, 0x2, 0x8, 0x800, 0x200


class Group(msgspec.Struct, forbid_unknown_fields=True):
    """Group of signals with a common format: "hex", or "text" for ASCII and strings."""

    name: str
    signals: list[str]
    format: str = "hex"


class _View(msgspec.Struct, forbid_unknown_fields=True):
    group: list[Group]


@dataclass(frozen=True)
class Signal:
    """Signal of the waves: its name with scopes, its bits (0: a string), and whether it is text."""

    name: str
    bits: int
    text: bool


@dataclass(frozen=True)
class View:
    """Signals of a failed run to show, and the time at which it failed.

    Attributes:
        waves: The FST file.
        failed_ns: Simulated time of the failure; None shows the end.
        title: Failure and failing line, for the first row.
        groups: Signals, by name of the group.
        ticks_per_ns: Units of time in the file.
        last_ns: Last time of the file.
    """

    waves: Path
    failed_ns: float | None
    title: str
    groups: dict[str, list[Signal]]
    ticks_per_ns: float
    last_ns: float

    @property
    def cursor(self) -> int:
        """The time of the failure, or the last one, in units of the file."""
        at = self.last_ns if self.failed_ns is None else min(self.failed_ns, self.last_ns)
        return round(at * self.ticks_per_ns)

    def write(self) -> tuple[Path, Path]:
        """Write both files next to the waves and return their paths."""
        gtkwave, surfer = self.waves.with_suffix(".gtkw"), self.waves.with_suffix(".sucl")
        output.write_text(gtkwave, "\n".join(self._gtkwave()) + "\n")
        output.write_text(surfer, "\n".join(self._surfer()) + "\n")
        return gtkwave, surfer

    def _gtkwave(self) -> Iterator[str]:
        first = max(0, self.cursor - round(BEFORE_NS * self.ticks_per_ns))
        yield f'[dumpfile] "{self.waves}"'
        yield f"[timestart] {first}"
        yield "[size] 1600 900"
        yield "[signals_width] 420"
        yield "[sst_expanded] 0"
        # Zoom, cursor, and 26 markers that are not set.
        yield " ".join([f"*{-self._zoom():.2f}", str(self.cursor), *["-1"] * 26])
        yield f"@{_BLANK:x}"
        yield f"-{self.title}"
        for name, signals in self.groups.items():
            yield f"@{_BLANK:x}"
            yield f"-{name}"
            for one in signals:
                kind = _ASCII if one.text else _BINARY if one.bits == 1 else _HEX
                yield f"@{kind | _RIGHT:x}"
                yield f"{one.name}[{one.bits - 1}:0]" if one.bits > 1 else one.name

    def _zoom(self) -> float:
        """Return the zoom of GTKWave at which `BEFORE_NS` take about 800 pixels.

        A step of 1 halves the time; 7.5 was measured with GTKWave 3.3.118.
        """
        return math.log2(BEFORE_NS * self.ticks_per_ns / 800) + 7.5

    def _surfer(self) -> Iterator[str]:
        yield "divider_add " + self.title.replace(" ", "_")
        for name, signals in self.groups.items():
            yield "divider_add " + name.replace(" ", "_").replace(",", "")
            for one in signals:
                yield f"variable_add {one.name}"
        yield f"cursor_set {self.cursor}"
        yield "goto_cursor"


def of_run(record: RunRecord, waves: Path) -> View:
    """Return the view of a failed run at the time of its first finding.

    Args:
        record: The run.
        waves: Its FST file, in the folder of its messages.

    Raises:
        ValueError: The file is no FST file.
    """
    failed = messages.failure(messages.read(waves.parent))
    ended = [case.sim_time_ns for case in record.cases if case.status == "failed"]
    at = failed.ns if failed else ended[0] if ended else None
    where = ""
    if failed is not None and failed.line is not None:
        region, line = failed.line
        where = f", memory line {line:#x}" if region < 0 else f", region {region} line {line}"
    return view_of(waves, at, f"{record.name} seed {record.seed}{where}")


def view_of(waves: Path, failed_ns: float | None, title: str) -> View:
    """Select the signals of a waves file.

    Args:
        waves: The FST file.
        failed_ns: Simulated time of the failure, if it is known.
        title: Text of the first row.

    Raises:
        ValueError: The file is no FST file.
    """
    try:
        found = pywellen.Waveform(str(waves))
    except Exception as error:  # pywellen raises its own kinds
        raise ValueError(f"{waves} is no FST file: {error}") from error
    ticks_per_ns = _UNITS_A_NS[str(found.timescale.unit)] / found.timescale.factor
    every = {one.full_name: one for one in found.all_vars()}
    top = next((name.split(".")[0] for name in every if not name.startswith("messages.")), "")
    groups = {}
    for group in msgspec.toml.decode(VIEW.read_bytes(), type=_View).group:
        names = _matching(group.signals, [*every], top)
        text = group.format == TEXT
        if names:
            groups[group.name] = [Signal(n, every[n].bitwidth or 0, text) for n in names]
    if top != CONTROLLER:  # a block: its ports explain it
        ports = [n for n in every if n.startswith(f"{top}.") and n.count(".") == 1]
        groups[top] = [Signal(name, every[name].bitwidth or 0, False) for name in ports]
    last = int.from_bytes(waves.read_bytes()[17:25], "big")  # of the header block
    return View(waves, failed_ns, title, groups, ticks_per_ns, last / ticks_per_ns)


def _matching(patterns: Sequence[str], names: Sequence[str], top: str) -> list[str]:
    """Return the names that match a pattern, each once, in the order of the patterns."""
    found: dict[str, None] = {}
    for pattern in patterns:
        full = pattern if pattern.startswith("messages.") else f"{top}.{pattern}"
        found |= dict.fromkeys(name for name in names if fnmatchcase(name, full))
    return [*found]
