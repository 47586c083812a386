# SPDX-License-Identifier: Apache-2.0
"""Sweep of all status fields: they are read while something unrelated happens, and after it."""

from collections.abc import Awaitable, Collection
from itertools import product

import cocotb
from cocotb.triggers import Lock

from cocotbext.cxl.wire.crc import seal
from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, VIEW_SELECTORS, RegionConfig
from models.register_map import REG_MAP
from verif.coverage.coverage_plan import codes
from verif.sequences.control_lines import ControlSequence
from verif.sequences.line_data import ILLEGAL
from verif.sequences.ram_flips import FlipSequence

MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.G_INT4)
SELECTORS = (INFO_SELECTOR, *VIEW_SELECTORS)
KINDS = ("refused", "fallback", "illegal", "poison", "saturated", "done", "closed", "late")
PASSES = 60
"""Most passes over the registers that were not yet read exactly within an activity."""
IRQ_ALL = REG_MAP.expand()["IRQ_STATUS"].mask()


class StatusSweepSequence(ControlSequence, FlipSequence):
    """Reads of every status field while something happens that does not concern it.

    Each region gets drawn flags. Then each activity of ACTIVITIES in the coverage plan is repeated
    while all status registers are read by AXI4-Lite and through the control window, and INFO and
    STATUS through the windows of the regions that it does not touch. After it all are read again.
    The scoreboard compares each read; the coverage notes those that had one possible value only.
    """

    async def body(self) -> None:
        self.quiet = Lock()  # held while nothing else may be on the link
        self.at_home = True  # the control window may be read
        self.configs: dict[int, RegionConfig] = {}
        numbers = self.shuffled(range(self.hw.regions))
        self.fp32 = numbers.pop()
        await self.open(0, {})
        await self.set_registers(CAP_THRESHOLD=255, CAP_WINDOW=1, DEVLOAD_THRESHOLD=0)
        if len(numbers) > 2:  # a region without a descriptor, which has a code all the same
            bad = RegionConfig(self.layout.control_window(), 0, 0, 0, self.choice(MODES))
            await self.commit(numbers.pop(), bad, CommitCode.WORKERS)
        self.plain = numbers
        gathered = await self.start_region(self.fp32, Mode.FP32, 1, 3)
        self.configs[self.fp32] = gathered
        await self.fill_lines(gathered, 0)
        saturable = self.hw.cnt_max + 1 if self.hw.cnt_max < 64 else 0
        for number, region in enumerate(numbers):
            mode = Mode.G_TERNARY if not number else self.choice(MODES)
            workers = saturable if saturable and not number else self.randint(2, 3)
            await self.flags(region, await self.start_region(region, mode, number % 2, workers))
        self.big = [self.layout.region(Mode.G_BINARY, 5, 2) for _ in range(2)]
        every = [one for one in codes("ACTIVITIES") if one != "retry"]
        for activity in (*self.shuffled(every), "retry"):  # the checks of the link are weaker then
            await self.meanwhile(activity)

    async def meanwhile(self, activity: str) -> None:
        """Repeat an activity until every status was read exactly in it; then read all again."""
        fields = self.env.coverage.fields
        self.region = self.choice(self.plain)
        self.config = self.configs[self.region]
        self.at_home, self.stop = activity != "move", False
        fields.meanwhile = activity
        task = cocotb.start_soon(self.repeat(activity))
        names = self.shuffled(self.names(codes("STATUS_READS")))
        await self.look(names, others=True)
        for _ in range(PASSES):
            if task.done() or not (missing := fields.missing()):
                break
            await self.cycles(self.randint(0, 60))  # the activity pauses, too
            await self.again(missing)
        fields.meanwhile = ""
        self.stop = True
        await task
        await self.drain()
        self.at_home = True
        await self.registers.write("ERR_INFO", 1)
        await self.look(names, others=False)
        await self.flags(self.region, self.configs[self.region])

    async def repeat(self, activity: str) -> None:
        work = getattr(self, f"do_{activity}")
        while not self.stop:
            await work()
            await self.cycles(self.randint(0, 200))

    # -- reads --------------------------------------------------------------------------------
    def names(self, chosen: Collection[str]) -> list[str]:
        """Return the registers of this device for names of the coverage plan."""
        out = [name for name in chosen if not name.startswith(("REGION.", "selector"))]
        leaves = [name.removeprefix("REGION.") for name in chosen if name.startswith("REGION.")]
        return [*out, *(f"REGION[{k}].{leaf}" for k in range(self.hw.regions) for leaf in leaves)]

    async def look(self, names: Collection[str], others: bool) -> None:
        """Read registers by AXI4-Lite, and by CXL their lines and each view of the regions.

        Args:
            names: Names of the registers.
            others: Leave out the views of the region that the activity concerns.
        """
        views = cocotb.start_soon(self.views(names, others))
        for name in names:
            await self.registers.read(name)
        await views

    async def again(self, missing: Collection[str]) -> None:
        """Read alone what was not yet read exactly: what is in flight leaves counters open."""
        names = self.names(missing)
        if len(names) < len(missing):  # it is a view
            await self.views(names, others=True)
        for name in names:
            await self.registers.read(name)

    async def views(self, names: Collection[str], others: bool) -> None:
        by_name = self.env.predictor.by_name
        lines = sorted({by_name[name].address // LINE_BYTES for name in names})
        reads = [self.line_read(line) for line in lines if self.at_home]
        for region, selector in product(self.configs, SELECTORS):
            if not (others and region == self.region):
                config = self.configs[region]
                line = self.randrange(config.lines) if selector == INFO_SELECTOR else 0
                reads.append(self.read_msg(config.address(selector, line)))
        for start in range(0, len(reads), 12):
            async with self.quiet:
                for sent in [await self.issue(one) for one in reads[start : start + 12]]:
                    await sent.wait()

    # -- state of a region --------------------------------------------------------------------
    async def flags(self, region: int, config: RegionConfig) -> None:
        """Give a region, after a commit, flags and counts that are drawn."""
        self.configs[region] = config
        kinds = {kind for kind in KINDS if self.random() < 0.5}
        await self.commit(region)
        await self.registers.write("FALLBACK", 1 << region)
        if "fallback" in kinds:
            await self.fall(config)
        await self.read_registers("FALLBACK")  # which regions are not in it is certain now
        if "illegal" in kinds:
            # Two requests on a line at once leave counts open.
            await self.fill_lines(config, 0, 0, ILLEGAL if config.mode is Mode.G_TERNARY else None)
        if "poison" in kinds:
            await self.fill_lines(config, 0, 1, poison=True)
        workers = range(config.workers if {"done", "saturated"} & kinds else 0)
        lines = range(config.lines if "done" in kinds else 1)
        plus = config.mode is Mode.G_TERNARY and "saturated" in kinds
        for worker in workers:
            await self.fill_lines(config, lines, worker, b"\xaa" * LINE_BYTES if plus else None)
        if "refused" in kinds:
            await self.refuse(config)
        if "closed" in kinds:
            await self.close(region)
        if "late" in kinds:
            await self.fill_lines(config, 0, 1)

    async def fall(self, config: RegionConfig) -> None:
        """Contribute to a line that is in no slot, with limits that one miss exceeds.

        Nothing else is in flight, so that SLOT_MISS tells the checker that it has missed.
        """
        await self.drain()
        await self.read_registers("SLOT_MISS")
        await self.set_registers(CAP_THRESHOLD=0)
        await self.fill_lines(config, config.lines - 1, config.workers - 1)
        await self.read_registers("SLOT_MISS")
        await self.set_registers(CAP_THRESHOLD=255)

    async def refuse(self, config: RegionConfig) -> None:
        await self.call(self.read_msg(config.address(255, 0)))

    # -- activities ---------------------------------------------------------------------------
    async def slowly(self, change: Awaitable[None]) -> None:
        """Read ordinary memory, which answers late: a commit, close or move then waits for it."""
        with self.memory(latency=(300, 300)):
            await self.read(self.randrange(8) * LINE_BYTES)
            await self.cycles(40)
            await change

    async def do_commit(self) -> None:
        await self.slowly(self.commit(self.region))

    async def do_close(self) -> None:
        await self.slowly(self.close(self.region))

    async def do_move(self) -> None:
        await self.slowly(self.move_to(self.layout.control_window()))

    async def do_gather(self) -> None:
        await self.read_lines(self.configs[self.fp32], [0] * 4)

    async def do_poison(self) -> None:
        await self.fill_lines(self.config, 0, 0, poison=True, wait=False)
        await self.write(self.randrange(8) * LINE_BYTES, self.randbytes(LINE_BYTES), poison=True)
        await self.drain()

    async def do_flip(self) -> None:
        """Flip a bit that nobody reads: the next FP32 store overwrites its row."""
        row, [place] = self.randrange(self.size_of("STORES").rows), self.draw_flips("STORES", False)
        async with self.quiet:  # no read of the register in flight sees two writes
            await self.inject("STORES", row, place)

    async def do_retry(self) -> None:
        self.env.cxl.host.inject(seal(0) ^ 1 << self.randrange(528))

    async def do_refused(self) -> None:
        await self.refuse(self.config)
        await self.registers.write("ERR_INFO", 1)

    async def do_clear(self) -> None:
        async with self.quiet:  # what is in flight may count before or after it
            await self.drain()
            await self.cycles(20)
            await self.registers.write("CTRL", 1)

    async def do_interrupt(self) -> None:
        async with self.quiet:
            await self.registers.write("IRQ_ENABLE", IRQ_ALL)
        await self.refuse(self.config)
        await self.cycles(self.randint(0, 200))
        async with self.quiet:
            await self.set_registers(IRQ_STATUS=IRQ_ALL, IRQ_ENABLE=0, ERR_INFO=1)

    async def do_fallback(self) -> None:
        async with self.quiet:
            await self.drain()
            await self.commit(self.region)
            await self.fall(self.config)
        await self.cycles(self.randint(0, 200))
        await self.registers.write("FALLBACK", 1 << self.region)

    async def do_init(self) -> None:
        self.big.reverse()
        self.configs[self.region] = self.big[0]
        await self.commit(self.region, self.big[0], ready=True)
