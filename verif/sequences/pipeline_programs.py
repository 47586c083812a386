# SPDX-License-Identifier: Apache-2.0
"""Programs of operations that the engine executes in consecutive cycles, in a given order.

The operations are parked on lines whose records memory withholds. When a record arrives, one parked
operation issues per cycle, from each filled line in turn. The sequences need few slots: lines are
evicted by reads of other lines.
"""

from collections.abc import Sequence
from itertools import product

from cocotbext.cxl.wire.messages import M2SMessage
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, VIEW_SELECTORS, RegionConfig
from verif.axi import Resp
from verif.sequences.line_data import AGGREGATING, ILLEGAL, LOW_BIT, ZEROS, line_for
from verif.sequences.memory_faults import RecordSequence

LOW_KINDS = ("contribute", "vote", "plane")
FP_KINDS = ("store", "sum", "raw")
APART = 24
"""Cycles between two requests that must reach the engine in order: reads and writes use different
channels of the link.
"""
MOST_PARKED = 14
"""Maximum number of parked operations of a line that are answered in consecutive cycles."""
LIST = 8
"""Number of parked operations of a line in a program of `PipelineSequence`."""
WORKERS = 16


class ParkedBase(RecordSequence):
    """Base of sequences that park operations: they wait for the record of their line.

    Lines of the region `crowd` occupy the slots, so that other lines must be fetched.
    """

    crowd_region: int = -1
    """Number of the region `crowd`; negative numbers count from the last region."""

    async def pre_body(self) -> None:
        """Commit the region `crowd` before `body`."""
        self.crowd = self.crowd_layout()
        await self.commit(self.crowd_region % self.hw.regions, self.crowd, ready=True)

    async def leave(self) -> None:
        """Evict the lines of other regions: read twice as many lines of `crowd` as slots."""
        await self.drain()
        await self.read_lines(self.crowd, range(2 * self.slots))

    async def away(self, config: RegionConfig, *lines: int) -> None:
        """Write records of `lines` (by the last worker) and lines of `crowd`; evict the lines."""
        await self.drain()
        await self.fill_lines(config, lines, config.workers - 1, wait=False)
        await self.fill_lines(self.crowd, range(self.slots - 1), 0)
        await self.read_lines(self.crowd, range(self.slots, 2 * self.slots))

    def message(self, config: RegionConfig, kind: str, line: int, worker: int = 0) -> M2SMessage:
        """Return a request for an operation on a line.

        Args:
            config: descriptor of the region.
            kind: "contribute", "store", "poisoned store", "vote", "sum", "plane" or "raw".
            line: index of the line.
            worker: worker that contributes, stores, or whose line is read ("raw").
        """
        if kind in ("contribute", "store", "poisoned store"):
            ldid, data = self.ldid_for(config, worker), line_for(config.mode, self.rng)
            address = config.address(worker, line)
            return self.write_msg(address, data, ldid, poison=kind == "poisoned store")
        selector = {"vote": 0, "sum": 0, "plane": 8, "raw": 64 + worker}[kind]
        return self.read_msg(config.address(selector, line), self.ldid_for(config, 0))

    async def in_order(self, messages: Sequence[M2SMessage], apart: int = APART) -> None:
        """Issue requests `apart` cycles apart, by default far enough to keep their order."""
        for message in messages:
            await self.issue(message)
            await self.cycles(apart)


class PipelineSequence(ParkedBase):
    """Operations on one line at every distance in cycles in the engine, in many sequences."""

    async def body(self) -> None:
        mode = self.choice((Mode.G_BINARY, Mode.G_TERNARY))
        self.low = await self.start_region(0, mode, 4, WORKERS)
        self.fp32 = await self.start_region(1, Mode.FP32, 4, WORKERS, ready=True)
        for region, (config, every) in enumerate(((self.low, LOW_KINDS), (self.fp32, FP_KINDS))):
            for kind in every:
                await self.commit(region)
                for line in range(config.lines):  # memory has no record of it
                    await self.issue(self.message(config, kind, line))
                await self.drain()
        chain = "contribute contribute vote contribute plane vote vote plane plane contribute"
        low = chain.split()
        for gap in range(1, self.slots + 1):
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
        """Run the operations `kinds` on one line, `gap` cycles apart in the engine.

        They are parked until memory returns the record. Operations of `gap` - 1 other lines issue
        in turn with them. These lines run out of operations first, so that the last operations of
        the program follow each other closely.
        """
        line = self.randrange(config.lines)
        await self.away(config, line)
        async with self.stalled("r"):
            messages = []
            for other in range(gap - 1):  # filled first
                count = 3 * gap + self.randrange(2, len(kinds) + 2)
                messages += [self.message(self.crowd, "vote", other) for _ in range(count)]
            for worker, kind in enumerate(kinds):
                messages.append(self.message(config, kind, line, worker % (WORKERS - 1)))
            await self.in_order(messages, 4)
            await self.cycles(APART)


class HeldBackSequence(ParkedBase):
    """Operations that arrive in the very cycle of another event on their line.

    The events are: a parked operation issues, a record fills the slot, memory answers a store.
    """

    async def body(self) -> None:
        low = await self.start_region(0, Mode.G_BINARY, 4, WORKERS)
        fp32 = await self.start_region(1, Mode.FP32, 4, WORKERS, ready=True)
        pairs = [(low, *kinds) for kinds in product(LOW_KINDS, LOW_KINDS)]
        pairs += [(fp32, "poisoned store", kind) for kind in ("sum", "raw")]
        pairs += [(fp32, *kinds) for kinds in product(("sum", "raw"), FP_KINDS)]
        for pair, delay in product(pairs, (1, 6, 12, 18)):
            await self.meet(*pair, delay)
        kept = await self.start_region(2, Mode.FP32, 0, 2, keep_sum=True, ready=True)
        await self.fill_lines(kept, 0)
        near = [pair for pair in pairs if pair[2] != "store"]
        for pair in (*near, (fp32, "store", "store"), (kept, "sum", "store")):
            await self.apart(*pair)
        for config, kind in (*product([low], LOW_KINDS), *product([fp32], FP_KINDS)):
            await self.meet_fill(config, kind)
        for delay in range(8):
            await self.land(fp32, delay)
        for kind, delay in product(FP_KINDS, range(-8, 16)):
            await self.after_store(fp32, kind, delay)
        for gap in range(1, 6):
            await self.answers(fp32, gap)

    async def meet(self, config: RegionConfig, earlier: str, later: str, delay: int) -> None:
        """Let six parked operations `earlier` issue while three `later` of the line arrive.

        The latter arrive `delay` cycles before memory may return the record.
        """
        line = self.randrange(config.lines)
        await self.away(config, line)
        async with self.stalled("r"):
            await self.in_order([self.message(config, earlier, line, n % 4) for n in range(6)], 0)
            await self.cycles(3 * APART)
            await self.in_order([self.message(config, later, line, 4 + n) for n in range(3)], 0)
            await self.cycles(delay)

    async def apart(self, config: RegionConfig, earlier: str, later: str) -> None:
        """Send an operation 0 to 11 cycles after another one, on line 0, which is in its slot."""
        for delay in range(12):
            await self.read_lines(config, 0)
            await self.issue(self.message(config, earlier, 0))
            await self.cycles(delay)
            await self.issue(self.message(config, later, 0, 1))
            await self.drain()

    async def land(self, config: RegionConfig, delay: int) -> None:
        """Let memory answer a store `delay` cycles after it may return the record of its line."""
        await self.away(config, 0)
        async with self.stalled("b"):
            with self.memory(r_stall=1.0):
                await self.in_order([self.message(config, "store", 0)], 2 * APART)
            await self.cycles(delay)

    async def after_store(self, config: RegionConfig, kind: str, delay: int) -> None:
        """Send an operation `delay` cycles (-8 to 15) before memory answers a store to its line."""
        await self.read_lines(config, 0)
        async with self.stalled("b"):
            await self.in_order([self.message(config, "store", 0, 1)], 2 * APART)
            if delay < 0:
                self.mem.b_stall = 0.0
            await self.cycles(max(-delay, 0))
            await self.issue(self.message(config, kind, 0, 2))
            await self.cycles(max(delay, 0))

    async def meet_fill(self, config: RegionConfig, kind: str) -> None:
        """Send an operation around the cycle in which the record of its line arrives."""
        with self.memory(latency=(APART, APART)):
            for delay in range(20, 52):
                line = delay % config.lines  # not in its slot: there are more lines than slots
                # Memory answers stores when both are there.
                async with self.stalled("b", level=float(kind == "store")):
                    await self.in_order([self.message(config, kind, line, 1)], delay)
                    await self.in_order([self.message(config, kind, line, 2)])

    async def answers(self, config: RegionConfig, gap: int) -> None:
        """Let memory answer three stores of line 0 `gap` cycles apart."""
        await self.read_lines(config, 0)
        async with self.stalled("b"):
            await self.in_order([self.message(config, "store", 0, n) for n in range(3)], 0)
            await self.cycles(4 * APART)
            for _ in range(3):
                with self.memory(b_stall=0.0):
                    await self.cycles(1)
                await self.cycles(gap - 1)


class LookupSequence(ParkedBase):
    """Reads and writes that find their line in each way, in each mode, for each class of W.

    The ways: in its slot, in memory, being fetched, without a record, with its eviction in
    progress, with the queue to memory full.
    """

    async def body(self) -> None:
        self.other = await self.start_region(1, Mode.FP32, 0, WORKERS)
        shapes = [1, 2, 3, self.choice((7, 15, 31)), self.choice((4, 8, 16, 32))]
        shapes += [self.choice((5, 9, 17, 33)), 63, 64, 11 + 2 * self.randrange(2)]
        shapes += [self.choice((6, 10, 12, 20, 34, 62))]
        for mode in AGGREGATING:
            for workers in self.shuffled(shapes):
                await self.shape(self.layout.region(mode, 4, workers))

    async def shape(self, config: RegionConfig) -> None:
        """Read and write lines of a region by each way of finding a line."""
        result, write = ("sum", "store") if config.mode is Mode.FP32 else ("vote", "contribute")
        worker = self.randrange(config.workers)
        await self.commit(0, config, ready=True)

        async def one(kind: str, line: int) -> None:
            await self.issue(self.message(config, kind, line, worker), 1)
            await self.drain()

        await one(result, 0)
        await self.commit(0)  # frees its slot
        await one(write, 1)
        await self.leave()
        for line in range(self.slots):  # evict clean lines
            await one(write, line)
        await one(result, self.slots)  # evict dirty lines
        for kind in (write, write, result):
            await one(kind, self.slots + 1)
        await self.leave()
        await one(result, self.slots + 2)
        with self.memory(latency=(40, 40)):
            await self.leave()
            for kind in (result, result, write):  # the record is in flight
                await self.issue(self.message(config, kind, 0, worker))
            await self.drain()
            if config.mode is Mode.FP32:
                self.mem.latency = (2 * APART, 2 * APART)
                await self.under_store(config, worker)
                await self.no_room(config, worker)
        await self.meet_list(config, result)
        for kind in (result, write):
            await self.commit(0)
            await self.leave()
            await one(kind, 0)  # memory has no record of it
            for line in range(1, self.slots + 1):
                await one(write, line)
            await one(kind, self.slots + 1)
            await self.leave()
            await self.commit(self.hw.regions - 1)  # frees the slots of the crowd
            await one(kind, 1)

    async def no_room(self, config: RegionConfig, worker: int) -> None:
        """Fill the queue of stores, and of sums, from another line, then send two more."""
        for region in (config, self.other):
            await self.fill_lines(region, 0, 0)
        for kind, channel in (("store", "aw"), ("sum", "ar")):
            async with self.stalled(channel):
                for number in range(WORKERS):
                    await self.issue(self.message(self.other, kind, 0, number))
                await self.cycles(2 * APART)
                for _ in range(2):
                    await self.issue(self.message(config, kind, 0, worker))
                await self.cycles(APART)

    async def meet_list(self, config: RegionConfig, result: str) -> None:
        """Send reads of a line while parked reads of it, whose record has arrived, still wait."""
        await self.away(config, 2)
        with self.memory(r_stall=1.0):
            await self.in_order([self.message(config, result, 2) for _ in range(30)], 0)
            await self.cycles(2 * APART)
        await self.in_order([self.message(config, result, 2) for _ in range(4)], 0)
        await self.drain()

    async def under_store(self, config: RegionConfig, worker: int) -> None:
        """Send a sum and a partial store of a line while a store to it is in progress."""
        await self.issue(self.message(config, "sum", 0), 1)
        await self.drain()
        data, ldid = line_for(config.mode, self.rng), self.ldid_for(config, worker)
        await self.in_order([self.message(config, "store", 0, worker)])
        await self.issue(self.message(config, "sum", 0))
        partial = self.write_msg(config.address(worker, 0), data, ldid, be=self.getrandbits(64))
        await self.issue(partial)
        await self.drain()
        # A partial store after a store, while nothing else waits for the line.
        await self.issue(self.message(config, "store", 0, worker))
        await self.issue(partial)
        await self.drain()


STATE_WORKERS = 8
STATES = ("clean", "poisoned", "lost")


class StateBase(ParkedBase):
    """Base of the sweeps over states of a line and operations on it.

    A line is clean, poisoned or lost; its state is in its slot, or the operation fetches it. There
    is one request at a time, so that the state that each operation finds is known.
    """

    async def region_of(self, mode: Mode, lines_log2: int, strict: bool = False) -> RegionConfig:
        """Commit a region of 2^(`lines_log2` + 1) lines, await its records; return its descriptor.

        The last line of its lower half gets a record: the other lines of that half share its mark,
        so each of them is fetched.
        """
        config = self.layout.region(mode, lines_log2 + 1, STATE_WORKERS, strict=strict)
        await self.commit(self.region, config, ready=True)
        await self.away(config, config.lines // 2 - 1)
        return config

    async def get(self, config: RegionConfig, line: int, part: bool, worker: int = 0) -> None:
        """Read a line: its result, or if `part` count plane 0 (FP32: the data of `worker`)."""
        selector = 0 if not part else 8 if config.mode.low_bit else 64 + worker
        await self.read_lines(config, line, selector)

    async def in_a_row(
        self, config: RegionConfig, line: int, messages: Sequence[M2SMessage]
    ) -> None:
        """Run operations on an evicted line so that each finds the state that the last one writes.

        Two reads of INFO precede them: the first one issues with the fill, the second one
        cycles later, and from then on one operation issues per cycle.
        """
        info = self.read_msg(config.address(INFO_SELECTOR, line), self.ldid_for(config, 0))
        async with self.stalled("r"):
            await self.in_order([info, info, *messages])

    async def bring(self, config: RegionConfig, state: str, line: int, seen: int) -> None:
        """Bring an untouched line into a state, and contribute as workers 0 to `seen` - 1.

        Args:
            config: descriptor of the region.
            state: "clean", "poisoned" (by the last worker) or "lost" (its record cannot be read).
            line: index of the line.
            seen: number of contributions.
        """
        if state == "lost":  # its record cannot be read
            with self.failing(reads=[self.bookkeeping(config, line)]):
                await self.get(config, line, part=False)
        elif state == "poisoned":
            await self.fill_lines(config, line, STATE_WORKERS - 1, poison=True)
        await self.fill_lines(config, line, range(seen))


class ReadStateSequence(StateBase):
    """Reads of lines with 0, 3, all but one and all contributions, in each state; STRICT or not.

    They find the state in the slot, fetch it, or follow each other in consecutive cycles.
    """

    async def body(self) -> None:
        for mode, strict in product(AGGREGATING, (False, True)):
            config = await self.region_of(mode, 5, strict)
            seen = (0, 3, STATE_WORKERS - 1, STATE_WORKERS)
            shapes = list(product(STATES, seen, (False, True)))
            for line, (state, count, part) in enumerate(shapes):
                await self.bring(config, state, line, count)
                await self.reads(config, line, part)
            await self.leave()
            for line, (_, _, part) in enumerate(shapes):
                await self.reads(config, line, part)
            await self.leave()
            for line, (_, _, part) in enumerate(shapes):
                await self.in_a_row(config, line, self.kinds(config, line, part))

    def kinds(self, config: RegionConfig, line: int, part: bool) -> list[M2SMessage]:
        """Return reads of count plane 0 and vote, or (FP32) of worker 0's line and the sum.

        The vote or sum comes first unless `part`. FP32: the last worker's line is read, too.
        """
        kinds = ["plane", "vote"] if config.mode.low_bit else ["raw", "sum"]
        reads = [self.message(config, kind, line) for kind in kinds[:: 1 if part else -1]]
        if config.mode is Mode.FP32:
            reads.append(self.message(config, "raw", line, STATE_WORKERS - 1))
        return reads

    async def reads(self, config: RegionConfig, line: int, part: bool) -> None:
        """Send the reads of a line that `kinds` returns; wait for the response of each."""
        for message in self.kinds(config, line, part):
            await self.call(message)


class OwnMarkSequence(StateBase):
    """Lines whose mark ("was evicted", see nf_written) no other line shares.

    The record of such a line is fetched because of that line's mark alone, also if it holds nothing
    but poison or a loss.
    """

    async def body(self) -> None:
        for mode in AGGREGATING:
            config = self.layout.region(mode, 1, STATE_WORKERS)
            for state, seen in product(STATES, (0, 1, STATE_WORKERS)):
                line = self.randrange(config.lines)
                await self.commit(self.region, config, ready=True)
                if state == "lost":  # there must be a record, which cannot be read
                    await self.away(config, line)
                await self.bring(config, state, line, seen)
                await self.leave()
                await self.read_lines(config, line, (0, INFO_SELECTOR), alone=True)


class WriteStateSequence(StateBase):
    """Writes of new workers and of workers already seen, clean or poisoned, to lines in each state.

    The line is still in its slot, fetched by the write, fetched before, or in use one cycle before.
    """

    async def body(self) -> None:
        for mode in AGGREGATING:
            config = await self.region_of(mode, 6)
            places = ("never left", "fetched", "back", "forwarded")
            shapes = list(product(STATES, (False, True), (False, True), places))
            for line, (state, seen, poison, where) in enumerate(shapes):
                await self.bring(config, state, line, 3)
                if where == "never left":
                    await self.finish(config, line, seen, poison)
            await self.leave()
            for line, (_, seen, poison, where) in enumerate(shapes):
                if where == "back":
                    await self.get(config, line, part=False)
                if where != "never left":
                    await self.finish(config, line, seen, poison, where == "forwarded")

    async def finish(
        self, config: RegionConfig, line: int, seen: bool, poison: bool, forwarded: bool = False
    ) -> None:
        """Write the line as worker 1 (`seen`) or 5, and read the result.

        If `forwarded`, the write follows another operation on the line by one cycle.
        """
        worker = 1 if seen else 5
        if forwarded:
            kind = "poisoned store" if poison else "store"
            await self.in_a_row(config, line, [self.message(config, kind, line, worker)])
        else:
            await self.fill_lines(config, line, worker, poison=poison)
        await self.get(config, line, part=False)


class PipelineDuplicateSequence(StateBase):
    """Duplicates with the same or other data, clean or poisoned, in the slot or after a fetch.

    Then G_TERNARY lines with 1, some and 256 illegal codes.
    """

    async def body(self) -> None:
        for mode in LOW_BIT:
            config = await self.region_of(mode, 3)
            kinds = list(product((False, True), (False, True)))
            first = {}
            for line, kind in enumerate(kinds):
                first[line] = line_for(mode, self.rng)
                await self.fill_lines(config, line, 0, first[line])
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
        """Send a duplicate of worker 0, which changes nothing; unless `same`, of inverted data."""
        again = data if same else bytes(byte ^ 0xFF for byte in data)
        await self.fill_lines(config, line, 0, again, poison=poison)

    async def codes(self, config: RegionConfig) -> None:
        """Send 1, some and 256 illegal codes: by a new worker, as its duplicate, and poisoned."""
        few = 1 << 2 * self.randrange(256)
        every = int.from_bytes(ILLEGAL, "little")
        for line, word in enumerate((few, few | every & (1 << 200) - 1, every)):
            data = word.to_bytes(LINE_BYTES, "little")
            for worker, poison in ((0, False), (0, False), (1, True)):
                await self.fill_lines(config, line, worker, data, poison=poison)
            await self.get(config, line, part=False)
            await self.read_registers("ILLEGAL_CODE")


class StoredStateSequence(StateBase):
    """Memory responses to FP32 stores in consecutive cycles, OKAY or error, for each line state."""

    async def body(self) -> None:
        config = await self.region_of(Mode.FP32, 4)
        for line, (state, known) in enumerate(product(STATES, (0, STATE_WORKERS))):
            await self.bring(config, state, line, known)
            # A single worker: its response finds the state in the slot.
            await self.burst(config, line, {6: True})
            await self.burst(config, line, {0: True, 1: True, 2: False, 3: True, 4: False})
            await self.get(config, line, part=False)
        for line in range(6, 10):  # alone, each on an untouched line
            await self.bring(config, STATES[line % 3], line, 1 + line % 2)
            for worker in (0, 6) if line < 9 else (6, 0):
                await self.burst(config, line, {worker: False})
        for line in (10, 11):
            await self.bring(config, "clean", line, 4 * (line - 10))
            await self.burst(config, line, {0: True, 1: False, 2: True, 3: False})
        # A refused store marks its line and does not count as a line of its worker.
        await self.read_lines(config, 0, VIEW_SELECTORS)
        await self.partial_stores(await self.region_of(Mode.FP32, 5))

    async def burst(self, config: RegionConfig, line: int, workers: dict[int, bool]) -> None:
        """Send stores that memory answers in consecutive cycles.

        Args:
            config: descriptor of the region.
            line: index of the line.
            workers: storing workers; False if memory refuses the store.
        """
        refused = [
            self.data_line(config, worker, line) for worker in workers if not workers[worker]
        ]
        await self.get(config, line, part=False)
        with self.failing(writes=refused, known=True):
            async with self.stalled("b"):
                await self.fill_lines(config, line, workers, wait=False)
                await self.cycles(60 + 10 * len(workers))

    async def partial_stores(self, config: RegionConfig) -> None:
        """Send whole and partial stores, clean and poisoned, as first and second of a worker."""
        enables = (None, 0, 1 << self.randrange(64), (1 << 64) - 1, self.getrandbits(64) & ~1 | 6)
        shapes = product((False, True), enables, (False, True))
        for line, (again, be, poison) in enumerate(shapes):
            if again:
                await self.fill_lines(config, line, 2)
            await self.fill_lines(config, line, 2, be=be, poison=poison)
            await self.get(config, line, True, 2)
        with self.memory(latency=(70, 70)):
            for line in range(20, 32):  # memory takes long for partial lines
                await self.fill_lines(config, line, (3, 3), be=1 << line, limit=1, wait=False)
            await self.drain()


class BadBeatSequence(StateBase):
    """SLVERR, DECERR and poison in each beat of a record of each mode, one beat at a time."""

    async def body(self) -> None:
        for mode in AGGREGATING:
            config = self.layout.region(mode, 5, 64, keep_sum=mode is Mode.FP32)
            await self.commit(self.region, config, ready=True)
            beats = range(len(self.record(config, 0)))
            shapes = list(product(beats, ("SLVERR", "DECERR", "poison")))
            for line, (beat, _) in enumerate(shapes):  # as many workers as need the bad plane
                count = 1 << max(beat - 1, 0) if mode.low_bit else 64
                await self.fill_lines(config, line, self.sample(range(64), count))
                if not mode.low_bit:
                    await self.get(config, line, part=False)  # its sum is kept
            await self.leave()
            for line, (beat, kind) in enumerate(shapes):
                bad = self.record(config, line)[beat]
                if kind == "poison":
                    self.env.mem.store.poison(bad)
                else:
                    self.mem.error_resps = (Resp[kind],)
                with self.failing(reads=() if kind == "poison" else [bad]):
                    await self.get(config, line, part=False)
                await self.get(config, line, part=True)
            self.mem.error_resps = (Resp.SLVERR, Resp.DECERR)
            await self.untrusted(config)

    async def untrusted(self, config: RegionConfig) -> None:
        """Refuse a write-back: all records of the region are untrusted until the next commit."""
        await self.commit(self.region)
        with self.failing(writes=[self.bookkeeping(config, 0)]):
            await self.fill_lines(config, range(4), 0, ZEROS, limit=1, wait=False)
            await self.leave()
        await self.read_lines(config, range(8), alone=True)
        await self.commit(self.region, ready=True)
        await self.read_lines(config, range(8), alone=True)


_BURST = 48
"""Number of operations of a burst: 8 cycles more than the first response takes to the host."""


class BurstSequence(ParkedBase):
    """A burst of one kind of operation, one per cycle, which a reset hits in the middle.

    `kind` is the operation, as in `message`. They are parked on one line and issue when its record
    arrives.
    """

    kind: str = "vote"
    config: RegionConfig

    async def body(self) -> None:
        mode = self.choice((Mode.G_BINARY, Mode.G_TERNARY))
        self.config = await self.start_region(0, mode, 1, _BURST + 1, ready=True)
        await self.burst()
        await self.drain()

    async def burst(self) -> None:
        """Start a burst and return 1 to 8 cycles after the first response.

        Raises:
            AssertionError: Fewer than half of the operations are unanswered, or all are.
        """
        line = self.randrange(self.config.lines)
        await self.away(self.config, line)
        with self.memory(r_stall=1.0):
            sent = []
            for number in range(_BURST):
                message = self.message(self.config, self.kind, line, number)
                sent.append(await self.issue(message))
                await self.cycles(4)
            await self.cycles(APART)
        for _ in range(10 * APART):
            if any(one.response for one in sent):
                break
            await self.cycles(1)
        await self.cycles(self.randrange(1, 9))
        left = sum(one.response is None for one in sent)
        assert _BURST // 2 < left < _BURST, f"{left} of {_BURST} operations are unanswered"
