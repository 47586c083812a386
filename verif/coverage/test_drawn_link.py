# SPDX-License-Identifier: Apache-2.0
"""Drawn flits for the cover points of the link, against a plain statement of what each must hit.

The statement looks back at the whole history of events, where the points keep a state.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cocotbext.cxl.faults import CAMPAIGN, FaultKind
from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind, Way
from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
)
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.wire.slots import LAYOUTS, SlotUse
from cocotbext.cxl.wire.unpack import FlitReport
from verif.coverage.cover_model import BETWEEN, CoverModel
from verif.coverage.coverage_plan import Points, codes
from verif.coverage.link_points import LinkFaultPoints, LinkPoints, LinkStatePoints

M2S, S2M = Direction.M2S, Direction.S2M
KEPT = 512
"""Flits of a direction that the points remember."""
FULL = {"Req": 5, "RwD": 4, "NDR": 3, "DRS": 6}
CREDITS = {9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 32, 15: 64}
"""Credits by nibble of a header or LLCRD."""
NIBBLES = {M2S: (("NDR", 20), ("DRS", 28)), S2M: (("Req", 24), ("RwD", 28))}
"""Channels to which a direction grants credits, with the places of their nibbles."""
MULTI = {(0, 5): "H5", **{(slot, 6): "G6" for slot in (1, 2, 3)}}
Hits = Counter[tuple[str, str]]
MODEL = CoverModel()


def named(value: int, name: str) -> str:
    """Return the class of a number in a list of the plan, of names like "4..15" and "64.."."""
    for one in codes(name):
        low, dots, high = one.partition("..")
        if int(low) <= value <= (int(high) if high else 1 << 30 if dots else int(low)):
            return one
    raise AssertionError(f"{value} is in no class of {name}")


@dataclass
class Moment:
    """Event of a history: a flit, a level of phy_up or (None) a reset, with the state of the ways.

    The state is that of the tracker when the points see the event.
    """

    event: FlitEvent | bool | None
    ways: dict[Direction, Way]


class Statement:
    """Hits that the last event of a history must cause."""

    def __init__(self, history: list[Moment]) -> None:
        begin = max((n + 1 for n, one in enumerate(history) if one.event is None), default=0)
        self.history = history[begin:]
        self.hits: Hits = Counter()
        if self.history:
            self._last(self.history[-1])

    def hit(self, point: str, *values: str) -> None:
        self.hits[point, BETWEEN.join(values)] += 1

    def back(self, way: Direction) -> Iterator[FlitEvent]:
        """Yield the flits of a direction before the last event, the latest first."""
        for moment in reversed(self.history[:-1]):
            if isinstance(moment.event, FlitEvent) and moment.event.direction is way:
                yield moment.event

    def since_fall(self, way: Direction) -> list[FlitEvent]:
        """Return the flits of a direction since phy_up fell, in order."""
        found: list[FlitEvent] = []
        for moment in self.history[:-1]:
            if moment.event is False and moment.ways[M2S].clean_seen:
                found = []
            elif isinstance(moment.event, FlitEvent) and moment.event.direction is way:
                found.append(moment.event)
        return found

    def frames_before(self, flits: list[FlitEvent]) -> int:
        """Return the number of RETRY.Frame flits at the end of some flits."""
        frames = itertools.takewhile(
            lambda one: one.kind is FlitKind.CONTROL and isinstance(one.control, RetryFrame),
            reversed(flits),
        )
        return len(list(frames))

    def again(self) -> int:
        """Return how many flits of a replay to the device are still to come."""
        every = [*self.back(M2S)][::-1]
        begin = len(every) - len(self.since_fall(M2S))
        left = 0
        for at in range(begin, len(every)):
            one = every[at]
            if isinstance(one.control, RetryAck) and one.kind is FlitKind.CONTROL:
                if self.frames_before(every[:at]) >= 5:
                    left = (one.control.wr_ptr - one.control.eseq) % (self._wrap_at(one) + 1)
            elif one.number >= 0 and one.kind is not FlitKind.REPLAYED:
                left = max(0, left - 1)
        return left

    def _wrap_at(self, event: FlitEvent) -> int:
        return next(one.ways[M2S].wrap for one in self.history if one.event is event)

    def _last(self, moment: Moment) -> None:
        if isinstance(moment.event, FlitEvent):
            self._flit(moment.event, moment.ways)
        elif moment.event is False and moment.ways[M2S].clean_seen:
            self._fall(moment.ways)

    def _fall(self, ways: dict[Direction, Way]) -> None:
        m2s, s2m = ways[M2S], ways[S2M]
        to_device, to_host = m2s.unpacker.owed, s2m.unpacker.owed
        found = {
            "nothing owed": to_device == to_host == 0,
            "data owed to the device": to_device >= 1,
            "data owed to the host": to_host >= 1,
            "all-data run to the device": to_device >= 4,
            "all-data run to the host": to_host >= 4,
            "sequence to the device": m2s.frames >= 1,
            "sequence to the host": s2m.frames >= 1,
            "replay to the device": self.again() >= 1,
            "replay to the host": s2m.accepted - s2m.cursor >= 1,
            "device discards": m2s.frozen,
        }
        for name in (name for name, here in found.items() if here):
            self.hit("link phy down", name)

    def _flit(self, event: FlitEvent, ways: dict[Direction, Way]) -> None:
        direction, name = event.direction, event.direction.value
        way, other = ways[direction], ways[S2M if direction is M2S else M2S]
        if event.kind is FlitKind.CONTROL:
            self._control(event, way, other)
        if event.number >= 0:
            self._numbered(event, way)
        if event.report is not None:
            if not event.report.adf:
                self._headers(event, other)
            if direction is M2S:
                self._data(event)
            for channel, spent, left in zip(
                ("Req", "RwD") if direction is M2S else ("NDR", "DRS"),
                (event.report.plain, event.report.data),
                (way.plain, way.data),
                strict=True,
            ):
                if spent and left in (0, 1):
                    self.hit("link credits", channel, str(left))
        elif event.kind is FlitKind.DISCARDED:
            what = "LLCRD" if isinstance(event.control, Llcrd) else "protocol"
            self.hit("link retry phase", name, "discarded", what)
        loss = {FlitKind.BAD_CRC: "CRC", FlitKind.BAD_ID: "Protocol ID"}.get(event.kind)
        if loss and direction is M2S:
            self.hit("link loss", loss, self._phase())

    def _phase(self) -> str:
        """Return what was under way to the device before the last event."""
        for moment in reversed(self.history[:-1]):
            if moment.event is False and moment.ways[M2S].clean_seen:
                return "discarded"
            if isinstance(moment.event, FlitEvent) and moment.event.direction is M2S:
                if moment.ways[M2S].frozen:
                    return "discarded"
                return "replayed" if self.again() else "new"
        return "new"

    def _control(self, event: FlitEvent, way: Way, other: Way) -> None:
        name, control = event.direction.value, event.control
        counts = self.frames_before([*self.back(event.direction)][::-1]) >= 5
        if isinstance(control, RetryReq) and counts:
            places = {0: "0", other.wrap: "wrap value"}
            self.hit("link retry from", name, places.get(control.eseq, "between"))
        elif isinstance(control, RetryAck) and counts:
            flits = way.accepted - way.cursor
            if event.direction is M2S:
                flits = (control.wr_ptr - control.eseq) % (way.wrap + 1)
            self.hit("link replay length", name, named(flits, "REPLAYS"))
        elif isinstance(control, Llcrd) and event.number >= 0:
            self.hit("link acknowledged", name, named(control.ack, "ACKS"))
            self._grants(event, other, "LLCRD")

    def _grants(self, event: FlitEvent, other: Way, carrier: str) -> None:
        for (channel, place), now in zip(
            NIBBLES[event.direction], (other.plain, other.data), strict=True
        ):
            count = CREDITS.get(event.flit >> place & 15)
            if count:
                self.hit("link credit code", channel, str(count), carrier)
                if now == FULL[channel]:
                    self.hit("link credits", channel, "full")

    def _numbered(self, event: FlitEvent, way: Way) -> None:
        name, direction = event.direction.value, event.direction
        if event.kind is FlitKind.REPLAYED:
            self.hit("link retry phase", name, "replayed", self._kind_before(event))
            if direction is S2M and (form := self._form(event.number)):
                self.hit("link multi header", form, "replayed")
            return
        if event.control is None or isinstance(event.control, Llcrd):
            replay = direction is M2S and self.again() > 0
            self.hit("link retry phase", name, "replayed" if replay else "new", kind_of(event))
        free = way.wrap + 1 - (way.accepted - way.acked)
        if free >= 1:
            self.hit("link NumFreeBuf", name, named(free, "FREE"))
        if event.number % (way.wrap + 1) == way.wrap:
            self.hit("link ESeq wrap", name)
        if event.kind is not FlitKind.DATA:
            taken = [
                one
                for one in self.since_fall(direction)
                if one.number >= 0 and one.kind is not FlitKind.REPLAYED
            ]
            run = itertools.takewhile(lambda one: one.kind is FlitKind.DATA, reversed(taken))
            length = len(list(run))
            if length == 1 or (length and direction is S2M):
                self.hit("link all-data run", f"{name} {length}")

    def _kind_before(self, event: FlitEvent) -> str:
        """Return what the flit with the number of a replayed one was when it was new."""
        for one in self.back(event.direction):
            if one.kind is not FlitKind.REPLAYED and one.number == event.number + KEPT:
                return ""
            if one.kind is not FlitKind.REPLAYED and one.number == event.number:
                return kind_of(one)
        return ""

    def _form(self, number: int) -> str:
        """Return the format with several data headers in a flit to the host; "" for none."""
        for one in (self.history[-1].event, *self.back(S2M)):
            assert isinstance(one, FlitEvent)
            if one.number == number + KEPT and one.kind is not FlitKind.REPLAYED:
                return ""
            if one.number == number and one.report and not one.report.adf and one.report.data > 1:
                forms = [MULTI[place] for place in one.report.placements if place in MULTI]
                if forms:
                    return forms[-1]
        return ""

    def _headers(self, event: FlitEvent, other: Way) -> None:
        report, way = event.report, event.direction
        assert report is not None
        filled = dict(report.placements)
        for slot in range(4):
            code = report.header >> 5 + 3 * slot & 7
            layout = LAYOUTS[way][bool(slot)][code]
            text = f"{way.value} {slot} {layout.name}"
            if layout.use is SlotUse.MEM and slot not in filled:
                text += ", empty"
            elif way is S2M and slot == 0 and code == 3 and not event.flit >> 72 & 1:
                text = "S2M 0 H3 DRS"
            elif way is S2M and slot == 0 and code == 4 and not event.flit >> 60 & 1:
                text = "S2M 0 H4 1 NDR"
            self.hit("link slot", text)
        self._grants(event, other, "header")
        if way is S2M and report.data:
            for place in report.placements:
                if place in MULTI and report.data > 1:
                    self.hit("link multi header", MULTI[place], "new")
            form = self._form(event.number) or "H3"
            self.hit("link multi header fill", form, str(event.owed_before))

    def _data(self, event: FlitEvent) -> None:
        header, owed = data_header(event), event.owed_before
        enables = header >= 0 and enabled(event)
        if owed <= 5 and not 0 < header <= owed:
            where = f"slot {header}" if header >= 0 else "none"
            self.hit("link rollover", str(owed), where, "BE" if enables else "no BE")
        if 1 <= owed <= 4 and self._enables_owed():
            place = "all-data flit" if owed == 4 else f"slot {owed}"
            side = "none" if header < 0 else "before" if header <= owed else "behind"
            self.hit("link byte enables", place, side)

    def _enables_owed(self) -> bool:
        """Return whether a message under way to the device has byte enables that are to come."""
        for one in self.back(M2S):
            if one.report is not None:
                if data_header(one) >= 0:
                    return enabled(one)
                if 1 <= one.owed_before <= 4:
                    return False
        return False


def kind_of(event: FlitEvent) -> str:
    if isinstance(event.control, Llcrd):
        return "LLCRD"
    return "all-data" if event.kind is FlitKind.DATA else "protocol"


def data_header(event: FlitEvent) -> int:
    """Return the slot of the data header in a flit to the device; -1 without one."""
    assert event.report is not None
    places = [slot for slot, code in event.report.placements if code == (5 if slot else 4)]
    return places[-1] if places else -1


def enabled(event: FlitEvent) -> bool:
    assert event.report is not None
    return bool(event.report.header & 8)


class Source:
    """Source of drawn events, with the state of both directions after each of them."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.ways = {way: Way(way, SimpleNamespace(owed=0)) for way in Direction}
        self.next = dict.fromkeys(Direction, 0)
        self.waiting: dict[Direction, list[ControlFlit]] = {way: [] for way in Direction}

    def draw_ways(self) -> None:
        """Draw the state of both directions; most values stay for a while."""
        rng = self.rng
        for way in self.ways.values():
            way.plain, way.data = rng.choice((0, 1, 2, 3, 4)), rng.choice((0, 1, 2, 4, 5, 6))
            way.unpacker = SimpleNamespace(owed=rng.choice((0, 0, 1, 3, 4, 5)))
            way.frames = rng.choice((0, 0, 1, 5))
            way.frozen, way.clean_seen = rng.random() < 0.3, rng.random() < 0.8
            way.accepted = rng.randrange(90)
            way.acked = way.accepted - rng.choice((0, 1, 3, 8, 9, 10, 11))
            way.cursor = way.accepted - rng.choice((0, 0, 1, 7, 31, 63, 64))
            if rng.random() < 0.1:
                way.wrap = rng.choice((9, 9, 11))

    def event(self) -> FlitEvent | bool | None:
        rng = self.rng
        what = rng.random()
        if what < 0.01:
            self.next = dict.fromkeys(Direction, 0)
            return None
        if what < 0.05:
            return rng.random() < 0.3
        return self.flit(rng.choice([*Direction]))

    def flit(self, way: Direction) -> FlitEvent:
        rng = self.rng
        event = FlitEvent(way, 0, 0, rng.getrandbits(528), FlitKind.PROTOCOL)
        if rng.random() < 0.3:
            event.flit &= ~(0xFFF << 20)
        event.owed_before = rng.randrange(4)
        if rng.random() < 0.08:
            frames: list[ControlFlit] = [RetryFrame()] * rng.choice((4, 5, 6))
            start, length = rng.choice((0, 3, 9, 11)), rng.choice((0, 1, 2, 5))
            ack = RetryAck(eseq=start, wr_ptr=(start + length) % (self.ways[way].wrap + 1))
            last: ControlFlit = RetryReq(start) if rng.random() < 0.4 else ack
            self.waiting[way] = [*frames, last]
        if self.waiting[way] and rng.random() < 0.97:
            event.control, event.kind = self.waiting[way].pop(0), FlitKind.CONTROL
            if rng.random() < 0.03:
                event.kind = FlitKind.DISCARDED
            return event
        event.kind = rng.choice((*FlitKind, *(8 * [FlitKind.PROTOCOL, FlitKind.DATA])))
        if event.kind is FlitKind.CONTROL or rng.random() < 0.1:
            count = rng.choice((0, 1, 7, 8, 15, 16, 31, 32, 127, 128, 255))
            event.control = rng.choice(
                (Llcrd(ack=count), Llcrd(ack=count), InitParam(9), RetryIdle())
            )
            if event.kind is not FlitKind.DISCARDED:
                event.kind = FlitKind.CONTROL
        taken = (FlitKind.PROTOCOL, FlitKind.DATA, FlitKind.CONTROL)
        if event.kind in taken and rng.random() < 0.9 and not isinstance(event.control, RetryIdle):
            event.number = self.next[way]
            self.next[way] += 1
        if event.kind is FlitKind.REPLAYED:
            event.number = max(0, self.next[way] - rng.randrange(1, 12))
        if event.kind is FlitKind.DATA:
            event.owed_before = rng.choice((4, 4, 5, 6))
        if event.kind in (FlitKind.PROTOCOL, FlitKind.DATA) and event.number >= 0:
            event.report = self.report(event)
        return event

    def report(self, event: FlitEvent) -> FlitReport[Any]:
        """Draw the content of a flit that follows the slot formats."""
        rng, way = self.rng, event.direction
        report: FlitReport[Any] = FlitReport(event.kind is FlitKind.DATA, event.owed_before)
        if report.adf:
            return report
        usual = ((4, 5), (0, 4, 5)) if way is M2S else ((3, 4, 5), (0, 0, 5, 6))
        data = False
        for slot in range(4):
            code = rng.choice(usual[bool(slot)]) if rng.random() < 0.9 else rng.randrange(8)
            if data and way is M2S and code == (5 if slot else 4):
                code = 4 if slot else 5  # one message with data starts in a flit
            report.header |= code << 5 + 3 * slot
            fields = LAYOUTS[way][bool(slot)][code].fields
            if fields and rng.random() < 0.7:
                report.placements.append((slot, code))
                for one in fields:
                    report.data += one.with_data
                    report.plain += not one.with_data
                    data |= one.with_data
        report.header |= 8 * rng.randrange(2)
        return report


class Sampled:
    """Hits of some points since the last look, without those of names that count nowhere."""

    def __init__(self, points: Points) -> None:
        self._hits: Hits = Counter()
        points.hit = self._hit  # type: ignore[method-assign]

    def _hit(self, point: str, *values: str, times: int = 1) -> None:
        self._hits[point, BETWEEN.join(values)] += times

    def look(self) -> Hits:
        found, self._hits = self._hits, Counter()
        return counted(found)


def counted(hits: Hits) -> Hits:
    return Counter(
        {one: n for one, n in hits.items() if one[1] not in MODEL.points[one[0]].ignored}
    )


def bound(ways: dict[Direction, Way]) -> tuple[Sampled, LinkPoints]:
    points = LinkPoints(MODEL)
    tracker: Any = SimpleNamespace(m2s=ways[M2S], s2m=ways[S2M])
    points.bind(tracker, FULL)
    return Sampled(points), points


def give(points: LinkPoints, event: FlitEvent | bool | None) -> None:
    if event is None:
        points.reset()
    elif isinstance(event, bool):
        points.phy(event)
    else:
        points.flit(event)


@pytest.mark.parametrize("seed", range(3))
def test_drawn_flits(seed: int) -> None:
    source, history = Source(seed), list[Moment]()
    sampled, points = bound(source.ways)
    for step in range(2500):
        if step % 3 == 0:
            source.draw_ways()
        event = source.event()
        ways = {way: copy(one) for way, one in source.ways.items()}
        history = [] if event is None else [*history[-150:], Moment(event, ways)]
        give(points, event)
        # A look back of 150 events is enough: nothing that is drawn lasts longer.
        wanted = counted(Statement(history).hits)
        assert sampled.look() == wanted, (seed, step, event)


def numbered(way: Direction, number: int, kind: FlitKind = FlitKind.PROTOCOL) -> FlitEvent:
    return FlitEvent(way, 0, 0, 0, kind, number=number)


@pytest.mark.parametrize("way", Direction)
def test_a_flit_is_remembered_for_512_flits(way: Direction) -> None:
    """Check that a replay finds what the flit was, unless 512 flits of its direction came since."""
    for kept in (True, False):
        sampled, points = bound(Source(0).ways)
        first = numbered(way, 3)
        if way is S2M:
            first.report = FlitReport(False, 0, data=2, header=5 << 5, placements=[(0, 5)])
        points.flit(first)
        points.flit(numbered(M2S if way is S2M else S2M, 3 + KEPT))  # of the other direction
        points.flit(numbered(way, 2 + KEPT if kept else 3 + KEPT))
        sampled.look()
        points.flit(numbered(way, 3, FlitKind.REPLAYED))
        what = "protocol" if kept else ""
        wanted = {("link retry phase", BETWEEN.join((way.value, "replayed", what))): 1}
        if way is S2M and kept:
            wanted["link multi header", "H5 x replayed"] = 1
        assert sampled.look() == wanted


def test_points_without_a_tracker_sample_nothing() -> None:
    points = LinkPoints(MODEL)
    sampled = Sampled(points)
    points.phy(False)
    points.flit(numbered(M2S, 0))
    assert sampled.look() == {}
    assert points.credits_of_device(drs=False) == points.credits_of_device(drs=True) == 1


def test_credits_of_the_device() -> None:
    source = Source(0)
    source.ways[S2M].plain, source.ways[S2M].data = 3, 7
    _, points = bound(source.ways)
    assert (points.credits_of_device(drs=False), points.credits_of_device(drs=True)) == (3, 7)


STATES = ("NORMAL", "LLRREQ", "LOCAL_IDLE", "PHY_REINIT", "ABORT")
REMOTE = ("NORMAL", "LLRACK")
EVENTS: dict[str, tuple[FlitKind, ControlFlit | None]] = {
    "data or header": (FlitKind.PROTOCOL, None),
    "all data": (FlitKind.DATA, None),
    "discarded": (FlitKind.DISCARDED, None),
    "LLCRD": (FlitKind.CONTROL, Llcrd()),
    "INIT.Param": (FlitKind.CONTROL, InitParam(9)),
    "RETRY.Idle": (FlitKind.CONTROL, RetryIdle()),
    "RETRY.Frame": (FlitKind.CONTROL, RetryFrame()),
    "damaged RETRY.Frame": (FlitKind.DISCARDED, RetryFrame()),
    "RETRY.Req": (FlitKind.CONTROL, RetryReq(0)),
    "RETRY.Ack": (FlitKind.CONTROL, RetryAck()),
    "bad CRC": (FlitKind.BAD_CRC, None),
    "bad Protocol ID": (FlitKind.BAD_ID, None),
    "null": (FlitKind.NULL, None),
    "unexpected": (FlitKind.UNEXPECTED, None),
}
"""Flits, by name of the event that they are to the state machines, or by another name."""
SAME = {"all data": "data or header", "discarded": "data or header"}
SAME["damaged RETRY.Frame"] = "RETRY.Frame"


def test_drawn_states() -> None:
    """Check each clock of the state machines: the flit of the clock before, and phy_up that falls.

    RETRY.Req and RETRY.Ack count after five good frames without a gap.
    """
    rng = Random(5)
    points = LinkStatePoints(MODEL)
    sampled = Sampled(points)
    errors = codes("LINK_ERRORS")
    flits: list[str] = []
    state, fresh, level, waits = "", True, True, ""
    for _ in range(4000):
        if rng.random() < 0.01:
            points.reset()
            flits, fresh, level, waits = [], True, True, ""
        name = rng.choice((*EVENTS, "", "", *(25 * ["RETRY.Frame"])))
        before, state, remote = state, rng.choice(STATES), rng.choice(REMOTE)
        fell = level and not (level := rng.random() < 0.8)
        error = rng.choice((0, rng.randrange(len(errors) + 1)))
        wanted: Hits = Counter()
        for seen in filter(None, (waits, "phy down" if fell else "")):
            wanted["link LRSM", f"{state} x {seen}"] += 1
            wanted["link RRSM", f"{remote} x {seen}"] += 1
        wanted["link LRSM with RRSM", f"{state} x {remote}"] = 1
        if not fresh and before != state:
            wanted["link LRSM step", f"{before} to {state}"] = 1
        if error:
            wanted["link error", errors[error - 1]] = 1
        event = FlitEvent(M2S, 0, 0, 0, EVENTS[name][0], control=EVENTS[name][1]) if name else None
        lrsm, rrsm = STATES.index(state), REMOTE.index(remote)
        points.clock({"lrsm": lrsm, "rrsm": rrsm, "error_kind": error}, level, event)
        assert sampled.look() == counted(wanted)
        fresh, waits = False, SAME.get(name, name)
        if name in ("RETRY.Req", "RETRY.Ack") and flits[-5:] != ["RETRY.Frame"] * 5:
            waits = f"{name} alone"
        if name in ("null", "unexpected"):
            waits = ""
        flits += [name] * bool(name)


def test_faults_of_the_campaign_alone_are_counted() -> None:
    for kind in FaultKind:
        for retrying in (False, True):
            points = LinkFaultPoints(MODEL)
            sampled = Sampled(points)
            points.fault(kind, retrying, "streaming")
            name = BETWEEN.join((kind.value, "retry" if retrying else "no retry", "streaming"))
            wanted: Hits = Counter({("link fault", name): int(kind in CAMPAIGN)})
            assert sampled.look() == +counted(wanted)
