# SPDX-License-Identifier: Apache-2.0
"""A scoreboard for a device whose RAMs are damaged: never wrong, sometimes lost.

spec: controller, second edition, section 8. It takes an answer that says itself that it is not to
be trusted; every other answer must be that of a device without a fault. One request a line at a
time: which of several requests in flight found a damage could not be told.
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
    """Return whether the answer is marked as untrusted: Poison, or INFO of a poisoned line."""
    response = op.response
    if not isinstance(response, S2MDRS):
        return False
    if op.access.kind is Kind.INFO:
        return bool(int.from_bytes(response.data, "little") & INFO_POISONED)
    return bool(response.poison)


class LenientQuiescence(Quiescence):
    """Quiescence that accepts poison as an answer; every other answer must be that of a device
    without a fault.
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
    """Scoreboard that judges answers and accepts losses; a device without a check may be wrong
    (`wrong`).
    """

    quiescence_type = LenientQuiescence

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.wrong = 0

    def may_poison(self) -> bool:
        return bool(self.ram.flips)

    def take_losses(self) -> int:
        """Return the number of untrusted answers since the last call."""
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
