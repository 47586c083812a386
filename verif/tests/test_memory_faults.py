# SPDX-License-Identifier: Apache-2.0
"""Errors and poison of the device memory, and its content before a commit."""

from __future__ import annotations

from models.line_packing import Mode
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.mem.memory_config import Background
from verif.sequences import memory_faults
from verif.sequences.eviction import GarbageSequence
from verif.tests.decorator import ALL, nf_test

LOW_BIT = (Mode.G_BINARY, Mode.G_TERNARY)


def filled_with_ones(cfg: EnvConfig) -> None:
    """Let memory read as all ones where nothing has been written."""
    cfg.mem.background = Background.ONES


@nf_test(memory_faults.MemoryErrorSequence, profiles=ALL, shows="test_memory_faults::memory_errors")
def memory_errors() -> None:
    """AXI errors and poison give poison and counters, never a hang."""


@nf_test(profiles=ALL)
async def record_errors(test: NfBaseTest) -> None:
    """A lost state record poisons its line for the epoch."""
    for region, mode in enumerate((test.env.rng.choice(LOW_BIT), Mode.FP32)):
        await memory_faults.RecordErrorSequence(test.env, mode=mode, region=region).run()


@nf_test(profiles=ALL)
async def refused_write_backs(test: NfBaseTest) -> None:
    """A line whose write-back is refused is lost, and no line of the region is wrong."""
    for mode in (test.env.rng.choice(LOW_BIT), Mode.FP32):
        await memory_faults.RefusedWriteBackSequence(test.env, mode=mode).run()


@nf_test()
async def refused_meanwhile(test: NfBaseTest) -> None:
    """A read that waits for the memory port while its region's records become doubtful."""
    for mode in (test.env.rng.choice(LOW_BIT), Mode.FP32):
        await memory_faults.RefusedMeanwhileSequence(test.env, mode=mode).run()


@nf_test(memory_faults.RefusedInitialisationSequence, profiles=ALL)
def refused_initialisation() -> None:
    """A record that could not be initialised is not taken for state."""


@nf_test(memory_faults.RandomErrorSequence, profiles=ALL)
def errors_at_random() -> None:
    """SLVERR and DECERR by rate, reads and writes, on all paths among mixed traffic."""


@nf_test(profiles=ALL, configure=filled_with_ones)
async def garbage_memory(test: NfBaseTest) -> None:
    """Old content of memory is never taken for state."""
    for mode in (*LOW_BIT, Mode.FP32):
        await GarbageSequence(test.env, mode=mode).run()


@nf_test(memory_faults.WaitingBeatsSequence)
def waiting_beats() -> None:
    """A beat with an error or poison is counted once, however long it waits."""


@nf_test(memory_faults.RefusedAgainSequence, profiles=ALL)
def refused_again() -> None:
    """A refused store takes no worker out of a line."""
