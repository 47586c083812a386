# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the retry buffer of ``nf_link`` while a replay is due.

spec: controller, second edition, section 8; link spec §9. The CRC is made behind the buffer, so it
would call a damaged flit good: the check bits of the row have to see it. Build with a small
RETRY_TIMEOUT; Verilator needs nf_link_retry_buffer.wr_q public.
"""

from __future__ import annotations

import random
from typing import Any

import cocotb

from cocotbext.cxl.link.retry import Lrsm
from models.nf_regs import REG_MAP
from verif.env.ram_sizes import rams
from verif.parameters import device_params
from verif.scoreboard.ram_faults import NONE, PARITY, SECDED
from verif.tests.link_coverage import covered
from verif.tests.link_retry_testbench import (
    RETRY_DEPTH,
    RETRY_TIMEOUT,
    RetryTestbench,
    random_damage,
)
from verif.tests.link_testbench import count_scale, random_drs, random_ndr
from verif.tests.packed_structs import layout, pack

FLIP = layout("ram_flip_t")
RETRY = REG_MAP.enums["Ram"]["RETRY"]
HW = device_params()
ROW = rams(HW)["RETRY"]
FLITS = 512
"""Bits of a row that are the flit; then its two marks, and the check bits."""


class FlipBench(RetryTestbench):
    """Counts what the retry buffer says of itself."""

    def __init__(self, dut: Any, seed: int) -> None:
        # A flit that stays damaged ends the link; with fewer attempts this takes less time.
        super().__init__(dut, seed, 1 + seed % 6, max_retry=2, max_phy_reinit=1)
        self.tracker = None
        self.bad = self.corrected = 0

    def _sample(self) -> None:
        faults = str(self.dut.ram_faults.value)  # {RAM_RETRY, RAM_WRITES}, most significant first
        self.bad += faults[0] == "1"
        self.corrected += faults[1] == "1"
        super()._sample()

    async def flip(self, row: int, place: int) -> None:
        """A stored bit flips."""
        self.dut.ram_flip.value = pack(FLIP, valid=1, ram=RETRY, row=row, place=place)
        await self.clock()
        self.dut.ram_flip.value = 0

    async def lose_a_flit(self) -> list[int]:
        """The host loses a flit and does not yet say so; the rows of the replay that is due."""
        rng = self.rng
        for _ in range(rng.randrange(4, 16)):
            self.answer(random_drs(rng) if rng.random() < 0.7 else random_ndr(rng))
        await self.clocks(rng.randrange(2, 20))
        self.muted, self.to_host = True, random_damage(rng, 1.0)
        await self.clocks(1)
        self.to_host = None
        await self.clocks(rng.randrange(5, 40))
        first, end = self.host.retry.eseq, int(self.dut.u_retry_buffer.wr_q.value)
        if self.host.retry.lrsm is not Lrsm.LLRREQ:
            return []
        return [(first + k) % RETRY_DEPTH for k in range((end - first) % RETRY_DEPTH)]

    @property
    def wrong(self) -> bool:
        """Something arrived that was not sent, or in another order."""
        return bool(
            self.host.issues
            or self.got_ndr != self.sent_ndr[: len(self.got_ndr)]
            or self.got_drs != self.sent_drs[: len(self.got_drs)]
        )


def place_in_row(rng: random.Random) -> int:
    """Data, marks and check bits, each often enough; without a check what is damaged is data."""
    if HW.ecc == NONE:
        return rng.randrange(FLITS)
    parts = (range(FLITS), range(FLITS, ROW.data), range(ROW.data, ROW.bits(HW.ecc)))
    return rng.choice(rng.choices(parts, (2, 1, 1))[0])


@cocotb.test
@covered
async def replays(dut: Any) -> None:
    """A damaged flit is replayed corrected, or not as a good one until the link is given up."""
    rng = random.Random(cocotb.RANDOM_SEED)
    total = {"flips": 0, "reported": 0, "corrected": 0, "given up": 0, "wrong": 0}
    for number in range(16 * count_scale()):
        bench = FlipBench(dut, rng.getrandbits(32))
        await bench.start(first=not number)
        await bench.until(lambda b=bench: b.host.credits.plain and b.host.credits.data, 600)  # type: ignore[misc]
        rows = await bench.lose_a_flit()
        if not rows:
            continue
        # First marks of all-data flits: a damaged row must not count as one that strays.
        row, place = rng.choice(rows), place_in_row(rng) if number > 2 or HW.ecc == NONE else FLITS
        await bench.flip(row, place)
        double = HW.ecc == SECDED and rng.random() < 0.3
        if double:
            await bench.flip(row, ROW.beside(place, rng))
        bench.muted = False
        for _ in range(20 * RETRY_TIMEOUT):
            if bench.complete or bench.wrong or bench.host.retry.lrsm is Lrsm.ABORT:
                break
            await bench.clock()
        given_up = bench.host.retry.lrsm is Lrsm.ABORT
        total["flips"] += 1
        total["reported"] += bench.bad > 0
        total["corrected"] += bench.corrected > 0
        total["given up"] += given_up
        total["wrong"] += bench.wrong
        lost = HW.ecc == PARITY or double
        if HW.ecc != NONE:
            where = f"row {row} of {rows}, bit {place}, two: {double}"
            assert not bench.wrong, f"{where}: {bench.host.issues}"
            assert (bench.bad > 0) == given_up == lost, f"{where}: {bench.bad} reported"
            assert (bench.corrected > 0) == (not lost), f"{where}: {bench.corrected} corrected"
    dut._log.info("figure: %s", total)
    assert total["flips"], "no replay was due"
    assert bool(total["wrong"]) == (HW.ecc == NONE), total
