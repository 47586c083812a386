# SPDX-License-Identifier: Apache-2.0
"""Parts of the environment with a fault in each, for the negative twins."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

from cocotbext.cxl.wire.messages import S2MNDR, M2SMessage, S2MMessage
from models.device import DeviceModel
from models.parameters import DeviceParams
from models.regions import CommitCode, RegionConfig
from models.register_map import Register
from verif.mem.memory_config import MemBeat
from verif.mem.responder import MemResponder
from verif.mem.store import MemStore
from verif.scoreboard.error_capture import ErrorCapture
from verif.scoreboard.memory_port import Initialiser
from verif.scoreboard.operations import Op
from verif.scoreboard.quiescence import Quiescence
from verif.scoreboard.register_predictor import RegisterPredictor
from verif.scoreboard.scoreboard import Scoreboard


class LossyStore(MemStore):
    """Drops every fifth write."""

    count = 0

    def write(self, *args: Any, **options: Any) -> None:
        self.count += 1
        if self.count % 5:
            super().write(*args, **options)


class UnpoisonedStore(MemStore):
    """Keeps no poison."""

    def poison(self, line: int) -> None:
        pass


class OkayResponder(MemResponder):
    """Answers OKAY, whatever was planned."""

    def read_fails(self, line: int) -> bool:
        return False

    def write_fails(self, lines: range) -> bool:
        return False


class DeadResponder(MemResponder):
    """Never chooses a read to answer."""

    def next_read(self) -> None:
        return None


class OneRoundModel(DeviceModel):
    """Starts no new epoch with a descriptor that it knows: the state of the old one stays."""

    def commit(self, region: int, config: RegionConfig, epoch: int) -> CommitCode:
        return (
            CommitCode.OK
            if self.config(region) == config
            else super().commit(region, config, epoch)
        )


class BelievingModel(DeviceModel):
    """Starts every epoch with one contribution in each line."""

    def commit(self, region: int, config: RegionConfig, epoch: int) -> CommitCode:
        code = super().commit(region, config, epoch)
        for index in range(config.lines if code is CommitCode.OK else 0):
            self._line(region, index).add(0, b"\xff" * 64, config, 255)
        return code


class HalfModel(DeviceModel):
    """Has half of the memory."""

    def __init__(self, params: DeviceParams, initial_memory: Any) -> None:
        half = dataclasses.replace(params, mem_lines_log2=params.mem_lines_log2 - 1)
        super().__init__(half, initial_memory)


class ForgetfulModel(DeviceModel):
    """Does not count early reads."""

    def _count(self, name: str, key: Hashable, amount: int = 1) -> None:
        if name != "EARLY_READ":
            super()._count(name, key, amount)


def misreading(changes: dict[str, Any]) -> type[RegisterPredictor]:
    """A predictor that takes some fields of every descriptor for others."""

    class Misreading(RegisterPredictor):
        def config(self, region: int) -> RegionConfig:
            return dataclasses.replace(super().config(region), **changes)

    return Misreading


class LosingScoreboard(Scoreboard):
    """Is not shown one response."""

    seen = 0

    def response(self, msg: S2MMessage) -> None:
        self.seen += 1
        if self.seen != 40:
            super().response(msg)


class RepeatingScoreboard(Scoreboard):
    """Is shown one response twice."""

    seen = 0

    def response(self, msg: S2MMessage) -> None:
        self.seen += 1
        super().response(msg)
        if self.seen == 40:
            super().response(msg)


class MisreadingScoreboard(Scoreboard):
    """Is shown another load from one response on."""

    seen = 0

    def response(self, msg: S2MMessage) -> None:
        self.seen += 1
        if self.seen >= 40 and isinstance(msg, S2MNDR):
            msg = dataclasses.replace(msg, devload=2)
        super().response(msg)


class BlindScoreboard(Scoreboard):
    """Is shown nothing."""

    def request(self, msg: M2SMessage, misframed: bool = False) -> None:
        pass

    def response(self, msg: S2MMessage) -> None:
        pass


class DeafToLoss(Scoreboard):
    """Is not told that state records were lost."""

    class quiescence_type(Quiescence):
        def lose(self, region: int, line: int, written: bool = False) -> None:
            pass


class DeafToRefusals(Scoreboard):
    """Is not told that write-backs were refused."""

    class quiescence_type(DeafToLoss.quiescence_type):
        def distrust(self, region: int) -> None:
            pass


class DeafToPoison(Scoreboard):
    """Does not know what the medium has poisoned."""

    class quiescence_type(Quiescence):
        def poison(self, memory_line: int) -> None:
            pass


class UncountingScoreboard(Scoreboard):
    """Does not count the first poisoned line of the memory."""

    def memory_beat(self, beat: MemBeat) -> None:
        super().memory_beat(beat)
        poisoned = self.memory.ports["MEM_POISON"]
        if poisoned.total == 1:
            poisoned.add(-1)


class ForgettingEvictions(Scoreboard):
    """Does not count the first record that is written back."""

    def memory_beat(self, beat: MemBeat) -> None:
        super().memory_beat(beat)
        if self.memory.evictions.total == 1:
            self.memory.evictions.add(-1)


class BlindInitialiser(Initialiser):
    """Hears of no commit."""

    def committed(self, *_: Any) -> None:
        pass


class UnawareOfClaims(Scoreboard):
    """Does not know that a commit has records initialised."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.memory.initialiser = BlindInitialiser()


def deaf_to(name: str) -> type[RegisterPredictor]:
    """A predictor that does not see writes of one register."""

    class Deaf(RegisterPredictor):
        def _write_begins(self, register: Register, *args: Any) -> None:
            if register.name != name:
                super()._write_begins(register, *args)

        def _written(self, register: Register, *args: Any) -> None:
            if register.name != name:
                super()._written(register, *args)

    return Deaf


class LateCapture(ErrorCapture):
    """Takes the second refused access for the first."""

    seen = 0

    def refused(self, op: Op) -> None:
        self.seen += 1
        if self.seen > 1:
            super().refused(op)


class LateScoreboard(Scoreboard):
    """Takes the second refused access for the first."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.capture = LateCapture()
