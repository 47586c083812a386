# SPDX-License-Identifier: Apache-2.0
"""What the device tells the host of its state: DevLoad in the responses, interrupts."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import DevLoad
from models.nf_regs import REG_MAP
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.scoreboard.operations import Op

_IRQ_STATUS = REG_MAP.expand()["IRQ_STATUS"]


class CapacityPoints:
    """Feed it with `op` and `register`."""

    def __init__(self, model: CoverModel) -> None:
        self.devload = model.point(
            "devload",
            "the load is reported",
            [load.name for load in DevLoad],
            test="test_capacity::devload_levels",
            at_least=CHEAP,
        )
        self.interrupt = model.point(
            "interrupt",
            "each source was seen pending",
            [f.name for f in _IRQ_STATUS.fields],
            test="test_interrupts::interrupts",
        )

    def op(self, op: Op) -> None:
        """An answered operation."""
        if op.response is not None:
            self.devload.hit(DevLoad(op.response.devload).name)

    def register(self, name: str, value: int) -> None:
        """A register was read."""
        if name == "IRQ_STATUS":
            for source, pending in _IRQ_STATUS.unpack(value).items():
                if pending:
                    self.interrupt.hit(source)
