# SPDX-License-Identifier: Apache-2.0
"""What the device tells the host of its state: DevLoad, FALLBACK, DONE and the interrupt, with the
registers that set their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cocotbext.cxl.wire.messages import DevLoad
from models.nf_regs import REG_MAP
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.scoreboard.operations import Op

_REGISTERS = REG_MAP.expand()
_IRQ_STATUS = _REGISTERS["IRQ_STATUS"]
_DEVLOAD = _REGISTERS["DEVLOAD_THRESHOLD"]
SOURCES = tuple(field.name for field in _IRQ_STATUS.fields)
LOADS = tuple(load.name for load in DevLoad)
WINDOWS = ("0", "1", "2", "3..255", "256", "above 256")
MISSES = ("0", "1", "below window", "window - 1", "window", "above window")
LEVELS = ("0", "1", "2..128", "above 128")  # 128: every answer that may be under way


class CapacityPoints:
    """Feed it with `op`, `register` (a read) and `written`."""

    def __init__(self, model: CoverModel) -> None:
        point, cross = model.point, model.cross
        self.devload = point(
            "devload",
            "the load is reported",
            LOADS,
            test="test_capacity::devload_levels",
            at_least=CHEAP,
        )
        self.devload_change = cross(
            "devload change",
            "the load of a response after that of the one before it; a jump over levels comes of "
            "new thresholds or of a region in FALLBACK",
            {"before": LOADS, "now": LOADS},
            test="test_scenario::register_traffic",
        )
        self.levels = cross(
            "devload levels",
            "edges of the three thresholds: off, at once, reachable, just not, never",
            {"level": ("OPTIMAL", "MODERATE", "SEVERE"), "value": LEVELS},
            test="test_systematic::status",
        )
        self.interrupt = cross(
            "interrupt",
            "each source was seen pending, enabled and masked",
            {"source": SOURCES, "enable": ("masked", "enabled")},
            test="test_interrupts::interrupts",
        )
        self.window = cross(
            "capacity limits",
            "edges of the window and of the misses that it allows; 2 and fewer have no room below "
            "the window's edge, and a window that is longer than the history counts as 256",
            {"window": WINDOWS, "misses": MISSES},
            test="test_systematic::status",
            ignore=_same_edge,
        )
        self.fallback = point(
            "fallback",
            "FALLBACK of a region through its life, as it reads",
            ("raised", "cleared", "raised again", "raised beside another"),
            test="test_systematic::status",
        )
        self.done = point(
            "done",
            "DONE of a region through its life, as it reads",
            ("raised", "ended by a commit", "raised again", "raised beside another"),
            test="test_systematic::status",
        )
        self._load = ""
        self._enabled = 0
        self._limits = {name: _REGISTERS[name].reset for name in ("CAP_WINDOW", "CAP_THRESHOLD")}
        self._levels = {"FALLBACK": 0, "DONE": 0}
        self._ever = {"FALLBACK": 0, "DONE": 0}

    # -- responses ----------------------------------------------------------------------------
    def op(self, op: Op) -> None:
        """An answered operation."""
        if op.response is None:
            return
        load = LOADS[op.response.devload]
        self.devload.hit(load)
        if self._load:
            self.devload_change.hit(self._load, load)
        self._load = load

    # -- registers ----------------------------------------------------------------------------
    def register(self, name: str, value: int) -> None:
        """A register was read."""
        if name == "IRQ_STATUS":
            for source, pending in _IRQ_STATUS.unpack(value).items():
                if pending:
                    enabled = _IRQ_STATUS.field(source).extract(self._enabled)
                    self.interrupt.hit(source, "enabled" if enabled else "masked")
        elif name == "FALLBACK":
            self._follow(self.fallback.hit, name, value, "cleared")
        elif name == "DONE":
            self._follow(self.done.hit, name, value, "ended by a commit")

    def _follow(self, hit: Callable[[str], None], name: str, value: int, fall: str) -> None:
        """Rises and falls of a register with a bit for each region, between two reads of it."""
        old, ever = self._levels[name], self._ever[name]
        rises = value & ~old
        if rises:
            hit("raised again" if rises & ever else "raised")
            if value & (value - 1):
                hit("raised beside another")
        if old & ~value:
            hit(fall)
        self._levels[name], self._ever[name] = value, ever | value

    def written(self, name: str, value: int) -> None:
        """A register was written."""
        if name == "IRQ_ENABLE":
            self._enabled = value
        elif name in self._limits:
            self._limits[name] = value & 511
            window, misses = self._limits["CAP_WINDOW"], self._limits["CAP_THRESHOLD"]
            self.window.hit(_window(window), _misses(misses, min(window, 256)))
        elif name == "DEVLOAD_THRESHOLD":
            for level, limit in _DEVLOAD.unpack(value).items():
                self.levels.hit(level, _ranged(limit, (0, 1, 128), LEVELS))


def _ranged(value: int, limits: Sequence[int], names: Sequence[str]) -> str:
    """The name of the first limit that is not below `value`, or the last name."""
    for limit, name in zip(limits, names, strict=False):
        if value <= limit:
            return name
    return names[-1]


def _window(window: int) -> str:
    return _ranged(window, (0, 1, 2, 255, 256), WINDOWS)


def _misses(misses: int, window: int) -> str:
    if misses >= window:
        return "window" if misses == window else "above window"
    if misses == window - 1:
        return "window - 1"
    return str(misses) if misses <= 1 else "below window"


def _same_edge(window: str, misses: str) -> bool:
    """Numbers of misses that have another name beside so short a window."""
    taken = {"0": ("0", "1", "below window", "window - 1"), "1": ("0", "1", "below window")}
    return misses in {**taken, "2": ("1", "below window")}.get(window, ())
