# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of bulk traffic: the bins of the environment, filled a round at a time."""

from __future__ import annotations

import numpy as np

from cocotbext.cxl.wire.enums import DevLoad
from models.formats import Mode
from verif.coverage.functional_coverage import NfCoverage
from verif.replay.bulk.block import ANSWERED, Kind
from verif.replay.bulk.device import Figures
from verif.replay.bulk.rounds import Round

SLOTS = ("SLOT_HIT", "SLOT_MISS", "EVICTION")
_DEVLOAD_SHIFT = np.uint64(1)


def sample(coverage: NfCoverage, work: Round) -> None:
    """A round that has been judged right."""
    ops, answers = work.traffic.block.ops, work.traffic.block.answers
    kinds = ops["kind"]
    link = kinds <= Kind.READ
    coverage.opcode.hit("RwD MEM_WR", int((kinds == Kind.WRITE).sum()))
    coverage.opcode.hit("Req MEM_RD", int((kinds == Kind.READ).sum()))
    for ldid, hits in enumerate(np.bincount(ops["ldid"][link], minlength=16)):
        coverage.ldid.hit(str(ldid), int(hits))
    loads = (answers[link] & ~ANSWERED) >> _DEVLOAD_SHIFT & np.uint64(3)
    for load, hits in enumerate(np.bincount(loads.astype(np.int64), minlength=4)):
        coverage.devload.hit(DevLoad(load).name, int(hits))
    for share in work.traffic.shares:
        mode = share.config.mode
        coverage.committed(share.config, 0, busy=False)
        coverage.access.hit(f"write {mode.name}", share.lines * len(share.sent))
        coverage.access.hit(f"read result {mode.name}", share.lines)
        for plane in range(share.planes if mode is not Mode.FP32 else 0):
            coverage.access.hit(f"read plane {plane} {mode.name}", share.lines)
    for name in SLOTS:
        coverage.slots.hit(name, work.counter(name))


def sample_memory(coverage: NfCoverage, figures: Figures) -> None:
    """What the core has counted at the memory port, once at the end."""
    coverage.memory.hit("read", figures.memory_reads)
    coverage.memory.hit("write full", figures.memory_writes)
    coverage.memory.hit("write partial", figures.memory_partial_writes)
    coverage.memory.hit("write poison", figures.memory_poisoned_writes)
