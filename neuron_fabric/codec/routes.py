# SPDX-License-Identifier: Apache-2.0
"""Routes (formats) of a gradient, and the number of elements in a line of each.

The line format is the device's: 64 bytes, little-endian, element ``e`` at bit ``e * width``. A
tensor is flattened in memory order and starts on a new line; the tail of its last line is padded
with code 0.
"""

from __future__ import annotations

from enum import StrEnum

LINE = 64
"""Bytes of a line."""
BUCKET = 1024
"""Elements of integer codes that share a unit."""


class Route(StrEnum):
    """Format in which a gradient is sent: FP32, votes of 1 or 2 bits, or integer codes."""

    FP32 = "FP32"
    G_BINARY = "G_BINARY"
    G_TERNARY = "G_TERNARY"
    G_INT4 = "G_INT4"
    G_INT8 = "G_INT8"

    @property
    def bits(self) -> int:
        """Return the number of bits of an element."""
        return _BITS[self]

    @property
    def votes(self) -> bool:
        """Return whether its elements are votes, which are counted."""
        return self in (Route.G_BINARY, Route.G_TERNARY)

    @property
    def codes(self) -> bool:
        """Return whether its elements are integer codes, which are added."""
        return self in (Route.G_INT4, Route.G_INT8)


_BITS = {
    Route.FP32: 32,
    Route.G_BINARY: 1,
    Route.G_TERNARY: 2,
    Route.G_INT4: 4,
    Route.G_INT8: 8,
}


def check_route(route: object) -> None:
    """Check that ``route`` is a `Route`. Raise ValueError if not, even for the name of one."""
    if not isinstance(route, Route):
        raise ValueError(f"route must be a Route, not {type(route).__name__}")


def check_votes(route: Route) -> None:
    """Check that ``route`` is one of votes. Raise ValueError if not."""
    check_route(route)
    if not route.votes:
        raise ValueError(f"{route} has no votes")


def elements_of_line(route: Route) -> int:
    """Return the number of elements in a line."""
    check_route(route)
    return 8 * LINE // route.bits


def lines_of(elements: int, route: Route) -> int:
    """Return the number of 64-byte lines that ``elements`` elements of a tensor need."""
    return -(-elements // elements_of_line(route))
