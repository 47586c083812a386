# SPDX-License-Identifier: Apache-2.0
"""A round of a replay: its block made from a source, and judged when it has come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.bitsliced import vote_binary, vote_ternary
from models.formats import Mode, Tie
from models.nf_regs import REG_MAP
from models.regions import CommitCode, DeviceParams, planes_kept
from verif.replay.bulk.block import ANSWERED, POISON, Kind
from verif.replay.bulk.source import LineSource
from verif.replay.bulk.traffic import COUNTERS, RoundBlock, Share, round_block
from verif.replay.check import describe
from verif.replay.counters import ZERO
from verif.replay.prepare import Lines, TensorWork, expected_lines
from verif.replay.stream_plan import Extent, RegionShare, StreamPlan

STATUS = REG_MAP.region_register("STATUS")


@dataclass(frozen=True)
class Round:
    """One round before and after it went through the device."""

    step: int
    number: int
    epoch: int
    shares: tuple[RegionShare, ...]
    traffic: RoundBlock

    @property
    def lines(self) -> int:
        """Lines a worker."""
        return sum(share.lines for share in self.shares)

    def counter(self, name: str) -> int:
        """What a counter of the device counted in this round."""
        return self.traffic.block.value(self.traffic.counters[COUNTERS.index(name)])


@dataclass(frozen=True)
class Mismatch:
    """The first line that differs: ``line`` counts in the region, ``text`` says everything."""

    round: Round
    share: int
    line: int
    text: str


def make_round(
    source: LineSource, plan: StreamPlan, step: int, number: int, epoch: int, seed: int
) -> Round:
    """Read the lines of a round and put them in order; the order depends on seed and place only."""
    shares = plan.round(number)
    traffic = []
    for share in shares:
        mode = share.config.mode
        sent = [source.lines(step, extent, mode) for extent in share.extents]
        planes = planes_kept(share.config.workers, plan.params.cnt_w) if mode.low_bit else 0
        traffic.append(Share(share.region, share.config, np.concatenate(sent, axis=1), planes))
    rng = np.random.default_rng((seed, step, number))
    # Few lines at a time: the sums of one chunk are then gathered while the next is written.
    chunk = max(1, plan.params.slots // 16)
    return Round(step, number, epoch, shares, round_block(traffic, epoch, chunk, rng))


def lines_of(work: Round) -> Iterator[tuple[Extent, Mode, Lines]]:
    """What came back, extent by extent."""
    for share, got in zip(work.shares, work.traffic.got):
        at = 0
        for extent in share.extents:
            part = got[:, at : at + extent.lines]
            yield extent, share.config.mode, Lines(part[0], part[1:])
            at += extent.lines


def judge(work: Round, params: DeviceParams) -> Mismatch | None:
    """Every result and plane against the reducers."""
    for number, (share, traffic, got) in enumerate(
        zip(work.shares, work.traffic.shares, work.traffic.got)
    ):
        want = expected(traffic, params)
        own = Lines(got[0], got[1:])
        differs = (own.result != want.result).any(axis=1)
        differs |= (own.planes != want.planes).any(axis=(0, 2))
        if differs.any():
            line = int(np.flatnonzero(differs)[0])
            return Mismatch(work, number, line, _text(work, share, traffic, own, want, line))
    return None


def expected(share: Share, params: DeviceParams) -> Lines:
    """What must come back; by words where the counters cannot saturate, else by elements."""
    config, workers = share.config, len(share.sent)
    tie = Tie.MINUS if config.tie_minus else Tie.PLUS
    if config.mode == Mode.FP32 or workers > params.cnt_max:
        return expected_lines(share.sent, config.mode, tie, config.threshold, params)
    planes = planes_kept(workers, params.cnt_w)
    if config.mode == Mode.G_BINARY:
        return Lines(*vote_binary(share.sent, tie, planes))
    return Lines(*vote_ternary(share.sent, config.threshold, planes))


def _text(
    work: Round, share: RegionShare, traffic: Share, got: Lines, want: Lines, line: int
) -> str:
    """The words of `verif.replay.check` for a line of a region."""
    at = line
    for extent in share.extents:
        if at < extent.lines:
            break
        at -= extent.lines
    start = line - at
    part = slice(start, start + extent.lines)
    tensor = TensorWork(
        extent.tensor,
        share.config.mode,
        traffic.sent[:, part],
        Lines(want.result[part], want.planes[:, part]),
    )
    own = Lines(got.result[part], got.planes[:, part])
    return describe(work.step, tensor, own, at, extent.first)


def problems(work: Round) -> list[str]:
    """What registers and answers say beside the lines; an empty list on a good round."""
    block, traffic = work.traffic.block, work.traffic
    out = []
    for share, code in zip(work.shares, traffic.codes):
        found = CommitCode(STATUS.field("CODE").extract(block.value(code)))
        if found:
            out.append(f"commit of region {share.region} was refused: {found.name}")
    for share, index in zip(work.shares, traffic.complete):
        complete, lines = block.value(index), share.lines
        if complete != lines:
            out.append(f"region {share.region}: {complete} of {lines} lines complete")
        done = block.value(traffic.done) >> share.region & 1
        if done != (lines == share.config.lines):
            out.append(f"region {share.region}: DONE is {done} with {complete} complete lines")
    poisoned = (block.ops["kind"] == Kind.READ) & (block.answers & POISON != 0)
    if poisoned.any():
        first = block.ops[int(np.flatnonzero(poisoned)[0])]
        out.append(f"{poisoned.sum()} reads came back poisoned, first {int(first['address']):#x}")
    if not (block.answers & ANSWERED).all():
        out.append("an operation was not answered")
    out += [
        f"counter {name} went up by {work.counter(name)}" for name in ZERO if work.counter(name)
    ]
    writes = int((block.ops["kind"] == Kind.WRITE).sum())
    if work.counter("CONTRIBUTION") != writes:
        out.append(
            f"counter CONTRIBUTION went up by {work.counter('CONTRIBUTION')}, {writes} lines were "
            "written"
        )
    return [f"step {work.step} round {work.number}: {text}" for text in out]
