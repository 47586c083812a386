# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench draws`: cost of a draw of a region descriptor, by the generator and the
libraries for constrained randomisation, where they are installed.

All draw the same: W, LINES_LOG2 and T by weight, a window above the memory and a state area inside
it, neither overlapping those of another region.
"""

from __future__ import annotations

import argparse
import importlib
import random
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from models.line_packing import Mode
from models.parameters import DeviceParams
from models.regions import SELECTOR_BITS, RegionConfig
from neuron_fabric.errors import say
from scripts.common.arguments import positive
from verif.scenario.generator import OPERATIONS, RegionDraws, generate
from verif.scenario.weights import Weights

HELP = "cost of a draw: the scenario generator, constrainedrandom, PyVSC"
DEVICE = DeviceParams()
OTHER = RegionConfig(1 << 40, 1 << 20, 4, 8, Mode.FP32)
WORKERS = {1: 1, 2: 1, 3: 1, range(4, 17): 2, range(17, 63): 2, 63: 1, 64: 1}
_LOG2 = {range(4): 4, range(4, 7): 2, range(7, 11): 2}
_MISSING = "not installed: .venv/bin/python -m pip install {}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=positive, default=1000, metavar="N", help="of each kind")


def run(args: argparse.Namespace) -> int:
    """Measure and print the table."""
    table = Weights()
    rng = random.Random(1)
    draws = RegionDraws(DEVICE, table, rng)
    rows: list[tuple[str, Callable[[], object] | str]] = [
        ("one choice by weight", lambda: table.pick(rng, "workers")),
        ("descriptor, this generator", lambda: draws.region([OTHER])),
    ]
    for name, package, make in (
        ("descriptor, constrainedrandom", "constrainedrandom", _constrainedrandom),
        ("descriptor, PyVSC", "vsc", _vsc),
    ):
        there = find_spec(package) is not None
        pip = "pyvsc" if package == "vsc" else package
        rows.append((name, make() if there else _MISSING.format(pip)))
    say(f"{'draw':32} {'microseconds':>12}")
    for name, draw in rows:
        cost = draw if isinstance(draw, str) else f"{_microseconds(draw, args.draws):12.1f}"
        say(f"{name:32} {cost}")
    whole = _microseconds(lambda: generate(rng.getrandbits(32), DEVICE, table), 20)
    say(f"{f'scenario of {OPERATIONS} operations':32} {whole:12.1f}")
    return 0


def _microseconds(draw: Callable[[], object], count: int) -> float:
    """Processor time of one draw: other programs on the machine do not count."""
    start = time.process_time()
    for _ in range(count):
        draw()
    return (time.process_time() - start) / count * 1e6


def _disjoint(base: int, lines_log2: int) -> bool:
    size = 1 << (lines_log2 + SELECTOR_BITS)
    inside = base % size == 0 and base + size <= 1 << 46
    return inside and (base + size <= OTHER.base_line or base >= OTHER.base_line + (1 << 12))


def _constrainedrandom() -> Callable[[], object]:
    library: Any = importlib.import_module("constrainedrandom")

    class Descriptor(library.RandObj):  # type: ignore[misc]
        def __init__(self, rng: random.Random) -> None:
            super().__init__(rng)
            self.add_rand_var("workers", domain=WORKERS, order=0)
            self.add_rand_var("lines_log2", domain=_LOG2, order=0)
            self.add_rand_var("threshold", domain=range(1, 256), order=1)
            self.add_rand_var("window", domain=range(1, 1 << 20), order=1)
            self.add_rand_var("record", domain=range(1 << 15), order=1)
            self.add_constraint(lambda workers, t: t <= workers, ("workers", "threshold"))
            self.add_constraint(lambda log2, w: _disjoint(w << 26, log2), ("lines_log2", "window"))
            self.add_constraint(
                lambda log2, r: (r << 4) + (16 << log2) <= OTHER.state_line,
                ("lines_log2", "record"),
            )

    one = Descriptor(random.Random(1))

    def draw() -> object:
        one.randomize()
        return one

    return draw


def _vsc() -> Callable[[], object]:
    vsc: Any = importlib.import_module("vsc")

    @vsc.randobj  # type: ignore[untyped-decorator]
    class Descriptor:
        def __init__(self) -> None:
            self.workers = vsc.rand_uint8_t()
            self.lines_log2 = vsc.rand_uint8_t()
            self.threshold = vsc.rand_uint8_t()
            self.window = vsc.rand_uint64_t()
            self.record = vsc.rand_uint32_t()

        @vsc.constraint  # type: ignore[untyped-decorator]
        def legal(self) -> None:
            weights = [
                vsc.weight((key.start, key.stop - 1) if isinstance(key, range) else key, weight)
                for key, weight in WORKERS.items()
            ]
            vsc.dist(self.workers, weights)
            vsc.dist(
                self.lines_log2,
                [vsc.weight((key.start, key.stop - 1), weight) for key, weight in _LOG2.items()],
            )
            vsc.solve_order(self.workers, self.threshold)
            self.threshold >= 1  # noqa: B015  (a constraint, not a value)
            self.threshold <= self.workers  # noqa: B015
            self.window >= 1  # noqa: B015
            self.window < (1 << 20)  # noqa: B015
            self.window != (OTHER.base_line >> 26)  # noqa: B015
            self.record < (1 << 15)  # noqa: B015

    one: Any = Descriptor()

    def draw() -> object:
        one.randomize()
        return one

    return draw
