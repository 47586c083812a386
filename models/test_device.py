# SPDX-License-Identifier: Apache-2.0
"""Tests of the device model: votes, FP32 sums, plain memory, refused accesses, memory faults."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, DrsOp, M2SReq, M2SRwD, ReqOp, RwdOp
from models.access_decode import Cause
from models.commit_check import CommitCode
from models.conftest import PARAMS, DeviceFixture, config, counts, lines
from models.device import DeviceModel
from models.fp32 import ordered_sum
from models.line_packing import codes_to_lines
from models.memory import MemoryLine
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig, records, state_lines
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
    assert (bench.count("CONTRIBUTION"), bench.count("EARLY_READ")) == (3, 0)


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
    assert (bench.count("CONTRIBUTION"), bench.count("DUPLICATE")) == (1, 2)
    assert bench.count("POISON_RECEIVED") == 0


def test_a_poisoned_contribution_marks_the_line_and_may_be_sent_again() -> None:
    bench = DeviceFixture(config(Mode.G_TERNARY, workers=1))
    illegal = codes_to_lines([1] * 256).tobytes()
    bench.write(0, 0, illegal, poison=True)
    bench.counted(POISON_RECEIVED=1)
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
    bench.counted(UNSUPPORTED=5)
    assert isinstance(step(ReqOp.MEM_RD_DATA), S2MDRS)


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


A, B, C = lines(3, 3)


def floats(*values: float) -> bytes:
    """Return a 64-byte line that begins with ``values`` as binary32; the rest is zero."""
    return struct.pack(f"<{len(values)}f", *values).ljust(64, b"\0")


def test_sum_is_in_worker_order() -> None:
    bench = DeviceFixture(config(Mode.FP32))
    tiny = 2.0**-24
    for worker, value in ((2, tiny), (0, 1.0), (1, tiny)):
        bench.write(worker, 1, floats(value))
    assert bench.read(0, 1) == (floats(1.0), False)
    bench.recommit()
    for worker, value in ((0, tiny), (2, 1.0), (1, tiny)):
        bench.write(worker, 1, floats(value))
    assert bench.read(0, 1) == (floats(1.0 + 2.0**-23), False)


def test_raw_reads_are_byte_for_byte() -> None:
    bench = DeviceFixture(config(Mode.FP32))
    nan = struct.pack("<16I", *[0xFF812345] * 16)
    bench.write(1, 0, nan)
    assert bench.read(65, 0) == (nan, False)
    bench.counted(CONTRIBUTION=1)
    assert bench.read(0, 0)[0] == struct.pack("<16I", *[0x7FC00000] * 16)
    bench.counted(CONTRIBUTION=1, EARLY_READ=1)


@pytest.mark.parametrize("strict", [False, True])
def test_early_reads(strict: bool) -> None:
    bench = DeviceFixture(config(Mode.FP32, strict=strict))
    assert bench.read(64, 0) == (ZEROS, strict)
    assert bench.read(0, 0) == (ZEROS, strict)
    bench.write(0, 0, A)
    assert bench.read(64, 0) == (A, False)
    assert bench.read(65, 0) == (ZEROS, strict)
    assert bench.count("EARLY_READ") == 3


def test_the_last_write_of_a_worker_wins() -> None:
    bench = DeviceFixture(config(Mode.FP32))
    bench.write(0, 0, A)
    bench.write(0, 0, B)
    assert bench.read(64, 0) == (B, False)
    bench.counted(CONTRIBUTION=2)


def test_partial_writes_never_show_an_older_epoch() -> None:
    bench = DeviceFixture(config(Mode.FP32))
    bench.write(0, 0, A)
    bench.write(0, 0, B, be=0xF0)
    assert bench.read(64, 0)[0] == A[:4] + B[4:8] + A[8:]
    bench.recommit()
    bench.write(0, 0, C, be=0x0F)
    assert bench.read(64, 0)[0] == C[:4] + bytes(60)
    bench.write(0, 0, B, be=0xF0)
    assert bench.read(64, 0)[0] == C[:4] + B[4:8] + bytes(56)


def test_an_empty_partial_write_is_a_contribution() -> None:
    bench = DeviceFixture(config(Mode.FP32, workers=1, lines_log2=0))
    bench.write(0, 0, A, be=0)
    assert bench.read(64, 0) == (ZEROS, False)
    assert bench.model.region_status(2).done


def test_a_poisoned_contribution_is_not_stored() -> None:
    bench = DeviceFixture(config(Mode.FP32, workers=1))
    bench.write(0, 0, A, poison=True)
    assert bench.read(64, 0) == (ZEROS, True)
    assert bench.model.region_status(2).complete_lines == 0
    bench.write(0, 0, B)
    bench.write(0, 0, A, poison=True)
    assert bench.read(64, 0) == (B, True)
    assert bench.read(0, 0)[1]
    bench.counted(POISON_RECEIVED=2, CONTRIBUTION=1, EARLY_READ=1)
    assert bench.model.region_status(2).complete_lines == 1


def test_contributions_lie_where_the_specification_puts_them() -> None:
    bench = DeviceFixture(config(Mode.FP32))
    bench.write(2, 1, A)
    identity = config(Mode.IDENTITY, state_base=64 * 64)
    assert bench.model.commit(2, identity, 2) == CommitCode.OK
    assert bench.read(2, 1) == (A, False)  # the same line: w * n + i


def test_identity_is_memory_behind_a_window() -> None:
    bench = DeviceFixture(config(Mode.IDENTITY))
    bench.write(200, 3, A)
    assert bench.read(200, 3) == (A, False)
    bench.write(200, 3, B, be=1)
    assert bench.read(200, 3) == (B[:1] + A[1:], False)
    status = bench.model.region_status(2)
    assert (status.done, status.complete_lines) == (False, 0)
    bench.recommit(state_base=64 * 64 * 32)
    assert bench.read_at((64 + 200 * 4 + 3) * 64) == (B[:1] + A[1:], False)


def test_poison_in_memory() -> None:
    bench = DeviceFixture(config())
    bench.write_at(0, A, poison=True)
    assert bench.read_at(0) == (A, True)
    bench.write_at(0, B, be=0)
    assert bench.read_at(0) == (A, True)
    bench.write_at(0, B)
    assert bench.read_at(0) == (B, False)
    assert bench.count("CONTRIBUTION") == 0


def test_initial_memory() -> None:
    model = DeviceModel(PARAMS, lambda line: MemoryLine(bytes([line & 255]) * 64, line == 9))
    result = model.step_result(M2SReq(ReqOp.MEM_RD, 0, 9 * 64))
    assert getattr(result.response, "data", b"") == b"\x09" * 64
    assert getattr(result.response, "poison", False)


def test_a_left_state_area_is_undetermined() -> None:
    bench = DeviceFixture(config())
    bench.write_at(0, A)
    bench.recommit(state_base=64 * 1024)
    result = bench.model.step_result(M2SReq(ReqOp.MEM_RD, 0, 64 * 64))
    assert (result.known_bytes, result.poison_known) == (0, False)
    bench.write_at(64 * 64, B)
    assert bench.read_at(64 * 64) == (B, False)
    result = bench.model.step_result(M2SReq(ReqOp.MEM_RD, 0, 64 * 64))
    assert result.known_bytes == (1 << 64) - 1
    assert bench.read_at(0) == (A, False)


def test_fp32_leaves_untouched_lines_as_they_were() -> None:
    bench = DeviceFixture(config())
    for line in (1024, 1024 + 12):
        bench.write_at(line * 64, A)
    bench.recommit(mode=Mode.FP32, state_base=1024 * 64)
    bench.write(0, 1, B)
    bench.recommit(state_base=2048 * 64)
    assert bench.read_at(1024 * 64) == (A, False)
    assert bench.read_at((1024 + 1) * 64) == (B, False)
    bookkeeping = bench.model.step_result(M2SReq(ReqOp.MEM_RD, 0, (1024 + 12) * 64))
    assert bookkeeping.known_bytes == 0


def test_memory_errors() -> None:
    bench = DeviceFixture(config())
    bench.model.read_errors.add(5)
    assert bench.read_at(5 * 64) == (ONES, True)
    assert bench.count("MEM_READ_ERROR") == 1
    bench.model.read_errors.discard(5)
    bench.write_at(5 * 64, A)
    assert bench.read_at(5 * 64) == (A, False)
    bench.model.write_errors.add(5)
    bench.write_at(5 * 64, B)
    assert bench.count("MEM_WRITE_ERROR") == 1
    assert bench.model.step_result(M2SReq(ReqOp.MEM_RD, 0, 5 * 64)).known_bytes == 0


def test_memory_errors_under_fp32() -> None:
    bench = DeviceFixture(config(Mode.FP32))
    backing = 64 + 1 * 4 + 0
    bench.model.read_errors.add(backing)
    assert bench.read(65, 0) == (ZEROS, False)  # nothing was written, nothing is read
    bench.write(0, 0, A)
    bench.write(1, 0, B)
    assert bench.read(64, 0) == (A, False)
    assert bench.read(65, 0) == (ONES, True)
    assert bench.read(0, 0) == (ONES, True)
    assert bench.count("MEM_READ_ERROR") == 2
    bench.model.write_errors.add(64 + 2 * 4)
    bench.write(2, 0, C)
    assert bench.count("MEM_WRITE_ERROR") == 1
    assert bench.read(64, 0) == (A, True)
    bench.model.lose_line(2, 0)
    assert bench.read(64, 0) == (ZEROS, True)


def test_poisoned_writes_of_plain_memory_are_counted() -> None:
    bench = DeviceFixture(config(Mode.IDENTITY))
    bench.write_at(5 * 64, A, poison=True)
    bench.write_at(5 * 64, B, poison=True, be=1)
    bench.write_at(bench.config.address(3, 1), C, poison=True)
    bench.model.write_errors.add(6)
    bench.write_at(6 * 64, A, poison=True)
    assert bench.count("POISON_RECEIVED") == 4
    assert bench.read_at(5 * 64)[1]
    assert bench.count("MEM_POISON") == 1
    bench.write_at(1 << 40, A, poison=True)  # unmapped: refused, and counted as that alone
    assert bench.count("POISON_RECEIVED") == 4


def test_poison_of_memory_comes_out() -> None:
    bench = DeviceFixture(config(Mode.FP32))
    bench.model.poison_line(7)
    assert bench.read_at(7 * 64) == (ZEROS, True)
    bench.write_at(7 * 64, A)
    assert bench.read_at(7 * 64) == (A, False)

    def backing(worker: int) -> int:
        return 64 + worker * 4

    bench.model.poison_line(backing(0))  # of an earlier epoch: the first store covers it
    bench.write(0, 0, A, be=3)
    assert bench.read(64, 0) == (A[:2] + ZEROS[2:], False)
    bench.write(1, 0, B)
    clean, _ = bench.read(0, 0)
    bench.model.poison_line(backing(1))
    assert bench.read(65, 0) == (B, True)
    assert bench.read(64, 0) == (A[:2] + ZEROS[2:], False)
    assert bench.read(0, 0) == (clean, True)
    bench.write(1, 0, B, be=1)
    assert bench.read(65, 0) == (B, True), "a partial store does not end the mark"
    assert bench.count("MEM_POISON") == 4
    bench.model.read_errors.add(backing(0))
    assert bench.read(0, 0) == (ONES, True)
    assert (bench.count("MEM_READ_ERROR"), bench.count("MEM_POISON")) == (1, 5)
    bench.model.read_errors.discard(backing(0))
    bench.write(1, 0, B)
    assert bench.read(0, 0) == (clean, False)
    bench.model.poison_line(backing(1))
    bench.recommit(state_base=1024 * 64)
    assert bench.read_at(backing(1) * 64) == (B, True), "the mark stays in the area that was left"


def test_a_mark_is_part_of_the_state() -> None:
    bench = DeviceFixture(config(Mode.FP32))
    bench.write(0, 0, A)
    key = bench.model.line_key(M2SReq(ReqOp.MEM_RD, 0, bench.config.address(0, 0)))
    before = bench.model.snapshot(key)
    bench.model.poison_line(64)
    assert "memory marks the line of worker 0" in bench.model.explain(
        M2SReq(ReqOp.MEM_RD, 0, bench.config.address(64, 0))
    )
    bench.model.restore(key, before)
    assert bench.read(64, 0) == (A, False)
    bench.model.poison_line(64)
    bench.model.lose_line(2, 0)
    bench.write(0, 0, A)
    assert bench.read(64, 0) == (A, True)
    assert bench.count("MEM_POISON") == 0, "the store after the loss covers the mark"


WORKERS = 3


def complete(keep_sum: bool = True) -> tuple[DeviceFixture, bytes]:
    """Return a device with an FP32 region whose line 1 all workers have written, and its sum."""
    bench = DeviceFixture(config(Mode.FP32, workers=WORKERS, keep_sum=keep_sum))
    data = lines(1, WORKERS)
    for worker, line in enumerate(data):
        bench.write(worker, 1, line)
    stack = np.frombuffer(b"".join(data), dtype=np.uint8).reshape(WORKERS, 1, 64)
    return bench, ordered_sum(stack).tobytes()


def right(bench: DeviceFixture, data: bytes, poison: bool) -> bool:
    """Return whether the model accepts this response to a read of the sum of line 1."""
    msg = M2SReq(ReqOp.MEM_RD, 0, bench.config.address(0, 1))
    result = bench.model.step_result(msg)
    answer = S2MDRS(DrsOp.MEM_DATA, 0, poison=poison, data=data)
    return not result.differences(answer)


def place(bench: DeviceFixture, worker: int) -> int:
    """Return the memory line in which a worker's contribution to line 1 is stored."""
    return bench.config.state_line + worker * bench.config.lines + 1


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize("fault", ["poison", "error"])
def test_a_sum_may_be_clean_if_it_was_read_before_the_fault(fault: str, read_before: bool) -> None:
    bench, total = complete()
    if read_before:
        bench.read(0, 1)
    marked, other = total, b"\xff" * 64
    if fault == "poison":
        bench.model.poison_line(place(bench, 2))
    else:
        bench.model.read_errors.add(place(bench, 0))
        marked, other = other, total
    for _ in range(2):
        assert right(bench, total, poison=False) == read_before
        assert right(bench, marked, poison=True)
        assert not right(bench, other, poison=True)
        assert not right(bench, bytes(64), poison=False)


def test_a_raw_line_is_never_kept() -> None:
    bench, _ = complete()
    bench.read(0, 1)
    bench.model.poison_line(place(bench, 2))
    assert bench.read(64 + 2, 1)[1]


@pytest.mark.parametrize("ends", ["store", "poison", "loss", "option", "commit"])
def test_what_ends_a_kept_sum(ends: str) -> None:
    bench, total = complete(keep_sum=ends != "option")
    bench.read(0, 1)
    if ends == "store":
        bench.write(1, 1, lines(1, WORKERS)[1])
    elif ends == "poison":
        bench.write(1, 1, bytes(64), poison=True)
    elif ends == "loss":
        bench.model.lose_line(bench.region, 1)
    elif ends == "commit":
        bench.recommit()
        bench.write(2, 1, bytes(64))
    bench.model.poison_line(place(bench, 2))
    if ends == "loss":
        total = bytes(64)
    assert not right(bench, total, poison=False)


@pytest.mark.parametrize("start", [0, 1, 6, 63])
@pytest.mark.parametrize(("workers", "lines_log2"), [(1, 0), (3, 0), (4, 0), (3, 2)])
def test_records_are_aligned_pairs_inside_the_area(
    start: int, workers: int, lines_log2: int
) -> None:
    one = RegionConfig(0, start * 64, lines_log2, workers, Mode.FP32, keep_sum=True)
    first, distance = records(one, 8)
    data_end = start + workers * one.lines
    assert (first % 2, distance) == (0, 2)
    assert first - data_end in (0, 1)
    assert first + 2 * one.lines <= start + state_lines(one, 8)
    assert not RegionConfig(0, 0, 0, 1, Mode.G_BINARY, keep_sum=True).keeps_sums
