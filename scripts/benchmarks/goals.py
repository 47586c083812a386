# SPDX-License-Identifier: Apache-2.0
"""Measured speeds with their goals, as `nf measure bench` prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from neuron_fabric.errors import say


@dataclass(frozen=True)
class SpeedGoal:
    """One measured figure with its goal: a lower limit with ``least``, else an upper limit."""

    name: str
    value: float
    goal: float
    unit: str = ""
    least: bool = False

    @property
    def good(self) -> bool:
        """True if the goal is reached."""
        return self.value >= self.goal if self.least else self.value <= self.goal


def in_turn(ways: Mapping[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
    """Measure all ways in turn, several times, so that other work of the machine slows all alike.

    Args:
        ways: Functions that measure once and return their seconds, by name.
        runs: Number of measurements of each.

    Returns:
        The seconds of all measurements, by name.
    """
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            found[name].append(way())
    return found


def table(goals: Sequence[SpeedGoal]) -> list[str]:
    """Return the lines of a table of figures and goals."""
    width = max(len(goal.name) for goal in goals)
    out = [f"{'figure':{width}} {'value':>10} {'goal':>10}"]
    for one in goals:
        value, goal = (f"{number:.2f}{one.unit}" for number in (one.value, one.goal))
        sign, word = ">=" if one.least else "<=", "ok" if one.good else "MISSED"
        out.append(f"{one.name:{width}} {value:>10} {f'{sign} {goal}':>10} {word}")
    return out


def judge(goals: Sequence[SpeedGoal]) -> int:
    """Print the table of goals; return the exit code, 1 when a goal is missed, else 0."""
    say(*table(goals))
    return 0 if all(goal.good for goal in goals) else 1
