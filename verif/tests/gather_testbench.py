# SPDX-License-Identifier: Apache-2.0
"""Testbench of `nf_fp32_gather` alone: requests, responses, ends of gathers, and a memory."""

from __future__ import annotations

import random
import struct
from collections import Counter, deque
from dataclasses import dataclass
from itertools import product
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from numpy.typing import NDArray

from verif.sequences.line_data import FP32_CORNERS
from verif.tests.packed_structs import layout, pack, sampled, unpack
from verif.tests.ports import clock_and_reset, tie_inputs

LINES_LOG2 = 4
LINES = 1 << LINES_LOG2
STATE_BASE = 0x1240
REGION = 5
ONES = (1 << 512) - 1


def as_line(data: Any) -> int:
    """Return the 64 bytes of an array as the value of a 512-bit bus, byte 0 in bits 7:0."""
    return int.from_bytes(np.asarray(data, dtype=np.uint8).tobytes(), "little")


@dataclass
class Line:
    """Line of memory, with the error or poison of its reads."""

    data: int
    error: bool = False
    poison: bool = False

    def array(self) -> NDArray[np.uint8]:
        """Return the line as uint8[64]."""
        return np.frombuffer(self.data.to_bytes(64, "little"), dtype=np.uint8)


@dataclass
class Sum:
    """Request to the gather unit; its tag and slot are its place in the list of requests.

    Attributes:
        index: Index of the line in the region.
        bitmap: Workers to add.
        raw: Return the line of one worker instead of a sum.
        poison: The line is poisoned, so the response must be.
        keep: The sum may be kept (KEEP_SUM).
    """

    index: int
    bitmap: int
    raw: bool = False
    poison: bool = False
    keep: bool = False

    @classmethod
    def draw(cls, rng: random.Random) -> Sum:
        """Draw a request: mostly a sum of some workers; a raw request has one worker or none."""
        index = rng.randrange(LINES)
        if rng.random() < 0.25:
            bitmap = 1 << rng.randrange(64) if rng.random() < 0.8 else 0
            return cls(index, bitmap, raw=True, poison=rng.random() < 0.2)
        bitmap = sum(1 << worker for worker in rng.sample(range(64), rng.choice((0, 1, 2, 3, 9))))
        return cls(index, bitmap, poison=rng.random() < 0.2, keep=rng.random() < 0.5)


@dataclass
class Taken:
    """Response to a request, or the end of its gather, and the clock of its transfer."""

    clock: int
    data: int
    poison: bool = False
    keep: bool = False


class GatherBench:
    """Testbench of `nf_fp32_gather`: drives its ports, and models its memory.

    Attributes:
        stalls: Probability of a stalled clock by port: "op", "r", "ar", "drs" and "end".
        latency: Clocks from a read request (AR) to its data (R).
        answers: Responses of the last `run` by tag.
        ends: Ends of gathers of the last `run` by slot.
    """

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.latency = 3
        self.stalls: dict[str, float] = {}
        self.memory: dict[int, Line] = {}
        self.held = 0
        self.clock = 0
        self._noise = (1 << sum(width for _, width in layout("read_beat_t"))) - 1

    def place(self, worker: int, index: int) -> int:
        """Return the memory line address of a worker's line (spec: controller §4)."""
        return STATE_BASE + (worker << LINES_LOG2) + index

    def places(self, one: Sum) -> list[int]:
        """Return the memory line addresses of a request, in worker order."""
        return [self.place(worker, one.index) for worker in range(64) if one.bitmap >> worker & 1]

    def fill(self, error: float, poison: float) -> None:
        """Draw new values for all memory lines, corner values too.

        Args:
            error: share of lines whose reads fail.
            poison: share of lines that are poisoned.
        """
        rng = self.rng
        self.memory.clear()
        for worker, index in product(range(64), range(LINES)):
            words = [
                rng.choice(FP32_CORNERS) if rng.random() < 0.1 else rng.getrandbits(32)
                for _ in range(16)
            ]
            data = int.from_bytes(struct.pack("<16I", *words), "little")
            kind = rng.random()
            line = Line(data, error=kind < error, poison=error <= kind < error + poison)
            self.memory[self.place(worker, index)] = line

    async def reset(self) -> GatherBench:
        """Reset the unit, with a descriptor of region `REGION` only; return the testbench."""
        dut = self.dut
        kind = layout("region_desc_t")
        mine = pack(kind, state_base=STATE_BASE, lines_log2=LINES_LOG2, workers=64)
        tie_inputs(dut, "nf_fp32_gather", desc=mine << REGION * sum(width for _, width in kind))
        await clock_and_reset(dut, 2)
        return self

    def _stalled(self, name: str) -> bool:
        return self.rng.random() < self.stalls.get(name, 0.0)

    async def run(self, sums: list[Sum], limit: int) -> None:
        """Issue all requests, wait for their responses and ends, and check them.

        Raises:
            AssertionError: It takes more than `limit` clocks, an end comes before the last line was
                read or twice, or a line was not read once for each of its requests.
        """
        dut = self.dut
        self.answers: dict[int, Taken] = {}
        self.ends: dict[int, Taken] = {}
        self.begun: dict[int, int] = {}
        asked, read, due = Counter[int](), Counter[int](), Counter[int]()
        waiting, answers = deque(enumerate(sums)), deque[tuple[int, int]]()
        offered: int | None = None
        beat: int | None = None
        edge = RisingEdge(dut.clk)
        start = self.clock
        while len(self.answers) < len(sums) or len(self.ends) < len(sums):
            await edge
            self.clock += 1
            now = self.clock
            assert now - start < limit, "the gather unit is stuck"
            if offered is not None and dut.op_ready.value == 1:
                self.begun[offered] = now
                offered = None
            if dut.ar_valid.value == 1 and dut.ar_ready.value == 1:
                place = sampled(dut.ar_addr)
                answers.append((now + self.latency, place))
                asked[place] += 1
            if beat is not None:
                if dut.r_ready.value == 1:
                    read[beat] += 1
                    answers.popleft()
                    beat = None
                else:
                    self.held += 1
            if dut.drs_valid.value == 1 and dut.drs_ready.value == 1:
                self._answered(unpack("answer_t", sampled(dut.drs)))
            if dut.end_valid.value == 1 and dut.end_ready.value == 1:
                end = unpack("gather_end_t", sampled(dut.gather_end))
                one = sums[end["pin"]]
                assert end["pin"] not in self.ends, f"{one} ended twice"
                due.update(self.places(one))
                assert due <= read, f"{one}: its end was told before its last line was read"
                self.ends[end["pin"]] = Taken(now, end["sum"], keep=bool(end["keep"]))
            if offered is None and waiting and not self._stalled("op"):
                offered, one = waiting.popleft()
                dut.op.value = self._request(offered, one)
            dut.op_valid.value = int(offered is not None)
            if beat is None and answers and answers[0][0] <= now and not self._stalled("r"):
                beat = answers[0][1]
                line = self.memory[beat]
                poison = line.poison and not line.error
                dut.r_beat.value = pack(
                    "read_beat_t", data=line.data, err=line.error, poison=poison, last=1
                )
            elif beat is None:  # what others read is on the channel, too
                dut.r_beat.value = self._noise
            dut.r_valid.value = int(beat is not None)
            dut.ar_ready.value = int(not self._stalled("ar"))
            dut.drs_ready.value = int(not self._stalled("drs"))
            dut.end_ready.value = int(not self._stalled("end"))
        dut.op_valid.value = 0
        assert asked == due, "not every line was read once for each of its requests"

    def _request(self, tag: int, one: Sum) -> int:
        meta = pack("resp_meta_t", tag=tag, in_region=1, region=REGION)
        return pack("gather_op_t", meta=meta, pin=tag, **vars(one))

    def _answered(self, answer: dict[str, int]) -> None:
        tag = unpack("resp_meta_t", answer["meta"])["tag"]
        assert tag not in self.answers, f"request {tag} was answered twice"
        self.answers[tag] = Taken(self.clock, answer["data"], bool(answer["poison"]))
