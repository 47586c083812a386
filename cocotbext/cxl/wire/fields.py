# SPDX-License-Identifier: Apache-2.0
"""Bit fields of headers as a table (spec: link spec §3, §5, §7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

FLAG: Final = (False, True)


class Fields:
    """Fields by name: their lowest bit, and the value of each code.

    ``range(16)`` is a field of 4 bits, ``range(0, 1 << 52, 32)`` an address of which bits [4:0] are
    not carried, FLAG a bool.
    """

    def __init__(self, **places: tuple[int, Sequence[int]]) -> None:
        self._reads = [
            (name, low, len(values) - 1, values) for name, (low, values) in places.items()
        ]
        self._writes = [
            (name, low, values[-1].bit_length(), int(values[1]).bit_length() - 1)
            for name, (low, values) in places.items()
        ]
        self.live = sum(len(values) - 1 << low for low, values in places.values())
        """Every bit that may be 1."""

    def pack(self, holder: object) -> int:
        """The attributes of ``holder`` in their places. ValueError names one that does not fit."""
        raw = 0
        for name, low, bits, shift in self._writes:
            value: int = getattr(holder, name)
            if value >> bits:
                raise ValueError(f"{name} = {value:#x} does not fit in {bits} bits")
            if shift and value & (1 << shift) - 1:
                raise ValueError(f"{name} = {value:#x} is not aligned to {1 << shift} bytes")
            raw |= value >> shift << low
        return raw

    def unpack(self, raw: int) -> dict[str, Any]:
        """Inverse of pack(); bits between the fields are not looked at."""
        return {name: values[raw >> low & mask] for name, low, mask, values in self._reads}
