# SPDX-License-Identifier: Apache-2.0
"""Twins in MyHDL's simulator, clock by clock.

MyHDL has one simulator per process, so all twins that run at the same time share one `Stepper`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from myhdl import Cosimulation, Simulation, block, delay, instance

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
    """Runner of twins, alone or with another simulator. Use it as a context manager.

    ``command`` starts a simulator with the module of the first twin and MyHDL's VPI module. It gets
    the same inputs, and `beside` returns its outputs.
    """

    def __init__(self, twins: Sequence[Twin], command: Sequence[str] = ()) -> None:
        self._twins = {twin.name: twin for twin in twins}
        self._signals = {twin.name: twin.ports.signals() for twin in twins}
        blocks = [twin.block(self._signals[twin.name]) for twin in twins]
        self._beside: dict[str, Any] = {}
        if command:
            first = twins[0]
            shared = self._signals[first.name]
            self._beside = {name: first.ports.signals()[name] for name in first.ports.outputs}
            blocks.append(Cosimulation(list(command), **{**shared, **self._beside}))
        self._simulation = Simulation(*blocks, _heartbeat())
        self._settle()

    def __enter__(self) -> Stepper:
        return self

    def __exit__(self, *error: object) -> None:
        self._simulation.quit()

    def inputs(self, name: str, values: Mapping[str, int]) -> dict[str, int]:
        """Set inputs of a twin; return all its settled outputs."""
        signals, twin = self._signals[name], self._twins[name]
        for port, value in values.items():
            signals[port].next = value
        self._settle()
        return {port: int(signals[port].val) for port in twin.ports.outputs}

    def beside(self) -> dict[str, int]:
        """Return the outputs of the module in the other simulator, for the same inputs."""
        return {name: int(signal.val) for name, signal in self._beside.items()}

    def clock(self) -> None:
        """Apply a rising edge to every clock."""
        clocks = [self._signals[n]["clk"] for n, twin in self._twins.items() if twin.ports.clocked]
        for level in (1, 0):
            for clock in clocks:
                clock.next = level
            self._settle()

    def _settle(self) -> None:
        self._simulation.run(1, quiet=1)
