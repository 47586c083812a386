# SPDX-License-Identifier: Apache-2.0
"""Packed structures in the ports of the RTL blocks, as slang reads them from hdl/pkg."""

import functools
from typing import Any

import pyslang

from verif.env.rtl_packages import structure

Layout = tuple[tuple[str, int], ...]


@functools.cache
def layout(struct: str) -> Layout:
    """Return (member, bits) of a packed structure, most significant first.

    Raises:
        KeyError: No package has such a structure.
    """
    kind = structure(struct)
    if not isinstance(kind, pyslang.ast.PackedStructType):
        raise KeyError(f"no package has a structure {struct}")
    members = (m for m in kind if isinstance(m, pyslang.ast.FieldSymbol))
    return tuple((member.name, member.type.bitWidth) for member in members)


def pack(struct: str | Layout, **values: int) -> int:
    """Return the value of a packed structure from its members by name; the others are 0."""
    word = 0
    for name, width in layout(struct) if isinstance(struct, str) else struct:
        value = values.pop(name, 0)
        assert 0 <= value < 1 << width, f"{name} = {value:#x}"
        word = word << width | value
    assert not values, f"no members {values}"
    return word


def unpack(struct: str | Layout, word: int) -> dict[str, int]:
    """Return the members of a packed structure by name, from its value."""
    out = {}
    for name, width in reversed(layout(struct) if isinstance(struct, str) else struct):
        out[name] = word & ((1 << width) - 1)
        word >>= width
    return out


def sampled(pins: Any) -> int:
    """Return the value of pins that are valid now; AssertionError if a bit is X or Z."""
    value = pins.value
    assert value.is_resolvable, f"{pins._name} holds X or Z while it is valid: {value}"
    return int(value)
