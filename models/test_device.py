# SPDX-License-Identifier: Apache-2.0
"""Tests of the device model in the low-bit modes: votes, epochs, refused accesses, counters."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD, ReqOp, RwdOp
from models.access_decode import Cause
from models.commit_check import CommitCode
from models.conftest import MEMORY_LINES, PARAMS, DeviceFixture, config, counts, lines
from models.device import DeviceModel
from models.line_packing import codes_to_lines
from models.modes import Mode
from models.parameters import DeviceParams
from models.votes import reduce_binary, reduce_ternary

ONES = b"\xff" * 64
ZEROS = bytes(64)
LOW_BIT = pytest.mark.parametrize("mode", [Mode.G_BINARY, Mode.G_TERNARY])


@LOW_BIT
def test_vote_and_planes_are_the_reducers(mode: Mode) -> None:
    bench = DeviceFixture(config(mode))
    data = lines(1, 3)
    for worker in (2, 0, 1):
        bench.write(worker, 1, data[worker])
    stack = np.frombuffer(b"".join(data), dtype=np.uint8).reshape(3, 1, 64)
    want = reduce_binary(stack) if mode == Mode.G_BINARY else reduce_ternary(stack)
    assert bench.read(0, 1) == (want.vote.tobytes(), False)
    for plane in range(8):
        assert bench.read(8 + plane, 1) == (want.planes[plane].tobytes(), False)
    assert bench.read(10, 1)[0] == ZEROS  # 3 workers need 2 planes
    assert counts(bench, 1) == want.counts[0].tolist()
    assert bench.count("CONTRIBUTION") == 3
    assert bench.count("EARLY_READ") == 0


def test_tie_and_threshold_come_from_the_descriptor() -> None:
    bench = DeviceFixture(config(workers=2, tie_minus=True))
    bench.write(0, 0, ZEROS)
    bench.write(1, 0, ONES)
    assert bench.read(0, 0)[0] == ONES
    assert bench.recommit(tie_minus=False) == CommitCode.OK
    bench.write(0, 0, ZEROS)
    bench.write(1, 0, ONES)
    assert bench.read(0, 0)[0] == ZEROS
    ternary = DeviceFixture(config(Mode.G_TERNARY, threshold=3))
    plus = codes_to_lines([2] * 256).tobytes()
    for worker in range(3):
        assert ternary.read(0, 0)[0] == ZEROS
        ternary.write(worker, 0, plus)
    assert ternary.read(0, 0)[0] == plus


@LOW_BIT
def test_a_duplicate_changes_nothing(mode: Mode) -> None:
    bench = DeviceFixture(config(mode))
    first, second = lines(2, 2)
    bench.write(1, 0, first)
    before = [bench.read(s, 0) for s in (0, 8, 9)]
    bench.write(1, 0, second)
    bench.write(1, 0, ONES, poison=True)
    assert [bench.read(s, 0) for s in (0, 8, 9)] == before
    assert bench.count("DUPLICATE") == 2
    assert bench.count("CONTRIBUTION") == 1
    assert bench.count("POISON_RECEIVED") == 0


def test_a_poisoned_contribution_marks_the_line_and_may_be_sent_again() -> None:
    bench = DeviceFixture(config(Mode.G_TERNARY, workers=1))
    illegal = codes_to_lines([1] * 256).tobytes()
    bench.write(0, 0, illegal, poison=True)
    assert bench.count("POISON_RECEIVED") == 1
    assert bench.count("CONTRIBUTION") == bench.count("ILLEGAL_CODE") == 0
    assert bench.read(0, 0) == (ZEROS, True)
    plus = codes_to_lines([2] * 256).tobytes()
    bench.write(0, 0, plus)
    assert bench.read(0, 0) == (plus, True)
    assert bench.model.region_status(2).complete_lines == 1
    assert bench.read(0, 1) == (ZEROS, False)
    bench.recommit()
    bench.write(0, 0, plus)
    assert bench.read(0, 0) == (plus, False)


def test_early_reads_are_counted_and_poisoned_only_when_strict() -> None:
    for strict in (False, True):
        bench = DeviceFixture(config(strict=strict))
        bench.write(0, 0, ZEROS)
        bench.write(1, 0, ONES)
        assert [bench.read(s, 0)[1] for s in (0, 8, 15)] == [strict] * 3
        assert bench.count("EARLY_READ") == 3
        bench.write(2, 0, ONES)
        assert bench.read(0, 0) == (ONES, False)
        assert bench.count("EARLY_READ") == 3


def test_illegal_codes_are_counted_per_element_and_flagged() -> None:
    bench = DeviceFixture(config(Mode.G_TERNARY))
    bench.write(0, 0, codes_to_lines([1, 2, 1, 3]).tobytes())
    assert bench.count("ILLEGAL_CODE") == 2
    assert bench.model.region_status(2).illegal_seen
    bench.write(0, 0, codes_to_lines([1]).tobytes())
    assert bench.count("ILLEGAL_CODE") == 2
    bench.recommit()
    assert not bench.model.region_status(2).illegal_seen
    binary = DeviceFixture(config())
    binary.write(0, 0, codes_to_lines([1]).tobytes())
    assert binary.count("ILLEGAL_CODE") == 0


def test_counters_saturate_with_a_sticky_flag() -> None:
    bench = DeviceFixture(config(workers=8), DeviceParams(mem_lines_log2=12, cnt_w=2))
    for worker in range(3):
        bench.write(worker, 0, ZEROS)
    assert not bench.model.region_status(2).saturated
    bench.write(3, 0, b"\x01" + ONES[1:])  # one element negative: 511 zero bits do not increment
    assert bench.model.region_status(2).saturated
    for worker in range(4, 8):
        bench.write(worker, 0, ZEROS)
    assert counts(bench, 0) == [3] * 512
    assert bench.read(10, 0)[0] == ZEROS
    assert bench.read(0, 0)[0] == ONES  # 2 * 3 < 8: computed from the saturated counts
    bench.recommit()
    assert not bench.model.region_status(2).saturated


def test_saturation_needs_a_lost_increment() -> None:
    bench = DeviceFixture(config(workers=8), DeviceParams(mem_lines_log2=12, cnt_w=1))
    bench.write(0, 0, ZEROS)
    bench.write(1, 0, ONES)
    assert not bench.model.region_status(2).saturated
    bench.write(2, 0, b"\xfe" + ONES[1:])
    assert bench.model.region_status(2).saturated


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([Mode.G_BINARY, Mode.G_TERNARY]), st.integers(1, 3))
def test_arrival_order_does_not_matter(seed: int, mode: Mode, cnt_w: int) -> None:
    """Check that a set of contributions in any order gives the same reads, counters and status."""
    rnd = random.Random(seed)
    workers = rnd.randrange(1, 7)
    writes = [
        (worker, line, rnd.randbytes(64), rnd.random() < 0.15)
        for line in range(4)
        for worker in range(workers)
        if rnd.random() < 0.9
    ]
    seen = []
    for _ in range(2):
        bench = DeviceFixture(
            config(mode, workers=workers), DeviceParams(mem_lines_log2=12, cnt_w=cnt_w)
        )
        for worker, line, data, poison in writes:
            bench.write(worker, line, data, poison)
        answers = [bench.read(s, line) for s in (0, *range(8, 16)) for line in range(4)]
        seen.append((answers, bench.model.counters, bench.model.region_status(2)))
        rnd.shuffle(writes)
    assert seen[0] == seen[1]


def test_a_refused_commit_leaves_the_region_as_it_was() -> None:
    bench = DeviceFixture(config())
    bench.write(0, 0, ONES)
    assert bench.model.commit(2, config(threshold=0), 9) == CommitCode.THRESHOLD
    status = bench.model.region_status(2)
    assert (status.code, status.committed, status.epoch) == (2, True, 1)
    assert bench.read(0, 0)[0] == ONES
    assert bench.model.commit(3, config(), 9) == CommitCode.WINDOW_OVERLAP
    assert not bench.model.region_status(3).committed
    assert bench.model.config(3) is None
    assert bench.recommit() == CommitCode.OK  # its own old window is no obstacle


def test_refused_writes_change_nothing_and_are_captured_once() -> None:
    bench = DeviceFixture(config(ld_mask=0b11, bind=True))
    bench.write(0, 0, ONES, ldid=0)
    bench.write(1, 0, ONES, ldid=0)  # BIND
    bench.write(0, 0, ZEROS, ldid=5)  # LD_MASK
    bench.write(1, 0, ONES, be=1, ldid=1)  # PARTIAL
    bench.write(7, 0, ONES, ldid=1)  # SELECTOR
    bench.write_at(64 * 64, ONES)  # STATE_AREA
    assert bench.count("REFUSED") == 5
    bench.write_at((1 << 52) - 64, ONES)
    assert bench.count("UNMAPPED") == 1
    assert [e.cause for e in bench.model.refused] == [
        Cause.BIND,
        Cause.LD_MASK,
        Cause.PARTIAL,
        Cause.SELECTOR,
        Cause.STATE_AREA,
        Cause.UNMAPPED,
    ]
    first = bench.model.first_error
    assert first is not None
    assert (first.cause, first.write, first.opcode, first.ldid) == (Cause.BIND, True, 1, 0)
    assert first.addr == bench.config.address(1, 0)
    bench.model.rearm_error()
    assert bench.read(0, 0, ldid=9) == (ONES, True)
    assert bench.model.first_error is not None
    assert bench.model.first_error.cause == Cause.LD_MASK
    assert bench.count("CONTRIBUTION") == 1


def test_opcodes() -> None:
    bench = DeviceFixture(config())
    at = bench.config.address(0, 0)

    def step(opcode: int, addr: int = at) -> object:
        return bench.model.step(M2SReq(opcode, 5, addr, 3))

    assert step(ReqOp.MEM_SPEC_RD) is None
    assert step(ReqOp.MEM_INV, (1 << 52) - 64) == S2MNDR(0, 5, 3)
    assert step(ReqOp.MEM_INV_NT) == S2MNDR(0, 5, 3)
    assert bench.count("UNSUPPORTED") == 0
    assert step(ReqOp.MEM_RD_FWD) == S2MDRS(0, 5, 3, poison=True, data=ONES)
    assert step(ReqOp.MEM_WR_FWD) == S2MNDR(0, 5, 3)
    assert step(12) == S2MNDR(0, 5, 3)
    assert bench.model.step(M2SRwD(3, 6, at, data=ONES)) == S2MNDR(0, 6)
    framed = M2SRwD(RwdOp.MEM_WR, 7, at, data=ONES)
    assert bench.model.step(framed, illegal_framing=True) == S2MNDR(0, 7)
    assert bench.count("UNSUPPORTED") == 5
    assert bench.count("CONTRIBUTION") == 0
    assert isinstance(step(ReqOp.MEM_RD_DATA), S2MDRS)


def test_regions_do_not_touch_each_other() -> None:
    bench = DeviceFixture(config())
    other = config(base=(MEMORY_LINES + 1024) * 64, state_base=64 * 128)
    assert bench.model.commit(7, other, 4) == CommitCode.OK
    bench.write(0, 0, ONES)
    bench.write_at(other.address(0, 0), ZEROS)
    bench.write_at(other.address(1, 0), ZEROS)
    assert bench.read(0, 0)[0] == ONES
    assert bench.read_at(other.address(9, 0))[0] == ONES
    bench.recommit()
    assert bench.read_at(other.address(9, 0))[0] == ONES


def test_a_lost_record_empties_and_poisons_the_line() -> None:
    bench = DeviceFixture(config(workers=2))
    bench.write(0, 0, ONES)
    bench.model.lose_line(2, 0)
    assert bench.read(0, 0) == (ZEROS, True)
    bench.write(0, 0, ONES)
    bench.write(1, 0, ONES)
    assert bench.count("DUPLICATE") == 0
    assert bench.read(0, 0) == (ONES, True)
    assert bench.model.region_status(2).complete_lines == 0
    bench.recommit()
    assert bench.read(0, 0) == (ZEROS, False)


def test_misuse_is_refused() -> None:
    model = DeviceModel(PARAMS)
    with pytest.raises(ValueError, match="no region 8"):
        model.commit(8, config(), 1)
    with pytest.raises(ValueError, match="has no line"):
        model.lose_line(0, 0)
