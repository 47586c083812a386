# SPDX-License-Identifier: Apache-2.0
"""Base class of all virtual sequences: commits, traffic, and faults and stalls of the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pyuvm import uvm_sequence

from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from models.line_packing import Mode
from models.regions import (
    INFO_SELECTOR,
    PLANE_COUNT,
    PLANE_SELECTOR,
    RAW_SELECTOR,
    CommitCode,
    RegionConfig,
    records,
    sum_selectors,
)
from verif.env.region_layout import RegionLayout
from verif.sequences.line_data import line_for

if TYPE_CHECKING:
    from models.parameters import DeviceParams
    from verif.env.env import NfEnv
    from verif.env.registers import Registers
    from verif.mem.memory_config import MemConfig

RACE_LIMIT = 5
"""Maximum number of racing requests on one line: the scoreboard tries all of their orders."""
ANY = -1
"""In place of a worker: draw a worker for each contribution."""

T = TypeVar("T")
Numbers = int | Iterable[int] | None
"""One number, several numbers, or all that the region has (None)."""
Data = bytes | Callable[[int, int], bytes] | None
"""Content of a line, a function of worker and line that gives it, or a random legal line."""


def _each(chosen: Numbers, count: int) -> list[int]:
    if chosen is None:
        return list(range(count))
    return [chosen] if isinstance(chosen, int) else list(chosen)


class NfSequence(uvm_sequence):
    """Virtual sequence: traffic through `env.host`, register accesses through `env.registers`.

    A test that needs no class for its scenario uses this class directly. Keyword arguments of the
    constructor set the options of a subclass, which are its class attributes.
    """

    def __init__(self, env: NfEnv, **options: Any) -> None:
        super().__init__(type(self).__name__)
        self.env = env
        self.cfg = env.cfg
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
    def hw(self) -> DeviceParams:
        """Parameters of the device under test."""
        return self.cfg.hw

    @property
    def mem(self) -> MemConfig:
        """Knobs of the memory agent; a change takes effect in the next cycle."""
        return self.cfg.mem

    @property
    def registers(self) -> Registers:
        """Register access by name."""
        return self.env.registers

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        return self.sample(items, len(items))

    async def run(self) -> None:
        """Run the sequence without a sequencer and wait for its last response."""
        await self.start()
        await self.env.host.drain()

    async def cycles(self, count: int) -> None:
        """Wait for `count` cycles; return at once if there are none."""
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
        """Start a new epoch of a region.

        Args:
            region: number of the region.
            config: descriptor to write first; None commits the shadow registers as they are.
            expect: code that the device must report.
            ready: wait until the initialiser is idle.

        Raises:
            AssertionError: the device reports another code.
        """
        self.epoch = (self.epoch + self.choice((0, 1, 1, 2))) & 0xFFFF_FFFF
        code = await self.registers.commit(region, config, self.epoch)
        assert code == expect, f"commit of region {region} gave {code.name}, not {expect.name}"
        if ready:
            await self.initialised()

    async def commit_all(self, *configs: RegionConfig, ready: bool = False) -> None:
        """Commit descriptors to regions 0, 1 and so on; wait for the initialiser if `ready`."""
        for region, config in enumerate(configs):
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
        """Place a new region in memory, commit it and return its descriptor.

        Args:
            region: number of the region; None draws one.
            mode: aggregation mode.
            lines_log2: log2 of the number of lines.
            workers: number of workers.
            ready: wait until the initialiser has written all records.
            options: other fields of the descriptor.
        """
        config = self.layout.region(mode, lines_log2, workers, **options)
        number = self.any_region() if region is None else region
        await self.commit(number, config, ready=ready)
        return config

    async def start_regions(
        self, *shapes: tuple[Mode, int, int], ready: bool = False
    ) -> list[RegionConfig]:
        """Place regions of (mode, log2 of lines, workers), and commit them to regions 0, 1, ..."""
        configs = [self.layout.region(*shape) for shape in shapes]
        await self.commit_all(*configs, ready=ready)
        return configs

    def any_region(self) -> int:
        """Draw the number of a region."""
        return self.randrange(self.hw.regions)

    async def initialised(self) -> None:
        """Wait until the initialiser is idle."""
        while await self.registers.read("STATUS.INIT_BUSY"):
            pass

    async def close(self, region: int) -> None:
        """End the round of a region."""
        await self.registers.write(f"REGION[{region}].CTRL", 1)

    async def set_registers(self, **values: int) -> None:
        """Write registers of the device, in this order."""
        for name, value in values.items():
            await self.registers.write(name, value)

    async def read_registers(self, *names: str, region: int | None = None) -> None:
        """Read registers, of `region` if given; the register predictor checks the values."""
        prefix = "" if region is None else f"REGION[{region}]."
        for name in names:
            await self.registers.read(prefix + name)

    # -- memory -------------------------------------------------------------------------------
    @contextmanager
    def memory(self, **knobs: Any) -> Iterator[None]:
        """Set knobs of the memory (fields of `MemConfig`) inside a `with` block."""
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
        """Stall channels of the memory port inside an `async with` block, then drain.

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
        """Let the memory answer accesses of some lines with an error inside a `with` block.

        Args:
            reads: memory lines that cannot be read.
            writes: memory lines that cannot be written.
            known: tell the reference model in advance, as required for ordinary lines and FP32
                data. The scoreboard learns of errors on records from the memory port.
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

    def data_line(self, config: RegionConfig, worker: int, line: int) -> int:
        """Return the memory line that holds the data of an FP32 worker."""
        return config.state_line + worker * config.lines + line

    def bookkeeping(self, config: RegionConfig, line: int) -> int:
        """Return the memory line that holds the bookkeeping of a line, the start of its record."""
        first, distance = records(config, self.hw.cnt_w)
        return first + line * distance

    # -- traffic ------------------------------------------------------------------------------
    async def issue(self, msg: M2SMessage, limit: int | None = None) -> Any:
        """Pass a request to the driver and return its `Transaction` without waiting for its end.

        Args:
            msg: the request.
            limit: maximum number of requests in flight on its line; the call waits until then.
        """
        return await self.env.host.issue(msg, limit)

    async def call(self, msg: M2SMessage) -> S2MMessage:
        """Send a request and return its response."""
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
    ) -> M2SRwD:
        """Return a MemWr, or with `be` a MemWrPtl. The LD-ID is drawn unless given."""
        opcode = RwdOp.MEM_WR if be is None else RwdOp.MEM_WR_PTL
        enables = BE_ALL if be is None else be
        who = self.rng.randrange(16) if ldid is None else ldid
        return M2SRwD(opcode, 0, addr, ldid=who, data=data, be=enables, poison=poison)

    def read_msg(self, addr: int, ldid: int | None = None) -> M2SReq:
        """Return a MemRd or a MemRdData. The LD-ID is drawn unless given."""
        opcode = ReqOp.MEM_RD if self.random() < 0.8 else ReqOp.MEM_RD_DATA
        who = self.rng.randrange(16) if ldid is None else ldid
        return M2SReq(opcode, 0, addr, ldid=who)

    async def write(self, addr: int, data: bytes, limit: int | None = None, **fields: Any) -> Any:
        """Issue a write and return its transaction."""
        return await self.issue(self.write_msg(addr, data, **fields), limit)

    async def read(self, addr: int, limit: int | None = None, **fields: Any) -> Any:
        """Issue a read and return its transaction."""
        return await self.issue(self.read_msg(addr, **fields), limit)

    async def fetch(self, addr: int, **fields: Any) -> S2MDRS:
        """Read a line and return its response."""
        response = await self.call(self.read_msg(addr, **fields))
        assert isinstance(response, S2MDRS), f"read of {addr:#x} answered by {response}"
        return response

    async def drain(self) -> None:
        """Wait until every request is answered."""
        await self.env.host.drain()

    async def pace(self, alone: bool, apart: int) -> None:
        """Wait after a request: until all are answered if `alone`, then for `apart` cycles."""
        if alone:
            await self.drain()
        await self.cycles(apart)

    # -- aggregation --------------------------------------------------------------------------
    def ldid_for(self, config: RegionConfig, worker: int) -> int:
        """Return an LD-ID that the region admits for this worker."""
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
        """Issue the contribution of a worker to a line and return its transaction.

        Args:
            config: descriptor of the region.
            worker: number of the worker.
            line: index of the line in the region.
            data: content; None draws a legal line of the mode.
            limit: maximum number of requests in flight on the line.
            fields: other fields of the write.
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
        """Contribute as each worker to each line, workers in the outer loop.

        Args:
            config: descriptor of the region.
            lines: lines to contribute to.
            workers: contributing workers; `ANY` draws one for each line.
            data: content of the contributions.
            alone: wait for the response of each contribution before the next one.
            apart: cycles to wait after each contribution.
            wait: drain at the end.
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

    async def contribute_each(
        self, work: Iterable[tuple[RegionConfig, int, int]], **fields: Any
    ) -> None:
        """Contribute for each (region, worker, line), in order, then drain.

        The work is drawn as it is sent if `work` is a generator; `fields`: other arguments of
        `contribute`.
        """
        for config, worker, line in work:
            await self.contribute(config, worker, line, **fields)
        await self.drain()

    async def read_each(
        self, work: Iterable[tuple[RegionConfig, int, int | None]], limit: int | None = None
    ) -> None:
        """Read each (region, line, selector), in order, then drain; None draws a legal selector."""
        for config, line, selector in work:
            await self.read_region(config, line, selector, limit)
        await self.drain()

    async def read_addresses(self, addresses: Iterable[int], limit: int | None = None) -> None:
        """Read each of these addresses, in order, then drain."""
        for address in addresses:
            await self.read(address, limit)
        await self.drain()

    def read_selectors(self, config: RegionConfig) -> list[int]:
        """Return the selectors that may be read in the region's mode, at any line."""
        if config.mode is Mode.IDENTITY:
            return list(range(256))
        if config.mode is Mode.FP32:
            return [0, INFO_SELECTOR, *range(64, 64 + config.workers)]
        planes = [INFO_SELECTOR, *range(PLANE_SELECTOR, PLANE_SELECTOR + PLANE_COUNT)]
        return [*planes, *sum_selectors(config)] if config.mode.bits else [0, *planes]

    @staticmethod
    def part_selector(config: RegionConfig) -> int:
        """Return a selector that shows part of the state of a line: a plane, or worker 0 (FP32)."""
        return RAW_SELECTOR if config.mode is Mode.FP32 else PLANE_SELECTOR

    async def read_region(
        self, config: RegionConfig, line: int, selector: int | None = None, limit: int | None = None
    ) -> Any:
        """Issue a read of a line by a selector (None draws a legal one)."""
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
        """Read each line by each selector, lines in the outer loop.

        Args:
            config: descriptor of the region.
            lines: lines to read.
            selectors: selectors to read each line by; 0 is the result.
            alone: wait for the response of each read before the next one.
            apart: cycles to wait after each read.
            wait: drain at the end.
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
        """Read a line by every legal selector, in random order."""
        chosen = self.read_selectors(config)
        await self.read_lines(config, line, self.shuffled(chosen))

    def crowd_layout(self) -> RegionConfig:
        """Place a region with twice as many lines as there are slots."""
        return self.layout.region(Mode.G_BINARY, (2 * self.hw.slots - 1).bit_length(), 1)

    async def crowd_out(self, crowd: RegionConfig) -> None:
        """Evict the lines of all other regions: read lines of `crowd` into every slot."""
        await self.drain()
        await self.read_lines(crowd, range(min(crowd.lines, 2 * self.hw.slots)))
