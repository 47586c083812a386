# SPDX-License-Identifier: Apache-2.0
"""Modes of a region, as coded in its CONFIG register, and the elements of a line in each mode."""

from __future__ import annotations

from enum import IntEnum

MODE_MAX = 15
"""Largest code of the field in CONFIG."""


class Mode(IntEnum):
    """Region mode, as coded in the CONFIG register."""

    IDENTITY = 0
    G_BINARY = 1
    G_TERNARY = 2
    FP32 = 3
    G_INT4 = 4
    G_INT8 = 5
    G_TERN5 = 6

    @classmethod
    def _missing_(cls, value: object) -> Mode | None:
        """Return a separate member RESERVED_n for a reserved code n (7..15), None for other values.

        Iteration over Mode does not include it. A register may hold such a code; a commit refuses
        it.
        """
        if not isinstance(value, int) or not 0 <= value <= MODE_MAX:
            return None
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"RESERVED_{value}", value
        return member

    @property
    def reserved(self) -> bool:
        """Return True for a reserved code, which a commit refuses."""
        return self > Mode.G_TERN5

    @property
    def optional(self) -> bool:
        """Return True for G_TERN5, which needs a build option; otherwise a commit refuses it."""
        return self is Mode.G_TERN5

    @property
    def low_bit(self) -> bool:
        """Return True for modes that count bits: G_BINARY, G_TERNARY, G_TERN5, G_INT4, G_INT8."""
        return self in (Mode.G_BINARY, Mode.G_TERNARY, Mode.G_TERN5) or self.bits > 0

    @property
    def bits(self) -> int:
        """Return the bits of an integer code in G_INT4 and G_INT8; 0 in all other modes."""
        return {Mode.G_INT4: 4, Mode.G_INT8: 8}.get(self, 0)

    @property
    def exact(self) -> bool:
        """Return True for G_INT4, G_INT8 and G_TERN5, in which counters must not saturate.

        A commit is refused if they could.
        """
        return self.bits > 0 or self is Mode.G_TERN5

    def counts_to(self, workers: int) -> int:
        """Return the highest value that a counter of a line can reach with this many workers."""
        return 2 * workers if self is Mode.G_TERN5 else workers


FIRST_EDITION = (Mode.IDENTITY, Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
"""Modes without integer codes and without build options."""
GATED = (Mode.G_TERNARY, Mode.G_TERN5)
"""Modes whose elements may be off; they have illegal codes."""


class Tie(IntEnum):
    """Result of a tied G_BINARY vote (the TIE_MINUS bit of CONFIG)."""

    PLUS = 0
    MINUS = 1


_ELEMENTS = {
    Mode.G_BINARY: 512,
    Mode.G_TERNARY: 256,
    Mode.FP32: 16,
    Mode.G_INT4: 128,
    Mode.G_INT8: 64,
    Mode.G_TERN5: 320,
}


def elements_per_line(mode: Mode) -> int:
    """Return the number of elements in a line of ``mode``.

    Raises:
        ValueError: IDENTITY or a reserved mode, which has no elements.
    """
    if mode not in _ELEMENTS:
        raise ValueError(f"mode {Mode(mode).name} has no elements, only bytes")
    return _ELEMENTS[mode]


def lines_needed(elements: int, mode: Mode) -> int:
    """Return the number of lines that hold ``elements`` elements; the last may be padded."""
    return -(-elements // elements_per_line(mode))
