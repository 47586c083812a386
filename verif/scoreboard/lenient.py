# SPDX-License-Identifier: Apache-2.0
"""Scoreboard for flipped bits: accepts responses marked as untrusted, and counts them."""

from collections.abc import Hashable
from typing import Any

from cocotbext.cxl.wire.messages import S2MDRS
from models.access_decode import Kind
from verif.scoreboard.line_judge import LineJudge
from verif.scoreboard.memory_port import COUNTED
from verif.scoreboard.operations import Op
from verif.scoreboard.ram_faults import NONE
from verif.scoreboard.scoreboard import REGISTERS, Scoreboard

INFO_POISONED = 1 << 137
PORT_COUNTERS = ("EVICTION", "FILL", *COUNTED)
"""Counters of what passes the memory port, which a flipped bit does not make wrong."""
_KEYS = tuple(f"COUNTER {name}" for name in PORT_COUNTERS)


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


class LenientJudge(LineJudge):
    """Line judge that accepts a response marked as untrusted, and counts it in `losses`.

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

    Wrong register values are not reported, but for those of PORT_COUNTERS. A device without RAM
    protection may answer wrongly: such findings are only counted, in `wrong`.
    """

    judge_type = LenientJudge

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.wrong = 0

    def may_poison(self) -> bool:
        return bool(self.ram.flips)

    def take_losses(self) -> int:
        """Return the number of responses marked as untrusted since the last call."""
        assert isinstance(self.judge, LenientJudge)
        losses, self.judge.losses = self.judge.losses, 0
        return losses

    def error(
        self,
        text: str,
        key: str = "",
        data: str = "",
        checker: str = "scoreboard",
        line: Hashable = None,
    ) -> None:
        if checker == REGISTERS and (key not in _KEYS or self.ram.ecc == NONE):
            return  # what was poisoned inside is in other counters and interrupts
        if self.ram.ecc == NONE:
            self.wrong += 1
        else:
            super().error(text, key, data, checker, line)
