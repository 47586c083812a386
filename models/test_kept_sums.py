# SPDX-License-Identifier: Apache-2.0
"""Tests of the device model's FP32 sums with KEEP_SUM, which the device may have stored.

They cover the correct responses, and the space of the state area.
"""

import numpy as np
import pytest

from cocotbext.cxl.wire.messages import S2MDRS, DrsOp, M2SReq, ReqOp
from models.conftest import DeviceFixture, config, lines
from models.fp32 import ordered_sum
from models.modes import Mode
from models.regions import RegionConfig, records, state_lines

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
