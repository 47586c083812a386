# SPDX-License-Identifier: Apache-2.0
"""Bit flips in the retry buffer of ``nf_link`` while a replay is due.

spec: controller, second edition, section 8; link spec §9. The CRC is made after the buffer, so it
would call a damaged flit good: the check bits of the row have to detect it. Build with a small
RETRY_TIMEOUT; Verilator needs nf_link_retry_buffer.wr_q public.
"""

import random
from typing import Any

import cocotb

from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, crc16, crc_ok
from cocotbext.cxl.wire.flits import WireFlit
from cocotbext.cxl.wire.messages import S2MDRS
from models.register_map import REG_MAP
from verif.env.rtl_packages import rams
from verif.parameters import device_params
from verif.scoreboard.ram_faults import NONE, PARITY, SECDED
from verif.tests.link_coverage import link_test
from verif.tests.link_messages import count_scale, random_damage, random_drs, random_ndr
from verif.tests.link_testbench import RETRY_DEPTH, RETRY_TIMEOUT, RetryTestbench
from verif.tests.packed_structs import pack

RETRY = REG_MAP.enums["Ram"]["RETRY"]
HW = device_params()
ROW = rams(HW)["RETRY"]
FLITS = 512
"""Number of bits of a row that are the flit; its two marks and the check bits follow."""
CHUNK_BITS = 128


class FlipBench(RetryTestbench):
    """Testbench that flips bits of the retry buffer and counts the faults that it reports."""

    def __init__(self, dut: Any, seed: int) -> None:
        # A flit that stays damaged ends the link; with fewer attempts this takes less time.
        super().__init__(dut, seed, 1 + seed % 6, tracked=False, max_retry=2, max_phy_reinit=1)
        self.bad = self.corrected = 0

    def _sample(self) -> None:
        faults = str(self.dut.ram_faults.value)  # {RAM_RETRY, RAM_WRITES}, most significant first
        self.bad += faults[0] == "1"
        self.corrected += faults[1] == "1"
        super()._sample()

    async def flip(self, row: int, place: int) -> None:
        """Flip the stored bit `place` of a row of the retry buffer."""
        self.dut.ram_flip.value = pack("ram_flip_t", valid=1, ram=RETRY, row=row, place=place)
        await self.clock()
        self.dut.ram_flip.value = 0

    async def lose_a_flit(self, data: bool) -> list[int]:
        """Let the host lose a flit silently, an all-data flit if `data`.

        Returns:
            The rows of the replay that is due, [] if no flit was lost.
        """
        rng = self.rng
        for _ in range(rng.randrange(4, 16)):
            self.answer(random_drs(rng) if rng.random() < 0.7 else random_ndr(rng))
        await self.clocks(rng.randrange(2, 20))
        damage = random_damage(rng, 1.0)
        self.muted = True
        self.to_host = lambda wire: damage(wire) if (self.host.unpacker.owed > 3) == data else wire
        for _ in range(20):
            if self.host.retry.lrsm is not Lrsm.LLRREQ:
                await self.clock()
        self.to_host = None
        await self.clocks(rng.randrange(5, 40))
        first, end = self.host.retry.eseq, self.write_pointer
        if self.host.retry.lrsm is not Lrsm.LLRREQ:
            return []
        return [(first + k) % RETRY_DEPTH for k in range((end - first) % RETRY_DEPTH)]

    def lose_another(self, wire: WireFlit) -> WireFlit:
        """Damage some flits after the host's RETRY.Req, so that the device wants a retry, too."""
        late = self.host.retry.lrsm is Lrsm.LOCAL_IDLE and self.host.retry.timeout < 8
        return random_damage(self.rng, 0.2)(wire) if late else wire

    @property
    def wrong(self) -> bool:
        """True if a message arrived that was not sent, or in another order."""
        return bool(
            self.host.issues
            or self.got.ndr != self.sent.ndr[: len(self.got.ndr)]
            or self.got.drs != self.sent.drs[: len(self.got.drs)]
        )


def place_in_row(rng: random.Random) -> int:
    """Draw a bit of a row: data, marks or check bits; data only without check bits (ECC 0)."""
    if HW.ecc == NONE:
        return rng.randrange(FLITS)
    parts = (range(FLITS), range(FLITS, ROW.data), range(ROW.data, ROW.bits(HW.ecc)))
    return rng.choice(rng.choices(parts, (2, 1, 1))[0])


@link_test
async def replays(dut: Any) -> None:
    """Check that a damaged flit is replayed corrected, or never as a good one until ABORT.

    Without check bits (ECC 0) some damaged flits must arrive: the test would notice them.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    total = {"flips": 0, "reported": 0, "corrected": 0, "given up": 0, "wrong": 0}
    for number in range(16 * count_scale()):
        bench = FlipBench(dut, rng.getrandbits(32))
        await bench.start()
        await bench.until(lambda b=bench: b.host.credits.plain and b.host.credits.data, 600)  # type: ignore[misc]
        # Often the mark of an all-data flit that comes first: a damaged row must not count as one
        # that strays, and nothing may come between RETRY.Ack and it.
        mark = number % 2 == 0 and HW.ecc != NONE
        rows = await bench.lose_a_flit(mark or rng.random() < 0.5)
        if not rows:
            continue
        row, place = (rows[0], FLITS) if mark else (rng.choice(rows), place_in_row(rng))
        await bench.flip(row, place)
        double = HW.ecc == SECDED and rng.random() < 0.3
        if double:
            await bench.flip(row, ROW.beside(place, rng))
        bench.muted = False
        bench.to_device = bench.lose_another if mark else None
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


def line_of_crc(rng: random.Random, crc: int, place: int) -> bytes:
    """Return a line whose flit has the CRC `crc` once bit `place` is wrong.

    The line has four equal chunks, so that an all-data flit holds all of it wherever it begins. The
    CRC is linear: one of a thousand lower halves soon fits one of the upper halves that are drawn.
    """
    half = CHUNK_BITS // 2
    lower = {
        crc16(repeated(chunk)): chunk for chunk in (rng.getrandbits(half) for _ in range(1000))
    }
    while True:
        upper = rng.getrandbits(half) << half
        missing = crc16(repeated(upper) ^ 1 << place) ^ crc
        if missing in lower:
            return repeated(upper | lower[missing]).to_bytes(FLITS // 8, "little")


def repeated(chunk: int) -> int:
    """Return the payload of four equal chunks of 128 bits."""
    return sum(chunk << at for at in range(0, FLITS, CHUNK_BITS))


@link_test
async def wrong_crc(dut: Any) -> None:
    """Check that a damaged flit is replayed with a wrong CRC, whatever the right one is.

    Right CRCs of all ones, 0 and a random value are tested.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    for crc in (0xFFFF, 0, rng.getrandbits(16)):
        bench, place = FlipBench(dut, rng.getrandbits(32)), rng.randrange(FLITS)
        await bench.up(100)
        bench.muted = True
        await bench.clocks(20)
        line = line_of_crc(rng, crc, place)
        whole = int.from_bytes(line, "little")
        wr = bench.dut.u_retry_buffer.wr_q
        since, start = len(bench.tx_log), int(wr.value)
        bench.to_host = random_damage(rng, 1.0)
        for _ in range(rng.randrange(5, 9)):
            bench.answer(S2MDRS(0, rng.getrandbits(16), data=line))
        await bench.clocks(60)
        bench.to_host = None
        sent = [flit & PAYLOAD_MASK for _, flit in bench.tx_log[since:]]
        assert (int(wr.value) - start) % RETRY_DEPTH == len(sent), "a flit that is not kept"
        row = (start + sent.index(whole)) % RETRY_DEPTH
        await bench.flip(row, place)
        since, bench.muted = len(bench.tx_log), False
        await bench.clocks(60)
        replayed = [f for _, f in bench.tx_log[since:] if f & PAYLOAD_MASK == whole ^ 1 << place]
        assert replayed, f"row {row} was not replayed"
        assert crc16(whole ^ 1 << place) == crc
        assert not any(crc_ok(flit) for flit in replayed), f"a damaged flit with its CRC, {crc:#x}"
