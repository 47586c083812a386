# SPDX-License-Identifier: Apache-2.0
"""Tests of INFO, STATUS, CLOSE and LATE in the device model (second edition, §4 and §5)."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.commit_check import CommitCode
from models.conftest import PARAMS, DeviceFixture, config
from models.device import DeviceModel
from models.info_status_lines import LineInfo, StatusView, unpack_words
from models.modes import Mode

AGGREGATING = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)


def info(bench: DeviceFixture, line: int) -> LineInfo:
    data, poison = bench.read(1, line)
    assert not poison, "INFO is never poisoned"
    return LineInfo.unpack(data)


def status(bench: DeviceFixture) -> StatusView:
    data, poison = bench.read(2, 0)
    assert not poison
    return StatusView.unpack(data)


def lines_of(bench: DeviceFixture) -> list[int]:
    return [word for selector in range(3, 7) for word in unpack_words(bench.read(selector, 0)[0])]


@given(
    st.builds(
        LineInfo,
        *(st.integers(0, 2**32 - 1),) * 2,
        st.integers(0, 2**64 - 1),
        st.integers(0, 64),
        *(st.booleans(),) * 5,
    )
)
def test_info_is_packed_and_unpacked(one: LineInfo) -> None:
    assert LineInfo.unpack(one.pack()) == one


def test_what_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above its flags"):
        LineInfo.unpack((1 << 141).to_bytes(64, "little"))
    with pytest.raises(ValueError, match="behind its last"):
        StatusView.unpack(bytes(63) + b"\1")


@pytest.mark.parametrize("mode", AGGREGATING)
def test_info_through_the_life_of_a_line(mode: Mode) -> None:
    bench = DeviceFixture(config(mode, strict=True))
    assert info(bench, 1) == LineInfo(1, 1, 0, 0, *(False,) * 5)
    bench.write(2, 1, bytes(64))
    assert info(bench, 1) == LineInfo(1, 1, 0b100, 1, *(False,) * 5)
    bench.write(1, 1, bytes(64), poison=True)
    bench.write(0, 1, bytes(64))
    bench.write(1, 1, bytes(64))
    assert info(bench, 1) == LineInfo(1, 1, 0b111, 3, True, True, False, False, False)
    assert bench.count("EARLY_READ") == 0
    bench.model.lose_line(bench.region, 1)
    assert info(bench, 1) == LineInfo(1, 1, 0, 0, False, True, True, False, False)
    assert bench.model.commit(bench.region, bench.config, 77) == CommitCode.OK
    assert info(bench, 1) == LineInfo(77, 2, 0, 0, *(False,) * 5)


def test_saturated_is_of_the_line() -> None:
    bench = DeviceFixture(config(), replace(PARAMS, cnt_w=1))
    for line in (0, 1):
        for worker in range(3 if line else 1):
            bench.write(worker, line, bytes(64))
    assert not info(bench, 0).saturated
    assert info(bench, 1).saturated


def test_generations_begin_again() -> None:
    bench = DeviceFixture(config(), replace(PARAMS, gen_w=2))
    seen = []
    for _ in range(7):
        seen.append(info(bench, 0).generation)
        bench.recommit()
    assert seen == [1, 2, 3, 1, 2, 3, 1]


@pytest.mark.parametrize("mode", AGGREGATING)
def test_a_closed_region_is_final(mode: Mode) -> None:
    bench = DeviceFixture(config(mode, strict=True))
    bench.write(0, 0, bytes(64))
    part = 64 if mode == Mode.FP32 else 8
    before = bench.read(part, 0)[0]
    assert bench.read(0, 0)[1], "early, with STRICT"
    early = bench.count("EARLY_READ")
    bench.model.close(bench.region)
    assert bench.model.region_status(bench.region).done
    bench.write(0, 0, b"\xff" * 64)  # again: a duplicate, or FP32 that comes late
    bench.write(1, 0, b"\xff" * 64)
    bench.write(2, 0, b"\xff" * 64, poison=True)
    assert bench.read(part, 0) == (before, False)
    assert not bench.read(0, 0)[1]
    assert not bench.read(0, 3)[1]
    assert bench.count("EARLY_READ") == early
    late = 3 if mode == Mode.FP32 else 2
    assert (bench.count("LATE"), bench.count("POISON_RECEIVED")) == (late, 0)
    assert info(bench, 0) == LineInfo(1, 1, 1, 1, *(False,) * 4, True)
    assert status(bench) == StatusView(1, 0, 1, 0, 0, late, 0)
    bad = replace(bench.config, threshold=0)
    assert bench.model.commit(bench.region, bad, 2) == CommitCode.THRESHOLD
    assert bench.model.region_status(bench.region).closed
    bench.recommit()
    bench.write(1, 0, bytes(64))
    assert bench.model.region_status(bench.region).done is False
    assert info(bench, 0).bitmap == 0b10
    assert status(bench).late == 0


def test_close_without_a_round() -> None:
    model = DeviceModel(PARAMS)
    model.close(0)
    assert not model.region_status(0).closed
    bench = DeviceFixture(config(Mode.IDENTITY))
    bench.model.close(bench.region)
    assert not bench.model.region_status(bench.region).done
    bench.write(0, 0, b"\1" * 64)
    assert bench.read(0, 0)[0] == b"\1" * 64


def test_status_counts_since_the_commit() -> None:
    bench = DeviceFixture(config(Mode.FP32, workers=40, ld_mask=1))
    for worker in (0, 17, 17, 39):
        for line in range(4):
            bench.write(worker, line, bytes(64))
    bench.write(5, 1, bytes(64), poison=True)
    bench.write(6, 1, bytes(64), poison=True)
    bench.write(5, 2, bytes(64), poison=True)
    bench.write_at(bench.config.address(50, 0), bytes(64))
    bench.write_at(bench.config.address(1, 0), bytes(64), ldid=4)
    bench.write_at(1 << 40, bytes(64))  # not in the window
    expected = [4 if worker in (0, 17, 39) else 0 for worker in range(64)]
    assert lines_of(bench) == expected
    assert status(bench) == StatusView(1, 0, 0, 0, 2, 0, 2)
    bench.model.clear_counters()
    assert set(bench.model.counters.values()) == {0}
    assert status(bench).refused == 2
    bench.recommit()
    assert status(bench) == StatusView(1, 0, 0, 0, 0, 0, 0)
    assert not any(lines_of(bench))


@given(st.integers(0, 2**32), st.sampled_from(AGGREGATING))
@settings(max_examples=40, deadline=None)
def test_status_is_the_sum_of_the_lines(seed: int, mode: Mode) -> None:
    """Check that STATUS and the counts per worker equal the sums over INFO of all lines."""
    rng = random.Random(seed)
    bench = DeviceFixture(config(mode, workers=rng.choice((1, 2, rng.randint(1, 20)))))
    sent, closed = 0, False
    for _ in range(rng.randint(1, 150)):
        if rng.random() < 0.01:
            bench.model.close(bench.region)
            closed = True
        worker, line = rng.randrange(bench.config.workers), rng.randrange(4)
        sent += 1
        bench.write(worker, line, rng.randbytes(64), poison=rng.random() < 0.1)
    infos = [info(bench, line) for line in range(4)]
    got = status(bench)
    assert got.done == (closed or all(one.complete for one in infos))
    assert got.complete_lines == sum(one.complete for one in infos)
    assert got.poisoned_lines == sum(one.poisoned for one in infos)
    assert lines_of(bench) == [sum(one.bitmap >> w & 1 for one in infos) for w in range(64)]
    counted = ("DUPLICATE", "CONTRIBUTION", "POISON_RECEIVED", "LATE")
    assert sum(bench.count(name) for name in counted) == sent
    assert got.late == bench.count("LATE")
