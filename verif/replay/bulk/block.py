# SPDX-License-Identifier: Apache-2.0
"""Blocks of operations in numpy arrays, as the C++ core takes them (verif/host/c_interface.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.formats import LINE_BYTES, U8
from verif.host.c_interface import ANSWERED, OP, POISON, Kind

__all__ = ["ANSWERED", "OP", "POISON", "Block", "Kind", "operations", "register_ops"]


@dataclass(frozen=True)
class Block:
    """``ops`` OP[n]; ``sent`` uint8[k, 64] is written from, ``got`` uint8[m, 64] is read into;
    ``answers`` uint64[n]: POISON and DevLoad of a response, or the value of a register read."""

    ops: NDArray[Any]
    sent: U8
    got: U8
    answers: NDArray[np.uint64]

    @staticmethod
    def of(ops: NDArray[Any], sent: U8 | None = None, got_lines: int = 0) -> Block:
        """A block with room for what comes back."""
        return Block(
            ops,
            np.zeros((0, LINE_BYTES), np.uint8) if sent is None else sent.reshape(-1, LINE_BYTES),
            np.zeros((got_lines, LINE_BYTES), np.uint8),
            np.zeros(len(ops), np.uint64),
        )

    def value(self, index: int) -> int:
        """What the register read at that place returned."""
        return int(self.answers[index] & ~ANSWERED)


def operations(count: int, kind: Kind) -> NDArray[Any]:
    """``count`` operations of one kind, all else 0."""
    ops = np.zeros(count, OP)
    ops["kind"] = kind
    return ops


def register_ops(kind: Kind, accesses: list[tuple[int, int]]) -> NDArray[Any]:
    """Register accesses from (byte address, value) pairs."""
    ops = operations(len(accesses), kind)
    for op, (address, value) in zip(ops, accesses):
        op["address"], op["line"] = address, value
    return ops
