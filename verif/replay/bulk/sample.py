# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of bulk traffic: the bins of the environment, filled an epoch at a time."""

from __future__ import annotations

import numpy as np

from cocotbext.cxl.wire.messages import DevLoad
from verif.coverage.functional_coverage import NfCoverage
from verif.host.c_interface import ANSWERED, Figures, Kind
from verif.replay.bulk.epoch_block import EpochBlock

SLOTS = ("SLOT_HIT", "SLOT_MISS", "EVICTION")
_DEVLOAD_SHIFT = np.uint64(1)


def sample(coverage: NfCoverage, done: EpochBlock) -> None:
    """An epoch that went through the device."""
    ops, answers, plan = done.block.ops, done.block.answers, done.work.plan
    kinds = ops["kind"]
    link = kinds <= Kind.READ
    coverage.opcode.hit("RwD MEM_WR", int((kinds == Kind.WRITE).sum()))
    coverage.opcode.hit("Req MEM_RD", int((kinds == Kind.READ).sum()))
    for ldid, hits in enumerate(np.bincount(ops["ldid"][link], minlength=16)):
        coverage.ldid.hit(str(ldid), int(hits))
    loads = (answers[link] & ~ANSWERED) >> _DEVLOAD_SHIFT & np.uint64(3)
    for load, hits in enumerate(np.bincount(loads.astype(np.int64), minlength=4)):
        coverage.devload.hit(DevLoad(load).name, int(hits))
    for use in done.work.uses:
        mode = use.config.mode
        coverage.committed(use.config, 0, busy=False)
        coverage.access.hit(f"write {mode.name}", use.lines * plan.workers)
        coverage.access.hit(f"read result {mode.name}", use.lines)
        for plane in range(plan.planes(mode)):
            coverage.access.hit(f"read plane {plane} {mode.name}", use.lines)
    for name in SLOTS:
        coverage.slots.hit(name, done.value(name))


def sample_memory(coverage: NfCoverage, figures: Figures) -> None:
    """What the core has counted at the memory port, once at the end."""
    coverage.memory.hit("read", figures.memory_reads)
    coverage.memory.hit("write full", figures.memory_writes)
    coverage.memory.hit("write partial", figures.memory_partial_writes)
    coverage.memory.hit("write poison", figures.memory_poisoned_writes)
