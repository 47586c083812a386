# SPDX-License-Identifier: Apache-2.0
"""Cost of one sample of a cross with three axes: this cover model and, where they are installed,
cocotb-coverage and PyVSC.

    pip install cocotb-coverage==2.0 pyvsc==1.0.0      # in a virtual environment of their own
    python -m scripts.benchmarks.bench_cover
"""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from neuron_fabric.errors import say
from verif.coverage.cover_model import CoverModel
from verif.coverage.transaction_points import MODES, WORKERS

PLACES = ("hit", "parked", "miss clean", "miss dirty", "fetched", "back", "lost")
AXES: dict[str, Sequence[str]] = {"mode": MODES, "W": WORKERS, "place": PLACES}
SAMPLES = 20_000
Sample = tuple[str, str, str]


def ours() -> Callable[[Sample], object]:
    """A dictionary of tuples."""
    hit = CoverModel().cross("c", "because", AXES, test="test_x::y").hit
    return lambda sample: hit(*sample)


def cocotb_coverage() -> Callable[[Sample], object]:
    """Decorators with a bin list each. ImportError."""
    library: Any = importlib.import_module("cocotb_coverage.coverage")

    def sample(mode: str, workers: str, place: str) -> None:
        """What is decorated."""

    points: list[Any] = []
    for index, (name, values) in enumerate(AXES.items()):

        def pick(*seen: str, index: int = index) -> str:
            return seen[index]

        points.append(library.CoverPoint(f"top.{name}", xf=pick, bins=list(values)))
    cross: Any = library.CoverCross("top.c", items=[f"top.{name}" for name in AXES])
    decorated: Any = cross(sample)
    for point in reversed(points):
        decorated = point(decorated)
    return lambda one: decorated(*one)


def pyvsc() -> Callable[[Sample], object]:
    """A covergroup of numbers. ImportError."""
    library: Any = importlib.import_module("vsc")

    class Group:
        def __init__(self) -> None:
            self.with_sample({name: library.bit_t(4) for name in "abc"})  # type: ignore[attr-defined]
            for name, values in zip("abc", AXES.values(), strict=True):
                bins = {"bins": library.bin_array([], [0, len(values) - 1])}
                setattr(self, f"c{name}", library.coverpoint(getattr(self, name), bins=bins))
            self.x = library.cross([getattr(self, f"c{name}") for name in "abc"])

    group = library.covergroup(Group)()
    codes = [{value: code for code, value in enumerate(values)} for values in AXES.values()]
    return lambda one: group.sample(*(code[value] for code, value in zip(codes, one, strict=True)))


def main() -> None:
    """Prints one line for each."""
    rng = random.Random(1)
    samples: list[Sample] = [
        (rng.choice(MODES), rng.choice(WORKERS), rng.choice(PLACES)) for _ in range(SAMPLES)
    ]
    for make in (ours, cocotb_coverage, pyvsc):
        try:
            hit = make()
        except ImportError as error:
            say(f"{make.__name__}: not installed ({error.name})")
            continue
        begin = time.process_time()
        for sample in samples:
            hit(sample)
        cost = (time.process_time() - begin) / SAMPLES
        say(f"{make.__name__}: {cost * 1e6:.2f} us a sample")


if __name__ == "__main__":
    main()
