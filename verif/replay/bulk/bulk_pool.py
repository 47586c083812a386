# SPDX-License-Identifier: Apache-2.0
"""Pool of a collective on D devices of RTL over the bulk transport: regions, bells and places.

A device has two bell regions, for collectives of even and odd number, and two regions of the route
if it adds. Plain memory begins at address 0, with the places of even collectives first.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

import numpy as np

from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig, state_lines
from models.register_map import REG_MAP
from neuron_fabric.collectives.schedule import DONE, Adder, Contribute, Op, Schedule, Signal
from neuron_fabric.errors import LineError
from verif.host.bulk_device import BulkDevice, BulkFault, BulkModel
from verif.host.c_interface import Block, Kind, operations, register_ops
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming
from verif.replay.bulk.epoch_block import commit_ops
from verif.replay.plan import log2_up

FIRST = 1
"""Number of the first collective of a pool: its regions are committed as if one had run before."""
_WINDOWS = 1 << 36
_BELLS, _ROUTE = 0, 2
"""Regions of even number; each next one is that of odd number."""
_ALIGN = 16
_ADDRESS = {name: one.address for name, one in REG_MAP.expand().items()}
_INIT_BUSY = REG_MAP.expand()["STATUS"].field("INIT_BUSY")
_CODE = REG_MAP.region_register("STATUS").field("CODE")


class PoolError(LineError):
    """Pool of devices that cannot run a schedule, or device that answered wrongly."""


class BulkPool:
    """Devices of RTL that hold the pool of a schedule; a context that closes them."""

    def __init__(
        self,
        model: BulkModel,
        folder: Path,
        schedule: Schedule,
        params: DeviceParams | None = None,
        memory: MemoryTiming = USUAL_MEMORY,
        seed: int = 1,
    ) -> None:
        """Start the devices and commit their regions.

        Args:
            model: Design, built for bulk runs with ``params``.
            folder: Folder for files of the simulators.
            schedule: Schedule of every collective of the pool.
            params: Parameters of the devices.
            memory: Timing of their memories.
            seed: Seed of the draws of the hosts.

        Raises:
            PoolError: A device has no room, refuses a commit or does not start.
        """
        self.schedule, self.params = schedule, params or DeviceParams()
        self._shift = max(0, (schedule.ranks - 1).bit_length() - 4)
        """BIND_SHIFT: an LD-ID has 2 to the power of it ranks."""
        self._number = FIRST
        self._configs = self._place()
        self._stack = ExitStack()
        try:
            self._threads = self._stack.enter_context(ThreadPoolExecutor(schedule.devices))
            self._devices = []
            for number in range(schedule.devices):
                own = folder / f"device{number}"
                own.mkdir(parents=True, exist_ok=True)
                device = model.open(own, self.params.mem_lines_log2, seed, memory)
                self._devices.append(self._stack.enter_context(closing(device)))
            for device in self._devices:
                self._open(device)
            self._give_done(FIRST - 1)
        except BulkFault as fault:
            self._stack.close()
            raise PoolError(fault) from None
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        """Return the pool."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all devices."""
        self._stack.close()

    def finish(self) -> None:
        """Give `DONE` for every rank, and commit the bells of the next collective."""
        self._give_done(self._number)
        self._number += 1
        region = _BELLS + self._number % 2
        ops = commit_ops(region, self._configs[region], self._number + 1)
        for device in self._devices:
            device.run(Block.of(ops))

    # -- places ---------------------------------------------------------------------------------
    @property
    def number(self) -> int:
        """Number of the present collective."""
        return self._number

    def ldid(self, rank: int) -> int:
        """Return the LD-ID of a rank."""
        return rank >> self._shift

    def plain(self, line: int) -> int:
        """Return the byte address of a line of plain memory, for the present parity."""
        return (self._number % 2 * self.schedule.room + line) * LINE_BYTES

    def bell(self, selector: int, number: int, back: int = 0) -> tuple[int, int]:
        """Return the device of a signal, and the byte address of its line at a selector."""
        config = self._configs[_BELLS + (self._number - back) % 2]
        return number % self.schedule.devices, config.address(selector, number)

    def route(self, selector: int, line: int) -> int:
        """Return the byte address of a line of the route's region at a selector."""
        return self._configs[_ROUTE + self._number % 2].address(selector, line)

    def turn_over(self) -> Any:
        """Return the operations of `Commit`: the region of the use before, for the next use."""
        region = _ROUTE + (self._number + 1) % 2
        return commit_ops(region, self._configs[region], self._number + 2)

    def shut(self) -> Any:
        """Return the operation of `Close`: the region of the use before."""
        region = _ROUTE + (self._number + 1) % 2
        return register_ops(Kind.REG_WRITE, [(_ADDRESS[f"REGION[{region}].CTRL"], 1)])

    def _place(self) -> list[RegionConfig]:
        """Return the regions: two of bells, two of the route if the device adds."""
        plan = self.schedule
        ops: list[Op] = [op for own in plan.streams for one in own for op in one.ops]
        signals = max((op.number for op in ops if isinstance(op, Signal)), default=DONE) + 1
        modes = [(Mode.G_BINARY, signals)] * 2
        if plan.adder is Adder.DEVICE:
            lines = max(op.line + op.count for op in ops if isinstance(op, Contribute))
            modes += [(Mode[str(plan.route)], lines)] * 2
        configs, state, window = [], 2 * plan.room, _WINDOWS
        for mode, lines in modes:
            log2 = log2_up(lines)
            size = LINE_BYTES << (log2 + 8)
            window = -(-window // size) * size
            state = -(-state // _ALIGN) * _ALIGN
            config = RegionConfig(
                *(window, state * LINE_BYTES, log2, plan.ranks, mode),
                strict=True,
                bind=True,
                bind_shift=self._shift,
                keep_sum=mode is Mode.FP32,
            )
            window += size
            state += state_lines(config, self.params.cnt_w)
            configs.append(config)
        if state > self.params.mem_lines:
            raise PoolError(
                f"{plan.collective} of {plan.lines:,} lines: {state:,} lines of memory on each "
                f"device, which has {self.params.mem_lines:,}; use fewer lines or more devices"
            )
        return configs

    def _open(self, device: BulkDevice) -> None:
        """Commit all regions of a device for their first use, and wait for its initialisation."""
        for region, config in enumerate(self._configs):
            device.run(Block.of(commit_ops(region, config, FIRST + region % 2)))
            code = CommitCode(_CODE.extract(_register(device, f"REGION[{region}].STATUS")))
            if code:
                raise PoolError(f"commit of region {region} was refused: {code.name}")
        while _INIT_BUSY.extract(_register(device, "STATUS")):
            pass

    def _give_done(self, number: int) -> None:
        """Give `DONE` of a collective for every rank."""
        ranks = range(self.schedule.ranks)
        ops = operations(len(ranks), Kind.WRITE)
        for rank in ranks:
            at, ops["address"][rank] = self.bell(rank, DONE, back=self._number - number)
            ops["ldid"][rank] = self.ldid(rank)
        self._devices[at].run(Block.of(ops, np.zeros((1, LINE_BYTES), np.uint8)))

    def run_phase(self, blocks: Mapping[int, Sequence[Block]]) -> None:
        """Run blocks on each device, by its number, each device in its thread.

        Raises:
            PoolError: A device broke a rule, or an assertion failed.
        """

        def run(number: int) -> None:
            for block in blocks[number]:
                self._devices[number].run(block)

        runs = {number: self._threads.submit(run, number) for number in blocks}
        for number, one in runs.items():
            try:
                one.result()
            except BulkFault as fault:
                raise PoolError(f"device {number}: {fault}") from None

    def figures(self) -> list[tuple[int, int, int]]:
        """Return cycles, slots of the busier direction, and lines of memory, of each device."""
        out = []
        for device in self._devices:
            now = device.figures()
            slots = max(_total(now.slots_to_device), _total(now.slots_from_device))
            out.append((now.cycles, slots, max(now.memory_reads, now.memory_writes)))
        return out


def _total(slots: Any) -> int:
    return int(np.ctypeslib.as_array(slots).sum())


def _register(device: BulkDevice, name: str) -> int:
    poll = Block.of(register_ops(Kind.REG_READ, [(_ADDRESS[name], 0)]))
    device.run(poll)
    return poll.value(0)
