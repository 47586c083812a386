# SPDX-License-Identifier: Apache-2.0
"""Status bits that change: COMMIT_BUSY, INIT_BUSY, and flags of every region.

The register predictor compares each read; these tests make the bits change meanwhile.
"""

from collections.abc import Coroutine
from typing import Any

import cocotb

from cocotbext.cxl.config import CxlConfig
from models.modes import Mode
from models.regions import RegionConfig
from verif.env.config import EnvConfig
from verif.sequences.base import NfSequence
from verif.sequences.control_lines import ControlSequence
from verif.sequences.status_sweep import StatusSweepSequence
from verif.tests.decorator import ALL, nf_test

LOW_BIT = (Mode.G_BINARY, Mode.G_TERNARY)
KINDS = ("illegal", "saturated", "done")
ILLEGAL = b"\x55" * 64
ALL_PLUS = {Mode.G_BINARY: b"\x00" * 64, Mode.G_TERNARY: b"\xaa" * 64}


def damaged(cfg: EnvConfig) -> None:
    """Let the host send flits with a wrong CRC."""

    def shape(link: CxlConfig) -> None:
        link.waive = lambda rule, _direction: rule == "crc"

    cfg.shape_link = shape


class FlagsSequence(NfSequence):
    """Test of DONE, ILLEGAL_SEEN and SATURATED, set in some regions: others must not show them."""

    async def body(self) -> None:
        regions = range(self.hw.regions)
        most = min(64, 2 * self.hw.cnt_max + 2)
        modes = [Mode.G_TERNARY, *self.rng.choices(LOW_BIT, k=len(regions) - 1)]
        configs = []
        for region, mode in enumerate(self.shuffled(modes)):  # one has illegal codes
            workers = most if self.hw.cnt_max < 64 else self.randint(1, 3)
            configs.append(await self.start_region(region, mode, self.randrange(2), workers))
        kinds = list(KINDS)
        while kinds:  # more than one round where there are fewer regions than kinds
            for region in self.shuffled(regions):
                mode = configs[region].mode
                able = [kind for kind in kinds if kind != "illegal" or mode is Mode.G_TERNARY]
                kind = self.choice(able or (*KINDS, "nothing"))
                if able:
                    kinds.remove(kind)
                await self.raise_flag(configs[region], kind)
                await self.registers.read_status()
            for region in self.shuffled(regions):
                await self.commit(region)
                await self.registers.read_status()

    async def raise_flag(self, config: RegionConfig, kind: str) -> None:
        """Contribute so that the flag `kind` of a region is set, if its mode and W allow it."""
        if kind == "illegal":
            await self.fill_lines(config, 0, 0, ILLEGAL)
        elif kind != "nothing":
            data = ALL_PLUS[config.mode] if kind == "saturated" else None
            await self.fill_lines(config, None if kind == "done" else 0, None, data)


async def watch_busy(run: NfSequence, commit: Coroutine[Any, Any, Any]) -> None:
    """Start a commit while memory is slow; check that COMMIT_BUSY is 1 until it has drained."""
    run.mem.latency = (500, 500)
    for k in range(run.randint(1, 8)):
        await run.read(k << 6)
    await run.cycles(60)  # they are on their way to memory
    waiting = cocotb.start_soon(commit)
    seen = set()
    while not waiting.done():
        seen.add(await run.registers.read("STATUS.COMMIT_BUSY"))
    waiting.result()
    assert 1 in seen, "COMMIT_BUSY was never seen"
    run.mem.latency = (3, 3)
    await run.drain()
    assert not await run.registers.read("STATUS.COMMIT_BUSY")


@nf_test(NfSequence, profiles=ALL, shows="test_status::commit_busy")
async def commit_busy(run: NfSequence) -> None:
    """Check that STATUS.COMMIT_BUSY is 1 while a commit by AXI4-Lite waits for earlier requests."""
    for _ in range(2):
        region, config = run.randrange(2), run.layout.region(Mode.G_BINARY, 1, 3)
        await watch_busy(run, run.commit(region, config))


@nf_test(ControlSequence, profiles=ALL)
async def window_busy(run: ControlSequence) -> None:
    """Check that STATUS.COMMIT_BUSY is 1 while a commit through the control window waits."""
    region, ldid = run.randrange(run.hw.regions), run.randrange(16)
    await run.open(0, {region: ldid})
    for _ in range(2):
        config = run.layout.region(run.choice(LOW_BIT), 1, 3)
        words = run.commit_words(region, config, run.getrandbits(32))
        await watch_busy(run, run.call(run.line_write(words, ldid)))


@nf_test(ControlSequence, profiles=ALL, shows="test_status::init_busy")
async def init_busy(run: ControlSequence) -> None:
    """Check that STATUS.INIT_BUSY is 1 while records are initialised, 0 for an unchanged area.

    It stays 1 while another region is committed or closed, and while the control window is moved.
    """
    for modes in (LOW_BIT[:1], (Mode.FP32,), (*LOW_BIT, Mode.IDENTITY)):
        for region, mode in enumerate(modes[: run.hw.regions]):
            # Long enough that the initialiser is still busy after the commits that follow.
            lines_log2 = run.randint(7, 8) if mode is not Mode.IDENTITY else 1
            await run.commit(region, run.layout.region(mode, lines_log2, 3))
        seen = 0
        while await run.registers.read("STATUS.INIT_BUSY"):
            seen += 1
        assert seen, f"INIT_BUSY was never seen: {modes}"
    await run.write(0, bytes(64))
    await run.read_addresses([0])
    place = run.layout.control_window()
    for change in (run.commit(1), run.close(1), run.move_to(place)):
        await run.commit(0, run.layout.region(Mode.G_BINARY, 7, 3))
        with run.memory(latency=(500, 500)):
            await run.read(0)
            await run.cycles(40)  # it is on its way to memory, and the change waits for it
            waiting, seen = cocotb.start_soon(change), 0
            while not waiting.done():
                seen += await run.registers.read("STATUS.INIT_BUSY")
        assert seen > 1, f"INIT_BUSY was seen {seen} times"
        await run.initialised()
    await run.commit(0)  # the same area again: it is the region's own
    await run.cycles(40)
    assert not await run.registers.read("STATUS.INIT_BUSY")


@nf_test(FlagsSequence, profiles=ALL, shows="test_status::flags_of_every_region")
def flags_of_every_region() -> None:
    """Check that DONE, ILLEGAL_SEEN and SATURATED are set in their own region only."""


@nf_test(StatusSweepSequence, profiles=ALL, shows="test_status::sweep", configure=damaged)
def sweep() -> None:
    """Check every status field while each unrelated activity of the device is under way."""
