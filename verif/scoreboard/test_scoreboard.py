# SPDX-License-Identifier: Apache-2.0
"""Negative twins of the scoreboard: a right response passes, each kind of wrong one is reported."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import pytest

from cocotbext.cxl.wire.messages import (
    S2MDRS,
    DevLoad,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from models.device import DeviceModel
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import STATUS_SELECTOR, RegionConfig, state_lines
from verif.coverage.device_coverage import NfCoverage
from verif.mem.memory_config import MemBeat
from verif.scoreboard.finding import Finding
from verif.scoreboard.ranges import Span
from verif.scoreboard.scoreboard import Scoreboard

MEM = 20
BINARY = RegionConfig(1 << 40, 0x10000, 2, 3, Mode.G_BINARY)
FP32 = RegionConfig(1 << 41, 0x40000, 2, 3, Mode.FP32)
IDENTITY = RegionConfig(1 << 42, 0x80000, 2, 3, Mode.IDENTITY)
ONE = b"\x01" * 64
TWO = b"\x02" * 64


class Bench:
    """Scoreboard with a second device model in place of the device.

    Args:
        configs: Descriptors that are committed as regions 0, 1, ... with epoch 1.
        budget: See `Scoreboard`.
        coverage: Coverage to sample, or None.
        board: Class of the scoreboard.
        options: Parameters of the device.
    """

    def __init__(
        self,
        *configs: RegionConfig,
        budget: int = 4000,
        coverage: NfCoverage | None = None,
        board: type[Scoreboard] = Scoreboard,
        **options: int,
    ) -> None:
        params = DeviceParams(mem_lines_log2=MEM, **options)
        self.device = DeviceModel(params)
        model = DeviceModel(params)
        self.scoreboard = board(model, params.regions, budget, observer=coverage)
        if coverage is not None:
            coverage.watch(self.scoreboard)
        self.tag = 0
        for region, config in enumerate(configs):
            self.commit(region, config, 1)

    def commit(self, region: int, config: RegionConfig, epoch: int) -> None:
        self.scoreboard.commit_begin(region, config, epoch)
        self.device.commit(region, config, epoch)
        self.scoreboard.commit_end(region)

    def commit_during(
        self, msg: M2SMessage, region: int, config: RegionConfig | None, before: bool = True
    ) -> None:
        """Commit epoch 2 of a region, or close it, while a request is in flight; answer both.

        Args:
            msg: Request in flight.
            region: Number of the region.
            config: Descriptor to commit; None closes the region.
            before: Whether the device executes the request before the commit or close.
        """
        if config is None:
            self.scoreboard.close_begin(region)
        else:
            self.scoreboard.commit_begin(region, config, 2)
        if before:
            self.answer(msg)
        if config is None:
            self.device.close(region)
        else:
            self.device.commit(region, config, 2)
        self.scoreboard.commit_end(region)
        if not before:
            self.answer(msg)

    def begin(self, msg: M2SMessage) -> M2SMessage:
        self.tag += 1
        msg = msg.with_tag(self.tag)
        self.scoreboard.request(msg)
        return msg

    def answer(
        self, msg: M2SMessage, change: Callable[[S2MMessage], S2MMessage] | None = None
    ) -> None:
        response = self.device.step(msg)
        assert response is not None
        self.scoreboard.response(change(response) if change else response)

    def do(self, msg: M2SMessage) -> None:
        self.answer(self.begin(msg))

    def contribute(self, config: RegionConfig, workers: Iterable[int], line: int) -> None:
        """Send contributions of some workers to a line of a region, one after the other."""
        for worker in workers:
            self.do(write(config.address(worker, line)))

    def beat(self, beat: MemBeat, lost: bool = False) -> None:
        """Pass a beat on the memory port to the scoreboard; `lost`: the device then loses line 1 of
        region 0.
        """
        self.scoreboard.memory_beat(beat)
        if lost:
            self.device.lose_line(0, 1)

    @property
    def errors(self) -> list[Finding]:
        return self.scoreboard.errors


def write(addr: int, data: bytes = ONE) -> M2SRwD:
    return M2SRwD(RwdOp.MEM_WR, 0, addr, data=data)


def read(addr: int) -> M2SReq:
    return M2SReq(ReqOp.MEM_RD, 0, addr)


def test_events_between_two_commits_count_once() -> None:
    bench = Bench(IDENTITY)
    held = bench.begin(read(IDENTITY.address(0, 0)))  # keeps the region from being judged
    bench.commit(0, IDENTITY, 2)
    place = IDENTITY.address(1, 3)
    racing = [bench.begin(dataclasses.replace(write(place), poison=True)), bench.begin(read(place))]
    for msg in racing:
        bench.answer(msg)
    bench.commit(0, IDENTITY, 3)
    bench.answer(held)
    assert bench.errors == []
    assert bench.scoreboard.counter_range("POISON_RECEIVED") == (1, 1)


def wrong(**fields: Any) -> Callable[[Any], S2MMessage]:
    """Return a function that replaces fields of a response."""
    return lambda answer: dataclasses.replace(answer, **fields)


def test_one_fault_has_one_key() -> None:
    """Check that one fault gives one key, whatever the opcode, data and tag, and with or without a
    race.
    """
    keys = []
    for worker, opcode in ((0, ReqOp.MEM_RD), (2, ReqOp.MEM_RD_DATA), (7, ReqOp.MEM_RD)):
        bench = Bench(BINARY)
        for sender in range(3):
            bench.do(write(BINARY.address(sender, 1), bytes([worker + sender] * 64)))
        first = bench.begin(M2SReq(opcode, worker, BINARY.address(0, 1)))
        racing = bench.begin(M2SReq(opcode, worker, BINARY.address(0, 1)))
        data = bytes([worker + 100] * 64)
        bench.answer(first, wrong(data=data))
        bench.answer(racing)
        keys.append(bench.errors[0].key)
    assert keys == ["scoreboard, G_BINARY: data; in whole line, RESULT"] * 3


@pytest.mark.parametrize(
    ("bad", "extent"),
    [
        ((5,), "one byte"),
        ((4, 7), "one element"),
        ((3, 4), "one slot"),
        ((16, 31), "one slot"),
        ((15, 16), "whole line"),
        (range(64), "whole line"),
    ],
)
def test_a_key_tells_the_extent_of_a_difference(bad: Sequence[int], extent: str) -> None:
    """Check that the key of a finding names the extent of wrong data.

    It is one byte, one element, one slot of 16 bytes, or the whole line.
    """
    bench = Bench(FP32)
    answer = bench.begin(read(FP32.address(0, 1)))
    data = bytes(0xFF if n in bad else 0 for n in range(64))
    bench.answer(answer, wrong(data=data))
    assert bench.errors[0].key == f"scoreboard, FP32: data; in {extent}, RESULT"


def test_a_key_tells_mode_and_field_apart() -> None:
    seen = set()
    for config in (BINARY, FP32):
        for change in (wrong(data=TWO), wrong(poison=True)):
            bench = Bench(config)
            bench.answer(bench.begin(read(config.address(0, 1))), change)
            seen.add(bench.errors[0].key)
    modes = ("G_BINARY", "FP32")
    whats = ("data; in whole line, RESULT", "Poison; in RESULT")
    assert seen == {f"scoreboard, {mode}: {what}" for mode in modes for what in whats}


def test_a_mismatch_explains_itself_before_its_data() -> None:
    bench = Bench(BINARY)
    bench.answer(bench.begin(read(BINARY.address(0, 1))), wrong(data=TWO))
    first = bench.errors[0]
    assert first.text.startswith("MISMATCH: 64 data bytes differ, the first is byte 0: got 02, ")
    assert "; model: MEM_RD" in first.text
    line, *rest = first.data.splitlines()
    assert line.startswith("got DRS(")
    assert "bytes 0..7: 02 02 02 02 02 02 02 02" in line
    assert [text.split()[0] for text in rest] == ["request", "got", "expected"]
    assert TWO.hex() in rest[1]  # all of it, for the log


def test_missing_and_repeated_answers() -> None:
    bench = Bench()
    bench.begin(read(0x40))
    bench.scoreboard.finish()
    assert any("never answered" in error for error in bench.errors)
    bench = Bench()
    msg = bench.begin(read(0x40))
    bench.answer(msg)
    bench.answer(msg)
    assert "without request" in bench.errors[0]


def test_the_summary_counts_what_was_checked() -> None:
    bench = Bench(BINARY)
    bench.do(write(BINARY.address(0, 0)))
    racing = [bench.begin(read(0x40)) for _ in range(2)]
    for msg in racing:
        bench.answer(msg)
    bench.do(read(1 << 50))
    assert bench.scoreboard.summary() == (
        "4 requests, 4 responses, 4 judged (2 in races), 0 unjudged, 1 engine ops"
    )


def test_zero_transactions_is_a_failure() -> None:
    bench = Bench()
    bench.scoreboard.finish()
    assert "zero transactions" in bench.errors[0]


@pytest.mark.parametrize("value", [bytes(64), ONE, TWO])
def test_racing_read_may_see_either(value: bytes) -> None:
    bench = Bench()
    w = bench.begin(write(0x40, ONE))
    r = bench.begin(read(0x40))
    bench.answer(w)
    bench.scoreboard.response(S2MDRS(0, r.tag, 0, data=value))
    assert bool(bench.errors) == (value == TWO)


def test_two_racing_writes_leave_one_value() -> None:
    for second in (ONE, TWO):
        bench = Bench()
        a = bench.begin(write(0x40, ONE))
        b = bench.begin(write(0x40, TWO))
        bench.answer(a)
        bench.answer(b)
        for data in (ONE, second):
            bench.scoreboard.response(S2MDRS(0, bench.begin(read(0x40)).tag, 0, data=data))
        assert bool(bench.errors) == (second == TWO), "the value may not change by itself"


def test_many_racing_workers_are_cheap_and_exact() -> None:
    config = dataclasses.replace(BINARY, workers=64, state_base=0)
    bench = Bench(config)
    writes = [bench.begin(write(config.address(w, 0), bytes([w] * 64))) for w in range(64)]
    for msg in reversed(writes):
        bench.answer(msg)
    bench.do(read(config.address(0, 0)))
    bench.scoreboard.finish()
    assert bench.errors == []
    assert bench.scoreboard.counter_range("CONTRIBUTION") == (64, 64)
    assert bench.scoreboard.judge.unjudged == 0


def test_counters_of_a_race_are_a_range() -> None:
    bench = Bench(BINARY)
    bench.do(write(BINARY.address(0, 0)))
    bench.do(write(BINARY.address(1, 0)))
    w = bench.begin(write(BINARY.address(2, 0)))
    r = bench.begin(read(BINARY.address(0, 0)))
    bench.answer(w)
    bench.answer(r)
    assert bench.scoreboard.counter_range("EARLY_READ") == (0, 1)
    bench.scoreboard.compare_counters({"EARLY_READ": 2})
    assert "EARLY_READ" in bench.errors[0]


@pytest.mark.parametrize("lost", [False, True])
def test_write_racing_with_a_commit(lost: bool) -> None:
    bench = Bench(BINARY)
    address = BINARY.address(0, 0)
    bench.do(write(address, TWO))
    msg = bench.begin(write(BINARY.address(1, 0), ONE))
    bench.commit_during(msg, 0, BINARY, before=lost)
    bench.do(read(address))
    bench.scoreboard.finish()
    assert bench.errors == []
    assert bench.scoreboard.counter_range("CONTRIBUTION") == (2, 2)
    assert bench.scoreboard.judge.unjudged == 0


def test_counters_of_a_read_racing_with_a_commit() -> None:
    bench = Bench(BINARY)
    early = bench.begin(read(BINARY.address(0, 0)))
    bench.commit_during(early, 0, BINARY, before=False)
    bench.do(read(BINARY.address(0, 0)))
    assert bench.errors == []
    assert bench.scoreboard.counter_range("EARLY_READ") == (2, 2)


def test_old_round_taken_for_new_is_flagged() -> None:
    bench = Bench(BINARY)
    bench.do(write(BINARY.address(0, 0), ONE))
    bench.scoreboard.commit_begin(0, BINARY, 2)
    bench.scoreboard.commit_end(0)
    bench.do(read(BINARY.address(0, 0)))
    assert bench.errors


@pytest.mark.parametrize("operations", [1, 2, 7])
def test_lookups_are_the_operations_of_the_engine(operations: int) -> None:
    """Check that SLOT_HIT + SLOT_MISS may be neither higher nor lower than the operations.

    Plain accesses are none; an operation in flight may or may not be counted.
    """
    bench = Bench(BINARY)
    for line in range(operations):
        bench.do(write(BINARY.address(line % 3, line % 4)))
        bench.do(write(64 * line))
    for sent in (operations, operations + 1):
        for hits, misses in product(range(sent + 2), repeat=2):
            bench.errors.clear()
            bench.scoreboard.compare_counters({"SLOT_HIT": hits, "SLOT_MISS": misses})
            right = operations <= hits + misses <= sent
            assert bool(bench.errors) != right, (hits, misses)
            assert right or f"SLOT_HIT {hits} + SLOT_MISS {misses} is not" in bench.errors[0]
            assert right or str(bench.scoreboard.counters["ENGINE"].span()) in bench.errors[0]
        bench.begin(write(BINARY.address(0, 0)))


@pytest.mark.parametrize(("risky", "passes"), [(False, False), (True, True)])
def test_devload_of_a_region_that_is_not_in_fallback(risky: bool, passes: bool) -> None:
    """Check that MODERATE is wrong once a read of FALLBACK gave 0, until a bit may have risen."""
    bench = Bench(BINARY, FP32)
    rule, now = bench.scoreboard.devload, bench.scoreboard.now
    rule.thresholds_begin(0, 0, 0)
    rule.thresholds_end(now)
    rule.set_capacity(16, 2)
    rule.saw_fallback(now, 2, 2, rule.fallback_begin())
    if risky:
        bench.scoreboard.capacity.change(16, 2, quiet=True)
        bench.do(write(BINARY.address(1, 0)))
    reply = wrong(devload=DevLoad.MODERATE)
    bench.answer(bench.begin(read(BINARY.address(0, 0))), reply)
    assert (bench.errors == []) is passes


@pytest.mark.parametrize(
    ("selector", "opcode", "belongs"),
    [
        (STATUS_SELECTOR, ReqOp.MEM_RD, True),
        (255, ReqOp.MEM_RD, True),
        (0, ReqOp.MEM_INV, False),
        (0, ReqOp.MEM_RD_FWD, False),
    ],
)
def test_devload_of_answers_that_touch_no_line(selector: int, opcode: ReqOp, belongs: bool) -> None:
    """Check the DevLoad of requests that touch no line while their region is in FALLBACK.

    They must get MODERATE as well, except unsupported opcodes, which may get LIGHT.
    """
    for load, passes in ((DevLoad.MODERATE, True), (DevLoad.LIGHT, not belongs)):
        bench = Bench(BINARY)
        rule, now = bench.scoreboard.devload, bench.scoreboard.now
        rule.thresholds_begin(0, 0, 0)
        rule.thresholds_end(now)
        rule.saw_fallback(now, 1, 8)
        msg = bench.begin(M2SReq(opcode, 0, BINARY.address(selector, 0)))
        bench.answer(msg, wrong(devload=load))
        assert (bench.errors == []) is passes


def test_new_thresholds_and_old_ones() -> None:
    bench = Bench()
    rule = bench.scoreboard.devload
    first, second = (bench.begin(write(64 * k)) for k in (1, 2))
    rule.thresholds_begin(1, 0, 0)
    bench.answer(first, wrong(devload=DevLoad.LIGHT))
    rule.thresholds_end(bench.scoreboard.now)
    bench.answer(second, wrong(devload=DevLoad.LIGHT))
    assert bench.errors == []
    bench.do(write(64))
    assert "DevLoad must be OPTIMAL" in bench.errors[0]


def test_ten_findings_are_kept_and_all_are_told() -> None:
    bench, told = Bench(), list[str]()
    bench.scoreboard.on_error = told.append
    for number in range(30):
        bench.scoreboard.error(f"finding {number}")
    assert bench.errors == told[:10] == [f"finding {number}" for number in range(10)]
    assert len(told) == 30


AWAY = dataclasses.replace(FP32, state_base=0x80000)
HERE = FP32.state_base


@pytest.mark.parametrize("late", [False, True])
def test_a_store_that_races_with_the_commit(late: bool) -> None:
    """Check that a store before the commit is in the memory that the region leaves, and a later one
    not.
    """
    bench = Bench(FP32)
    msg = bench.begin(write(FP32.address(0, 0), ONE))
    bench.commit_during(msg, 0, AWAY, before=not late)
    bench.do(read(HERE))
    assert bench.errors == []


def test_racing_stores_of_one_worker() -> None:
    bench = Bench(FP32)
    both = [bench.begin(write(FP32.address(0, 0), data)) for data in (ONE, TWO)]
    for msg in reversed(both):
        bench.answer(msg)
    bench.commit(0, AWAY, 2)
    bench.do(read(HERE))
    assert bench.errors == []


def test_what_is_certain_is_compared() -> None:
    for wrong in (False, True):
        bench = Bench(FP32)
        both = [bench.begin(write(FP32.address(worker, 0), ONE)) for worker in (0, 1)]
        for msg in reversed(both):
            bench.answer(msg)
        bench.commit(0, AWAY, 2)
        if wrong:
            bench.device.memory.write(HERE >> 6, TWO, None, False)
        bench.do(read(HERE))
        assert bool(bench.errors) == wrong


def test_ambiguous_plain_lines_in_a_claimed_area() -> None:
    bench = Bench(FP32)
    line = BINARY.state_base
    both = [bench.begin(write(line, data)) for data in (ONE, TWO)]
    for msg in reversed(both):
        bench.answer(msg)
    bench.commit(1, BINARY, 1)
    bench.commit(1, dataclasses.replace(BINARY, state_base=0xC0000), 2)
    bench.device.memory.write(line >> 6, bytes(range(64)), None, False)  # what a record was there
    bench.do(read(line))
    assert bench.errors == []


AREA = state_lines(BINARY, DeviceParams().cnt_w)


@pytest.mark.parametrize("offset", [-1, 0, AREA - 1, AREA])
@pytest.mark.parametrize("config", [BINARY, dataclasses.replace(BINARY, mode=Mode.FP32)])
@pytest.mark.parametrize("data", [ONE, TWO, bytes(range(64))])
def test_what_a_claimed_area_leaves_of_a_race(
    offset: int, config: RegionConfig, data: bytes
) -> None:
    """Check that records replace an ambiguous line in their area, and leave lines around it."""
    bench = Bench()
    line = config.state_base + 64 * offset
    both = [bench.begin(write(line, one)) for one in (ONE, TWO)]
    for msg in both:
        bench.answer(msg)
    bench.commit(0, config, 1)
    bench.commit(0, dataclasses.replace(config, state_base=0xC0000), 2)
    bench.answer(bench.begin(read(line)), wrong(data=data, poison=False))
    claimed = config.mode.low_bit and 0 <= offset < AREA
    assert (bench.errors == []) is (data in (ONE, TWO) or claimed)


@pytest.mark.parametrize("order", ["old", "new"])
def test_what_was_answered_before_a_commit_is_of_the_old_round(order: str) -> None:
    """Check a read that is answered before the commit begins, with another one still in flight."""
    bench = Bench(BINARY)
    bench.contribute(BINARY, range(3), 0)
    done, held = (bench.begin(read(BINARY.address(0, 0))) for _ in range(2))
    bench.answer(done, wrong(data=bytes(64)) if order == "new" else None)
    bench.commit_during(held, 0, BINARY)
    assert (bench.errors == []) is (order == "old")


def test_a_commit_that_moves_the_line_of_a_request_leaves_it_in_doubt() -> None:
    bench = Bench(BINARY)
    msg = bench.begin(write(BINARY.address(1, 0)))
    bench.commit_during(msg, 0, dataclasses.replace(BINARY, base=1 << 44))
    assert bench.errors == []
    assert bench.scoreboard.judge.unjudged == 1
    assert bench.scoreboard.events("ENGINE") == Span(0, 2)


@pytest.mark.parametrize("names", [("SLOT_HIT",), ("SLOT_MISS",), ("SLOT_HIT", "SLOT_MISS")])
def test_lookups_are_compared_in_pairs(names: tuple[str, ...]) -> None:
    """Check that one of the two counters alone says nothing about the number of operations."""
    bench = Bench(BINARY)
    bench.do(read(BINARY.address(0, 0)))
    for value, right in ((0, False), (1, True)):
        got = {name: value if name == names[0] else 0 for name in names}
        bench.errors.clear()
        bench.scoreboard.compare_counters(got)
        assert (bench.errors == []) is (right or len(names) == 1)
