# SPDX-License-Identifier: Apache-2.0
"""Register bus of the unit tests: accesses given by hand to a predictor, without a simulator."""

from models.parameters import DeviceParams
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.link_state import LinkState
from verif.scoreboard.register_predictor import RegisterPredictor
from verif.scoreboard.scoreboard import Scoreboard


class PredictorBench:
    """Scoreboard with its register predictor, to which a unit test passes register accesses."""

    def __init__(
        self, scoreboard: Scoreboard, params: DeviceParams, link: LinkState | None = None
    ) -> None:
        self.scoreboard = scoreboard
        self.predictor = RegisterPredictor(scoreboard, params, link)

    @property
    def errors(self) -> str:
        """Return all findings of the scoreboard so far, one per line."""
        return "\n".join(self.scoreboard.errors)

    def address(self, name: str) -> int:
        """Return the byte address of a register by name, such as "REGION[2].STATUS"."""
        return self.predictor.by_name[name].address

    def access(self, access: AxiLiteAccess) -> None:
        """Pass the start and the end of an access to the predictor, with nothing in between."""
        self.predictor.begin(access)
        self.predictor.end(access)

    def write(self, name: str, value: int) -> None:
        """Write a whole register by name."""
        self.access(AxiLiteAccess(True, self.address(name), value, 0xF))

    def read(self, name: str, value: int) -> bool:
        """Return whether the predictor accepts that a read of a register returned `value`."""
        before = len(self.scoreboard.errors)
        self.access(AxiLiteAccess(False, self.address(name), value))
        return len(self.scoreboard.errors) == before

    def exact(self, name: str, right: int, *wrong: int) -> None:
        """Check that the predictor accepts `right` as the result of a read, and none of the other
        values.
        """
        assert self.read(name, right), f"{name}: {self.errors}"
        for value in wrong:
            assert not self.read(name, value), f"{name} may be {value:#x}"
