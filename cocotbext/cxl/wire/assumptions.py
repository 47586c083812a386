# SPDX-License-Identifier: Apache-2.0
"""Facts marked [M] in the link spec: recalled, to be checked against the official document.

They are defined only here, so that one edit changes them in all models and in the agent.
"""

from typing import Final

FLUSH_RETIMER_CLOCKS: Final = 32
"""Clocks after which pending acknowledgements or credits force an LLCRD (spec: link spec §9)."""


def be_to_slot(be: int) -> int:
    """Return the 128-bit byte-enable slot of a line: BE[63:0] = slot[63:0] (spec: link spec §4)."""
    return be


def slot_to_be(slot: int) -> int:
    """Return the 64 byte enables in a byte-enable slot; its upper 64 bits are ignored."""
    return slot & 0xFFFF_FFFF_FFFF_FFFF


BE_SLOT_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
"""Used bits of the byte-enable slot."""
