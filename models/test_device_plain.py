# SPDX-License-Identifier: Apache-2.0
"""Tests of the device model in FP32 mode and as plain memory, with memory faults."""

import struct

import pytest

from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from models.commit_check import CommitCode
from models.conftest import PARAMS, DeviceFixture, config, lines
from models.device import DeviceModel
from models.memory import MemoryLine
from models.modes import Mode

ONES = b"\xff" * 64
ZEROS = bytes(64)
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
    assert bench.count("EARLY_READ") == 0
    assert bench.read(0, 0)[0] == struct.pack("<16I", *[0x7FC00000] * 16)
    assert bench.count("EARLY_READ") == 1


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
    assert bench.count("DUPLICATE") == 0
    assert bench.count("CONTRIBUTION") == 2


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
    assert bench.count("POISON_RECEIVED") == 2
    assert bench.count("CONTRIBUTION") == 1
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
