# SPDX-License-Identifier: Apache-2.0
"""Exact forgeries of records, placed where a host can place them."""

from __future__ import annotations

import cocotb

from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.sequences import epochs
from verif.tests.decorator import nf_test


def slow_memory(cfg: EnvConfig) -> None:
    """Let memory answer writes late and in another order."""
    cfg.mem.latency = (2, 60)
    cfg.mem.reorder = True


@nf_test()
async def reshape(test: NfBaseTest) -> None:
    """Memory content from another shape of an area is never state."""
    for change in ("workers", "lines", "mode", "place"):
        await epochs.ReshapeSequence(test.env, change=change).run()


@nf_test(epochs.RefusedTwiceSequence)
def refused_twice() -> None:
    """An area that could not be initialised is initialised by the next commit."""


@cocotb.parametrize(last=[False, True])
@nf_test()
async def refused_front(test: NfBaseTest) -> None:
    """After a refused initialisation no line is taken for empty, in the last region neither."""
    await epochs.RefusedFrontSequence(test.env, last=test.settings["last"]).run()


@nf_test(epochs.MovedSequence)
def moved() -> None:
    """A commit while its region is being initialised, and while it waits for that."""


@nf_test(epochs.InitialiserSequence)
def initialiser() -> None:
    """A line is empty before, while and after its record is initialised."""


@nf_test(epochs.BesideMarkSequence)
def beside_mark() -> None:
    """A line is empty until its record is initialised, though its neighbour has one to come."""


@nf_test(epochs.InitialiserSequence, configure=slow_memory, lines_log2=9)
def slow_initialiser() -> None:
    """A record counts as initialised when memory has answered."""
