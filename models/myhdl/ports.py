# SPDX-License-Identifier: Apache-2.0
"""Ports of a twin: names and widths of its RTL module, from the annotations of its block."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, get_origin, get_type_hints

from myhdl import Signal, intbv

LINE_BITS = 512


class Port(NamedTuple):
    """Annotation of a port of a twin: width in bits and direction.

    The width is multiplied by CNT_W with ``per_plane``. A port is an input unless ``output``.
    """

    width: int = 1
    output: bool = False
    per_plane: bool = False


Bit = Annotated[Any, Port()]
Line = Annotated[Any, Port(LINE_BITS)]
Planes = Annotated[Any, Port(LINE_BITS, per_plane=True)]
"""Plane p of the counters is bits [512 p + 511 : 512 p]."""
BitOut = Annotated[Any, Port(output=True)]
LineOut = Annotated[Any, Port(LINE_BITS, output=True)]
PlanesOut = Annotated[Any, Port(LINE_BITS, output=True, per_plane=True)]


class Ports(NamedTuple):
    """Ports of a twin: width in bits by name of port, for inputs and outputs.

    A port of width 1 is a bool. ``clocked``: there is a clock `clk`, which is not in ``inputs``.
    """

    inputs: dict[str, int]
    outputs: dict[str, int]
    clocked: bool

    def signals(self) -> dict[str, Any]:
        """Return a new MyHDL signal for each port by name, initially 0."""
        widths = {**({"clk": 1} if self.clocked else {}), **self.inputs, **self.outputs}
        return {
            name: Signal(bool(0)) if width == 1 else Signal(intbv(0)[width:])
            for name, width in widths.items()
        }


def ports_of(block: Any, parameters: Mapping[str, int]) -> Ports:
    """Return the ports of a MyHDL block with these parameters, from its annotated arguments."""
    hints = get_type_hints(inspect.unwrap(block), include_extras=True)
    ports = {name: hint for name, hint in hints.items() if get_origin(hint) is Annotated}
    widths: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for name, hint in ports.items():
        (port,) = hint.__metadata__
        scale = parameters["cnt_w"] if port.per_plane else 1
        widths[port.output][name] = port.width * scale
    return Ports(*widths, clocked="clk" in hints)
