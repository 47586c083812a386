# SPDX-License-Identifier: Apache-2.0
"""Tests of the cover point "pair": each resource with events that hit a bin, and their negative
twins, which lack one fact and hit no bin of it.
"""

from __future__ import annotations

from itertools import count, product, repeat
from typing import Any

import pytest

from cocotbext.cxl.wire.messages import M2SReq, M2SRwD, ReqOp, RwdOp
from models.access_decode import Access, Kind
from models.modes import Mode
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.coverage.cover_model import BETWEEN, CoverModel
from verif.coverage.pair_points import Left, PairPoints, feature_of, relation
from verif.mem.memory_config import MemBeat
from verif.scoreboard.operations import Op

BINARY, FP32, TERN5 = Mode.G_BINARY, Mode.FP32, Mode.G_TERN5
MODES = (BINARY, BINARY, FP32, FP32, TERN5, TERN5, Mode.G_TERNARY)
ALLOWED = {
    "vote": (BINARY, Mode.G_TERNARY),
    "FP32 store": (FP32,),
    "sum": (FP32,),
    "TERN5": (TERN5,),
}
SLOTS = 2
GENERATIONS = 3
BOOK, MARKS, PARKED = (
    REG_MAP.expand()["RAS_ERROR"].pack(VALID=1, RAM=REG_MAP.enums["Ram"][name])
    for name in ("BOOK", "MARKS", "PARKED")
)


class Device:
    """Source of events for `PairPoints`, with two regions of each mode."""

    def __init__(self, model: CoverModel | None = None) -> None:
        self.model = model or CoverModel()
        self.points = PairPoints(self.model)
        self.points.slots = SLOTS
        self.points.marks_log2 = 3
        self.points.generations = GENERATIONS
        self.points.credits = lambda _drs: self.left
        self.left = 1
        """Credits of the device."""
        self.now = 0
        self.configs = [RegionConfig(1 << 40, 0, 4, 8, mode) for mode in MODES]
        for region in range(len(MODES)):
            self.commit(region)

    def commit(self, region: int, accepted: bool = True) -> None:
        self.now += 10
        self.points.begun(region, False, self.now)
        self.points.committed(region, self.configs[region], accepted)

    def close(self, region: int) -> None:
        self.now += 10
        self.points.begun(region, True, self.now)
        self.points.closed(region, self.now)

    def request(self, region: int, line: int, worker: int = -1, poison: bool = False) -> Op:
        """Send a contribution of a worker, or (-1) a read of the result."""
        self.now += 10
        kind = Kind.RESULT if worker < 0 else Kind.CONTRIBUTION
        access = Access(kind, worker >= 0, line, region=region, selector=max(worker, 0))
        op = Op(M2SRwD(RwdOp.MEM_WR, 0, 0, poison=poison), self.now, access, (region, line))
        self.points.requested(op, self.configs[region], self.now)
        return op

    def use(self, *args: Any, evicts: tuple[int, int] | None = None, fetches: bool = False) -> None:
        """Send a request and answer it; memory may get the line that it evicts meanwhile."""
        op = self.request(*args)
        if fetches:
            self.memory(args[:2], write=False)
        if evicts is not None:
            self.memory(evicts)
        self.answer(op)

    def answer(self, op: Op) -> None:
        self.now += 1
        self.points.answered(op, self.now)

    def memory(self, key: tuple[int, int], write: bool = True, begin: int = -1) -> None:
        """Move a record over the memory port, from cycle `begin` (the present one) on."""
        begin = self.now if begin < 0 else begin
        self.now += 5
        beat = MemBeat(write, 0, 0, 0, 0, False, 0, clocks=self.now - begin)
        self.points.beat(beat, key, self.now)

    def hits(self, resource: str) -> set[str]:
        """Return the bins of a resource that were hit since the last call, without its name."""
        self.now += 10
        self.points.begun(0, False, self.now)  # an event, which settles the requests before
        self.points.committed(0, self.configs[0], False)
        bins = self.model.points["pair"].bins
        found = {name for name, hits in bins.items() if hits}
        for name in bins:
            bins[name] = 0
        own = resource + ": "
        return {name.removeprefix(own) for name in found if name.startswith(own)}

    def start(self, feature: str, region: int, line: int, reads: bool = False) -> Op | None:
        """Send a request that uses a feature, or begin a commit or close."""
        if feature in ("close", "commit"):
            self.now += 10
            self.points.begun(region, feature == "close", self.now)
            return None
        worker = -1 if feature in ("sum", "RAM flip") or reads else 1
        return self.request(region, line, worker, feature == "poison")

    def end(self, feature: str, region: int, op: Op | None, ram: int = BOOK) -> None:
        """Answer the request, or settle the commit or close."""
        if op is not None:
            self.answer(op)
            if feature == "RAM flip":
                self.points.register("RAS_ERROR", ram)
        elif feature == "close":
            self.points.closed(region, self.now)
        else:
            self.points.committed(region, self.configs[region], True)

    def whole(self, place: Place, ram: int = BOOK, fetches: bool = False) -> None:
        """Use a feature from its arrival to its end; its record may be fetched."""
        op = self.start(*place)
        if fetches:
            self.memory(place[1:], write=False)
        self.end(*place[:2], op, ram)


Place = tuple[str, int, int]
"""Feature, with the number of a region and a line."""


def marks(device: Device, a: Place, b: Place, access: str, fault: bool) -> None:
    """Fault: B fetches its record where there is no mark, or does not; A's line has not left."""
    flips, leaves = a[0] == "RAM flip", access != "held" or not fault
    device.use(*a[1:], 1)
    if leaves and (flips or a[0] == "commit"):
        device.memory(a[1:])
    device.whole(a, MARKS if leaves else BOOK, flips)
    if leaves and not (flips or a[0] == "commit"):
        device.memory(a[1:])
    fetches = access != "held" and fault != (access == "marked")
    device.whole((*b[:2], a[1] == b[1]), MARKS, fetches)


def pool(device: Device, a: Place, b: Place, access: str, fault: bool) -> None:
    """Fault: B has no entry, or A's fetch begins after B's arrival."""
    if access == "entry left":
        device.whole(a, PARKED, fetches=True)
        device.whole((*b[:2], 1), PARKED, fetches=not fault)
        return
    places = [a, ("vote", 6, 5)] if access == "deferred" else [a]
    b = (*b[:2], 0 if access == "same list" else 1)
    ops = [device.start(*one) for one in places]
    asked = device.now
    own = device.start(*b)
    for one, op in zip(places, ops, strict=True):
        device.memory(one[1:], write=False, begin=device.now if fault else asked)
        device.end(*one[:2], op)
    if access == "other list":
        device.memory(b[1:], write=False)
    device.end(*b[:2], own)


def record(device: Device, a: Place, b: Place, access: str, fault: bool) -> None:
    """Fault: A's line was written back, B fetches or does not, a generation is left."""
    device.use(*a[1:], 1)
    device.whole(a)
    if access != "dropped" or fault:
        device.memory(a[1:])
    commits = GENERATIONS - fault if access == "wrapped" else 1
    for _ in range(commits):
        device.commit(a[1])
    fetches = access == "wrapped" or (access == "unread" and fault)
    device.whole(b, BOOK, fetches or (access == "older" and not fault))


def credits(device: Device, a: Place, b: Place, access: str, fault: bool) -> None:
    """Fault: the device has a second credit."""
    op = device.start(*a, access == "DRS")
    device.left = int(fault)
    own = device.start(*b, access == "DRS")
    device.end(*a[:2], op)
    device.end(*b[:2], own)
    device.left = 1


@pytest.mark.parametrize("program", [marks, pool, record, credits], ids=lambda one: one.__name__)
def test_each_bin_and_its_neighbour(program: Any) -> None:
    """Check that the events of each bin of a resource hit it, and do not without one fact."""
    model, own = Device().model, f"{program.__name__}: "
    for name in (one for one in model.points["pair"].bins if one.startswith(own)):
        access, leaving, arriving, with_ = name.removeprefix(own).split(BETWEEN)
        region, other = next(
            (one.region, two.region)
            for one, two in product(map(Left, repeat(""), count(), MODES), repeat=2)
            if relation(one, two) == with_
            and one.mode in ALLOWED.get(leaving, MODES)
            and two.mode in ALLOWED.get(arriving, MODES)
        )
        for fault in (False, True):
            device = Device(model)
            program(device, (leaving, region, 0), (arriving, other, 0), access, fault)
            hit = name.removeprefix(own) in device.hits(program.__name__)
            assert hit != fault, f"{name}, fault: {fault}"


def bin_of(*values: str) -> set[str]:
    return {BETWEEN.join(values)}


@pytest.fixture
def device() -> Device:
    return Device()


def test_features() -> None:
    assert feature_of(Kind.CONTRIBUTION, Mode.FP32, False) == "FP32 store"
    assert feature_of(Kind.RESULT, Mode.FP32, False) == "sum"
    assert feature_of(Kind.SUM, Mode.G_INT4, False) == "vote"
    assert feature_of(Kind.PLANE, Mode.G_TERN5, False) == "TERN5"
    assert feature_of(Kind.CONTRIBUTION, Mode.G_BINARY, True) == "poison"
    assert feature_of(Kind.INFO, Mode.G_BINARY, False) == ""


def test_a_miss_takes_the_slot_of_the_line_that_leaves(device: Device) -> None:
    device.use(0, 0, 1)
    device.use(2, 0, 1, evicts=(0, 0))
    assert device.hits("slots") == bin_of("miss", "vote", "FP32 store", "other mode")
    device.use(1, 3, 1, evicts=(2, 0))
    assert device.hits("slots") == bin_of("miss", "FP32 store", "vote", "other mode")
    device.use(0, 0, evicts=(1, 3), fetches=True)
    assert device.hits("slots") == bin_of("evicted before", "vote", "vote", "same mode")


@pytest.mark.parametrize("fault", ["no eviction", "evicted earlier", "two", "racing", "fetched"])
def test_no_slot_is_taken(device: Device, fault: str) -> None:
    device.use(0, 0, 1)
    device.use(0, 1, 1)
    if fault == "evicted earlier":
        device.memory((0, 0))
    if fault == "racing":
        device.request(0, 5)
    device.hits("slots")
    op = device.request(1, 0, 1)
    if fault in ("two", "racing", "fetched"):
        device.memory((0, 0))
    if fault == "two":
        device.memory((0, 1))
    if fault == "fetched":
        device.memory((1, 0), write=False)
    device.answer(op)
    hit = bin_of("miss", "vote", "vote", "same mode")
    # A fetch without a record of this epoch, asked for by a neighbour, is a miss all the same.
    assert device.hits("slots") == (hit if fault == "fetched" else set())


def test_a_hit_is_in_the_slot_of_its_line(device: Device) -> None:
    device.use(2, 0, 1)
    device.use(2, 0)
    assert device.hits("slots") == bin_of("hit", "FP32 store", "sum", "same region")
    device.use(2, 0, 2, True)
    assert device.hits("slots") == bin_of("hit", "sum", "poison", "same region")
    device.close(2)
    assert device.hits("slots") == bin_of("held", "poison", "close", "same region")
    device.use(2, 0, 3)
    assert device.hits("slots") == bin_of("hit", "close", "FP32 store", "same region")
    device.use(2, 1, 3)  # late: it leaves nothing that must be written back
    device.use(2, 1)
    assert device.hits("slots") == set()


def test_a_line_that_was_read_alone_may_have_left_its_slot(device: Device) -> None:
    device.use(2, 0)
    device.use(2, 0)
    assert device.hits("slots") == set()
    device.use(0, 0, 1)
    device.memory((0, 0))
    device.use(0, 0)
    assert device.hits("slots") == set()


@pytest.mark.parametrize("fault", ["", "another slot", "refused", "a miss between", "a line left"])
def test_a_commit_frees_slots(device: Device, fault: str) -> None:
    device.use(0, 0, 1)
    if fault != "another slot":
        device.use(1, 0, 1)
    if fault == "a line left":
        device.memory((1, 0))
    device.commit(0, accepted=fault != "refused")
    if fault == "a miss between":
        device.use(1, 1)
    device.hits("slots")
    device.use(2, 7, 1)
    hit = bin_of("miss", "commit", "FP32 store", "other mode")
    assert device.hits("slots") == (set() if fault else hit)


def test_a_commit_arrives_at_slots_that_are_held(device: Device) -> None:
    device.use(2, 0, 1)
    device.commit(1)
    assert device.hits("slots") == bin_of("held", "FP32 store", "commit", "other mode")
    device.commit(1, accepted=False)
    assert device.hits("slots") == set()
    device.commit(2)
    assert device.hits("slots") == bin_of("held", "FP32 store", "commit", "same region")
    device.commit(2)
    assert device.hits("slots") == set()


def test_a_flip_is_found_by_the_last_request(device: Device) -> None:
    device.use(0, 0, 1)
    device.use(0, 0)
    device.points.register("RAS_ERROR", BOOK)
    assert device.hits("slots") == bin_of("hit", "vote", "RAM flip", "same region")
    for register, value in (("RAS_ERROR", 0), ("RAM_PARITY", 1), ("RAS_ERROR", MARKS)):
        device.use(0, 0)
        device.points.register(register, value)
        found = device.hits("slots")
        assert not any(one.split(BETWEEN)[2] == "RAM flip" for one in found)
    device.points.register("RAS_ERROR", BOOK)  # settled: no request of this state has found it
    device.use(0, 0)
    assert device.hits("slots") == bin_of("hit", "vote", "vote", "same region")


@pytest.mark.parametrize("when", ["before", "during", "after", "racing"])
def test_a_request_arrives_at_the_eviction_buffer(device: Device, when: str) -> None:
    device.use(0, 0, 1)
    device.use(2, 0, 1)
    device.hits("")
    if when == "racing":
        device.request(1, 9)
    start = device.now
    if when == "after":
        device.memory((0, 0))
    op = device.request(2, 0)
    device.answer(op)
    if when in ("during", "racing"):
        device.memory((0, 0), begin=start)
    elif when == "before":
        device.memory((0, 0))
    hit = bin_of("hit", "vote", "sum", "other mode")
    assert device.hits("eviction buffer") == (hit if when == "during" else set())


def test_a_close_does_not_change_what_leaves(device: Device) -> None:
    device.use(2, 0, 1)
    start = device.now + 5
    device.close(2)
    device.memory((2, 0), begin=start)
    found = device.hits("eviction buffer")
    assert found == bin_of("held", "FP32 store", "close", "same region")
    device.close(0)
    assert device.hits("eviction buffer") == set()


def test_a_line_is_wanted_while_it_leaves(device: Device) -> None:
    device.use(2, 0, 1)
    start = device.now + 5
    op = device.request(2, 0)
    device.memory((2, 0), begin=start)
    device.memory((2, 0), write=False)
    device.answer(op)
    found = device.hits("eviction buffer")
    assert found == bin_of("evicted before", "FP32 store", "sum", "same region")


def test_a_read_is_not_poisoned_and_racing_requests_are_not_alone() -> None:
    device = Device()
    access = Access(Kind.RESULT, False, 0, region=0, selector=0)
    one = Op(M2SReq(ReqOp.MEM_RD, 0, 0), device.now, access, (0, 0))
    for number, op in enumerate((one, device.request(1, 0, 1)), 1):
        if number == 1:
            device.points.requested(op, device.configs[0], device.now)
    flying = device.points._flying
    assert flying[one].by.feature == feature_of(Kind.RESULT, BINARY, False)
    assert [arrival.alone for arrival in flying.values()] == [False, False]


def test_a_region_is_open_again_after_a_commit(device: Device) -> None:
    device.close(0)
    device.commit(0)
    device.use(0, 0, 0)
    device.hits("")
    device.use(0, 0)
    assert device.hits("slots") == bin_of("hit", "vote", "vote", "same region")


def test_a_worker_that_comes_again_leaves_nothing_to_write_back(device: Device) -> None:
    for worker in (1, 2):
        device.use(0, 0, 1)
        device.memory((0, 0))
        device.use(0, 0, worker)
        device.hits("")
        device.use(0, 0)
        hit = bin_of("hit", "vote", "vote", "same region")
        assert device.hits("slots") == (hit if worker == 2 else set())
        device.commit(0)


@pytest.mark.parametrize("fault", ["", "first", "second", "later", "same cycle"])
def test_two_responses_use_one_credit(device: Device, fault: str) -> None:
    ops = [device.request(0, 0, 1), device.request(1, 0, 1)]
    device.left = int(fault == "first")
    device.answer(ops[0])
    device.left = int(fault == "second")
    if fault == "later":
        ops[1] = device.request(1, 1, 1)
    if fault == "same cycle":
        device.now -= 1
    device.answer(ops[1])
    device.left = 1
    hit = bin_of("NDR", "vote", "vote", "same mode")
    assert device.hits("credits") == (set() if fault else hit)


def test_a_response_between_ends_the_use_of_a_credit(device: Device) -> None:
    ops = [device.request(0, line, 1) for line in range(3)]
    for op, left in zip(ops, (0, 1, 0), strict=True):
        device.left = left
        device.answer(op)
    assert device.hits("credits") == set()


@pytest.mark.parametrize("worker", [-1, 1])
@pytest.mark.parametrize("drs", [True, False])
def test_a_commit_begins_while_a_response_waits(device: Device, worker: int, drs: bool) -> None:
    device.points.credits = lambda of_drs: int(of_drs != drs)
    op = device.request(1, 0, worker)
    device.commit(0)
    device.answer(op)
    hit = bin_of("held", "vote", "commit", "same mode")
    assert device.hits("credits") == (hit if drs == (worker < 0) else set())


def test_requests_that_use_no_line_do_not_meet_others(device: Device) -> None:
    for kind in (Kind.REFUSED, Kind.NO_EFFECT, Kind.STATUS, Kind.CONTROL, Kind.IDENTITY, None):
        access = Access(kind or Kind.RESULT, False, 0, region=0, selector=0)
        op = Op(M2SReq(ReqOp.MEM_RD, 0, 0), device.now, access, (0, 0))
        config = device.configs[0] if kind else None
        device.points.requested(op, config, device.now)
        assert device.points._flying == {}


def test_a_line_without_a_feature_leaves_none(device: Device) -> None:
    access = Access(Kind.INFO, False, 0, region=0, selector=1)
    for fetches in (False, True):
        op = Op(M2SReq(ReqOp.MEM_RD, 0, 0), device.now, access, (0, 0), read=True)
        device.points.requested(op, device.configs[0], device.now)
        if fetches:
            device.memory((0, 0), write=False)
        device.answer(op)
        device.memory((0, 0))
    device.use(0, 1, 1, fetches=True)  # its mark is that of line 0
    assert device.hits("marks") == set()
    assert device.model.points["pair"].unexpected == {}


def test_a_commit_drops_lines_of_its_region(device: Device) -> None:
    hit = bin_of("dropped", "vote", "vote", "same region")
    for again, found in ((1, hit), (0, set())):
        device.use(0, 0, 1)
        device.commit(0)
        device.commit(again)
        device.use(0, 0, 1)
        assert device.hits("record") == found
        device.commit(0)
        device.commit(0)


def test_a_mark_is_that_of_the_line_that_was_written_back(device: Device) -> None:
    device.use(0, 0, 1)
    device.memory((0, 0))
    device.commit(1)
    device.hits("")
    device.use(0, 2, 1, fetches=True)  # another mark
    assert device.hits("marks") == set()
    device.use(0, 1, 1, fetches=True)  # the mark of line 0
    assert device.hits("marks") == bin_of("marked", "vote", "vote", "same region")
    device.use(0, 0, fetches=True)  # its record is of this epoch: it has no need of the mark
    assert device.hits("marks") == set()


def test_a_place_without_a_mark(device: Device) -> None:
    device.use(1, 0, 1)
    device.memory((1, 0))
    device.hits("")
    device.use(0, 0, 1)
    assert device.hits("marks") == bin_of("unmarked", "vote", "vote", "same mode")
    device.use(0, 0)  # this epoch has accessed it
    assert device.hits("marks") == set()
    device.use(1, 1, 1)  # its region has a mark there
    assert device.hits("marks") == set()
    device.commit(1)
    device.hits("")
    device.use(0, 1, 1)  # another region's marks, of rounds before
    assert device.hits("marks") == set()


def test_a_flip_in_the_marks_writes_a_row_anew() -> None:
    for line in (31, 32, 63, 64):
        device = Device()
        device.points.marks_log2 = 7
        device.configs[0] = RegionConfig(1 << 40, 0, 7, 8, BINARY)
        device.commit(0)
        device.whole(("RAM flip", 0, 40), MARKS)
        device.hits("")
        device.use(0, line, 1, fetches=True)
        hit = bin_of("marked", "RAM flip", "vote", "same region")
        assert device.hits("marks") == (hit if 32 <= line < 64 else set())


@pytest.mark.parametrize("after", [-1, 0, 1, 4, 5, 6])
def test_a_request_comes_while_another_is_parked(device: Device, after: int) -> None:
    """Check that B is parked with A if it comes after the fetch began, and until the fetch ends."""
    first = device.request(0, 0, 1)
    asked = device.now + 20
    device.now = asked + after - 10
    own = device.request(0, 0, 2)
    device.now = asked
    device.memory((0, 0), write=False)
    device.answer(first)
    device.answer(own)
    hit = bin_of("same list", "vote", "vote", "same region")
    assert device.hits("pool") == (hit if 0 < after <= 5 else set())


@pytest.mark.parametrize("between", ["", "hit", "race"])
def test_the_entry_of_a_parked_operation(device: Device, between: str) -> None:
    device.use(0, 0, 1, fetches=True)
    if between == "hit":
        device.use(0, 0)
    if between == "race":
        for op in [device.request(0, line, 1) for line in (2, 3)]:
            device.answer(op)
    device.hits("")
    device.use(0, 1, 1, fetches=True)
    hit = bin_of("entry left", "vote", "vote", "same region")
    assert device.hits("pool") == (set() if between == "race" else hit)
