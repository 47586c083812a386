# SPDX-License-Identifier: Apache-2.0
"""Descriptors that a commit must refuse, each with its code; the region stays as it was."""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace

from models.commit_check import check_commit
from models.line_packing import Mode
from models.regions import SELECTOR_BITS, CommitCode, RegionConfig, record_lines
from verif.env.config import Profile
from verif.sequences.base import NfSequence


class DescriptorErrorSequence(NfSequence):
    """Every code on a committed and on an uncommitted region, with use of the region between."""

    async def body(self) -> None:
        good = self.layout.region(Mode.G_BINARY, 2, self.rng.randint(5, 64))
        other = self.layout.region(Mode.FP32, 2, 4)
        await self.commit(0, good)
        await self.commit(1, other)
        await self.contribute(good, 0, 0)
        await self.drain()
        for code, bad in self.faults(good, other):
            await self.commit(0, bad, expect=code)
            await self.contribute(good, self.rng.randrange(5), self.rng.randrange(4))
            await self.read_region(good, self.rng.randrange(4), limit=1)
            await self.drain()
            await self.env.registers.read_status()
        # The shadow keeps what was written: the last fault again, then the good one.
        await self.commit(0, None, expect=self.faults(good, other)[-1][0])
        if self.cfg.profile is Profile.STREAMING:
            for bad in self.pairs(good, other):
                await self.commit(0, bad, expect=check_commit(self.cfg.hw, bad, [other]))
        await self.commit(0, good)
        await self.read_region(good, 0, 0)
        await self.drain()
        if self.cfg.hw.regions > 2:
            await self.uncommitted(good, other)

    async def uncommitted(self, good: RegionConfig, other: RegionConfig) -> None:
        """A region that was never committed stays unmapped after each refusal."""
        bad = self.layout.region(Mode.G_BINARY, 2, 5)
        for code, fault in self.faults(bad, other):
            if code is not CommitCode.OK:
                await self.commit(2, fault, expect=code)
        await self.read(bad.base)
        await self.write(bad.base, bytes(64))
        await self.read_region(good, 0, 0)
        await self.drain()

    def faults(
        self, good: RegionConfig, other: RegionConfig
    ) -> list[tuple[CommitCode, RegionConfig]]:
        """One or more descriptors for every code; several faults: the lowest code wins."""
        rng = self.rng
        mem = self.layout.params.mem_lines
        window = good.window_lines
        record = record_lines(good.workers, self.cfg.hw.cnt_w)
        last = (mem - good.lines * record) << 6
        fp32 = replace(good, mode=Mode.FP32)
        code = CommitCode
        return [
            (code.WORKERS, replace(good, workers=0)),
            (code.WORKERS, replace(good, workers=65, threshold=0)),
            (code.WORKERS, replace(good, workers=255)),
            (code.THRESHOLD, replace(good, threshold=0)),
            (code.THRESHOLD, replace(fp32, threshold=0, lines_log2=63)),
            (code.LINES, replace(good, lines_log2=46 - SELECTOR_BITS + 1)),
            (code.LINES, replace(good, lines_log2=63, base=64)),
            (code.BASE_ALIGN, replace(good, base=good.base + 64)),
            (code.BASE_ALIGN, replace(good, base=good.base + (window << 5))),
            (code.BASE_ALIGN, replace(good, base=rng.randint(1, window - 1) << 6)),
            (code.WINDOW_MEMORY, replace(good, base=0)),
            (code.WINDOW_MEMORY, replace(good, base=0, lines_log2=46 - SELECTOR_BITS)),
            (code.WINDOW_MEMORY, replace(good, base=mem - window << 6)),
            (code.WINDOW_OVERLAP, replace(good, base=other.base)),
            (code.WINDOW_OVERLAP, self._around(good, other)),
            (code.STATE_ALIGN, replace(good, state_base=good.state_base + 64)),
            (code.STATE_ALIGN, replace(good, state_base=good.state_base + (record << 5))),
            (code.STATE_MEMORY, replace(good, state_base=last + (record << 6))),
            (code.STATE_MEMORY, replace(good, state_base=1 << 51)),
            (code.STATE_MEMORY, replace(fp32, state_base=mem - 1 << 6)),
            (code.STATE_MEMORY, replace(good, mode=Mode.IDENTITY, state_base=mem - 1023 << 6)),
            (code.STATE_OVERLAP, self._state_over(good, other, record)),
            (code.STATE_OVERLAP, replace(fp32, state_base=other.state_base + (19 << 6))),
            (code.STATE_OVERLAP, replace(fp32, workers=3, state_base=other.state_base - (15 << 6))),
            (code.THRESHOLD, replace(good, threshold=0, state_base=1 << 51, base=0)),
            # From 0 to beyond the other window, and an area as large.
            (
                code.WINDOW_MEMORY,
                replace(good, base=0, lines_log2=(other.base >> 6).bit_length() - SELECTOR_BITS),
            ),
            (code.STATE_ALIGN, replace(good, state_base=last + (record << 6) + 64)),
            (code.STATE_ALIGN, self._state_over(good, other, record, 1)),
            (
                code.STATE_MEMORY,
                replace(good, base=1 << 51, lines_log2=mem.bit_length() - 1, state_base=0),
            ),
            (code.OK, replace(good, state_base=last)),
            (code.OK, good),
            (code.STATE_ALIGN, replace(good, state_base=rng.choice((64, 192)))),
        ]

    def pairs(self, good: RegionConfig, other: RegionConfig) -> list[RegionConfig]:
        """For any two codes that unlike fields can break, a descriptor that breaks both rules."""
        faults = [fault for fault in self.faults(good, other) if fault[0] is not CommitCode.OK]
        self.rng.shuffle(faults)
        found: dict[frozenset[CommitCode], RegionConfig] = {}
        for (first, a), (second, b) in itertools.combinations(faults, 2):
            changed = [set(asdict(one).items()) - set(asdict(good).items()) for one in (a, b)]
            if first is not second and not dict(changed[0]).keys() & dict(changed[1]).keys():
                found.setdefault(frozenset((first, second)), replace(a, **dict(changed[1])))
        return list(found.values())

    @staticmethod
    def _around(good: RegionConfig, other: RegionConfig) -> RegionConfig:
        """A larger window that holds the other one."""
        lines_log2 = other.lines_log2 + 3
        size = 1 << (lines_log2 + SELECTOR_BITS + 6)
        return replace(good, base=other.base // size * size, lines_log2=lines_log2)

    @staticmethod
    def _state_over(
        good: RegionConfig, other: RegionConfig, record: int, lines: int = 0
    ) -> RegionConfig:
        """The area begins in the record that touches the other one, or some lines behind that."""
        align = record << 6
        start = other.state_base // align * align
        return replace(good, state_base=start + lines * 64)
