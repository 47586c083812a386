# SPDX-License-Identifier: Apache-2.0
"""Tests of the cover point "pair": each resource with events that hit a bin, and their negative
twins, which lack one fact and hit no bin of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from cocotbext.cxl.wire.messages import M2SRwD, RwdOp
from models.access_decode import Access, Kind
from models.modes import Mode
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.coverage.cover_model import BETWEEN, CoverModel
from verif.coverage.pair_points import PairPoints, feature_of
from verif.mem.memory_config import MemBeat
from verif.scoreboard.operations import Op

MODES = (Mode.G_BINARY, Mode.G_BINARY, Mode.FP32)
SLOTS = 2
BOOK, MARKS = (
    REG_MAP.expand()["RAS_ERROR"].pack(VALID=1, RAM=REG_MAP.enums["Ram"][name])
    for name in ("BOOK", "MARKS")
)


class Device:
    """Source of events for `PairPoints`, with one vote region more than FP32 regions."""

    def __init__(self) -> None:
        self.model = CoverModel()
        self.points = PairPoints(self.model)
        self.points.slots = SLOTS
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
        self.points.answered(op)

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
        own = resource + BETWEEN
        return {name.removeprefix(own) for name in found if name.startswith(own)}


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
    assert device.hits("slots") == bin_of("vote", "FP32 store", "other mode", "miss")
    device.use(1, 3, 1, evicts=(2, 0))
    assert device.hits("slots") == bin_of("FP32 store", "vote", "other mode", "miss")
    device.use(0, 0, evicts=(1, 3), fetches=True)
    assert device.hits("slots") == bin_of("vote", "vote", "same mode", "evicted before")


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
    device.points.answered(op)
    hit = bin_of("vote", "vote", "same mode", "miss")
    # A fetch without a record of this epoch, asked for by a neighbour, is a miss all the same.
    assert device.hits("slots") == (hit if fault == "fetched" else set())


def test_a_hit_is_in_the_slot_of_its_line(device: Device) -> None:
    device.use(2, 0, 1)
    device.use(2, 0)
    assert device.hits("slots") == bin_of("FP32 store", "sum", "same region", "hit")
    device.use(2, 0, 2, True)
    assert device.hits("slots") == bin_of("sum", "poison", "same region", "hit")
    device.close(2)
    assert device.hits("slots") == bin_of("poison", "close", "same region", "held")
    device.use(2, 0, 3)
    assert device.hits("slots") == bin_of("close", "FP32 store", "same region", "hit")
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
    hit = bin_of("commit", "FP32 store", "other mode", "miss")
    assert device.hits("slots") == (set() if fault else hit)


def test_a_commit_arrives_at_slots_that_are_held(device: Device) -> None:
    device.use(2, 0, 1)
    device.commit(1)
    assert device.hits("slots") == bin_of("FP32 store", "commit", "other mode", "held")
    device.commit(1, accepted=False)
    assert device.hits("slots") == set()
    device.commit(2)
    assert device.hits("slots") == bin_of("FP32 store", "commit", "same region", "held")
    device.commit(2)
    assert device.hits("slots") == set()


def test_a_flip_is_found_by_the_last_request(device: Device) -> None:
    device.use(0, 0, 1)
    device.use(0, 0)
    device.points.register("RAS_ERROR", BOOK)
    assert device.hits("slots") == bin_of("vote", "RAM flip", "same region", "hit")
    for register, value in (("RAS_ERROR", 0), ("RAM_PARITY", 1), ("RAS_ERROR", MARKS)):
        device.use(0, 0)
        device.points.register(register, value)
        found = device.hits("slots")
        assert not any(BETWEEN + "RAM flip" + BETWEEN in one for one in found)
    device.points.register("RAS_ERROR", BOOK)  # settled: no request of this state has found it
    device.use(0, 0)
    assert device.hits("slots") == bin_of("vote", "vote", "same region", "hit")


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
    device.points.answered(op)
    if when in ("during", "racing"):
        device.memory((0, 0), begin=start)
    elif when == "before":
        device.memory((0, 0))
    hit = bin_of("vote", "sum", "other mode", "hit")
    assert device.hits("eviction buffer") == (hit if when == "during" else set())


def test_a_close_does_not_change_what_leaves(device: Device) -> None:
    device.use(2, 0, 1)
    start = device.now + 5
    device.close(2)
    device.memory((2, 0), begin=start)
    found = device.hits("eviction buffer")
    assert found == bin_of("FP32 store", "close", "same region", "held")
    device.close(0)
    assert device.hits("eviction buffer") == set()


def test_a_line_is_wanted_while_it_leaves(device: Device) -> None:
    device.use(2, 0, 1)
    start = device.now + 5
    op = device.request(2, 0)
    device.memory((2, 0), begin=start)
    device.memory((2, 0), write=False)
    device.points.answered(op)
    found = device.hits("eviction buffer")
    assert found == bin_of("FP32 store", "sum", "same region", "evicted before")
