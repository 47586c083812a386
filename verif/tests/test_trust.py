# SPDX-License-Identifier: Apache-2.0
"""Exact forgeries of records, placed where a host can place them, which must not become state."""

import cocotb

from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.sequences import forged_records
from verif.tests.decorator import nf_test


def slow_memory(cfg: EnvConfig) -> None:
    """Let memory answer after 2 to 60 cycles and in another order."""
    cfg.mem.latency = (2, 60)
    cfg.mem.reorder = True


@nf_test()
async def reshape(test: NfBaseTest) -> None:
    """Check that records forged through another shape of an area are never taken for state."""
    for change in ("workers", "lines", "mode", "place", "sums"):
        await forged_records.ReshapeSequence(test.env, change=change).run()


@nf_test(forged_records.RefusedTwiceSequence)
def refused_twice() -> None:
    """Check that an area that could not be initialised is initialised by the next commit."""


@cocotb.parametrize(last=[False, True])
@nf_test()
async def refused_front(test: NfBaseTest) -> None:
    """Check that after a refused initialisation no line is taken for empty, in any region."""
    await forged_records.RefusedFrontSequence(test.env, last=test.settings["last"]).run()


@nf_test(forged_records.RefusedMateSequence)
def refused_mate() -> None:
    """Check that a record that a neighbour's write-back could not empty is no state."""


@nf_test(forged_records.MovedSequence)
def moved() -> None:
    """Check a commit that moves an area during its initialisation, and one that cancels it."""


@nf_test(forged_records.InitialiserSequence)
def initialiser() -> None:
    """Check that a line is empty before, while and after its record is initialised."""


@nf_test(forged_records.BesideMarkSequence)
def beside_mark() -> None:
    """Check that a line that shares its mark with a written-back one is empty until initialised."""


@nf_test(forged_records.BesideMarkSequence, last=True)
def beside_last_mark() -> None:
    """Check the same in the last region, while no other region is being initialised."""


@nf_test(forged_records.MatesSequence, configure=slow_memory)
def mates() -> None:
    """Check that a line is not fetched until memory has emptied its record for a neighbour."""


@nf_test(forged_records.NextGroupSequence)
def next_group() -> None:
    """Check that the group that the initialiser asks about next is emptied by a write-back."""


@nf_test(forged_records.InitialiserSequence, configure=slow_memory, lines_log2=9)
def slow_initialiser() -> None:
    """Check that a record counts as initialised only when memory has answered its write."""
