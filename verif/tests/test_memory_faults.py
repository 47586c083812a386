# SPDX-License-Identifier: Apache-2.0
"""Errors and poison of the device memory, and its content before a commit."""

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.mem.memory_config import Background
from verif.sequences import memory_faults
from verif.sequences.forged_records import GarbageSequence
from verif.tests.decorator import ALL, nf_test

LOW_BIT = (Mode.G_BINARY, Mode.G_TERNARY)


def filled_with_ones(cfg: EnvConfig) -> None:
    """Let memory read as all ones where nothing has been written."""
    cfg.mem.background = Background.ONES


@nf_test(memory_faults.MemoryErrorSequence, profiles=ALL, shows="test_memory_faults::memory_errors")
def memory_errors() -> None:
    """Check that AXI errors and poison of memory give poison and counters, never a hang."""


@nf_test(profiles=ALL)
async def record_errors(test: NfBaseTest) -> None:
    """Check that a record read with an error or poison poisons its line until the next commit."""
    for region, mode in enumerate((test.env.rng.choice(LOW_BIT), Mode.FP32)):
        await memory_faults.RecordErrorSequence(test.env, mode=mode, region=region).run()


@nf_test(profiles=ALL)
async def refused_write_backs(test: NfBaseTest) -> None:
    """Check that a line whose write-back is refused is poisoned, and that no line is wrong."""
    for mode in (test.env.rng.choice(LOW_BIT), Mode.FP32):
        await memory_faults.RefusedWriteBackSequence(test.env, mode=mode).run()


@nf_test()
async def refused_meanwhile(test: NfBaseTest) -> None:
    """Check a fetch that waits while a refused write-back makes its region's records untrusted."""
    for mode in (test.env.rng.choice(LOW_BIT), Mode.FP32):
        await memory_faults.RefusedMeanwhileSequence(test.env, mode=mode).run()


@nf_test(memory_faults.RefusedInitialisationSequence, profiles=ALL)
def refused_initialisation() -> None:
    """Check that an old record that could not be overwritten is not taken for state."""


@nf_test(memory_faults.RandomErrorSequence, profiles=ALL)
def errors_at_random() -> None:
    """Check mixed traffic with SLVERR and DECERR on reads and writes at random, on all paths."""


@nf_test(profiles=ALL, configure=filled_with_ones)
async def garbage_memory(test: NfBaseTest) -> None:
    """Check that the content of memory before a commit is never taken for state."""
    for mode in (*LOW_BIT, Mode.FP32):
        await GarbageSequence(test.env, mode=mode).run()


@nf_test(memory_faults.WaitingBeatsSequence)
def waiting_beats() -> None:
    """Check that a memory response with an error or poison is counted once, even if it waits."""


@nf_test(memory_faults.RefusedAgainSequence, profiles=ALL)
def refused_again() -> None:
    """Check that a worker stays a contributor of a line if memory refuses its second FP32 store."""
