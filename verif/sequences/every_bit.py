# SPDX-License-Identifier: Apache-2.0
"""Every bit of a descriptor, in every region: a commit, one with each bit the other way round, and
the first one again; what comes to the region is answered by its own descriptor each time."""

from __future__ import annotations

from models.commit_check import check_commit
from models.line_packing import LINE_BYTES, Mode
from models.parameters import LINE_ADDRESS_BITS
from models.regions import MAX_WORKERS, SELECTOR_BITS, CommitCode, RegionConfig, record_lines
from verif.sequences.base import NfSequence

SPACE = 1 << LINE_ADDRESS_BITS
OPPOSITE = ((Mode.G_TERNARY, Mode.G_INT8), (Mode.FP32, Mode.G_INT4))
"""Modes whose numbers differ in each of the lower three bits."""
LD_IDS = 16
EPOCH_BITS = (1 << 32) - 1
SIZE_BITS = 31
"""Bits of LINES_LOG2 that regions have who share a memory."""


class EveryBitSequence(NfSequence):
    """Needs all regions, and counts that 64 integer codes do not overflow."""

    async def body(self) -> None:
        regions = range(self.cfg.hw.regions)
        self.live = {region: self.layout.region(Mode.G_BINARY, 0, 1) for region in regions}
        for region, config in self.live.items():
            await self.commit(region, config)
        for region in self.rng.sample(regions, len(regions)):
            home = self.live[region]
            there, back = self.opposite(region)
            for config in (there, back, there):
                await self.use(region, config)
            for config in self.sizes(region):
                await self.use(region, config)
            await self.use(region, home)

    def legal(self, region: int, config: RegionConfig) -> bool:
        """Whether a commit of the descriptor is accepted."""
        others = [other for number, other in self.live.items() if number != region]
        return check_commit(self.cfg.hw, config, others) is CommitCode.OK

    def opposite(self, region: int) -> tuple[RegionConfig, RegionConfig]:
        """Two descriptors that differ in every bit that a legal one can have."""
        rng, hw = self.rng, self.cfg.hw
        record = record_lines(MAX_WORKERS, hw.cnt_w)
        while True:
            modes = rng.sample(rng.choice(OPPOSITE), 2)
            base, state = rng.randrange(SPACE), rng.randrange(hw.mem_lines)
            threshold, mask = rng.randint(1, 254), rng.randrange(1, 0xFFFF)
            flags = rng.getrandbits(5)
            shift = rng.choice((1, 2))
            pair = [
                RegionConfig(
                    (base ^ flip * (SPACE - 1)) >> SELECTOR_BITS << SELECTOR_BITS + 6,
                    (state ^ flip * (hw.mem_lines - 1)) // record * record * LINE_BYTES,
                    0,
                    MAX_WORKERS - flip,
                    mode,
                    tie_minus=bool(flags & 1) != bool(flip),
                    strict=bool(flags & 2) != bool(flip),
                    bind=bool(flags & 4) != bool(flip),
                    signed=bool(flags & 8) != bool(flip),
                    keep_sum=bool(flags & 16) != bool(flip),
                    bind_shift=shift ^ 3 * flip,
                    threshold=threshold ^ 255 * flip,
                    ld_mask=mask ^ 0xFFFF * flip,
                )
                for flip, mode in enumerate(modes)
            ]
            if all(self.legal(region, config) for config in pair):
                return pair[0], pair[1]

    def sizes(self, region: int) -> list[RegionConfig]:
        """Descriptors whose LINES_LOG2 has each bit the one way, the other, and the first again;
        the largest has as many lines as an eighth of memory. The next commit stops its initialiser.
        """
        rng, out = self.rng, list[RegionConfig]()
        most = self.cfg.hw.mem_lines.bit_length() - 4
        for lines_log2 in (most, most ^ SIZE_BITS, most):
            while True:
                base = rng.randrange(SPACE) >> lines_log2 + SELECTOR_BITS
                state = rng.randrange(self.cfg.hw.mem_lines) >> lines_log2
                config = RegionConfig(
                    base << lines_log2 + SELECTOR_BITS + 6,
                    state << lines_log2 + 6,
                    lines_log2,
                    1,
                    Mode.FP32,
                )
                if self.legal(region, config):
                    break
            out.append(config)
        return out

    async def use(self, region: int, config: RegionConfig) -> None:
        """Commits the descriptor, writes by it, and reads again."""
        self.live[region] = config
        self.epoch ^= EPOCH_BITS
        await self.commit(region, config)
        every = range(config.workers)  # with BIND, some of them belong to no LD-ID
        hosts = [one for one in every if not config.bind or config.owner(one) < LD_IDS]
        for worker in self.rng.sample(hosts, min(2, len(hosts))):
            await self.contribute(config, worker, self.rng.randrange(config.lines), limit=1)
        await self.drain()
        await self.read_views(config, 0)
        for bit in range(SELECTOR_BITS, LINE_ADDRESS_BITS, 5):  # one bit away, somebody else's
            line = config.base_line ^ 1 << min(bit + region % 5, LINE_ADDRESS_BITS - 1)
            await self.read(line * LINE_BYTES, limit=1)
        await self.drain()
