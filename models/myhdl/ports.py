# SPDX-License-Identifier: Apache-2.0
"""Ports of a twin: names and widths of its RTL module."""

from __future__ import annotations

from typing import Any, NamedTuple

from myhdl import Signal, intbv


class Ports(NamedTuple):
    """Width in bits by name; a port of width 1 is a bool. ``clocked``: the first port is `clk`."""

    inputs: dict[str, int]
    outputs: dict[str, int]
    clocked: bool = False

    def signals(self) -> dict[str, Any]:
        """Return a signal for each port, initially 0."""
        widths = {**({"clk": 1} if self.clocked else {}), **self.inputs, **self.outputs}
        return {
            name: Signal(bool(0)) if width == 1 else Signal(intbv(0)[width:])
            for name, width in widths.items()
        }
