# SPDX-License-Identifier: Apache-2.0
"""Parts of the environment (memory, model, scoreboard) with one fault each, for negative twins."""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from cocotbext.cxl.wire.messages import S2MNDR, S2MMessage
from models.commit_check import CommitCode
from models.device import DeviceModel
from models.parameters import DeviceParams
from models.regions import RegionConfig
from models.register_types import Register
from verif.mem.memory_config import MemBeat
from verif.mem.responder import MemResponder
from verif.mem.store import MemStore
from verif.scoreboard.error_capture import ErrorCapture
from verif.scoreboard.line_judge import LineJudge
from verif.scoreboard.memory_port import Initialiser
from verif.scoreboard.operations import Op
from verif.scoreboard.register_predictor import RegisterPredictor
from verif.scoreboard.scoreboard import Scoreboard


def inert(base: type[Any], *methods: str) -> type[Any]:
    """Return a subclass of `base` whose `methods` do nothing and return None."""
    return type(f"Inert{base.__name__}", (base,), dict.fromkeys(methods, lambda *_, **__: None))


def shown(change: Callable[[int, S2MMessage], Sequence[S2MMessage]]) -> type[Scoreboard]:
    """Return a scoreboard class that sees other responses than those on the pins.

    Args:
        change: Function of the number of the response, from 1 on, and of the response; it returns
            the responses to show in its place.
    """

    class Shown(Scoreboard):
        seen = 0

        def response(self, msg: S2MMessage) -> None:
            self.seen += 1
            for one in change(self.seen, msg):
                super().response(one)

    return Shown


def without_first(counter: Callable[[Scoreboard], Any]) -> type[Scoreboard]:
    """Return a scoreboard class that does not count the first event of one of its port counters."""

    class WithoutFirst(Scoreboard):
        def memory_beat(self, beat: MemBeat) -> None:
            super().memory_beat(beat)
            if counter(self).total == 1:
                counter(self).add(-1)

    return WithoutFirst


def unaware(*methods: str) -> type[Scoreboard]:
    """Return a scoreboard class with a line judge whose `methods` do nothing."""
    return type("Unaware", (Scoreboard,), {"judge_type": inert(LineJudge, *methods)})


def _another_load(number: int, msg: S2MMessage) -> list[S2MMessage]:
    is_late = number >= 40 and isinstance(msg, S2MNDR)
    return [dataclasses.replace(msg, devload=2) if is_late else msg]


UnpoisonedStore = inert(MemStore, "poison")
"""Memory store that keeps no poison."""
OkayResponder = inert(MemResponder, "read_fails", "write_fails")
"""Memory that answers OKAY also for lines that shall fail."""
DeadResponder = inert(MemResponder, "next_read")
"""Memory that never answers a read."""
BlindScoreboard = inert(Scoreboard, "request", "response")
"""Scoreboard that sees no request and no response."""
LosingScoreboard = shown(lambda number, msg: [] if number == 40 else [msg])
"""Scoreboard that does not see the 40th response."""
RepeatingScoreboard = shown(lambda number, msg: [msg] * (2 if number == 40 else 1))
"""Scoreboard that sees the 40th response twice."""
MisreadingScoreboard = shown(_another_load)
"""Scoreboard that sees DevLoad 2 in every NDR from the 40th response on."""
DeafToLoss = unaware("lose")
"""Scoreboard that does not notice which records were lost by errors of the memory."""
DeafToRefusals = unaware("lose", "distrust")
"""Scoreboard that does not notice which records were lost and which write-backs memory refused."""
DeafToPoison = unaware("poison")
"""Scoreboard that does not notice which lines the memory has poisoned."""
UncountingScoreboard = without_first(lambda board: board.memory.ports["MEM_POISON"])
"""Scoreboard that does not count the first poisoned line that memory returns."""
ForgettingEvictions = without_first(lambda board: board.memory.evictions)
"""Scoreboard that does not count the first record that is written back."""


class LossyStore(MemStore):
    """Memory store that drops every fifth write."""

    count = 0

    def write(self, *args: Any, **options: Any) -> None:
        self.count += 1
        if self.count % 5:
            super().write(*args, **options)


class OneRoundModel(DeviceModel):
    """Model in which a commit of an unchanged descriptor starts no epoch: old state stays."""

    def commit(self, region: int, config: RegionConfig, epoch: int) -> CommitCode:
        unchanged = self.config(region) == config
        return CommitCode.OK if unchanged else super().commit(region, config, epoch)


class BelievingModel(DeviceModel):
    """Model in which a commit leaves one contribution of worker 0 in each line of the region."""

    def commit(self, region: int, config: RegionConfig, epoch: int) -> CommitCode:
        code = super().commit(region, config, epoch)
        for index in range(config.lines if code is CommitCode.OK else 0):
            self._line(region, index).add(0, b"\xff" * 64, config, 255)
        return code


class HalfModel(DeviceModel):
    """Model of a device with half of the memory."""

    def __init__(self, params: DeviceParams, initial_memory: Any) -> None:
        half = dataclasses.replace(params, mem_lines_log2=params.mem_lines_log2 - 1)
        super().__init__(half, initial_memory)


class ForgetfulModel(DeviceModel):
    """Model that does not count early reads."""

    def _count(self, name: str, key: Hashable, amount: int = 1) -> None:
        if name != "EARLY_READ":
            super()._count(name, key, amount)


def misreading(**changes: Any) -> type[RegisterPredictor]:
    """Return a register predictor class that sees other values in fields of every descriptor.

    ``changes`` are these values by field of `RegionConfig`.
    """

    class Misreading(RegisterPredictor):
        def config(self, region: int) -> RegionConfig:
            return dataclasses.replace(super().config(region), **changes)

    return Misreading


class UnawareOfClaims(Scoreboard):
    """Scoreboard that does not notice that a commit starts the initialiser."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.memory.initialiser = inert(Initialiser, "committed")()


def deaf_to(name: str) -> type[RegisterPredictor]:
    """Return a register predictor class that does not see writes of the register `name`."""

    class Deaf(RegisterPredictor):
        def _write_begins(self, register: Register, *args: Any) -> None:
            if register.name != name:
                super()._write_begins(register, *args)

        def _written(self, register: Register, *args: Any) -> None:
            if register.name != name:
                super()._written(register, *args)

    return Deaf


class LateCapture(ErrorCapture):
    """Model of ERR_* that captures the second refused access instead of the first."""

    seen = 0

    def refused(self, op: Op) -> None:
        self.seen += 1
        if self.seen > 1:
            super().refused(op)


class LateScoreboard(Scoreboard):
    """Scoreboard that expects the second refused access in ERR_* instead of the first."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.capture = LateCapture()
