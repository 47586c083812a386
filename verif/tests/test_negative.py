# SPDX-License-Identifier: Apache-2.0
"""Negative twins: the testbench is broken on purpose, and the checker concerned must report it.

The device is right in all of these. A fault in the testbench makes the expectation, the memory or
the view of the pins wrong, as a fault of the device would; a run without a finding means that its
checker detects nothing. Breakages of the RTL itself are in `verif/mutants/`.
"""

from dataclasses import fields
from typing import Any

import cocotb
from pyuvm import uvm_factory

from models.modes import Mode
from verif.env.base_test import NfBaseTest, run_negative
from verif.env.config import EnvConfig, Parts
from verif.mem.responder import MemResponder
from verif.sequences.aggregate import AggregateSequence, IdentitySequence
from verif.sequences.descriptors import DescriptorErrorSequence
from verif.sequences.epochs import EpochOtherSequence, EpochSameSequence
from verif.sequences.eviction import EvictionSequence
from verif.sequences.forged_records import GarbageSequence
from verif.sequences.memory_faults import (
    MemoryErrorSequence,
    RecordErrorSequence,
    RefusedWriteBackSequence,
)
from verif.sequences.mixed import MixedRegionsSequence, PlainMemorySequence
from verif.sequences.protection import ProtectionSequence
from verif.sequences.rare_events import EarlyReadSequence, EventSequence
from verif.tests import faulty_parts as faulty
from verif.tests.decorator import pyuvm_class

_PARTS = tuple(field.name for field in fields(Parts))


class Twin:
    """Negative twin: fault in the testbench, the traffic that meets it, and the expected finding.

    Args:
        found: Text of the finding.
        work: Sequence, or the scenario of the test.
        settings: Classes for `Parts` and `responder` with the fault; `stuck_clocks`; options of the
            sequence.
    """

    def __init__(self, found: str, work: Any, **settings: Any) -> None:
        self.found, self.work, self.settings = found, work, settings
        self.stuck_clocks = settings.pop("stuck_clocks", EnvConfig().stuck_clocks)
        self.responder = settings.pop("responder", None)
        self.parts = {name: settings.pop(name) for name in _PARTS if name in settings}

    def configure(self, cfg: EnvConfig) -> None:
        """Put the faulty classes into the configuration of the environment."""
        cfg.parts, cfg.stuck_clocks = Parts(**self.parts), self.stuck_clocks
        if self.responder is not None:
            uvm_factory().set_type_override_by_type(MemResponder, self.responder)


async def wrong_load(test: NfBaseTest) -> None:
    """Run mixed traffic with all DevLoad thresholds 0, so that the load is always light."""
    await test.env.registers.write("DEVLOAD_THRESHOLD", 0)
    await MixedRegionsSequence(test.env).run()


async def refuse(test: NfBaseTest, count: int) -> None:
    """Read `count` addresses beyond the memory, which are refused and captured."""
    run = PlainMemorySequence(test.env, transactions=10)
    for k in range(count):
        await run.read_addresses([1 << 51 | k << 6])


async def unseen_clear(test: NfBaseTest) -> None:
    """Cause a refused access, clear all of IRQ_STATUS, and read it."""
    await refuse(test, 1)
    await test.env.registers.write("IRQ_STATUS", 0x3F)
    await test.env.registers.read("IRQ_STATUS")


async def unseen_enable(test: NfBaseTest) -> None:
    """Enable all interrupts, cause ACCESS_ERROR by a refused access, and wait 500 clocks."""
    await test.env.registers.write("IRQ_ENABLE", 0x3F)
    await refuse(test, 1)
    await test.env.clocks(500)


async def other_first_error(test: NfBaseTest) -> None:
    """Cause two refused accesses, and read the captured address, that of the first."""
    await refuse(test, 2)
    await test.env.registers.read("ERR_ADDR_LO")


async def slow_reads(test: NfBaseTest) -> None:
    """Allow a read of a register a single clock."""
    test.env.axil.monitor.read_wait = 1
    await test.env.registers.read("STATUS")


async def lost_credit(test: NfBaseTest) -> None:
    """Take a credit from the host that the device has granted."""
    await PlainMemorySequence(test.env, transactions=10).run()
    test.env.cxl.host.link.credits.data -= 1


async def reset_inside(test: NfBaseTest) -> None:
    """Reset the device after a commit, which the checkers do not support."""
    await AggregateSequence(test.env, workers=3).run()
    test.dut.rst_n.value = 0
    await test.env.clocks(3)
    test.dut.rst_n.value = 1
    await test.env.clocks(3)


TWINS = {
    # Memory loses writes: of ordinary lines, of an IDENTITY region, of evicted lines.
    "PlainLoss": Twin("MISMATCH", PlainMemorySequence, store=faulty.LossyStore),
    "IdentityLoss": Twin("MISMATCH", IdentitySequence, store=faulty.LossyStore),
    "RecordLoss": Twin("MISMATCH", EvictionSequence, store=faulty.LossyStore, factor=2.0),
    # Memory keeps no poison, or answers OKAY where errors were planned.
    "PoisonLoss": Twin("MISMATCH", PlainMemorySequence, store=faulty.UnpoisonedStore, poison=0.3),
    "QuietMemory": Twin("MISMATCH", MemoryErrorSequence, responder=faulty.OkayResponder),
    # The scoreboard does not see lost records, refused write-backs, or poison of the medium.
    "UnseenRecordErrors": Twin(
        "MISMATCH", RecordErrorSequence, scoreboard=faulty.DeafToLoss, workers=2
    ),
    "UnseenRefusals": Twin(
        "MISMATCH", RefusedWriteBackSequence, scoreboard=faulty.DeafToRefusals, workers=2
    ),
    "SilentPoison": Twin("MISMATCH", MemoryErrorSequence, scoreboard=faulty.DeafToPoison),
    # One poisoned line of the memory is not counted.
    "UncountedPoison": Twin(
        "COUNTER MEM_POISON", MemoryErrorSequence, scoreboard=faulty.UncountingScoreboard
    ),
    # A commit starts no new epoch in the model; a contribution of the old epoch passes a commit;
    # the old content of memory is taken for state.
    "StaleOther": Twin("MISMATCH", EpochOtherSequence, model=faulty.OneRoundModel),
    "StaleSame": Twin("MISMATCH", EpochSameSequence, model=faulty.BelievingModel),
    "ForgedState": Twin("MISMATCH", GarbageSequence, model=faulty.BelievingModel),
    # The predictor reads one field of each descriptor wrong.
    "OtherTie": Twin(
        "MISMATCH", AggregateSequence, predictor=faulty.misreading(tie_minus=True), workers=4
    ),
    "OtherThreshold": Twin(
        "MISMATCH", AggregateSequence, predictor=faulty.misreading(threshold=2), mode=Mode.G_TERNARY
    ),
    "OtherStrict": Twin("Poison", EarlyReadSequence, predictor=faulty.misreading(strict=True)),
    "OtherMask": Twin("MISMATCH", ProtectionSequence, predictor=faulty.misreading(ld_mask=0xFFFF)),
    # The model has half of the memory and refuses commits that the device accepts.
    "SmallerDevice": Twin("REGION", DescriptorErrorSequence, model=faulty.HalfModel),
    # A response is lost, seen twice, or reports another load.
    "LostResponse": Twin(
        "never answered", MixedRegionsSequence, scoreboard=faulty.LosingScoreboard
    ),
    "RepeatedResponse": Twin(
        "without request", MixedRegionsSequence, scoreboard=faulty.RepeatingScoreboard
    ),
    "WrongLoad": Twin("DEVLOAD", wrong_load, scoreboard=faulty.MisreadingScoreboard),
    # Early reads or an eviction are not counted; records are written that nobody has claimed.
    "UncountedEvents": Twin(
        "COUNTER EARLY_READ", EventSequence, model=faulty.ForgetfulModel, early=0.3
    ),
    "UncountedEviction": Twin(
        "COUNTER EVICTION", EvictionSequence, scoreboard=faulty.ForgettingEvictions, factor=2.0
    ),
    "UnknownClaim": Twin(
        "without need", AggregateSequence, scoreboard=faulty.UnawareOfClaims, workers=3
    ),
    # The predictor does not see a write of an interrupt register.
    "UnseenClear": Twin(
        "IRQ_STATUS.ACCESS_ERROR is 0", unseen_clear, predictor=faulty.deaf_to("IRQ_STATUS")
    ),
    "UnseenEnable": Twin("IRQ pin is 1", unseen_enable, predictor=faulty.deaf_to("IRQ_ENABLE")),
    # The second refused access is expected in the capture.
    "OtherFirstError": Twin(
        "ERR_ADDR_LO shows", other_first_error, scoreboard=faulty.LateScoreboard
    ),
    # Memory stops: a hang must become an error. No request is seen: zero transactions.
    "DeadMemory": Twin(
        "STUCK", PlainMemorySequence, responder=faulty.DeadResponder, stuck_clocks=2000
    ),
    "SilentBus": Twin(
        "zero transactions", PlainMemorySequence, scoreboard=faulty.BlindScoreboard, transactions=20
    ),
    # A read of a register is slow; a credit does not come back.
    "SlowReads": Twin("AXI4-Lite: no data of", slow_reads),
    "LostCredit": Twin("RwD CREDITS: the host has", lost_credit),
    "ResetInside": Twin("such a reset inside a test is not supported", reset_inside),
}


@cocotb.test()
@cocotb.parametrize(twin=[cocotb.Param(value=name, name=name) for name in TWINS])
async def negative_twin(_dut: Any, twin: str) -> None:
    """Check that each fault in the testbench is reported by the checker that it concerns."""
    fault = TWINS[twin]
    test = pyuvm_class(twin, fault.work, configure=fault.configure, **fault.settings)
    await run_negative(test, fault.found)
