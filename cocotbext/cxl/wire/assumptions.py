# SPDX-License-Identifier: Apache-2.0
"""The facts marked [M] in the link spec: from memory, to be checked against the official document.

They stand here and nowhere else, so that one edit changes them everywhere in the models and the
verification agent.
"""

from __future__ import annotations

from typing import Final

FLUSH_RETIMER_CLOCKS: Final = 32
"""Clocks after which pending acknowledgements or credits force an LLCRD (spec: link spec §9)."""


def be_to_slot(be: int) -> int:
    """The 128-bit byte-enable slot of a line: BE[63:0] = slot[63:0] (spec: link spec §4)."""
    return be


def slot_to_be(slot: int) -> int:
    """Inverse of be_to_slot(); the upper half is reserved."""
    return slot & 0xFFFF_FFFF_FFFF_FFFF


BE_SLOT_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
"""Bits of the byte-enable slot that carry something."""
