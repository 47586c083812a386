# SPDX-License-Identifier: Apache-2.0
"""An epoch as one block of operations: commits, contributions, results and planes, registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES, U8
from models.nf_regs import REG_MAP
from models.regions import CommitCode, RegionConfig
from verif.host.c_interface import ANSWERED, POISON, Block, Kind, register_ops
from verif.replay.check import COST, COUNTERS, counter_problems, region_problems
from verif.replay.epoch import EpochLines
from verif.replay.traffic import traffic

_CODE = REG_MAP.region_register("STATUS").field("CODE")
_ADDRESS = {name: register.address for name, register in REG_MAP.expand().items()}


@dataclass(frozen=True)
class Lie:
    """Where the lines of an epoch lie: the n-th of `EpochLines.sent`, one use and worker after the
    other, is line ``at[n]`` of ``sent`` uint8[k, 64], which the device reads in its place."""

    sent: U8
    at: NDArray[np.int64]


@dataclass(frozen=True)
class EpochBlock:
    """The block of an epoch; ``reads`` is the index of each register read in it, by name.

    STATUS of a region is read after its commit, everything else at the end. The counters are
    cleared at the beginning.
    """

    work: EpochLines
    block: Block
    reads: dict[str, int]

    @staticmethod
    def of(work: EpochLines, seed: int, lie: Lie | None = None, apart: bool = False) -> EpochBlock:
        """Make it; the order of the workers depends on seed and place alone. ``lie``: where the
        lines are already; else they are copied to one array. ``apart``: nothing keeps the workers
        in step, each writes all its lines before the next does."""
        rng = np.random.default_rng((seed, work.step, work.number))
        order = [
            rng.permuted(np.tile(np.arange(work.plan.workers), (use.lines, 1)), axis=1)
            for use in work.uses
        ]
        # Few lines at a time: the sums of one chunk are then gathered while the next is written.
        chunk = work.lines if apart else max(1, work.plan.params.slots // 16)
        lines = traffic(work, chunk, order, apart).ops
        parts = [register_ops(Kind.REG_WRITE, [(_ADDRESS["CTRL"], 1)])]
        names: list[tuple[int, str]] = []
        for use in work.uses:
            parts += [commit_ops(use.region, use.config, work.epoch)]
            names.append((sum(map(len, parts)), f"REGION[{use.region}].STATUS"))
            parts += [_read_ops([names[-1][1]])]
        lines["after"][lines["kind"] == Kind.READ] += sum(map(len, parts))
        parts.append(lines)
        last = [f"REGION[{use.region}].COMPLETE_LINES" for use in work.uses]
        last += ["DONE", *COUNTERS]
        names += enumerate(last, sum(map(len, parts)))
        parts.append(_read_ops(last))
        ops = np.concatenate(parts)
        if lie is None:
            sent = np.concatenate([one.reshape(-1, LINE_BYTES) for one in work.sent])
        else:
            sent, writes = lie.sent, ops["kind"] == Kind.WRITE
            ops["line"][writes] = lie.at[ops["line"][writes]]
        block = Block(ops, sent, work.returned, np.zeros(len(ops), np.uint64))
        return EpochBlock(work, block, {name: at for at, name in names})

    def value(self, name: str) -> int:
        """What a register said."""
        return self.block.value(self.reads[name])

    def figures(self, cycles: int) -> Counter[str]:
        """What the epoch cost."""
        cost = {name: self.value(name) for name in COST}
        return Counter(cost | {"cycles": cycles, "lines": self.work.lines})

    def problems(self) -> list[str]:
        """What registers and answers say beside the lines; an empty list in a good epoch."""
        block, uses, out = self.block, self.work.uses, []
        for use in uses:
            code = CommitCode(_CODE.extract(self.value(f"REGION[{use.region}].STATUS")))
            if code:
                out.append(f"commit of region {use.region} was refused: {code.name}")
        complete = [self.value(f"REGION[{use.region}].COMPLETE_LINES") for use in uses]
        out += region_problems(uses, complete, self.value("DONE"))
        poisoned = (block.ops["kind"] == Kind.READ) & (block.answers & POISON != 0)
        if poisoned.any():
            first = int(block.ops[int(np.flatnonzero(poisoned)[0])]["address"])
            out.append(f"{poisoned.sum()} reads came back poisoned, first {first:#x}")
        if not (block.answers & ANSWERED).all():
            out.append("an operation was not answered")
        counted = {name: self.value(name) for name in COUNTERS}
        out += counter_problems(counted, self.work.writes)
        return [f"step {self.work.step} round {self.work.number}: {text}" for text in out]


def commit_ops(region: int, config: RegionConfig, epoch: int) -> NDArray[Any]:
    """Writes of a descriptor and its EPOCH."""
    values = {**config.register_values(), "EPOCH": epoch & 0xFFFF_FFFF}
    writes = [(_ADDRESS[f"REGION[{region}].{leaf}"], value) for leaf, value in values.items()]
    return register_ops(Kind.REG_WRITE, writes)


def _read_ops(names: Iterable[str]) -> NDArray[Any]:
    return register_ops(Kind.REG_READ, [(_ADDRESS[name], 0) for name in names])
