# SPDX-License-Identifier: Apache-2.0
"""Base class of all virtual sequences: commits, traffic, and faults and stalls of the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count, product
from typing import TYPE_CHECKING, Any, TypeVar

from pyuvm import uvm_sequence

from cocotbext.cxl.wire import messages
from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import (
    INFO_SELECTOR,
    PLANE_COUNT,
    PLANE_SELECTOR,
    RAW_SELECTOR,
    RegionConfig,
    records,
    sum_selectors,
)
from models.register_types import WORD_MASK
from verif.env.region_layout import RegionLayout
from verif.sequences.line_data import line_for, random_line

if TYPE_CHECKING:
    from models.parameters import DeviceParams
    from verif.env.env import NfEnv
    from verif.env.registers import Registers
    from verif.mem.memory_config import MemConfig

RACE_LIMIT = 5
"""Maximum number of requests in flight on one line: the scoreboard tries all of their orders."""
ANY = -1
"""Value in place of a worker's number: a worker is drawn for each contribution."""

T = TypeVar("T")
Numbers = int | Iterable[int] | None
"""Argument type: one number (of a line or worker), several numbers, or None for all numbers."""
Data = bytes | Callable[[int, int], bytes] | None
"""Argument type: 64 bytes of a line, a function of (worker, line) that returns them, or None for a
random legal line.
"""


def _each(chosen: Numbers, count: int) -> list[int]:
    if chosen is None:
        return list(range(count))
    return [chosen] if isinstance(chosen, int) else list(chosen)


class NfSequence(uvm_sequence):
    """Base of virtual sequences: traffic by `env.host`, register accesses by `env.registers`.

    A test that needs no class for its scenario uses this class directly. Keyword arguments of the
    constructor set the options of a subclass, which are its class attributes.
    """

    def __init__(self, env: NfEnv, **options: Any) -> None:
        super().__init__(type(self).__name__)
        self.env = env
        self.cfg = env.cfg
        self.hw: DeviceParams = env.cfg.hw
        """Parameters of the build of the device, such as the numbers of slots and regions."""
        self.mem: MemConfig = env.cfg.mem
        """Settings of the memory agent; a change takes effect in the next cycle."""
        self.registers: Registers = env.registers
        """Accesses to the device's registers by name, through the AXI4-Lite port."""
        self.slots: int = env.cfg.hw.slots
        self.layout: RegionLayout = env.layout
        rng = self.rng = env.rng
        self.choice, self.sample, self.random = rng.choice, rng.sample, rng.random
        self.randint, self.randrange = rng.randint, rng.randrange
        self.getrandbits, self.randbytes = rng.getrandbits, rng.randbytes
        self.epoch = self.rng.getrandbits(32)
        for name, value in options.items():
            if not hasattr(type(self), name):
                raise AttributeError(f"{type(self).__name__} has no option {name}")
            setattr(self, name, value)

    @property
    def own_modes(self) -> list[Mode]:
        """Modes without the optional ones that this device lacks; reserved ones are included."""
        return [mode for mode in Mode if self.hw.tern5 or not mode.optional]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return a list of the items in random order."""
        return self.sample(items, len(items))

    async def run(self) -> None:
        """Run the sequence without a sequencer, then wait for the responses to all requests."""
        await self.start()
        await self.env.host.drain()

    async def cycles(self, count: int) -> None:
        """Wait for `count` clock cycles; return at once for 0."""
        if count:
            await self.env.clocks(count)

    # -- registers ----------------------------------------------------------------------------
    async def commit(
        self,
        region: int,
        config: RegionConfig | None = None,
        expect: CommitCode = CommitCode.OK,
        *,
        ready: bool = False,
    ) -> None:
        """Write EPOCH of a region, which starts a new epoch, and check the code of the commit.

        The value of EPOCH is the last one plus 0, 1 or 2.

        Args:
            region: number of the region.
            config: descriptor to write to the shadow registers first; None leaves them as they are.
            expect: code that the device must report in the region's STATUS.
            ready: wait until the initialiser is idle.

        Raises:
            AssertionError: the device reports another code.
        """
        self.epoch = (self.epoch + self.choice((0, 1, 1, 2))) & 0xFFFF_FFFF
        code = await self.registers.commit(region, config, self.epoch)
        assert code == expect, f"commit of region {region} gave {code.name}, not {expect.name}"
        if ready:
            await self.initialised()

    async def commit_all(
        self, *configs: RegionConfig, regions: Iterable[int] | None = None, ready: bool = False
    ) -> None:
        """Commit descriptors to `regions`, by default 0, 1, ...; await the initialiser if `ready`.

        `regions` may have more items than there are descriptors.
        """
        for region, config in zip(regions or count(), configs, strict=False):
            await self.commit(region, config)
        if ready:
            await self.initialised()

    async def start_region(
        self,
        region: int | None,
        mode: Mode,
        lines_log2: int,
        workers: int,
        *,
        ready: bool = False,
        **options: Any,
    ) -> RegionConfig:
        """Place a new region in free address space and memory, commit it and return its descriptor.

        Args:
            region: number of the region; None draws one.
            mode: aggregation mode.
            lines_log2: log2 of the number of lines.
            workers: number of workers.
            ready: wait until the initialiser has written all records.
            options: other fields of the descriptor.
        """
        config = self.layout.region(mode, lines_log2, workers, **options)
        await self.commit(self.any_region() if region is None else region, config, ready=ready)
        return config

    async def start_regions(
        self, *shapes: tuple[Mode, int, int], ready: bool = False
    ) -> list[RegionConfig]:
        """Place and commit regions 0, 1, ...; return their descriptors.

        Args:
            shapes: (mode, log2 of the number of lines, number of workers) of each region.
            ready: wait until the initialiser has written all records.
        """
        configs = [self.layout.region(*shape) for shape in shapes]
        await self.commit_all(*configs, ready=ready)
        return configs

    def any_region(self) -> int:
        """Draw the number of a region of the device."""
        return self.randrange(self.hw.regions)

    async def initialised(self) -> None:
        """Wait until STATUS.INIT_BUSY reads 0: the records of new regions are initialised."""
        while await self.registers.read("STATUS.INIT_BUSY"):
            pass

    async def close(self, region: int) -> None:
        """Write 1 to CTRL.CLOSE of a region: its epoch ends, and later contributions are LATE."""
        await self.registers.write(f"REGION[{region}].CTRL", 1)

    async def set_registers(self, **values: int) -> None:
        """Write registers of the device by AXI4-Lite, in the order of the arguments NAME=value."""
        for name, value in values.items():
            await self.registers.write(name, value)

    async def write_window(self, place: int) -> None:
        """Write CTRL_WINDOW: move the control window to a byte address; 0 disables it."""
        await self.set_registers(CTRL_WINDOW_HI=place >> 32, CTRL_WINDOW_LO=place & WORD_MASK)

    async def read_registers(self, *names: str, region: int | None = None) -> None:
        """Read registers by AXI4-Lite; the register predictor of the scoreboard checks the values.

        Args:
            names: names of registers or fields.
            region: number of the region that they belong to; None for registers of the device.
        """
        prefix = "" if region is None else f"REGION[{region}]."
        for name in names:
            await self.registers.read(prefix + name)

    # -- memory -------------------------------------------------------------------------------
    @contextmanager
    def memory(self, **knobs: Any) -> Iterator[None]:
        """Set fields of `MemConfig` inside a `with` block, and restore their values after it."""
        before = {name: getattr(self.mem, name) for name in knobs}
        for name, value in knobs.items():
            setattr(self.mem, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self.mem, name, value)

    @asynccontextmanager
    async def stalled(self, *channels: str, level: float = 1.0) -> AsyncIterator[None]:
        """Stall channels of the memory port inside an `async with` block, then await all responses.

        Args:
            channels: any of "aw", "w", "ar", "b" and "r".
            level: probability that a channel is stalled in a cycle.
        """
        with self.memory(**{f"{channel}_stall": level for channel in channels}):
            yield
        await self.drain()

    @contextmanager
    def failing(
        self, reads: Iterable[int] = (), writes: Iterable[int] = (), known: bool = False
    ) -> Iterator[None]:
        """Let the memory answer accesses to some lines with an error inside a `with` block.

        Args:
            reads: addresses in memory, in lines of 64 bytes, that cannot be read.
            writes: addresses in memory, in lines, that cannot be written.
            known: give the addresses to the reference model, as required for ordinary memory and
                FP32 data. The scoreboard sees errors on records at the memory port.
        """
        model = self.env.scoreboard.model
        faults = [
            (self.mem.read_error_lines, set(reads)),
            (self.mem.write_error_lines, set(writes)),
        ]
        if known:
            faults += [(model.read_errors, faults[0][1]), (model.write_errors, faults[1][1])]
        for kept, lines in faults:
            kept.update(lines)
        try:
            yield
        finally:
            for kept, lines in faults:
                kept.difference_update(lines)

    @asynccontextmanager
    async def traced(self) -> AsyncIterator[list[Any]]:
        """Yield a list of the messages seen at the pins inside an `async with` block.

        The block ends when all requests are answered.
        """
        trace: list[Any] = []
        self.env.trace = trace
        yield trace
        await self.drain()
        self.env.trace = None

    def data_line(self, config: RegionConfig, worker: int, line: int) -> int:
        """Return the memory address, in lines of 64 bytes, of a worker's FP32 data of a line."""
        return config.state_line + worker * config.lines + line

    def bookkeeping(self, config: RegionConfig, line: int) -> int:
        """Return the address in memory, in lines of 64 bytes, of the record of a line of a region.

        A record starts with the bookkeeping line.
        """
        first, distance = records(config, self.hw.cnt_w)
        return first + line * distance

    # -- traffic ------------------------------------------------------------------------------
    async def issue(self, msg: messages.M2SMessage, limit: int | None = None) -> Any:
        """Pass a request to the driver; return its `Transaction` without waiting for the response.

        Args:
            msg: the request.
            limit: maximum number of requests in flight on its line; the call waits until there are
                fewer. None for no limit.
        """
        return await self.env.host.issue(msg, limit)

    async def call(self, msg: messages.M2SMessage) -> messages.S2MMessage:
        """Send a request and return its response; AssertionError if it has none (MemSpecRd)."""
        response = await self.env.host.call(msg)
        assert response is not None, f"{msg} has no response to wait for"
        return response

    def write_msg(
        self,
        addr: int,
        data: bytes,
        ldid: int | None = None,
        poison: bool = False,
        be: int | None = None,
    ) -> messages.M2SRwD:
        """Return a MemWr, or a MemWrPtl with byte enables `be`; the LD-ID is drawn unless given."""
        opcode = messages.RwdOp.MEM_WR if be is None else messages.RwdOp.MEM_WR_PTL
        enables = messages.BE_ALL if be is None else be
        who = self.rng.randrange(16) if ldid is None else ldid
        return messages.M2SRwD(opcode, 0, addr, ldid=who, data=data, be=enables, poison=poison)

    def read_msg(self, addr: int, ldid: int | None = None) -> messages.M2SReq:
        """Return a MemRd (80 %) or a MemRdData. The LD-ID is drawn unless given."""
        opcode = messages.ReqOp.MEM_RD if self.random() < 0.8 else messages.ReqOp.MEM_RD_DATA
        who = self.rng.randrange(16) if ldid is None else ldid
        return messages.M2SReq(opcode, 0, addr, ldid=who)

    async def write(self, addr: int, data: bytes, limit: int | None = None, **fields: Any) -> Any:
        """Issue a write and return its `Transaction` without waiting for the response.

        `limit` is that of `issue`; `fields` are arguments of `write_msg`.
        """
        return await self.issue(self.write_msg(addr, data, **fields), limit)

    async def read(self, addr: int, limit: int | None = None, **fields: Any) -> Any:
        """Issue a read and return its `Transaction` without waiting for the response.

        `limit` is that of `issue`; `fields` are arguments of `read_msg`.
        """
        return await self.issue(self.read_msg(addr, **fields), limit)

    async def ordinary(self, read: bool, line: int, limit: int | None = None) -> Any:
        """Issue a read of a line of ordinary memory, or a write of random data to it.

        Return its `Transaction`; `limit` is that of `issue`.
        """
        if read:
            return await self.read(line * LINE_BYTES, limit)
        return await self.write(line * LINE_BYTES, self.randbytes(LINE_BYTES), limit)

    async def either(
        self, addr: int, limit: int, be: int | None = None, poison: bool = False
    ) -> None:
        """Issue a read of a byte address or, in half of the cases, a write of a random line."""
        if self.random() < 0.5:
            await self.write(addr, random_line(self.rng), limit, be=be, poison=poison)
        else:
            await self.read(addr, limit)

    async def fetch(self, addr: int, **fields: Any) -> messages.S2MDRS:
        """Read a line at a byte address, wait for the response and return it."""
        response = await self.call(self.read_msg(addr, **fields))
        assert isinstance(response, messages.S2MDRS), f"read of {addr:#x} answered by {response}"
        return response

    async def drain(self) -> None:
        """Wait until every request of the host is answered."""
        await self.env.host.drain()

    async def pace(self, alone: bool, apart: int) -> None:
        """Wait after a request: until all are answered if `alone`, then for `apart` cycles."""
        if alone:
            await self.drain()
        await self.cycles(apart)

    # -- aggregation --------------------------------------------------------------------------
    def ldid_for(self, config: RegionConfig, worker: int) -> int:
        """Return the LD-ID that owns the worker (BIND), else draw one that LD_MASK admits."""
        if config.bind:
            return config.owner(worker)
        return self.choice([k for k in range(16) if config.ld_mask >> k & 1])

    async def contribute(
        self,
        config: RegionConfig,
        worker: int,
        line: int,
        data: bytes | None = None,
        limit: int | None = None,
        **fields: Any,
    ) -> Any:
        """Issue the contribution of a worker to a line; return its `Transaction` without waiting.

        Args:
            config: descriptor of the region.
            worker: number of the worker.
            line: index of the line in the region.
            data: content; None draws a legal line of the mode.
            limit: maximum number of requests in flight on the line.
            fields: other arguments of `write_msg`; without `ldid` an admitted LD-ID is used.
        """
        if data is None:
            data = line_for(config.mode, self.rng)
        fields.setdefault("ldid", self.ldid_for(config, worker))
        return await self.write(config.address(worker, line), data, limit, **fields)

    async def fill_lines(
        self,
        config: RegionConfig,
        lines: Numbers = None,
        workers: Numbers = None,
        data: Data = None,
        *,
        alone: bool = False,
        apart: int = 0,
        wait: bool = True,
        **fields: Any,
    ) -> list[Any]:
        """Contribute as each of some workers to each of some lines, workers in the outer loop.

        Args:
            config: descriptor of the region.
            lines: lines to contribute to; None for all.
            workers: contributing workers, None for all; `ANY` draws one for each line.
            data: content of the contributions, see `Data`.
            alone: wait for the response of each contribution before the next one.
            apart: cycles to wait after each contribution.
            wait: wait for all responses at the end.
            fields: other arguments of `contribute`.

        Returns:
            The transactions, in order.
        """
        sent = []
        for chosen in _each(workers, config.workers):
            for line in _each(lines, config.lines):
                worker = self.rng.randrange(config.workers) if chosen == ANY else chosen
                content = data(worker, line) if callable(data) else data
                sent.append(await self.contribute(config, worker, line, content, **fields))
                await self.pace(alone, apart)
        if wait:
            await self.drain()
        return sent

    @staticmethod
    def every_contribution(configs: Iterable[RegionConfig]) -> list[tuple[RegionConfig, int, int]]:
        """Return every (region, worker, line) of some regions."""
        return [
            (config, *pair)
            for config in configs
            for pair in product(range(config.workers), range(config.lines))
        ]

    async def contribute_each(
        self, work: Iterable[tuple[RegionConfig, int, int]], **fields: Any
    ) -> None:
        """Contribute for each (region, worker, line) of `work` in order, then await all responses.

        If `work` is a generator, each item is drawn when it is sent; `fields` are other arguments
        of `contribute`.
        """
        for config, worker, line in work:
            await self.contribute(config, worker, line, **fields)
        await self.drain()

    async def read_each(
        self, work: Iterable[tuple[RegionConfig, int, int | None]], limit: int | None = None
    ) -> None:
        """Read each (region, line, selector) of `work`, in order, then wait for all responses.

        A selector None draws a legal one; `limit` is that of `issue`.
        """
        for config, line, selector in work:
            await self.read_region(config, line, selector, limit)
        await self.drain()

    async def read_addresses(self, addresses: Iterable[int], limit: int | None = None) -> None:
        """Read the line at each of these byte addresses, in order, then wait for all responses."""
        for address in addresses:
            await self.read(address, limit)
        await self.drain()

    def read_selectors(self, config: RegionConfig) -> list[int]:
        """Return the selectors that may be read at any line of the region, by its mode.

        IDENTITY: all 256. FP32: sum (0), INFO and the line of each worker. Low-bit modes: vote (0,
        none for integer codes), INFO, the count planes, and for integer codes the sums.
        """
        if config.mode is Mode.IDENTITY:
            return list(range(256))
        if config.mode is Mode.FP32:
            return [0, INFO_SELECTOR, *range(64, 64 + config.workers)]
        planes = [INFO_SELECTOR, *range(PLANE_SELECTOR, PLANE_SELECTOR + PLANE_COUNT)]
        return [*planes, *sum_selectors(config)] if config.mode.bits else [0, *planes]

    @staticmethod
    def part_selector(config: RegionConfig) -> int:
        """Return a selector of part of a line's state: count plane 0, or (FP32) worker 0's line."""
        return RAW_SELECTOR if config.mode is Mode.FP32 else PLANE_SELECTOR

    async def read_region(
        self, config: RegionConfig, line: int, selector: int | None = None, limit: int | None = None
    ) -> Any:
        """Issue a read of a line of a region; return its `Transaction` without waiting.

        Args:
            config: descriptor of the region.
            line: index of the line in the region.
            selector: what to read (0 is the result); None draws a legal selector.
            limit: maximum number of requests in flight on the line.
        """
        if selector is None:
            selector = self.rng.choice(self.read_selectors(config))
        ldid = self.ldid_for(config, 0)
        return await self.read(config.address(selector, line), limit, ldid=ldid)

    async def read_lines(
        self,
        config: RegionConfig,
        lines: Numbers = None,
        selectors: int | Iterable[int] = 0,
        *,
        alone: bool = False,
        apart: int = 0,
        wait: bool = True,
        limit: int | None = None,
    ) -> list[Any]:
        """Read each of some lines by each of some selectors, lines in the outer loop.

        Args:
            config: descriptor of the region.
            lines: lines to read; None for all.
            selectors: selectors to read each line by; 0 is the result.
            alone: wait for the response of each read before the next one.
            apart: cycles to wait after each read.
            wait: wait for all responses at the end.
            limit: maximum number of requests in flight on a line.

        Returns:
            The transactions, in order.
        """
        sent = []
        chosen = _each(selectors, 0)
        for line in _each(lines, config.lines):
            for selector in chosen:
                sent.append(await self.read_region(config, line, selector, limit))
                await self.pace(alone, apart)
        if wait:
            await self.drain()
        return sent

    async def read_views(self, config: RegionConfig, line: int) -> None:
        """Read a line by every selector of `read_selectors`, in random order, then drain."""
        await self.read_lines(config, line, self.shuffled(self.read_selectors(config)))

    def crowd_layout(self) -> RegionConfig:
        """Place, without a commit, a G_BINARY region of at least twice as many lines as slots."""
        return self.layout.region(Mode.G_BINARY, (2 * self.hw.slots - 1).bit_length(), 1)

    async def crowd_out(self, crowd: RegionConfig) -> None:
        """Evict the lines of all other regions by reads of up to twice as many lines as slots.

        `crowd` is the region to read, usually of `crowd_layout`.
        """
        await self.drain()
        await self.read_lines(crowd, range(min(crowd.lines, 2 * self.hw.slots)))
