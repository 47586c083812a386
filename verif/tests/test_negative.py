# SPDX-License-Identifier: Apache-2.0
"""Negative twins: the bench is broken on purpose, and the checker concerned must say so.

The device is right in all of these. A fault in the bench makes the expectation, the memory or the
view of the pins wrong, as a fault of the device would; a run that stays green here means that its
checker sees nothing. Breakages of the RTL itself are in `verif/mutants/`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import cocotb
from pyuvm import uvm_factory

from models.device import DeviceModel
from models.line_packing import Mode
from verif.env.base_test import NfBaseTest, run_negative
from verif.env.config import EnvConfig, Parts
from verif.mem.responder import MemResponder
from verif.mem.store import MemStore
from verif.scoreboard.register_predictor import RegisterPredictor
from verif.scoreboard.scoreboard import Scoreboard
from verif.sequences.aggregate import AggregateSequence, IdentitySequence
from verif.sequences.descriptors import DescriptorErrorSequence
from verif.sequences.epochs import EpochOtherSequence, EpochSameSequence
from verif.sequences.events import EarlyReadSequence, EventSequence
from verif.sequences.eviction import EvictionSequence, GarbageSequence
from verif.sequences.memory_faults import (
    MemoryErrorSequence,
    RecordErrorSequence,
    RefusedWriteBackSequence,
)
from verif.sequences.mixed import MixedRegionsSequence, PlainMemorySequence
from verif.sequences.protection import ProtectionSequence
from verif.tests.faulty_parts import (
    BelievingModel,
    BlindScoreboard,
    DeadResponder,
    DeafToLoss,
    DeafToPoison,
    DeafToRefusals,
    ForgetfulModel,
    ForgettingEvictions,
    HalfModel,
    LateScoreboard,
    LosingScoreboard,
    LossyStore,
    MisreadingScoreboard,
    OkayResponder,
    OneRoundModel,
    RepeatingScoreboard,
    UnawareOfClaims,
    UncountingScoreboard,
    UnpoisonedStore,
    deaf_to,
    misreading,
)


class Negative(NfBaseTest):
    """Base: a subclass names the class that it replaces by a faulty one."""

    store: type[MemStore] = MemStore
    model: type[DeviceModel] = DeviceModel
    scoreboard: type[Scoreboard] = Scoreboard
    predictor: type[RegisterPredictor] = RegisterPredictor
    responder: type[MemResponder] = MemResponder

    def configure(self, cfg: EnvConfig) -> None:
        cfg.parts = Parts(self.store, self.model, self.scoreboard, self.predictor)
        if self.responder is not MemResponder:
            uvm_factory().set_type_override_by_type(MemResponder, self.responder)


class PlainLoss(Negative):
    """Lost writes of ordinary memory."""

    store = LossyStore

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env).run()


class IdentityLoss(Negative):
    """Lost writes behind an IDENTITY region."""

    store = LossyStore

    async def scenario(self) -> None:
        await IdentitySequence(self.env).run()


class RecordLoss(Negative):
    """Lost write-backs of evicted lines."""

    store = LossyStore

    async def scenario(self) -> None:
        await EvictionSequence(self.env, factor=2.0).run()


class PoisonLoss(Negative):
    """The memory keeps no poison."""

    store = UnpoisonedStore

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env, poison=0.3).run()


class QuietMemory(Negative):
    """The memory answers OKAY where errors were planned."""

    responder = OkayResponder

    async def scenario(self) -> None:
        await MemoryErrorSequence(self.env).run()


class UnseenRecordErrors(Negative):
    """The scoreboard is not told that state records were lost."""

    scoreboard = DeafToLoss

    async def scenario(self) -> None:
        await RecordErrorSequence(self.env, workers=2).run()


class UnseenRefusals(Negative):
    """The scoreboard is not told that write-backs were refused."""

    scoreboard = DeafToRefusals

    async def scenario(self) -> None:
        await RefusedWriteBackSequence(self.env, workers=2).run()


class SilentPoison(Negative):
    """The scoreboard does not know what the medium has poisoned."""

    scoreboard = DeafToPoison

    async def scenario(self) -> None:
        await MemoryErrorSequence(self.env).run()


class UncountedPoison(Negative):
    """One poisoned line of the memory is not counted."""

    scoreboard = UncountingScoreboard

    async def scenario(self) -> None:
        await MemoryErrorSequence(self.env).run()


class StaleOther(Negative):
    """A commit during traffic of another region; the model starts no new epoch."""

    model = OneRoundModel

    async def scenario(self) -> None:
        await EpochOtherSequence(self.env).run()


class ForgedState(Negative):
    """What the memory held was taken for state."""

    model = BelievingModel

    async def scenario(self) -> None:
        await GarbageSequence(self.env).run()


class StaleSame(Negative):
    """A commit under traffic lets an old contribution through."""

    model = BelievingModel

    async def scenario(self) -> None:
        await EpochSameSequence(self.env).run()


class OtherDescriptor(Negative):
    """The predictor reads one descriptor field wrong."""

    changes: ClassVar[dict[str, Any]] = {}

    def configure(self, cfg: EnvConfig) -> None:
        super().configure(cfg)
        cfg.parts.predictor = misreading(self.changes)


class OtherTie(OtherDescriptor):
    """TIE."""

    changes: ClassVar[dict[str, Any]] = {"tie_minus": True}

    async def scenario(self) -> None:
        await AggregateSequence(self.env, workers=4).run()


class OtherThreshold(OtherDescriptor):
    """THRESHOLD."""

    changes: ClassVar[dict[str, Any]] = {"threshold": 2}

    async def scenario(self) -> None:
        await AggregateSequence(self.env, mode=Mode.G_TERNARY).run()


class OtherStrict(OtherDescriptor):
    """STRICT."""

    changes: ClassVar[dict[str, Any]] = {"strict": True}

    async def scenario(self) -> None:
        await EarlyReadSequence(self.env).run()


class OtherMask(OtherDescriptor):
    """LD_MASK."""

    changes: ClassVar[dict[str, Any]] = {"ld_mask": 0xFFFF}

    async def scenario(self) -> None:
        await ProtectionSequence(self.env).run()


class SmallerDevice(Negative):
    """The model has half of the memory: commits are refused that the device takes."""

    model = HalfModel

    async def scenario(self) -> None:
        await DescriptorErrorSequence(self.env).run()


class LostResponse(Negative):
    """One response is lost."""

    scoreboard = LosingScoreboard

    async def scenario(self) -> None:
        await MixedRegionsSequence(self.env).run()


class RepeatedResponse(Negative):
    """One response comes twice."""

    scoreboard = RepeatingScoreboard

    async def scenario(self) -> None:
        await MixedRegionsSequence(self.env).run()


class WrongLoad(Negative):
    """Completions report another load, with the levels switched off."""

    scoreboard = MisreadingScoreboard

    async def scenario(self) -> None:
        await self.env.registers.write("DEVLOAD_THRESHOLD", 0)
        await MixedRegionsSequence(self.env).run()


class UncountedEvents(Negative):
    """The model forgets to count early reads."""

    model = ForgetfulModel

    async def scenario(self) -> None:
        await EventSequence(self.env, early=0.3).run()


class DeadMemory(Negative):
    """The memory stops answering: a hang must become an error."""

    responder = DeadResponder

    def configure(self, cfg: EnvConfig) -> None:
        super().configure(cfg)
        cfg.stuck_clocks = 2000

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env).run()


class SilentBus(Negative):
    """No request is ever seen: zero transactions."""

    scoreboard = BlindScoreboard

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env, transactions=20).run()


class UncountedEviction(Negative):
    """One eviction is not counted."""

    scoreboard = ForgettingEvictions

    async def scenario(self) -> None:
        await EvictionSequence(self.env, factor=2.0).run()


class UnknownClaim(Negative):
    """The initialiser seems to write records that nobody has claimed."""

    scoreboard = UnawareOfClaims

    async def scenario(self) -> None:
        await AggregateSequence(self.env, workers=3).run()


class UnseenClear(Negative):
    """IRQ_STATUS was cleared, and the bench believes that it is set."""

    predictor = deaf_to("IRQ_STATUS")

    async def scenario(self) -> None:
        run, registers = PlainMemorySequence(self.env, transactions=10), self.env.registers
        await run.read(1 << 51)
        await run.drain()
        await registers.write("IRQ_STATUS", 0x3F)
        await registers.read("IRQ_STATUS")


class UnseenEnable(Negative):
    """The interrupt pin rises, and the bench knows of no bit that is enabled."""

    predictor = deaf_to("IRQ_ENABLE")

    async def scenario(self) -> None:
        run = PlainMemorySequence(self.env, transactions=10)
        await self.env.registers.write("IRQ_ENABLE", 0x3F)
        await run.read(1 << 51)
        await run.drain()
        await self.env.clocks(500)


class OtherFirstError(Negative):
    """The first refused access is captured, and the bench expects the second."""

    scoreboard = LateScoreboard

    async def scenario(self) -> None:
        run = PlainMemorySequence(self.env, transactions=10)
        for k in range(2):
            await run.read(1 << 51 | k << 6)
            await run.drain()
        await self.env.registers.read("ERR_ADDR_LO")


class ResetInside(Negative):
    """The test resets the device behind a commit: the checkers cannot follow, nor judge on."""

    async def scenario(self) -> None:
        await AggregateSequence(self.env, workers=3).run()
        self.dut.rst_n.value = 0
        await self.env.clocks(3)
        self.dut.rst_n.value = 1
        await self.env.clocks(3)


TWINS = [
    (PlainLoss, "MISMATCH"),
    (IdentityLoss, "MISMATCH"),
    (RecordLoss, "MISMATCH"),
    (PoisonLoss, "MISMATCH"),
    (QuietMemory, "MISMATCH"),
    (UnseenRecordErrors, "MISMATCH"),
    (UnseenRefusals, "MISMATCH"),
    (SilentPoison, "MISMATCH"),
    (UncountedPoison, "COUNTER MEM_POISON"),
    (StaleOther, "MISMATCH"),
    (StaleSame, "MISMATCH"),
    (ForgedState, "MISMATCH"),
    (OtherTie, "MISMATCH"),
    (OtherThreshold, "MISMATCH"),
    (OtherStrict, "Poison"),
    (OtherMask, "MISMATCH"),
    (SmallerDevice, "REGION"),
    (LostResponse, "never answered"),
    (RepeatedResponse, "without request"),
    (WrongLoad, "DEVLOAD"),
    (UncountedEvents, "COUNTER EARLY_READ"),
    (UncountedEviction, "COUNTER EVICTION"),
    (UnknownClaim, "without need"),
    (UnseenClear, "IRQ_STATUS.ACCESS_ERROR is 0"),
    (UnseenEnable, "IRQ pin is 1"),
    (OtherFirstError, "ERR_ADDR_LO shows"),
    (DeadMemory, "STUCK"),
    (SilentBus, "zero transactions"),
    (ResetInside, "such a reset inside a test is not supported"),
]


@cocotb.test()
@cocotb.parametrize(twin=[cocotb.Param(value=twin, name=twin[0].__name__) for twin in TWINS])
async def negative_twin(_dut: Any, twin: tuple[type[Negative], str]) -> None:
    """A fault in the bench is caught by the checker that it concerns."""
    test, expected = twin
    await run_negative(test, expected)
