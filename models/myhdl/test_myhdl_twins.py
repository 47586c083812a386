# SPDX-License-Identifier: Apache-2.0
"""Tests of the MyHDL twins in MyHDL's simulator, against the reference models and the agent."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.random import Generator

from cocotbext.cxl.wire.crc import COLUMNS, crc16
from cocotbext.cxl.wire.flits import FlitHeader
from cocotbext.cxl.wire.messages import S2MNDR
from cocotbext.cxl.wire.test_crc import Reference
from cocotbext.cxl.wire.unpack import S2MUnpacker
from models.fp32 import add_bits
from models.int_sums import SUM8_WORKERS, reduce_int, sum8_lines, sum16_lines
from models.line_packing import LINE_BITS, LINE_BYTES, U8
from models.modes import Mode, Tie
from models.myhdl.convert import Twin
from models.myhdl.stepper import Stepper
from models.myhdl.stimulus import CORNERS, Fp32Add, Pack, Values
from models.votes import PLANES, reduce_binary, reduce_ternary

NIGHTLY = pytest.mark.nightly("minutes of Python, bit by bit or element by element")
ONE = 0x3F800000
DRAWS = 6
"""Lines per mode in every change; each has several contributions to 512 counters, votes and
views.
"""
DRAWN = pytest.mark.parametrize(
    ("draws", "seed"), [(DRAWS, 1), pytest.param(1000, 3, marks=NIGHTLY)], ids=["few", "many"]
)
PACKER = "nf_link_tx_pack"


def number(line: U8) -> int:
    """Return a line uint8[64] as the little-endian integer for a port."""
    return int.from_bytes(line.tobytes(), "little")


def line_of(value: int) -> U8:
    """Return the line uint8[64] of a port's value; inverts `number`."""
    return np.frombuffer(value.to_bytes(LINE_BYTES, "little"), np.uint8)


class Datapath(Stepper):
    """Counters of one line, with the twins nf_accumulate, nf_vote and nf_sum that use them."""

    def __init__(self, mode: Mode, cnt_w: int = 8) -> None:
        names = ("nf_accumulate", "nf_vote", "nf_sum")
        super().__init__([Twin(name, {"CNT_W": cnt_w}) for name in names])
        self._mode = mode
        self.clear()

    def clear(self) -> None:
        """Set all counters and the number of contributions to 0."""
        self.planes = self.contributions = 0
        self.saturated = False

    def contribute(self, line: U8) -> None:
        """Add one contribution uint8[64] to the counters."""
        got = self.inputs(
            "nf_accumulate",
            {
                "en": 1,
                "ternary": self._mode == Mode.G_TERNARY,
                "ones": self._mode.bits > 0,
                "data": number(line),
                "planes_in": self.planes,
            },
        )
        self.planes = got["planes_out"]
        self.saturated |= bool(got["saturated"])
        self.contributions += 1

    def plane(self, p: int) -> U8:
        """Return count plane p, uint8[64]."""
        return line_of(self.planes >> p * LINE_BITS & (1 << LINE_BITS) - 1)

    def vote(self, tie_minus: bool = False, threshold: int = 1) -> U8:
        """Return the line of votes, uint8[64], computed by `nf_vote`."""
        return self._counts({"vote": 1, "tie_minus": tie_minus, "threshold": threshold})

    def shown_plane(self, p: int) -> U8:
        """Return count plane p as read through `nf_vote`, uint8[64]."""
        return self._counts({"vote": 0, "plane": p})

    def _counts(self, asked: dict[str, int]) -> U8:
        values = {
            "en": 1,
            "ternary": self._mode == Mode.G_TERNARY,
            "planes": self.planes,
            "contributions": self.contributions,
            **asked,
        }
        self.inputs("nf_vote", values)
        self.clock()
        self.clock()
        return line_of(self.inputs("nf_vote", {})["line"])

    def sums(self, part: int, signed: bool, sum8: bool = False) -> U8:
        """Return line ``part`` of the sums (SUM8 if ``sum8``, else SUM16), uint8[64], by nf_sum."""
        values = {
            "en": 1,
            "wide": self._mode == Mode.G_INT8,
            "codes_signed": signed,
            "bytes": sum8,
            "part": part,
            "planes": self.planes,
        }
        self.inputs("nf_sum", values)
        self.clock()
        return line_of(self.inputs("nf_sum", {})["line"])


@pytest.fixture
def crc() -> Iterator[Stepper]:
    """Yield a simulation of the twin `nf_crc16`."""
    with Stepper([Twin("nf_crc16")]) as stepper:
        yield stepper


@pytest.fixture
def adder() -> Iterator[Stepper]:
    """Yield a simulation of the twin `nf_fp32_add`."""
    with Stepper([Twin("nf_fp32_add")]) as stepper:
        yield stepper


def twin_crc(stepper: Stepper, payload: int) -> int:
    return stepper.inputs("nf_crc16", {"en": 1, "payload": payload})["crc"]


def test_columns(crc: Stepper) -> None:
    """Check the CRC of payloads with one set bit; by the spec F053h for bit 0, C47Dh at bit 511."""
    rng = random.Random(1)
    for bit in (0, 511, *rng.sample(range(512), 30)):
        assert twin_crc(crc, 1 << bit) == COLUMNS[bit]
    assert (twin_crc(crc, 1), twin_crc(crc, 1 << 511)) == (0xF053, 0xC47D)


@pytest.mark.parametrize("count", [300, pytest.param(1_000_000, marks=NIGHTLY)])
def test_flits(crc: Stepper, count: int) -> None:
    """Check the CRC of random payloads, and that it is zero without `en`."""
    rng = random.Random(count)
    for _ in range(count):
        payload = rng.getrandbits(512) & rng.choice((rng.getrandbits(512), (1 << 512) - 1))
        want = Reference.calc(payload.to_bytes(64, "little")[::-1])
        assert twin_crc(crc, payload) == want == crc16(payload)
    assert crc.inputs("nf_crc16", {"en": 0})["crc"] == 0


def check_sums(stepper: Stepper, pairs: list[tuple[int, int]]) -> None:
    """Check the twin's sums of pairs of bit patterns, one pair per clock."""
    table = np.array(pairs, np.uint32)
    for (a, b), want in zip(pairs, add_bits(table[:, 0], table[:, 1]), strict=True):
        stepper.inputs("nf_fp32_add", {"en": 1, "a": a, "b": b})
        stepper.clock()
        got = stepper.inputs("nf_fp32_add", {})["sum"]
        assert got == want, f"{a:08x} + {b:08x} = {got:08x}, not {want:08x}"


def test_corners(adder: Stepper) -> None:
    signed = [value | sign << 31 for value in (*CORNERS, ONE) for sign in (0, 1)]
    check_sums(adder, [(a, b) for a in signed for b in signed])


@pytest.mark.parametrize("rounds", [1, pytest.param(1600, marks=NIGHTLY)])
def test_drawn(adder: Stepper, rounds: int) -> None:
    drawn = Fp32Add(random.Random(rounds), {})
    for _ in range(rounds):
        check_sums(adder, [drawn.operands() for _ in range(600)])


def test_nothing_asked_for(adder: Stepper) -> None:
    """Check that the sum is zero in the clock after one without `en`, and only then."""
    adder.inputs("nf_fp32_add", {"en": 1, "a": ONE, "b": ONE})
    adder.clock()
    assert adder.inputs("nf_fp32_add", {"en": 0})["sum"] == 0x40000000
    adder.clock()
    assert adder.inputs("nf_fp32_add", {"en": 1})["sum"] == 0


def contributions(rng: Generator, most: int) -> U8:
    """Return random contributions uint8[W, 64] of up to ``most`` workers.

    They agree to a varying degree, so that counts and sums reach their limits.
    """
    workers = int(rng.integers(0, most + 1))
    line = rng.integers(0, 256, LINE_BYTES, dtype=np.uint8)
    noise = rng.integers(0, 256, (workers, LINE_BYTES), dtype=np.uint8)
    kept = rng.integers(0, 256, (workers, LINE_BYTES), dtype=np.uint8)
    if rng.random() < 0.5:
        kept |= rng.integers(0, 256, (workers, LINE_BYTES), dtype=np.uint8)
    ends = rng.choice(np.array([0, 255], np.uint8), (workers, LINE_BYTES))
    return np.asarray(np.where(kept & 1, line, np.where(kept & 2, noise, ends)), np.uint8)


@DRAWN
@pytest.mark.parametrize("mode", [Mode.G_BINARY, Mode.G_TERNARY])
def test_votes(mode: Mode, draws: int, seed: int) -> None:
    """Check the twin's votes, planes and saturation on random lines, ties, thresholds, CNT_W."""
    rng = np.random.default_rng(seed)
    for cnt_w in (8, 4, 1):
        most = min((1 << cnt_w) + 4, 20)  # small counters saturate
        with Datapath(mode, cnt_w) as datapath:
            for _ in range(max(1, draws // 3)):
                sent = contributions(rng, most)
                datapath.clear()
                for line in sent:
                    datapath.contribute(line)
                lines, top = sent[:, None], 2**cnt_w - 1
                threshold = int(rng.choice([1, 1, 2, 5, 255]))
                tie = Tie(int(rng.integers(2)))
                if mode == Mode.G_BINARY:
                    want = reduce_binary(lines, tie=tie, cnt_max=top)
                else:
                    want = reduce_ternary(lines, threshold=threshold, cnt_max=top)
                assert datapath.saturated == want.saturated[0]
                for p in range(PLANES):
                    assert np.array_equal(datapath.plane(p), want.planes[p, 0]), f"plane {p}"
                p = int(rng.integers(PLANES))
                assert np.array_equal(datapath.shown_plane(p), want.planes[p, 0]), f"plane {p}"
                assert np.array_equal(datapath.vote(tie == Tie.MINUS, threshold), want.vote[0])


@DRAWN
@pytest.mark.parametrize("mode", [Mode.G_INT4, Mode.G_INT8])
def test_sums(mode: Mode, draws: int, seed: int) -> None:
    """Check the twin's count planes, SUM16 and SUM8 lines for random integer codes."""
    rng = np.random.default_rng(seed)
    with Datapath(mode) as datapath:
        for _ in range(max(1, draws // 3)):
            sent = contributions(rng, 20)
            datapath.clear()
            for line in sent:
                datapath.contribute(line)
            signed = bool(rng.integers(2))
            want = reduce_int(sent[:, None], mode, signed=signed)
            for p in range(PLANES):
                assert np.array_equal(datapath.plane(p), want.planes[p, 0]), f"plane {p}"
            for j in range(sum16_lines(mode)):
                assert np.array_equal(datapath.sums(j, signed), want.sum16[j, 0]), f"SUM16 {j}"
            # Unsigned sums of 16 codes may exceed an int8.
            small = signed and len(sent) <= SUM8_WORKERS
            for j in range(sum8_lines(mode, len(sent)) if small else 0):
                assert np.array_equal(datapath.sums(j, True, True), want.sum8[j, 0]), f"SUM8 {j}"


class Receiver:
    """Host that decodes the twin's flits and compares them with the messages that were put in."""

    def __init__(self, stepper: Stepper, seed: int) -> None:
        self.stepper = stepper
        self.traffic = Pack(random.Random(seed), {})
        self.decoder = S2MUnpacker()
        self.received = self.flits = 0
        stepper.inputs(PACKER, {"rst_n": 0})

    def clock(self, values: Values) -> None:
        """Run one clock with these inputs and check the outputs."""
        out = self.stepper.inputs(PACKER, values)
        assert out["drs_empty"] == (not self.traffic.taken)
        if out["flit_valid"] and values["flit_ready"]:
            self._receive(out, values)
        else:
            assert out["ndr_pop"] == out["drs_sent"] == 0
        self.traffic.answered(out)
        self.stepper.clock()

    def _receive(self, out: Values, values: Values) -> None:
        self.flits += 1
        report = self.decoder.feed(out["flit"])
        assert not report.issues
        assert report.adf == (not out["header"])
        assert bool(out["run"]) == (report.owed_after > 3)
        assert (report.plain, report.data) == (out["ndr_pop"], out["drs_sent"])
        assert report.plain <= values["ndr_credits"]
        assert report.data <= values["drs_credits"]
        if not report.adf:
            header = FlitHeader.decode(report.header)
            got = (header.ak, header.req_crd, header.rsp_crd, header.data_crd)
            assert got == (values["ak"], values["req_crd"], 0, values["data_crd"])
        if report.data:
            assert values["room_multi" if report.data > 1 else "room_drs"]
            assert report.data == 1 or values["multi_header"]
        plain = iter(list(self.traffic.ndrs))
        for message in report.messages:
            self.received += 1
            if isinstance(message, S2MNDR):
                assert message == next(plain)
            else:
                assert message == self.traffic.taken.popleft()


@pytest.mark.parametrize("clocks", [500, pytest.param(100_000, marks=NIGHTLY)])
def test_traffic(clocks: int) -> None:
    with Stepper([Twin(PACKER)]) as stepper:
        host = Receiver(stepper, clocks)
        for _ in range(clocks):
            host.clock(host.traffic.draw())
        for _ in range(200):
            host.clock(host.traffic.inputs(0, 0, 1, False))
        assert host.traffic.offered is None
        assert not host.traffic.taken
        assert not host.traffic.ndrs
        assert host.received > clocks / 4


def test_rate() -> None:
    """Check that the twin sends 4 lines in 5 flits without multi-headers (controller §8)."""
    with Stepper([Twin(PACKER)]) as stepper:
        values = {"rst_n": 1, "enable": 1, "room_drs": 1, "drs_credits": 512, "flit_ready": 1}
        stepper.inputs(PACKER, {"rst_n": 0})
        stepper.inputs(PACKER, {**values, "drs_valid": 1})
        lines = 0
        for clock in range(60):
            out = stepper.inputs(PACKER, {})
            lines += out["drs_sent"] if clock >= 10 else 0
            stepper.clock()
        assert lines == 40
