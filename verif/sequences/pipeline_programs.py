# SPDX-License-Identifier: Apache-2.0
"""Operations that the engine runs in consecutive clocks, in the order in which they are written.

They are parked with lines whose records memory does not give. When it does, an operation a clock
leaves, of each line that is there in turn. Needs few slots: lines leave the chip when others are
read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from cocotbext.cxl.wire.messages import M2SMessage
from models.line_packing import LINE_BYTES, Mode
from models.regions import INFO_SELECTOR, VIEW_SELECTORS, RegionConfig
from verif.axi import Resp
from verif.sequences.line_data import ZEROS, line_for
from verif.sequences.memory_faults import RecordSequence

LOW_KINDS = ("contribute", "vote", "plane")
FP_KINDS = ("store", "sum", "raw")
APART = 24
"""Clocks between two requests that must reach the engine in order: reads and writes travel by
different channels of the link."""
MOST_PARKED = 14
"""Operations of a line that are parked at once, to be answered clock by clock."""
LIST = 8
"""Operations of a line that are parked at once, to leave clock by clock."""
WORKERS = 16


class ParkedBase(RecordSequence):
    """`crowd`: a region of lines that take the slots."""

    async def prepare(self, region: int | None = None) -> None:
        """Commits the crowd: the region with the highest number of the device, or another one."""
        number = self.cfg.hw.regions - 1 if region is None else region
        lines_log2 = (2 * self.cfg.hw.slots - 1).bit_length()
        self.crowd = self.layout.region(Mode.G_BINARY, lines_log2, 1)
        await self.commit(number, self.crowd)
        await self.initialised()

    async def leave(self) -> None:
        """Every line leaves the chip: as many others as there are slots, twice over, are read."""
        await self.drain()
        for line in range(2 * self.cfg.hw.slots):
            await self.read_region(self.crowd, line, 0)
        await self.drain()

    async def away(self, config: RegionConfig, *lines: int) -> None:
        """Memory has records of these lines and of the crowd; no slot has the lines."""
        await self.drain()
        for line in lines:
            await self.contribute(config, config.workers - 1, line)
        for line in range(self.cfg.hw.slots - 1):
            await self.contribute(self.crowd, 0, line)
        await self.drain()
        for line in range(self.cfg.hw.slots, 2 * self.cfg.hw.slots):
            await self.read_region(self.crowd, line, 0)
        await self.drain()

    async def release(self) -> None:
        """Memory answers, and the queue runs dry."""
        self.env.cfg.mem.b_stall = self.env.cfg.mem.r_stall = 0.0
        await self.drain()

    def message(self, config: RegionConfig, kind: str, line: int, worker: int = 0) -> M2SMessage:
        """An operation of the engine by its name; "refused store": of poisoned data."""
        if kind in ("contribute", "store", "poisoned store"):
            ldid, data = self.ldid_for(config, worker), line_for(config.mode, self.rng)
            address = config.address(worker, line)
            return self.write_msg(address, data, ldid, poison=kind == "poisoned store")
        selector = {"vote": 0, "sum": 0, "plane": 8, "raw": 64 + worker}[kind]
        return self.read_msg(config.address(selector, line), self.ldid_for(config, 0))

    async def in_order(self, messages: Sequence[M2SMessage]) -> None:
        """Issues requests that reach the engine in this order."""
        for message in messages:
            await self.issue(message)
            await self.env.clocks(APART)


class PipelineSequence(ParkedBase):
    """Every distance of two operations on one line, and every set of stages that hold it."""

    async def body(self) -> None:
        await self.prepare()
        mode = self.rng.choice((Mode.G_BINARY, Mode.G_TERNARY))
        self.low = self.layout.region(mode, 4, WORKERS)
        self.fp32 = self.layout.region(Mode.FP32, 4, WORKERS)
        await self.commit(0, self.low)
        await self.commit(1, self.fp32)
        await self.initialised()
        for region, (config, every) in enumerate(((self.low, LOW_KINDS), (self.fp32, FP_KINDS))):
            for kind in every:
                await self.commit(region)
                for line in range(config.lines):  # memory has no record of it
                    await self.issue(self.message(config, kind, line))
                await self.drain()
        chain = "contribute contribute vote contribute plane vote vote plane plane contribute"
        low = chain.split()
        for gap in range(1, self.cfg.hw.slots + 1):
            for config, kinds in ((self.low, LOW_KINDS), (self.fp32, ("sum", "raw"))):
                for kind in kinds:
                    await self.program(config, [kind] * LIST, gap)
            for _ in range(3):
                await self.program(self.low, low, gap)
                self.rng.shuffle(low)
            for kind in ("sum", "raw", "store"):
                await self.program(self.fp32, [*["poisoned store"] * 4, kind], gap)
            await self.program(self.fp32, ["sum", "sum", "raw", "sum", "raw", "raw", "sum"], gap)

    async def program(self, config: RegionConfig, kinds: Sequence[str], gap: int) -> None:
        """Operations on one line, `gap` clocks apart while others wait for as many lines; then
        closer."""
        line = self.rng.randrange(config.lines)
        await self.away(config, line)
        self.env.cfg.mem.r_stall = 1.0
        messages = []
        for other in range(gap - 1):  # filled first
            count = 3 * gap + self.rng.randrange(2, len(kinds) + 2)
            messages += [self.message(self.crowd, "vote", other) for _ in range(count)]
        for worker, kind in enumerate(kinds):
            messages.append(self.message(config, kind, line, worker % (WORKERS - 1)))
        for message in messages:
            await self.issue(message)
            await self.env.clocks(4)
        await self.env.clocks(APART)
        await self.release()


class HeldBackSequence(ParkedBase):
    """Operations that come in the very clock in which one of their line leaves the queue; and
    lines that are filled a few clocks before they are used."""

    async def body(self) -> None:
        await self.prepare()
        low = self.layout.region(Mode.G_BINARY, 4, WORKERS)
        fp32 = self.layout.region(Mode.FP32, 4, WORKERS)
        await self.commit(0, low)
        await self.commit(1, fp32)
        await self.initialised()
        pairs = [(low, earlier, later) for earlier in LOW_KINDS for later in LOW_KINDS]
        pairs += [(fp32, "poisoned store", kind) for kind in ("sum", "raw")]
        pairs += [(fp32, one, other) for one in ("sum", "raw") for other in FP_KINDS]
        for config, earlier, later in pairs:
            for delay in (1, 6, 12, 18):
                await self.meet(config, earlier, later, delay)
        kept = await self.kept_sum()
        near = [pair for pair in pairs if pair[2] != "store"]
        for config, earlier, later in (*near, (fp32, "store", "store"), (kept, "sum", "store")):
            await self.apart(config, earlier, later)
        uses = [(low, kind) for kind in LOW_KINDS] + [(fp32, kind) for kind in FP_KINDS]
        for config, kind in uses:
            await self.meet_fill(config, kind)
        for delay in range(8):
            await self.land(fp32, delay)
        for kind in FP_KINDS:
            for delay in range(-8, 16):
                await self.after_store(fp32, kind, delay)
        for gap in range(1, 6):
            await self.answers(fp32, gap)

    async def meet(self, config: RegionConfig, earlier: str, later: str, delay: int) -> None:
        """Eight operations leave the queue while others of their line come."""
        line = self.rng.randrange(config.lines)
        await self.away(config, line)
        self.env.cfg.mem.r_stall = 1.0
        for number in range(6):
            await self.issue(self.message(config, earlier, line, number % 4))
        await self.env.clocks(3 * APART)
        for number in range(3):
            await self.issue(self.message(config, later, line, 4 + number))
        await self.env.clocks(delay)
        await self.release()

    async def kept_sum(self) -> RegionConfig:
        """A line whose sum is kept when it was read."""
        config = self.layout.region(Mode.FP32, 0, 2, keep_sum=True)
        await self.commit(2, config)
        await self.initialised()
        for worker in range(config.workers):
            await self.contribute(config, worker, 0)
        await self.drain()
        return config

    async def apart(self, config: RegionConfig, earlier: str, later: str) -> None:
        """An operation some clocks behind another one, on a line that is there."""
        for delay in range(12):
            await self.read_region(config, 0, 0)
            await self.drain()
            await self.issue(self.message(config, earlier, 0))
            if delay:
                await self.env.clocks(delay)
            await self.issue(self.message(config, later, 0, 1))
            await self.drain()

    async def land(self, config: RegionConfig, delay: int) -> None:
        """Memory answers to a store `delay` clocks after the record of its line may come."""
        mem = self.env.cfg.mem
        await self.away(config, 0)
        mem.r_stall = mem.b_stall = 1.0
        await self.issue(self.message(config, "store", 0))
        await self.env.clocks(2 * APART)
        mem.r_stall = 0.0
        if delay:
            await self.env.clocks(delay)
        await self.release()

    async def after_store(self, config: RegionConfig, kind: str, delay: int) -> None:
        """An operation comes around the clock in which memory has answered to a store."""
        mem = self.env.cfg.mem
        await self.read_region(config, 0, 0)
        await self.drain()
        mem.b_stall = 1.0
        await self.issue(self.message(config, "store", 0, 1))
        await self.env.clocks(2 * APART)
        if delay < 0:
            mem.b_stall = 0.0
            await self.env.clocks(-delay)
        await self.issue(self.message(config, kind, 0, 2))
        if delay > 0:
            await self.env.clocks(delay)
        await self.release()

    async def meet_fill(self, config: RegionConfig, kind: str) -> None:
        """An operation comes around the clock in which its line is filled."""
        mem = self.env.cfg.mem
        mem.latency = (APART, APART)
        for delay in range(20, 52):
            line = delay % config.lines  # not in its slot: there are more lines than slots
            mem.b_stall = float(kind == "store")  # memory answers when both are there
            await self.issue(self.message(config, kind, line, 1))
            await self.env.clocks(delay)
            await self.issue(self.message(config, kind, line, 2))
            await self.env.clocks(APART)
            await self.release()
        mem.latency = (3, 3)

    async def answers(self, config: RegionConfig, gap: int) -> None:
        """Memory answers to stores of one line, `gap` clocks apart."""
        mem = self.env.cfg.mem
        await self.read_region(config, 0, 0)
        await self.drain()
        mem.b_stall = 1.0
        for worker in range(3):
            await self.issue(self.message(config, "store", 0, worker))
        await self.env.clocks(4 * APART)
        for _ in range(3):
            mem.b_stall = 0.0
            await self.env.clocks(1)
            mem.b_stall = 1.0
            if gap > 1:
                await self.env.clocks(gap - 1)
        await self.release()


class LookupSequence(ParkedBase):
    """How a read and a write find their line, in each mode, for each class of W."""

    beside: RegionConfig

    async def body(self) -> None:
        await self.prepare()
        self.beside = self.layout.region(Mode.FP32, 0, WORKERS)
        await self.commit(1, self.beside)
        rng = self.rng
        shapes = [1, 2, 3, rng.choice((7, 15, 31)), rng.choice((4, 8, 16, 32))]
        shapes += [rng.choice((5, 9, 17, 33)), 63, 64, 11 + 2 * rng.randrange(2)]
        shapes += [rng.choice((6, 10, 12, 20, 34, 62))]
        for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
            for workers in rng.sample(shapes, len(shapes)):
                await self.shape(self.layout.region(mode, 4, workers))

    async def shape(self, config: RegionConfig) -> None:
        """One region: a read and a write by every way to a line."""
        rng, slots = self.rng, self.cfg.hw.slots
        result = "sum" if config.mode is Mode.FP32 else "vote"
        write = "store" if config.mode is Mode.FP32 else "contribute"
        worker = rng.randrange(config.workers)
        await self.commit(0, config)
        await self.initialised()

        async def one(kind: str, line: int) -> None:
            await self.issue(self.message(config, kind, line, worker), 1)
            await self.drain()

        await one(result, 0)
        await self.commit(0)  # its slot is free again
        await one(write, 1)
        await self.leave()
        for line in range(slots):  # what was only read makes room
            await one(write, line)
        await one(result, slots)  # what was written, too
        await one(write, slots + 1)
        await one(write, slots + 1)
        await one(result, slots + 1)
        await self.leave()
        await one(result, slots + 2)
        self.env.cfg.mem.latency = (40, 40)
        await self.leave()
        for kind in (result, result, write):  # the line is not there yet
            await self.issue(self.message(config, kind, 0, worker))
        await self.drain()
        if config.mode is Mode.FP32:
            self.env.cfg.mem.latency = (2 * APART, 2 * APART)
            await self.under_store(config, worker)
            await self.no_room(config, worker)
        self.env.cfg.mem.latency = (3, 3)
        await self.meet_list(config, result)
        for kind in (result, write):
            await self.commit(0)
            await self.leave()
            await one(kind, 0)  # memory has no record of it
            for line in range(1, slots + 1):
                await one(write, line)
            await one(kind, slots + 1)
            await self.leave()
            await self.commit(self.cfg.hw.regions - 1)  # the crowd's slots are free
            await one(kind, 1)

    async def no_room(self, config: RegionConfig, worker: int) -> None:
        """Stores, and sums, of another line take all the room at their exit."""
        mem = self.env.cfg.mem
        for one in (config, self.beside):
            await self.contribute(one, 0, 0)
            await self.drain()
        for kind, channel in (("store", "aw_stall"), ("sum", "ar_stall")):
            setattr(mem, channel, 1.0)
            for number in range(WORKERS):
                await self.issue(self.message(self.beside, kind, 0, number))
            await self.env.clocks(2 * APART)
            for _ in range(2):
                await self.issue(self.message(config, kind, 0, worker))
            await self.env.clocks(APART)
            setattr(mem, channel, 0.0)
            await self.drain()

    async def meet_list(self, config: RegionConfig, result: str) -> None:
        """Reads that come while others of their line, which is there by now, still wait."""
        await self.away(config, 2)
        self.env.cfg.mem.r_stall = 1.0
        for _ in range(30):
            await self.issue(self.message(config, result, 2))
        await self.env.clocks(2 * APART)
        self.env.cfg.mem.r_stall = 0.0
        for _ in range(4):
            await self.issue(self.message(config, result, 2))
        await self.drain()

    async def under_store(self, config: RegionConfig, worker: int) -> None:
        """A sum and a partial store while a store of the line is under way."""
        await self.issue(self.message(config, "sum", 0), 1)
        await self.drain()
        data, ldid = line_for(config.mode, self.rng), self.ldid_for(config, worker)
        await self.issue(self.message(config, "store", 0, worker))
        await self.env.clocks(APART)
        await self.issue(self.message(config, "sum", 0))
        be = self.rng.getrandbits(64)
        await self.issue(self.write_msg(config.address(worker, 0), data, ldid, be=be))
        await self.drain()
        # A partial store by itself behind one, while nothing else waits for the line.
        await self.issue(self.message(config, "store", 0, worker))
        await self.issue(self.write_msg(config.address(worker, 0), data, ldid, be=be))
        await self.drain()


# Every state of a line, with every operation on it: in its slot, and just come from memory.
#
# A line is clean, poisoned or lost; its state is in its slot, or is fetched by the operation. One
# request at a time: what each of them finds is known. Needs few slots.


STATE_WORKERS = 8
STATES = ("clean", "poisoned", "lost")
MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
ILLEGAL = int.from_bytes(b"\x55" * LINE_BYTES, "little")


class StateBase(ParkedBase):
    """Lines in a given state. `strict` of the region is the caller's."""

    async def region_of(self, mode: Mode, lines_log2: int, strict: bool = False) -> RegionConfig:
        """A committed region with its records written. Its lower half has 2^`lines_log2` lines, of
        which the last one has a record: the others share its mark, so each is fetched."""
        config = self.layout.region(mode, lines_log2 + 1, STATE_WORKERS, strict=strict)
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
            await self.put(config, STATE_WORKERS - 1, line, poison=True)
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
                for seen in (0, 3, STATE_WORKERS - 1, STATE_WORKERS)
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
            reads.append(self.message(config, "raw", line, STATE_WORKERS - 1))
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
            config = self.layout.region(mode, 1, STATE_WORKERS)
            for state, seen in itertools.product(STATES, (0, 1, STATE_WORKERS)):
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
        for line, (state, known) in enumerate(itertools.product(STATES, (0, STATE_WORKERS))):
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


# Operations in every stage of the engine, clock by clock, when a reset comes.


_BURST = 48
"""Operations of a burst: it lasts longer than the first answer needs to the host, and 8 clocks."""


class BurstSequence(ParkedBase):
    """`kind`: the operations that wait for one line, and leave when it comes."""

    kind: str = "vote"
    config: RegionConfig

    async def body(self) -> None:
        await self.prepare()
        mode = self.rng.choice((Mode.G_BINARY, Mode.G_TERNARY))
        self.config = self.layout.region(mode, 1, _BURST + 1)
        await self.commit(0, self.config)
        await self.initialised()
        await self.burst()
        await self.drain()

    async def burst(self) -> None:
        """Returns in the middle of it."""
        line = self.rng.randrange(self.config.lines)
        await self.away(self.config, line)
        self.env.cfg.mem.r_stall = 1.0
        sent = []
        for number in range(_BURST):
            message = self.message(self.config, self.kind, line, number)
            sent.append(await self.issue(message))
            await self.env.clocks(4)
        await self.env.clocks(APART)
        self.env.cfg.mem.r_stall = 0.0
        for _ in range(10 * APART):
            if any(one.response for one in sent):
                break
            await self.env.clocks(1)
        await self.env.clocks(self.rng.randrange(1, 9))
        left = sum(one.response is None for one in sent)
        assert _BURST // 2 < left < _BURST, "no stage holds an operation of the burst"
