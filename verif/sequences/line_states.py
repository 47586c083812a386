# SPDX-License-Identifier: Apache-2.0
"""Every state of a line, with every operation on it: in its slot, and just come from memory.

A line is clean, poisoned or lost; its state is in its slot, or is fetched by the operation. One
request at a time: what each of them finds is known. Needs few slots.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from cocotbext.cxl.wire.messages import M2SMessage
from models.line_packing import LINE_BYTES, Mode
from models.regions import INFO_SELECTOR, VIEW_SELECTORS, RegionConfig
from verif.axi import Resp
from verif.sequences.line_data import ZEROS, line_for
from verif.sequences.parked_programs import ParkedBase

WORKERS = 8
STATES = ("clean", "poisoned", "lost")
MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
ILLEGAL = int.from_bytes(b"\x55" * LINE_BYTES, "little")


class StateBase(ParkedBase):
    """Lines in a given state. `strict` of the region is the caller's."""

    async def region_of(self, mode: Mode, lines_log2: int, strict: bool = False) -> RegionConfig:
        """A committed region with its records written. Its lower half has 2^`lines_log2` lines, of
        which the last one has a record: the others share its mark, so each is fetched."""
        config = self.layout.region(mode, lines_log2 + 1, WORKERS, strict=strict)
        await self.commit(self.region, config)
        await self.initialised()
        await self.away(config, config.lines // 2 - 1)
        return config

    async def put(self, config: RegionConfig, worker: int, line: int, poison: bool = False) -> None:
        """A contribution by itself."""
        data = line_for(config.mode, self.rng)
        await self.contribute(config, worker, line, data, poison=poison)
        await self.drain()

    async def get(self, config: RegionConfig, line: int, part: bool, worker: int = 0) -> None:
        """A read by itself: of the result, or of a plane or of a worker's own line."""
        selector = 0 if not part else 8 if config.mode.low_bit else 64 + worker
        await self.read_region(config, line, selector)
        await self.drain()

    async def in_a_row(
        self, config: RegionConfig, line: int, messages: Sequence[M2SMessage]
    ) -> None:
        """Operations on a line that has left, each of which finds the state that the one before it
        is about to write. Two reads of INFO come before them: the first one goes along with the
        fill, the second one leaves clocks later, and from then on one leaves in each clock."""
        info = self.read_msg(config.address(INFO_SELECTOR, line), self.ldid_for(config, 0))
        self.env.cfg.mem.r_stall = 1.0
        await self.in_order([info, info, *messages])
        await self.release()

    async def bring(self, config: RegionConfig, state: str, line: int, seen: int) -> None:
        """Brings an untouched line into a state, with contributions of workers 0..`seen`-1."""
        if state == "lost":  # memory cannot say what its record holds
            errors = self.env.cfg.mem.read_error_lines
            errors.add(self.record(config, line)[0])
            await self.get(config, line, part=False)
            errors.clear()
        elif state == "poisoned":
            await self.put(config, WORKERS - 1, line, poison=True)
        for worker in range(seen):
            await self.contribute(config, worker, line)
        await self.drain()


class ReadStateSequence(StateBase):
    """Reads of lines with no, some, all but one and all contributions; STRICT or not."""

    async def body(self) -> None:
        await self.prepare()
        for mode, strict in itertools.product(MODES, (False, True)):
            config = await self.region_of(mode, 5, strict)
            shapes = [
                (state, seen, part)
                for state in STATES
                for seen in (0, 3, WORKERS - 1, WORKERS)
                for part in (False, True)
            ]
            for line, (state, seen, part) in enumerate(shapes):
                await self.bring(config, state, line, seen)
                await self.reads(config, line, part)
            await self.leave()
            for line, (_, _, part) in enumerate(shapes):
                await self.reads(config, line, part)
            await self.leave()
            for line, (_, _, part) in enumerate(shapes):
                await self.in_a_row(config, line, self.kinds(config, line, part))

    def kinds(self, config: RegionConfig, line: int, part: bool) -> list[M2SMessage]:
        """Both reads of a line, one kind first; FP32 also of the worker who comes last."""
        kinds = ["plane", "vote"] if config.mode.low_bit else ["raw", "sum"]
        reads = [self.message(config, kind, line) for kind in kinds[:: 1 if part else -1]]
        if config.mode is Mode.FP32:
            reads.append(self.message(config, "raw", line, WORKERS - 1))
        return reads

    async def reads(self, config: RegionConfig, line: int, part: bool) -> None:
        """Each read by itself."""
        for message in self.kinds(config, line, part):
            await self.call(message)


class OwnMarkSequence(StateBase):
    """Lines that share the mark of nf_written with no other: what a line left in memory comes back
    by its own mark alone, also where that is no more than poison, or a loss."""

    async def body(self) -> None:
        await self.prepare()
        for mode in MODES:
            config = self.layout.region(mode, 1, WORKERS)
            for state, seen in itertools.product(STATES, (0, 1, WORKERS)):
                line = self.rng.randrange(config.lines)
                await self.commit(self.region, config)
                await self.initialised()
                if state == "lost":  # there must be a record, which cannot be read
                    await self.away(config, line)
                await self.bring(config, state, line, seen)
                await self.leave()
                for selector in (0, INFO_SELECTOR):
                    await self.read_region(config, line, selector)
                    await self.drain()


class WriteStateSequence(StateBase):
    """Writes of new workers and of those already seen, good and poisoned."""

    async def body(self) -> None:
        await self.prepare()
        for mode in MODES:
            config = await self.region_of(mode, 6)
            shapes = [
                (state, seen, poison, where)
                for state in STATES
                for seen in (False, True)
                for poison in (False, True)
                for where in ("never left", "fetched", "back", "forwarded")
            ]
            for line, (state, _, _, where) in enumerate(shapes):
                await self.bring(config, state, line, 3)
                if where == "never left":
                    await self.finish(config, line, shapes[line][1:3])
            await self.leave()
            for line, (_, seen, poison, where) in enumerate(shapes):
                if where == "back":
                    await self.get(config, line, part=False)
                if where != "never left":
                    await self.finish(config, line, (seen, poison), where == "forwarded")

    async def finish(
        self, config: RegionConfig, line: int, how: tuple[bool, bool], behind: bool = False
    ) -> None:
        """The write, behind an operation in the clock before or by itself; and a look at what it
        has done."""
        seen, poison = how
        worker = 1 if seen else 5
        if behind:
            data, ldid = line_for(config.mode, self.rng), self.ldid_for(config, worker)
            address = config.address(worker, line)
            message = self.write_msg(address, data, ldid, poison=poison)
            await self.in_a_row(config, line, [message])
        else:
            await self.put(config, worker, line, poison)
        await self.get(config, line, part=False)


class DuplicateSequence(StateBase):
    """Second contributions with the same or other data, and illegal codes of every number."""

    async def body(self) -> None:
        await self.prepare()
        for mode in MODES[:2]:
            config = await self.region_of(mode, 3)
            kinds = list(itertools.product((False, True), (False, True)))
            first = {}
            for line, kind in enumerate(kinds):
                first[line] = line_for(mode, self.rng)
                await self.contribute(config, 0, line, first[line])
                await self.drain()
                await self.again(config, line, first[line], *kind)
            await self.leave()
            for line, kind in enumerate(kinds):
                for _ in range(2):  # fetched by it, and back in its slot
                    await self.again(config, line, first[line], *kind)
                await self.get(config, line, part=True)
        await self.codes(await self.region_of(Mode.G_TERNARY, 2))

    async def again(
        self, config: RegionConfig, line: int, data: bytes, same: bool, poison: bool
    ) -> None:
        """A duplicate; changes nothing."""
        again = data if same else bytes(byte ^ 0xFF for byte in data)
        await self.contribute(config, 0, line, again, poison=poison)
        await self.drain()

    async def codes(self, config: RegionConfig) -> None:
        """1, some and 256 illegal codes: of a new worker, of one already seen, of poisoned data."""
        few = 1 << 2 * self.rng.randrange(256)
        some = few | ILLEGAL & (1 << 200) - 1
        for line, word in enumerate((few, some, ILLEGAL)):
            data = word.to_bytes(LINE_BYTES, "little")
            for worker, poison in ((0, False), (0, False), (1, True)):
                await self.contribute(config, worker, line, data, poison=poison)
                await self.drain()
            await self.get(config, line, part=False)
            await self.env.registers.read("ILLEGAL_CODE")


class StoredStateSequence(StateBase):
    """Answers of memory to FP32 stores that come in consecutive clocks, good ones and refused."""

    async def body(self) -> None:
        await self.prepare()
        config = await self.region_of(Mode.FP32, 4)
        for line, (state, known) in enumerate(itertools.product(STATES, (0, WORKERS))):
            await self.bring(config, state, line, known)
            # A worker alone: its answer finds the state in the slot.
            await self.burst(config, line, [(6, True)])
            await self.burst(
                config, line, [(0, True), (1, True), (2, False), (3, True), (4, False)]
            )
            await self.get(config, line, part=False)
        for line in range(6, 10):  # alone, each on a line that no other has touched
            state = STATES[line % 3]
            await self.bring(config, state, line, 1 + line % 2)
            for worker in (0, 6) if line < 9 else (6, 0):
                await self.burst(config, line, [(worker, False)])
        for line in (10, 11):
            await self.bring(config, "clean", line, 4 * (line - 10))
            await self.burst(config, line, [(0, True), (1, False), (2, True), (3, False)])
        for selector in VIEW_SELECTORS:  # what memory refused marks its line, and is no line
            await self.read_region(config, 0, selector)
        await self.drain()
        await self.partial_stores(await self.region_of(Mode.FP32, 5))

    async def burst(self, config: RegionConfig, line: int, workers: list[tuple[int, bool]]) -> None:
        """Stores of workers (number, taken or refused); memory answers to them back to back."""
        mem, model = self.env.cfg.mem, self.env.scoreboard.model
        refused = {
            config.state_line + worker * config.lines + line for worker, good in workers if not good
        }
        await self.get(config, line, part=False)
        mem.write_error_lines.update(refused)
        model.write_errors.update(refused)
        mem.b_stall = 1.0
        for worker, _ in workers:
            await self.contribute(config, worker, line)
        await self.env.clocks(60 + 10 * len(workers))
        mem.b_stall = 0.0
        await self.drain()
        mem.write_error_lines.clear()
        model.write_errors.clear()

    async def partial_stores(self, config: RegionConfig) -> None:
        """Whole and partial stores, clean and poisoned, of a worker's first and second line."""
        be = {"whole": None, "none": 0, "one": 1 << self.rng.randrange(64), "all": (1 << 64) - 1}
        be["mixed"] = self.rng.getrandbits(64) & ~1 | 6
        shapes = itertools.product((False, True), be.values(), (False, True))
        for line, (again, enables, poison) in enumerate(shapes):
            if again:
                await self.put(config, 2, line)
            data = line_for(Mode.FP32, self.rng)
            await self.contribute(config, 2, line, data, be=enables, poison=poison)
            await self.drain()
            await self.get(config, line, True, 2)
        self.env.cfg.mem.latency = (70, 70)
        for line in range(20, 32):  # memory takes its time for parts of a line
            for _ in range(2):
                await self.contribute(config, 3, line, be=1 << line, limit=1)
        await self.drain()
        self.env.cfg.mem.latency = (3, 3)


class BadBeatSequence(StateBase):
    """An error of each kind, and poison, in each beat of a record of each mode, one at a time."""

    async def body(self) -> None:
        await self.prepare()
        mem = self.env.cfg.mem
        for mode in MODES:
            config = self.layout.region(mode, 5, 64, keep_sum=mode is Mode.FP32)
            await self.commit(self.region, config)
            await self.initialised()
            beats = len(self.record(config, 0))
            kinds = ("SLVERR", "DECERR", "poison")
            shapes = list(itertools.product(range(beats), kinds))
            for line, (beat, _) in enumerate(shapes):  # as many workers as need the bad plane
                count = 1 << max(beat - 1, 0) if mode.low_bit else 64
                for worker in self.rng.sample(range(64), count):
                    await self.contribute(config, worker, line)
                await self.drain()
                if not mode.low_bit:
                    await self.get(config, line, part=False)  # its sum is kept
            await self.leave()
            for line, (beat, kind) in enumerate(shapes):
                bad = self.record(config, line)[beat]
                if kind == "poison":
                    self.env.mem.store.poison(bad)
                else:
                    mem.error_resps = (Resp[kind],)
                    mem.read_error_lines.add(bad)
                await self.get(config, line, part=False)
                mem.read_error_lines.clear()
                await self.get(config, line, part=True)
            mem.error_resps = (Resp.SLVERR, Resp.DECERR)
            await self.untrusted(config)

    async def untrusted(self, config: RegionConfig) -> None:
        """A refused write-back: no record of the region is believed till the next commit."""
        await self.commit(self.region)
        errors = self.env.cfg.mem.write_error_lines
        errors.add(self.record(config, 0)[0])
        for line in range(4):
            await self.contribute(config, 0, line, ZEROS, limit=1)
        await self.leave()
        errors.clear()
        for line in range(8):
            await self.get(config, line, part=False)
        await self.commit(self.region)
        await self.initialised()
        for line in range(8):
            await self.get(config, line, part=False)
