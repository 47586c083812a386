# SPDX-License-Identifier: Apache-2.0
"""Negative twins: the bench is broken on purpose, and the checker concerned must say so.

The device is right in all of these. A fault in the bench makes the expectation, the memory or the
view of the pins wrong, as a fault of the device would; a run that stays green here means that its
checker sees nothing. Breakages of the RTL itself are in `verif/mutants.yaml`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import cocotb

from cocotbext.cxl.wire.messages import S2MNDR, S2MMessage
from models.device import RegionConfig
from models.formats import Mode
from verif.env.base_test import NfBaseTest, run_negative
from verif.env.config import EnvConfig
from verif.sequences.aggregate import AggregateSequence, IdentitySequence
from verif.sequences.descriptors import DescriptorErrorSequence
from verif.sequences.epochs import EpochOtherSequence, EpochSameSequence
from verif.sequences.events import EarlyReadSequence, EventSequence
from verif.sequences.memory_faults import (
    MemoryErrorSequence,
    RecordErrorSequence,
    RefusedWriteBackSequence,
)
from verif.sequences.mixed import MixedRegionsSequence
from verif.sequences.plain import PlainMemorySequence
from verif.sequences.pressure import EvictionSequence, GarbageSequence
from verif.sequences.protection import ProtectionSequence


class Negative(NfBaseTest):
    """Base: `sabotage` is called before the scenario."""

    def sabotage(self) -> None:
        """Breaks the bench."""
        raise NotImplementedError

    async def start(self) -> None:
        self.sabotage()
        await super().start()


class MemoryLosesWrites(Negative):
    """The memory drops every fifth write."""

    def sabotage(self) -> None:
        store: Any = self.env.mem.store
        write, count = store.write, 0

        def lossy(*arguments: Any) -> None:
            nonlocal count
            count += 1
            if count % 5:
                write(*arguments)

        store.write = lossy


class PlainLoss(MemoryLosesWrites):
    """Lost writes of ordinary memory."""

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env).run()


class IdentityLoss(MemoryLosesWrites):
    """Lost writes behind an IDENTITY region."""

    async def scenario(self) -> None:
        await IdentitySequence(self.env).run()


class RecordLoss(MemoryLosesWrites):
    """Lost write-backs of evicted lines."""

    async def scenario(self) -> None:
        await EvictionSequence(self.env, factor=2.0).run()


class PoisonLoss(Negative):
    """The memory keeps no poison."""

    def sabotage(self) -> None:
        self.env.mem.store.poisoned = _Nothing()

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env, poison=0.3).run()


class _Nothing(set[int]):
    """A set that stays empty."""

    def add(self, _item: int) -> None:
        pass

    def update(self, *_others: Any) -> None:
        pass


class QuietMemory(Negative):
    """The memory answers OKAY where errors were planned."""

    def sabotage(self) -> None:
        cfg = self.env.cfg.mem
        cfg.read_error_lines = _Nothing()
        cfg.write_error_lines = _Nothing()

    async def scenario(self) -> None:
        await MemoryErrorSequence(self.env).run()


class UnseenRecordErrors(Negative):
    """The scoreboard is not told that state records were lost."""

    def sabotage(self) -> None:
        tracker: Any = self.env.core.tracker
        tracker.lose = lambda *_line: None

    async def scenario(self) -> None:
        await RecordErrorSequence(self.env, workers=2).run()


class UnseenRefusals(UnseenRecordErrors):
    """The scoreboard is not told that write-backs were refused."""

    def sabotage(self) -> None:
        super().sabotage()
        tracker: Any = self.env.core.tracker
        tracker.distrust = lambda _region: None

    async def scenario(self) -> None:
        await RefusedWriteBackSequence(self.env, workers=2).run()


class SilentPoison(Negative):
    """The scoreboard does not know what the medium has poisoned."""

    def sabotage(self) -> None:
        tracker: Any = self.env.core.tracker
        tracker.poison = lambda _line: None

    async def scenario(self) -> None:
        await MemoryErrorSequence(self.env).run()


class UncountedPoison(Negative):
    """One poisoned line of the memory is not counted."""

    def sabotage(self) -> None:
        memory: Any = self.env.core.memory
        memory.counts["MEM_POISON"] = -1

    async def scenario(self) -> None:
        await MemoryErrorSequence(self.env).run()


class LateRounds(Negative):
    """The model starts no new epoch: it expects the state of the old one."""

    def sabotage(self) -> None:
        model: Any = self.env.core.model
        commit = model.commit
        seen: dict[int, RegionConfig] = {}

        def stale(region: int, config: RegionConfig, epoch: int) -> Any:
            if seen.get(region) == config:
                return 0
            seen[region] = config
            return commit(region, config, epoch)

        model.commit = stale


class StaleOther(LateRounds):
    """A commit during traffic of another region."""

    async def scenario(self) -> None:
        await EpochOtherSequence(self.env).run()


class OldContribution(Negative):
    """The model starts every epoch with one old contribution."""

    def sabotage(self) -> None:
        model: Any = self.env.core.model
        commit = model.commit

        def believing(region: int, config: RegionConfig, epoch: int) -> Any:
            code = commit(region, config, epoch)
            for index in range(config.lines if int(code) == 0 else 0):
                line = model._line(region, index)
                line.add(0, b"\xff" * 64, config, 255)
            return code

        model.commit = believing


class ForgedState(OldContribution):
    """What the memory held was taken for state."""

    async def scenario(self) -> None:
        await GarbageSequence(self.env).run()


class StaleSame(OldContribution):
    """A commit under traffic lets an old contribution through."""

    async def scenario(self) -> None:
        await EpochSameSequence(self.env).run()


class OtherDescriptor(Negative):
    """The mirror reads one descriptor field wrong."""

    changes: ClassVar[dict[str, Any]] = {}

    def sabotage(self) -> None:
        mirror: Any = self.env.mirror
        config = mirror.config
        mirror.config = lambda region: dataclasses.replace(config(region), **self.changes)


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

    def sabotage(self) -> None:
        model: Any = self.env.core.model
        half = model.params.mem_lines_log2 - 1
        model.params = dataclasses.replace(model.params, mem_lines_log2=half)

    async def scenario(self) -> None:
        await DescriptorErrorSequence(self.env).run()


class ChangedView(Negative):
    """What the monitor shows is changed on its way to the scoreboard."""

    def sabotage(self) -> None:
        core: Any = self.env.core
        self.count = 0
        self.forward = core.response

        def response(message: S2MMessage) -> None:
            self.count += 1
            self.change(message)

        core.response = response

    def change(self, message: S2MMessage) -> None:
        """Passes the response on, or something else."""
        raise NotImplementedError

    async def scenario(self) -> None:
        await MixedRegionsSequence(self.env).run()


class LostResponse(ChangedView):
    """One response is lost."""

    def change(self, message: S2MMessage) -> None:
        if self.count != 40:
            self.forward(message)


class RepeatedResponse(ChangedView):
    """One response comes twice."""

    def change(self, message: S2MMessage) -> None:
        self.forward(message)
        if self.count == 40:
            self.forward(message)


class WrongLoad(ChangedView):
    """One completion reports another load, with the levels switched off."""

    async def scenario(self) -> None:
        await self.env.registers.write("DEVLOAD_THRESHOLD", 0)
        await super().scenario()

    def change(self, message: S2MMessage) -> None:
        if self.count >= 40 and isinstance(message, S2MNDR):
            message = dataclasses.replace(message, devload=2)
        self.forward(message)


class UncountedEvents(Negative):
    """The model forgets to count early reads."""

    def sabotage(self) -> None:
        model: Any = self.env.core.model
        count = model._count
        model._count = lambda name, key, amount=1: (
            None if name == "EARLY_READ" else count(name, key, amount)
        )

    async def scenario(self) -> None:
        await EventSequence(self.env, early=0.3).run()


class DeadMemory(Negative):
    """The memory stops answering: a hang must become an error."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.stuck_clocks = 2000

    def sabotage(self) -> None:
        responder: Any = self.env.mem.responder
        responder._next_read = lambda: None

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env).run()


class SilentBus(Negative):
    """No request is ever seen: zero transactions."""

    def sabotage(self) -> None:
        core: Any = self.env.core
        core.request = core.response = lambda *_arguments: None

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env, transactions=20).run()


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
    (DeadMemory, "STUCK"),
    (SilentBus, "zero transactions"),
]


@cocotb.test()
@cocotb.parametrize(twin=[cocotb.Param(value=twin, name=twin[0].__name__) for twin in TWINS])
async def negative_twin(_dut: Any, twin: tuple[type[Negative], str]) -> None:
    """A fault in the bench is caught by the checker that it concerns."""
    test, expected = twin
    await run_negative(test, expected)
