# SPDX-License-Identifier: Apache-2.0
"""Control window: registers as lines of the device's address space.

Line i of the window contains registers 16 i .. 16 i + 15, the lowest address in bits 31:0. Spec:
controller, second edition, section 9.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from models.register_types import WORD_BYTES, WORD_MASK

CONTROL_LINES = 64
CONTROL_WORDS = 16
LINE_OF_BYTES = CONTROL_WORDS * WORD_BYTES
REGION_LINE = 16
"""Line of region 0; each region has one line."""
OUT_OF_BAND = ("CTRL_WINDOW_LO", "CTRL_WINDOW_HI", "CTRL_LD_MASK", "OWNER_LD")
"""Registers (also of a region) that a write through the window does not change."""
_WORD_BE = (1 << WORD_BYTES) - 1


@dataclass(frozen=True)
class ControlWindow:
    """Position of the control window in the device's address space, and who may write by it."""

    base: int = 0
    """Byte address; 0 if there is no window."""
    ld_mask: int = 0
    """Bit i: LD-ID i may write all registers."""
    owners: tuple[int | None, ...] = ()
    """LD-ID that may write the registers of each region, besides those in ``ld_mask``; None for
    none.
    """

    @property
    def base_line(self) -> int:
        """Return the number of the window's first line (byte address / 64)."""
        return self.base >> 6

    def holds(self, line: int) -> bool:
        """Return True if a line address lies in the window."""
        return self.base != 0 and 0 <= line - self.base_line < CONTROL_LINES

    def may_write(self, ldid: int, line: int) -> bool:
        """Return True if an LD-ID may write line ``line`` of the window, counted from its start."""
        if self.ld_mask >> ldid & 1:
            return True
        region = line - REGION_LINE
        return 0 <= region < len(self.owners) and self.owners[region] == ldid

    def address(self, register: int) -> int:
        """Return the byte address of the line in the window that contains a register.

        ``register`` is the byte address of the register in the register space.
        """
        return self.base + register // LINE_OF_BYTES * LINE_OF_BYTES


def whole_words(be: int) -> bool:
    """Return True if the 64 byte enables ``be`` select whole 32-bit words only."""
    return all(be >> at & _WORD_BE in (0, _WORD_BE) for at in range(0, LINE_OF_BYTES, WORD_BYTES))


def written_words(line: int, data: bytes, be: int) -> dict[int, int]:
    """Return the words that a write of line ``line`` of the window changes.

    Returns:
        32-bit word by the byte address of its register, for words with an enabled byte.
    """
    return {
        line * LINE_OF_BYTES + at: int.from_bytes(data[at : at + WORD_BYTES], "little")
        for at in range(0, LINE_OF_BYTES, WORD_BYTES)
        if be >> at & _WORD_BE
    }


def pack_line(words: Mapping[int, int]) -> tuple[bytes, int]:
    """Return data (64 bytes) and byte enables of a write through the window.

    Args:
        words: 32-bit word by the byte address of its register.

    Raises:
        ValueError: the registers are not all in one line.
    """
    if len({address // LINE_OF_BYTES for address in words}) != 1:
        raise ValueError("registers of one line of the window, please")
    data, be = bytearray(LINE_OF_BYTES), 0
    for address, word in words.items():
        at = address % LINE_OF_BYTES
        data[at : at + WORD_BYTES] = (word & WORD_MASK).to_bytes(WORD_BYTES, "little")
        be |= _WORD_BE << at
    return bytes(data), be
