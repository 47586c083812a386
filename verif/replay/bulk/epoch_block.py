# SPDX-License-Identifier: Apache-2.0
"""Epoch of a replay as one block of operations: commits, contributions, reads of lines and
registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES, U8
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.host.c_interface import ANSWERED, POISON, Block, Kind, register_ops
from verif.replay import line_check
from verif.replay.epoch import EpochLines, permuted_workers, traffic
from verif.replay.stimulus_file import CommitOperation, Operation, Read, Write

_CODE = REG_MAP.region_register("STATUS").field("CODE")
_ADDRESS = {name: register.address for name, register in REG_MAP.expand().items()}


@dataclass(frozen=True)
class LinePlaces:
    """Places of the lines to send in memory, from which the device reads them without a copy.

    Attributes:
        sent: Lines uint8[k, 64].
        at: The n-th line of `EpochLines.sent` (by use, then worker) is line ``at[n]`` of ``sent``.
    """

    sent: U8
    at: NDArray[np.int64]


@dataclass(frozen=True)
class EpochBlock:
    """Epoch with its block of operations.

    The counters are cleared at the beginning. STATUS of a region is read after its commit, all
    other registers at the end.

    Attributes:
        work: The epoch.
        block: Operations, with the lines of ``work``.
        reads: Index of each register read in the block, by name of the register.
    """

    work: EpochLines
    block: Block
    reads: dict[str, int]

    @staticmethod
    def of(
        work: EpochLines, seed: int, places: LinePlaces | None = None, apart: bool = False
    ) -> EpochBlock:
        """Return an epoch with its block; the order of the workers depends only on the seed and the
        epoch.

        Args:
            work: Epoch.
            seed: Seed of the order of the workers.
            places: Where the lines already are in memory; None: copy them into one array.
            apart: Each worker writes all its lines before the next begins.
        """
        rng = np.random.default_rng((seed, work.step, work.number))
        # Small chunks, so that the device sums one chunk while the next is written.
        chunk = work.lines if apart else max(1, work.plan.params.slots // 16)
        lines, _ = traffic(work, chunk, permuted_workers(work, rng), apart)
        parts = [register_ops(Kind.REG_WRITE, [(_ADDRESS["CTRL"], 1)])]
        names: list[tuple[int, str]] = []
        for use in work.uses:
            parts += [commit_ops(use.region, use.config, work.epoch)]
            names.append((sum(map(len, parts)), f"REGION[{use.region}].STATUS"))
            parts += [_read_ops([names[-1][1]])]
        lines["after"][lines["kind"] == Kind.READ] += sum(map(len, parts))
        parts.append(lines)
        last = [f"REGION[{use.region}].COMPLETE_LINES" for use in work.uses]
        last += ["DONE", *line_check.COUNTERS]
        names += enumerate(last, sum(map(len, parts)))
        parts.append(_read_ops(last))
        ops = np.concatenate(parts)
        if places is None:
            sent = np.concatenate([one.reshape(-1, LINE_BYTES) for one in work.sent])
        else:
            sent, writes = places.sent, ops["kind"] == Kind.WRITE
            ops["line"][writes] = places.at[ops["line"][writes]]
        block = Block(ops, sent, work.returned, np.zeros(len(ops), np.uint64))
        return EpochBlock(work, block, {name: at for at, name in names})

    def value(self, name: str) -> int:
        """Return the value that the block read from a register, by name."""
        return self.block.value(self.reads[name])

    def figures(self, cycles: int) -> Counter[str]:
        """Return the given cycles, the lines, and the counters of `check.COST` of the epoch."""
        cost = {name: self.value(name) for name in line_check.COST}
        return Counter(cost | {"cycles": cycles, "lines": self.work.lines})

    def problems(self) -> list[str]:
        """Return the errors that registers and responses report, as texts."""
        block, uses, out = self.block, self.work.uses, []
        for use in uses:
            code = CommitCode(_CODE.extract(self.value(f"REGION[{use.region}].STATUS")))
            if code:
                out.append(f"commit of region {use.region} was refused: {code.name}")
        complete = [self.value(f"REGION[{use.region}].COMPLETE_LINES") for use in uses]
        out += line_check.region_problems(uses, complete, self.value("DONE"))
        poisoned = (block.ops["kind"] == Kind.READ) & (block.answers & POISON != 0)
        if poisoned.any():
            first = int(block.ops[int(np.flatnonzero(poisoned)[0])]["address"])
            out.append(f"{poisoned.sum()} reads were poisoned, first {first:#x}")
        if not (block.answers & ANSWERED).all():
            out.append("an operation was not answered")
        counted = {name: self.value(name) for name in line_check.COUNTERS}
        out += line_check.counter_problems(counted, self.work.writes)
        return [f"step {self.work.step} round {self.work.number}: {text}" for text in out]


def commit_ops(region: int, config: RegionConfig, epoch: int) -> NDArray[Any]:
    """Return the register writes of a commit as OP[n]: the descriptor, then EPOCH."""
    values = {**config.register_values(), "EPOCH": epoch & 0xFFFF_FFFF}
    writes = [(_ADDRESS[f"REGION[{region}].{leaf}"], value) for leaf, value in values.items()]
    return register_ops(Kind.REG_WRITE, writes)


def _read_ops(names: Iterable[str]) -> NDArray[Any]:
    return register_ops(Kind.REG_READ, [(_ADDRESS[name], 0) for name in names])


def commits(block: EpochBlock) -> list[CommitOperation]:
    """Return the commits of the regions of an epoch."""
    return [CommitOperation(use.region, use.config, block.work.epoch) for use in block.work.uses]


def epoch_operations(block: EpochBlock) -> list[Operation]:
    """Return all transactions of an epoch in order, with the expected data of the reads."""
    work, sent, parts = block.work, block.block.sent, []
    for use, own in zip(work.uses, work.sent):
        want = line_check.expected_lines(own, use, work.plan.params)
        parts.append(want.stack.reshape(-1, LINE_BYTES))
    expect = np.concatenate(parts)  # uint8[m, 64], in the layout of ``EpochLines.returned``
    out: list[Operation] = list(commits(block))
    for op in block.block.ops:
        address, ldid, line = int(op["address"]), int(op["ldid"]), int(op["line"])
        if op["kind"] == Kind.WRITE:
            out.append(Write(address, ldid, sent[line].tobytes()))
        elif op["kind"] == Kind.READ:
            out.append(Read(address, ldid, expect[line].tobytes()))
    return out
