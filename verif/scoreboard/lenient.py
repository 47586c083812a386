# SPDX-License-Identifier: Apache-2.0
"""Scoreboard for a device whose RAMs have flipped bits: responses are never wrong, sometimes lost.

A response that is itself marked as untrusted (poison) is accepted; every other one must be that of
a device without a fault (spec: controller, second edition, section 8). Only one request per line
may be in flight: which of several met the damage could not be determined.
"""

from __future__ import annotations

from typing import Any

from cocotbext.cxl.wire.messages import S2MDRS
from models.regions import Kind
from verif.scoreboard.operations import Op
from verif.scoreboard.quiescence import Quiescence
from verif.scoreboard.ram_faults import NONE
from verif.scoreboard.scoreboard import REGISTERS, Scoreboard

INFO_POISONED = 1 << 137


def owns_up(op: Op) -> bool:
    """Return whether a response is marked as untrusted: by poison, or the poison bit in INFO of a
    line.
    """
    response = op.response
    if not isinstance(response, S2MDRS):
        return False
    if op.access.kind is Kind.INFO:
        return bool(int.from_bytes(response.data, "little") & INFO_POISONED)
    return bool(response.poison)


class LenientQuiescence(Quiescence):
    """Quiescence that accepts a response marked as untrusted, and counts it in `losses`.

    Every other response must be that of a device without a fault.
    """

    losses = 0

    def _single(self, op: Op) -> None:
        if owns_up(op):
            self.model.step(op.msg, op.misframed)
            self.judged += 1
            self.losses += 1
        else:
            super()._single(op)


class LenientScoreboard(Scoreboard):
    """Scoreboard for a device with flipped RAM bits, which accepts responses marked as untrusted.

    Wrong register values are not reported. A device without RAM protection may answer wrongly: such
    findings are only counted, in `wrong`.
    """

    quiescence_type = LenientQuiescence

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.wrong = 0

    def may_poison(self) -> bool:
        return bool(self.ram.flips)

    def take_losses(self) -> int:
        """Return the number of responses marked as untrusted since the last call."""
        assert isinstance(self.quiescence, LenientQuiescence)
        losses, self.quiescence.losses = self.quiescence.losses, 0
        return losses

    def error(self, text: str, key: str = "", data: str = "", checker: str = "scoreboard") -> None:
        if checker == REGISTERS:
            return  # what was poisoned inside is in other counters and interrupts
        if self.ram.ecc == NONE:
            self.wrong += 1
        else:
            super().error(text, key, data, checker)
