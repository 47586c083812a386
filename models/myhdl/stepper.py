# SPDX-License-Identifier: Apache-2.0
"""Runner of MyHDL twins in MyHDL's simulator, clock by clock.

MyHDL has one simulator per process, so all twins that run at the same time share one `Stepper`.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Self

from myhdl import Simulation, block, delay, instance

from models.myhdl.convert import Twin


@block
def _heartbeat() -> Any:
    """Keep an event pending: without one a simulation ends and cannot continue."""

    @instance
    def beat() -> Generator[object, None, None]:
        while True:
            yield delay(1)

    return beat


class Stepper:
    """Simulation of one or more twins; leaving the context manager ends it."""

    def __init__(self, twins: Sequence[Twin]) -> None:
        self._twins = {twin.name: twin for twin in twins}
        self._signals = {twin.name: twin.ports.signals() for twin in twins}
        blocks = [twin.block(self._signals[twin.name]) for twin in twins]
        self._simulation = Simulation(*blocks, _heartbeat())
        self._settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._simulation.quit()

    def inputs(self, name: str, values: Mapping[str, int]) -> dict[str, int]:
        """Set some inputs of a twin, let the simulation settle, and return its outputs by name."""
        signals, twin = self._signals[name], self._twins[name]
        for port, value in values.items():
            signals[port].next = value
        self._settle()
        return {port: int(signals[port].val) for port in twin.ports.outputs}

    def clock(self) -> None:
        """Apply one clock cycle (rising edge, then falling edge) to every twin that has a clock."""
        clocks = [self._signals[n]["clk"] for n, twin in self._twins.items() if twin.ports.clocked]
        for level in (1, 0):
            for clock in clocks:
                clock.next = level
            self._settle()

    def _settle(self) -> None:
        self._simulation.run(1, quiet=1)
