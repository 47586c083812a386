# SPDX-License-Identifier: Apache-2.0
"""Tests of the memory port: which line is lost by an error or poison, and negative twins of its
rules.
"""

import dataclasses
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest

from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import STATUS_SELECTOR, RegionConfig
from verif.axi import Resp
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.memory_port import EVICTION_ID, Initialiser
from verif.scoreboard.predictor_bench import PredictorBench
from verif.scoreboard.ranges import SETTLE_CLOCKS, Span
from verif.scoreboard.test_scoreboard import BINARY, FP32, ONE, Bench, read, write, wrong

RECORD = 4
"""Lines of a record of BINARY: bookkeeping, two planes, and one to make it a power of two."""


def beat(config: RegionConfig, offset: int, **fields: Any) -> MemBeat:
    """Return a read beat without error at a line of a region's state area.

    Args:
        config: Descriptor of the region.
        offset: Line in the state area.
        fields: Other values for fields of the beat.
    """
    one = MemBeat(False, 0, config.state_line + offset, 0, FULL_STROBE, False, 0, last=False)
    return dataclasses.replace(one, **fields)


def eviction(config: RegionConfig, offset: int, **fields: Any) -> MemBeat:
    """Return a beat of the write-back of a record, refused with SLVERR; `fields`: other values."""
    fields = {"write": True, "axi_id": EVICTION_ID, "resp": Resp.SLVERR, **fields}
    fields.setdefault("data", int(fields["axi_id"] == EVICTION_ID))  # a record is not empty
    return beat(config, offset, **fields)


KINDS = [{"resp": Resp.SLVERR}, {"resp": Resp.DECERR}, {"poison": True}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [RECORD, RECORD + 1, RECORD + 2])
def test_a_record_that_cannot_be_used_is_lost(kind: dict[str, Any], offset: int) -> None:
    for lost in (True, False):
        bench = Bench(BINARY)
        bench.contribute(BINARY, (0, 1), 1)  # two reach plane 1
        msg = bench.begin(read(BINARY.address(0, 1)))
        bench.beat(beat(BINARY, offset, **kind), lost)
        bench.answer(msg)
        assert bool(bench.errors) != lost, "a device that hides the loss must be found"


@pytest.mark.parametrize("kind", KINDS)
def test_planes_of_nobody_cost_nothing(kind: dict[str, Any]) -> None:
    for workers, offset, lost in ((0, 1, False), (0, 0, True), (1, 1, True), (1, 2, False)):
        bench = Bench(BINARY)
        bench.contribute(BINARY, range(workers), 1)
        msg = bench.begin(read(BINARY.address(0, 1)))
        bench.beat(beat(BINARY, RECORD + offset, **kind), lost)
        bench.answer(msg)
        assert bench.errors == []


def test_bookkeeping_of_fp32() -> None:
    bench = Bench(FP32)
    bench.do(write(FP32.address(0, 1)))
    bench.beat(beat(FP32, 3 * 4 + 1, poison=True))
    bench.device.lose_line(0, 1)
    bench.do(read(FP32.address(64, 1)))
    bench.do(read(FP32.address(0, 1)))
    assert bench.errors == []


def test_a_refused_write_back_loses_its_line() -> None:
    for lost in (True, False):
        bench = Bench(BINARY)
        bench.do(write(BINARY.address(0, 1)))
        bench.beat(eviction(BINARY, RECORD + 2), lost)
        bench.do(read(BINARY.address(8, 1)))
        assert bool(bench.errors) != lost


def test_after_a_refused_write_a_line_is_as_it_was_or_lost() -> None:
    refusals = (eviction(BINARY, 3 * RECORD), eviction(BINARY, 3 * RECORD, axi_id=3))
    for refusal in refusals:
        for lost in (True, False):
            bench = Bench(BINARY)
            bench.do(write(BINARY.address(0, 1)))
            bench.beat(refusal, lost)
            bench.do(write(BINARY.address(1, 1)))
            bench.do(write(BINARY.address(1, 1), ONE))
            bench.do(read(BINARY.address(0, 1)))
            bench.do(read(BINARY.address(8, 1)))
            bench.scoreboard.finish()
            assert bench.errors == []
            bench.answer(bench.begin(read(BINARY.address(9, 1))), wrong(poison=False))
            assert bool(bench.errors) == lost, "what is lost stays lost"


def test_after_a_refused_write_a_line_in_no_slot_is_lost() -> None:
    """Check that, after a refused write of a record, the record of a line in no slot must not be
    used.

    The line was not requested before, or was written back: a response from its old state is
    reported.
    """
    refusal, good = eviction(BINARY, 3 * RECORD), eviction(BINARY, RECORD + 2, resp=Resp.OKAY)
    for written_back in (True, False):
        for lost in (True, False):
            bench = Bench(BINARY)
            if written_back:
                bench.do(write(BINARY.address(0, 1)))
                bench.beat(dataclasses.replace(good, last=True))
            bench.beat(refusal, lost)
            bench.do(read(BINARY.address(8, 1)))
            assert bool(bench.errors) != lost, "the record is not to be believed"


def test_a_refusal_beside_a_commit_costs_no_line_for_certain() -> None:
    for lost in (True, False):
        bench = Bench(BINARY, FP32)
        bench.scoreboard.commit_begin(0, BINARY, 2)
        bench.beat(eviction(BINARY, 3 * RECORD))
        bench.device.commit(0, BINARY, 2)
        bench.scoreboard.commit_end(0)
        if lost:
            bench.device.lose_line(0, 1)
        bench.do(read(BINARY.address(8, 1)))
        assert bench.errors == []


def test_a_loss_decides_what_was_open() -> None:
    for lost in (True, False):
        bench = Bench(BINARY, FP32)
        bench.contribute(BINARY, range(2), 1)
        bench.beat(eviction(BINARY, 3 * RECORD))
        bench.do(write(BINARY.address(2, 1)))  # complete, or lost before: both are possible
        bench.commit(1, FP32, 2)
        bench.beat(eviction(BINARY, RECORD), lost)
        bench.do(write(BINARY.address(2, 1)))
        bench.do(read(BINARY.address(8, 1)))
        assert bool(bench.errors) != lost
        assert bench.scoreboard.judge.unjudged == 0


def test_poison_meets_every_state_that_a_line_can_be_in() -> None:
    for poisoned in (True, False):
        bench = Bench()
        both = [bench.begin(write(0x40, bytes([k] * 64))) for k in range(2)]
        for msg in reversed(both):  # either may have been the last
            bench.answer(msg)
        bench.scoreboard.judge.poison(1)
        if poisoned:
            bench.device.poison_line(1)
        bench.do(read(0x40))
        assert bool(bench.errors) != poisoned


def test_a_refusal_is_forgotten_with_the_round() -> None:
    bench = Bench(BINARY)
    bench.beat(eviction(BINARY, 0))
    bench.commit(0, BINARY, 2)
    bench.do(write(BINARY.address(0, 1)))
    bench.device.lose_line(0, 1)
    bench.do(read(BINARY.address(0, 1)))
    assert "Poison: got 1" in bench.errors[0]


def test_the_device_must_not_poison_its_own_state() -> None:
    for config, offset in ((BINARY, RECORD), (BINARY, RECORD + 1), (FP32, 5), (FP32, 13)):
        bench = Bench(BINARY, FP32)
        written = beat(
            config, offset, write=True, axi_id=2 if offset == 5 and config is FP32 else 0
        )
        bench.beat(written)
        assert bench.errors == []
        bench.beat(dataclasses.replace(written, poison=True))
        assert "MEMORY poison written" in bench.errors[0]


def test_counters_and_interrupts_follow_the_port() -> None:
    bench = Bench(BINARY)
    scoreboard = bench.scoreboard
    bus = PredictorBench(scoreboard, DeviceParams())
    status = bus.predictor.by_name["IRQ_STATUS"]
    mem, poison = status.field("MEM_ERROR").mask, status.field("POISON").mask

    def irq(right: int, *wrong: int) -> None:
        scoreboard.now += SETTLE_CLOCKS
        bus.exact("IRQ_STATUS", right, *wrong)
        scoreboard.errors.clear()

    def clear(ones: int) -> None:
        bus.write("IRQ_STATUS", ones)
        irq(0)

    irq(0, mem, poison)
    scoreboard.memory_beat(eviction(BINARY, 0, answered=False))
    scoreboard.memory_beat(eviction(BINARY, 1))
    scoreboard.memory_beat(beat(BINARY, 0, poison=True, resp=Resp.DECERR))
    irq(mem, 0)
    bus.exact("MEM_READ_ERROR", 1, 0, 2)
    bus.exact("MEM_WRITE_ERROR", 1, 0, 2)
    bus.exact("MEM_POISON", 0, 1)
    clear(mem)
    scoreboard.memory_beat(beat(BINARY, 0, poison=True))
    bus.write("IRQ_STATUS", mem)
    irq(poison, 0)
    clear(poison)
    bench.do(dataclasses.replace(write(0x40), poison=True))
    irq(poison, 0)
    clear(poison)
    scoreboard.clear_counters()
    irq(0)
    for name in ("MEM_READ_ERROR", "MEM_POISON", "POISON_RECEIVED"):
        bus.exact(name, 0, 1)


def forbidden(bench: Bench, one: MemBeat) -> str:
    """Pass a beat to the scoreboard, and return the findings about it as one text, "" for none."""
    before = len(bench.errors)
    bench.beat(one)
    return " ".join(bench.errors[before:])


def test_each_id_has_its_lines() -> None:
    for write_, axi_id, config, offset, right in (
        (False, 0, BINARY, 0, True),
        (False, 1, BINARY, 0, False),
        (True, 0, BINARY, 0, True),
        (True, 1, BINARY, 0, False),
        (True, 2, FP32, 0, True),
        (True, 0, FP32, 0, False),
        (False, 2, FP32, 13, False),
        (True, 1, BINARY, -1, True),
        (True, 3, BINARY, -1, False),
        (True, 7, BINARY, -1, False),
    ):
        bench = Bench(BINARY, FP32)
        one = beat(config, offset, write=write_, axi_id=axi_id)
        assert ("AXI ID" in forbidden(bench, one)) != right, (write_, axi_id, offset)


def test_a_record_moves_without_planes_that_it_never_needs() -> None:
    for write_ in (False, True):
        for last in range(4):
            bench = Bench(BINARY)
            one = beat(BINARY, RECORD + last, write=write_, last=True)
            assert ("up to plane" in forbidden(bench, one)) == (last == 3)


def test_a_record_is_written_whole() -> None:
    bench = Bench(BINARY)
    assert "WSTRB" in forbidden(bench, beat(BINARY, 0, write=True, strobe=FULL_STROBE >> 1))


def test_the_initialiser_writes_empty_records() -> None:
    for offset, data in ((0, 1), (1, 0)):
        bench = Bench(BINARY)
        bad = beat(BINARY, offset, write=True, axi_id=3, data=data)
        assert "initialiser" in forbidden(bench, bad)
        right = beat(BINARY, RECORD, write=True, axi_id=3)
        assert forbidden(bench, right) == ""
        assert "without need" in forbidden(bench, right)


def test_an_error_belongs_to_the_request_that_waits() -> None:
    for seen in (True, False):
        bench = Bench(BINARY)
        bench.device.read_errors.add(5)
        msg = bench.begin(read(5 << 6))
        if seen:
            one = MemBeat(False, 1, 5, 0, FULL_STROBE, False, Resp.DECERR)
            bench.beat(one)
        bench.answer(msg)
        assert bool(bench.errors) != seen


def test_of_racing_requests_one_or_the_other_met_the_error() -> None:
    bench = Bench(BINARY)
    both = [bench.begin(read(5 << 6)) for _ in range(2)]
    bench.beat(MemBeat(False, 1, 5, 0, FULL_STROBE, False, Resp.SLVERR))
    bench.answer(both[0])
    bench.device.read_errors.add(5)
    bench.answer(both[1])
    assert bench.errors == []


def test_a_loss_among_racing_requests() -> None:
    """Check that the record of a line may be lost before, between or after its racing requests.

    Each is accepted without giving up; in any case the line is lost for later requests.
    """
    for moment in (0, 1, 2):
        bench = Bench(BINARY)
        bench.do(write(BINARY.address(0, 1)))
        both = [bench.begin(read(BINARY.address(8, 1))) for _ in range(2)]
        bench.beat(eviction(BINARY, RECORD + 2, last=True))
        for number, msg in enumerate(both):
            if number == moment:
                bench.device.lose_line(0, 1)
            bench.answer(msg)
        if moment == 2:
            bench.device.lose_line(0, 1)
        assert bench.scoreboard.judge.unjudged == 0
        bench.do(read(BINARY.address(8, 1)))
        assert bench.errors == []
        bench.answer(bench.begin(read(BINARY.address(8, 1))), wrong(poison=False))
        assert bench.errors


@pytest.mark.parametrize("write_", [False, True])
@pytest.mark.parametrize("offset", [-1, RECORD, RECORD + 1])
@pytest.mark.parametrize("fault", [{}, *KINDS])
def test_a_beat_tells_whether_it_went_wrong(
    write_: bool, offset: int, fault: dict[str, Any]
) -> None:
    bench = Bench(BINARY)
    one = beat(BINARY, offset, write=write_, axi_id=int(offset < 0), **fault)
    wrong_ = bool(fault) and not (write_ and "poison" in fault)
    assert bench.scoreboard.memory.beat(one) is wrong_


@pytest.mark.parametrize("offset", range(-1, 12))
def test_a_failed_read_of_a_stored_line_belongs_to_its_line(offset: int) -> None:
    """Check each line of the area of an FP32 region, and the ordinary line before it."""
    for seen in (True, False):
        bench = Bench(FP32)
        line = (FP32.state_base >> 6) + offset
        address = FP32.address(0, offset % 4) if offset >= 0 else line << 6
        if offset >= 0:
            bench.contribute(FP32, range(3), offset % 4)
        bench.device.read_errors.add(line)
        msg = bench.begin(read(address))
        if seen:
            axi_id = 2 if offset >= 0 else 1
            bench.beat(MemBeat(False, axi_id, line, 0, FULL_STROBE, False, Resp.SLVERR))
        bench.answer(msg)
        assert bool(bench.errors) != seen


@pytest.mark.parametrize("moment", range(5))
def test_a_failed_read_of_a_record_among_racing_requests(moment: int) -> None:
    """Check that the record may be lost before, between or after two requests that race.

    Args:
        moment: Number of requests before the loss; 3 for a loss that the device hides, 4 for one
            after a commit begins.
    """
    bench = Bench(BINARY)
    bench.contribute(BINARY, range(2), 1)
    both = [bench.begin(read(BINARY.address(0, 1))) for _ in range(2)]
    bench.beat(beat(BINARY, RECORD, resp=Resp.SLVERR))
    if moment == 4:
        bench.scoreboard.commit_begin(0, BINARY, 2)
    for number, msg in enumerate(both):
        if number == moment % 4:
            bench.device.lose_line(0, 1)
        bench.answer(msg)
    if moment == 2:
        bench.device.lose_line(0, 1)
    if moment == 4:
        bench.device.commit(0, BINARY, 2)
        bench.scoreboard.commit_end(0)
    bench.do(read(BINARY.address(0, 1)))
    assert (bench.errors == []) is (moment != 3)
    assert bench.scoreboard.judge.unjudged == 0


def test_requests_that_can_have_one_state_only_are_in_no_race() -> None:
    """Check a line that is lost for certain, and requests that touch no line."""
    bench = Bench(BINARY)
    bench.beat(eviction(BINARY, 3 * RECORD))
    bench.device.lose_line(0, 1)
    bench.do(read(BINARY.address(0, 1)))
    for selector in (STATUS_SELECTOR, 200):
        bench.do(read(BINARY.address(selector, 1)))
    assert bench.errors == []
    assert "3 judged (0 in races)" in bench.scoreboard.summary()


# -- INIT_BUSY follows the writes of the initialiser; a write without need is flagged -------------


def begun(now: Callable[[], int] = int) -> Initialiser:
    """Return the model after the first commit of region 0, with descriptor BINARY; `now`: clock."""
    model = Initialiser(now)
    model.committed(0, None, BINARY, 8)
    return model


def fill(model: Initialiser, region: int = 0) -> None:
    """Let the initialiser write all lines of a region; each write is needed."""
    for index in range(BINARY.lines):
        assert model.write(region, index, False) is None


def committed_after_an_eviction(now: list[int]) -> Initialiser:
    """Return the model of a region that was committed again after line 1 had been evicted; all
    other lines are overwritten since. The clock is the item of ``now``.
    """
    model = begun(partial(now.__getitem__, 0))
    model.evicted(0, 1, empty=False, committing=False)
    model.committed(0, BINARY, BINARY, 8, trusted=True)
    for index in {*range(BINARY.lines)} - {1}:
        assert model.write(0, index, False) is None
    return model


def test_busy_until_the_last_line() -> None:
    for config in (BINARY, FP32):
        model = Initialiser(count(step=1_000).__next__)
        assert model.busy() == Span(0, 0)
        model.committed(0, None, config, 8)
        for index in range(config.lines):
            assert model.busy() == Span(1, 1)
            assert model.write(0, index, False) is None
        assert model.busy() == Span(0, 0)
        assert "without need" in str(model.write(0, 0, False))


def test_an_area_that_the_region_had_may_do_without() -> None:
    model = begun()
    fill(model)
    model.committed(0, BINARY, BINARY, 8)
    assert model.busy() == Span(0, 1)
    other = dataclasses.replace(BINARY, state_base=0x20000)
    model.committed(0, BINARY, other, 8)
    assert model.busy() == Span(1, 1)


def test_evictions_come_before_the_initialiser() -> None:
    cycle = 0
    model = begun(lambda: cycle)
    for index in range(BINARY.lines):
        assert model.busy() == Span(1, 1)
        assert model.evicted(0, index, empty=index % 2 == 1, committing=False) is None
        assert model.write(0, index, False) is not None
    assert model.busy() == Span(0, 1), "it may be passing the last ones"
    cycle = 1_000
    assert model.busy() == Span(0, 0)


def test_an_eviction_empties_no_record_that_exists() -> None:
    for first in ("initialiser", "eviction"):
        model = begun()
        if first == "initialiser":
            assert model.write(0, 1, False) is None
        else:
            assert model.evicted(0, 1, empty=False, committing=False) is None
        assert model.evicted(0, 1, empty=False, committing=False) is None
        assert "with an empty one" in str(model.evicted(0, 1, empty=True, committing=False))


def test_a_commit_lets_an_eviction_empty_a_record_once_more() -> None:
    """Check that it forgets which groups were overwritten, as the device does."""
    for again, text in ((True, "None"), (False, "with an empty one")):
        model = begun()
        assert model.evicted(0, 1, empty=True, committing=False) is None
        if again:
            model.committed(0, BINARY, BINARY, 8, trusted=True)
        assert text in str(model.evicted(0, 1, empty=True, committing=False))
        assert "with an empty one" in str(model.evicted(0, 1, empty=True, committing=False))
        assert "evicted record 1" in str(model.write(0, 1, False))


def test_a_commit_lets_evictions_empty_an_area_that_the_initialiser_has_yet_to_pass() -> None:
    small = dataclasses.replace(BINARY, lines_log2=0)
    for passed, text in ((False, "None"), (True, "with an empty one")):
        model = Initialiser(count(step=100_000).__next__)
        model.committed(1, None, dataclasses.replace(BINARY, state_base=0x20000), 8)
        model.committed(0, None, small, 8)
        if passed:
            fill(model, region=1)
            assert model.write(0, 0, False) is None
        else:
            assert model.evicted(0, 0, empty=True, committing=False) is None
        model.committed(0, small, small, 8, trusted=True)
        assert text in str(model.evicted(0, 0, empty=True, committing=False))


def test_a_write_to_the_new_place_under_a_commit_counts_for_it() -> None:
    """Check that it does not count for the old place, which the region may still overwrite."""
    one = dataclasses.replace(BINARY, lines_log2=0)
    other = dataclasses.replace(one, state_base=0x20000)
    for ahead, left in ((True, 0), (False, 1)):
        model = Initialiser(count(step=1_000).__next__)
        model.committed(0, None, one, 8)
        assert model.write(0, 0, False) is None
        model.committed(0, one, one, 8)  # it may do without
        assert model.write(0, 0, True, ahead) is None
        model.committed(0, one, other, 8, trusted=True)
        assert model.busy().low == left


def test_evictions_of_the_round_before_bind_nobody() -> None:
    model = begun()
    model.evicted(0, 1, empty=False, committing=False)
    model.committed(0, BINARY, BINARY, 8)
    assert model.write(0, 1, False) is None
    assert model.busy() == Span(1, 1)


def test_lines_evicted_before_a_commit_may_be_overwritten_last() -> None:
    for clocks, clean in ((0, True), (100_000, False)):
        now = [0]
        model = committed_after_an_eviction(now)
        now[0] += clocks
        assert (model.write(0, 1, False) is None) == clean
        assert model.busy() == Span(0, int(clean))


def test_lines_evicted_before_a_commit_wait_for_other_areas() -> None:
    """Check that the initialiser may come late to an area of which evictions have written all.

    It walks the area of another region first. Only then does the time run.
    """
    small = dataclasses.replace(BINARY, lines_log2=0)
    for clocks, clean in ((0, True), (100_000, False)):
        now = [0]
        model = Initialiser(partial(now.__getitem__, 0))
        model.committed(1, None, dataclasses.replace(BINARY, state_base=0x20000), 8)
        model.committed(0, None, small, 8)
        model.evicted(0, 0, empty=False, committing=False)
        model.committed(0, small, small, 8, trusted=True)
        now[0] += 100_000
        fill(model, region=1)
        now[0] += clocks
        assert (model.write(0, 0, False) is None) == clean
        assert model.busy() == Span(0, int(clean))


def test_a_repeated_commit_does_not_end_it() -> None:
    model = begun()
    model.write(0, 0, False)
    model.committed(0, BINARY, BINARY, 8)
    assert model.busy() == Span(1, 1)


def test_a_large_area_costs_what_is_written() -> None:
    model = Initialiser()
    tracemalloc.start()
    model.committed(0, None, dataclasses.replace(BINARY, lines_log2=30), 8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000, "bytes"
    assert model.write(0, (1 << 30) - 1, False) is None
    assert "without need" in str(model.write(0, (1 << 30) - 1, False))
    assert "without need" in str(model.write(0, 1 << 30, False))
    assert model.busy() == Span(1, 1)


def test_identity_needs_none() -> None:
    model = begun()
    plain = dataclasses.replace(BINARY, mode=Mode.IDENTITY)
    model.committed(0, BINARY, plain, 8)
    assert model.busy() == Span(0, 0)
    assert "without need" in str(model.write(0, 0, False))


def test_a_write_before_the_commit_is_settled() -> None:
    model = Initialiser(count(step=1_000).__next__)
    assert model.write(0, 0, True) is None
    model.committed(0, None, BINARY, 8)
    for index in range(1, BINARY.lines):
        assert model.busy() == Span(1, 1)
        assert model.write(0, index, False) is None
    assert model.busy() == Span(0, 0)
    assert model.write(0, 1, True) is None
    grown = dataclasses.replace(BINARY, lines_log2=4)
    model.committed(0, BINARY, grown, 8)  # it may have been a line of the old shape
    assert model.busy() == Span(0, 1)


def test_an_area_that_has_kept_its_trust_does_without() -> None:
    model = begun(count(step=1_000).__next__)
    fill(model)
    model.committed(0, BINARY, BINARY, 8, trusted=True)
    assert model.busy() == Span(0, 0)
    assert "without need" in str(model.write(0, 0, False))


def test_lines_evicted_before_a_commit_are_passed_whatever_the_region_becomes() -> None:
    now = [0]
    model = committed_after_an_eviction(now)
    model.committed(0, BINARY, dataclasses.replace(BINARY, mode=Mode.IDENTITY), 8)
    for now[0], busy in ((39, 1), (40, 0)):
        assert model.busy() == Span(0, busy)
