# SPDX-License-Identifier: Apache-2.0
"""Cover points of the link at flit level, sampled from its pins: packing, credits,
acknowledgements, retry.

A tracker of cocotbext.cxl decodes the pins and keeps the state of both directions; each of its
events is one sample. The state of the retry inside the device is sampled by `LinkStatePoints`.
"""

from functools import lru_cache

from cocotbext.cxl.faults import CAMPAIGN, FaultKind
from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind, Way
from cocotbext.cxl.link.retry import FRAMES
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.control import Llcrd, RetryAck, RetryFrame, RetryIdle, RetryReq
from cocotbext.cxl.wire.flits import CREDIT_SIZES, Direction
from cocotbext.cxl.wire.slots import LAYOUTS, SlotUse
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Points, class_of, codes

M2S, S2M = Direction.M2S, Direction.S2M
CHANNELS = {M2S: ("Req", "RwD"), S2M: ("NDR", "DRS")}
LOSSES = {FlitKind.BAD_CRC: "CRC", FlitKind.BAD_ID: "Protocol ID"}
_KEPT = 512  # as many as the tracker remembers
_MULTI = {(0, 5): "H5", (1, 6): "G6", (2, 6): "G6", (3, 6): "G6"}


@lru_cache(maxsize=1 << 14)
def _slots(direction: Direction, formats: int, valid: int) -> tuple[str, ...]:
    """Return the bins of the four slots of a flit.

    Args:
        direction: Direction of the flit.
        formats: Formats of the slots, 3 bits each.
        valid: Bit i (0..3): slot i holds a valid header; bit 4: an NDR in H3, or a second one in
            H4.
    """
    out = []
    for slot in range(4):
        code = formats >> 3 * slot & 7
        layout = LAYOUTS[direction][1 if slot else 0][code]
        name = layout.name
        if layout.use is SlotUse.MEM and not valid >> slot & 1:
            name += ", empty"
        elif direction is S2M and not slot and code in (3, 4) and not valid & 16:
            name = "H3 DRS" if code == 3 else "H4 1 NDR"
        out.append(f"{direction.value} {slot} {name}")
    return tuple(out)


class LinkPoints(Points):
    """Cover points of the flits on the pins.

    Call `bind` with a tracker first; then `flit` samples each of its events and `phy` each level of
    phy_up.
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self.tracker: LinkTracker | None = None

    def bind(self, tracker: LinkTracker, full: dict[str, int]) -> None:
        """Set the tracker that decodes the pins, and reset the state.

        Args:
            tracker: Tracker of both directions.
            full: Number of credits of each channel (Req, RwD, NDR, DRS) when all are granted.
        """
        self.tracker, self._full = tracker, full
        self.reset()

    def credits_of_device(self, drs: bool) -> int:
        """Return the number of credits that the device has left for DRS, or for NDR."""
        if self.tracker is None:
            return 1
        return self.tracker.s2m.data if drs else self.tracker.s2m.plain

    def reset(self) -> None:
        """Follow a reset of the link: forget flits, all-data runs and replays."""
        self._kinds: dict[Direction, dict[int, str]] = {M2S: {}, S2M: {}}
        self._multi: dict[int, str] = {}
        self._frames, self._runs = {M2S: 0, S2M: 0}, {M2S: 0, S2M: 0}
        self._be_owed = False  # byte enables of the message that is under way
        self._phase = "new"
        self._again = 0  # flits to the device that are still to come of a replay

    # -------------------------------------------------------------------------- samples

    def phy(self, up: bool) -> None:
        """Count the bins of a fall of phy_up: the states of the link at that moment.

        Call it with each new level of phy_up, before the tracker processes it.
        """
        if up or self.tracker is None or not self.tracker.m2s.clean_seen:
            return
        m2s, s2m = self.tracker.m2s, self.tracker.s2m
        owed = m2s.unpacker.owed, s2m.unpacker.owed
        for name, here in (
            ("nothing owed", not any(owed)),
            ("data owed to the device", owed[0] > 0),
            ("data owed to the host", owed[1] > 0),
            ("all-data run to the device", owed[0] > 3),
            ("all-data run to the host", owed[1] > 3),
            ("sequence to the device", m2s.frames > 0),
            ("sequence to the host", s2m.frames > 0),
            ("replay to the device", self._again > 0),
            ("replay to the host", s2m.cursor < s2m.accepted),
            ("device discards", m2s.frozen),
        ):
            if here:
                self.hit("link phy down", name)
        self._runs[M2S] = self._runs[S2M] = 0
        self._phase, self._again = "discarded", 0

    def flit(self, event: FlitEvent) -> None:
        """Count the bins that a flit hits, after the tracker has processed it."""
        tracker = self.tracker
        if tracker is None:
            return
        way, other = tracker.m2s, tracker.s2m
        if event.direction is S2M:
            way, other = other, way
        kind = event.kind
        if kind is FlitKind.CONTROL:
            self._control(way, other, event)
        else:
            self._frames[event.direction] = 0
        if event.number >= 0:
            self._retryable(way, event)
        if event.report is not None:
            self._protocol(way, other, event)
        elif kind is FlitKind.DISCARDED:
            name = "LLCRD" if isinstance(event.control, Llcrd) else "protocol"
            self.hit("link retry phase", event.direction.value, "discarded", name)
        if event.direction is M2S:
            if kind in LOSSES:
                self.hit("link loss", LOSSES[kind], self._phase)
            self._phase = "discarded" if way.frozen else "replayed" if self._again else "new"

    def _retryable(self, way: Way, event: FlitEvent) -> None:
        name, kinds = event.direction.value, self._kinds[event.direction]
        if event.kind is FlitKind.REPLAYED:
            kind = kinds.get(event.number, "")
            self.hit("link retry phase", name, "replayed", kind)
            if way.direction is S2M and event.number in self._multi:
                self.hit("link multi header", self._multi[event.number], "replayed")
            return
        data = event.kind is FlitKind.DATA
        control = isinstance(event.control, Llcrd)
        kind = "LLCRD" if control else "all-data" if data else "protocol"
        kinds[event.number] = kind
        kinds.pop(event.number - _KEPT, None)
        if event.direction is S2M:
            self._multi.pop(event.number - _KEPT, None)
        # The device asks for what it has not accepted: at its pins nothing comes twice.
        again = way.direction is M2S and self._again > 0
        self._again -= again
        if event.control is None or control:
            self.hit("link retry phase", name, "replayed" if again else "new", kind)
        wrap = way.wrap
        free = wrap + 1 - (way.accepted - way.acked)
        if free > 0:
            self.hit("link NumFreeBuf", name, class_of("FREE", free))
        if event.number % (wrap + 1) == wrap:
            self.hit("link ESeq wrap", name)
        if data:
            self._runs[event.direction] += 1
        elif self._runs[event.direction]:
            length, self._runs[event.direction] = self._runs[event.direction], 0
            if way.direction is S2M or length == 1:  # else the host has broken the rules
                self.hit("link all-data run", f"{name} {length}")

    def _control(self, way: Way, other: Way, event: FlitEvent) -> None:
        control, direction = event.control, event.direction
        frames, self._frames[direction] = self._frames[direction], 0
        if isinstance(control, RetryFrame):
            self._frames[direction] = frames + 1
        elif isinstance(control, RetryReq) and frames >= FRAMES:
            last = other.wrap
            place = "0" if not control.eseq else "wrap value" if control.eseq == last else "between"
            self.hit("link retry from", direction.value, place)
        elif isinstance(control, RetryAck) and frames >= FRAMES:
            length = way.accepted - way.cursor
            if direction is M2S:
                length = self._again = (control.wr_ptr - control.eseq) % (way.wrap + 1)
            self.hit("link replay length", direction.value, class_of("REPLAYS", length))
        elif isinstance(control, Llcrd) and event.number >= 0:
            self.hit("link acknowledged", direction.value, class_of("ACKS", control.ack))
            self._granted(other, direction, event.flit, "LLCRD")

    def _protocol(self, way: Way, other: Way, event: FlitEvent) -> None:
        report = event.report
        assert report is not None
        direction, owed = event.direction, event.owed_before
        header = -1  # slot of the data header to the device
        if not report.adf:
            valid = 0
            for slot, code in report.placements:
                valid |= 1 << slot
                if code == (5 if slot else 4):
                    header = slot
                if direction is S2M and (slot, code) in _MULTI and report.data > 1:
                    self._multi[event.number] = _MULTI[slot, code]
                    self.hit("link multi header", _MULTI[slot, code], "new")
            if direction is S2M and report.header >> 5 & 7 in (3, 4):
                second = 72 if report.header >> 5 & 7 == 3 else 60
                valid |= (event.flit >> second & 1) << 4
            for name in _slots(direction, report.header >> 5 & 0xFFF, valid):
                self.hit("link slot", name)
            self._granted(other, direction, event.flit, "header")
            if direction is S2M and report.data:
                form = self._multi.get(event.number, "H3")
                self.hit("link multi header fill", form, str(owed))
        if direction is M2S:
            self._data_to_device(report.header if header >= 0 else 0, header, owed)
        self._spent(way, report.plain, report.data)

    def _data_to_device(self, flags: int, header: int, owed: int) -> None:
        """Count the bins of the places of a data header and of byte enables in a flit to the
        device.

        A flit that breaks the rules of the host has no bin.

        Args:
            flags: Header of the flit.
            header: Slot of the data header; -1 without one.
            owed: Number of data slots still due before the flit.
        """
        if owed <= 5:
            name = "none" if header < 0 else f"slot {header}"
            self.hit("link rollover", str(owed), name, "BE" if flags & 8 else "no BE")
        if self._be_owed and 0 < owed < 5:
            place = f"slot {owed}" if owed < 4 else "all-data flit"
            where = "none" if header < 0 else "behind" if header > owed else "before"
            self.hit("link byte enables", place, where)
            self._be_owed = False
        if header >= 0:
            self._be_owed = bool(flags & 8)

    def _spent(self, way: Way, plain: int, data: int) -> None:
        names = CHANNELS[way.direction]
        for name, spent, left in ((names[0], plain, way.plain), (names[1], data, way.data)):
            if spent and left < 2:
                self.hit("link credits", name, str(left))

    def _granted(self, other: Way, direction: Direction, flit: int, carrier: str) -> None:
        shifts = (20, 28) if direction is M2S else (24, 28)
        left = other.plain, other.data
        for name, shift, now in zip(CHANNELS[other.direction], shifts, left, strict=True):
            nibble = flit >> shift & 15
            if nibble > 8:
                self.hit("link credit code", name, str(CREDIT_SIZES[nibble & 7]), carrier)
                if now == self._full.get(name):
                    self.hit("link credits", name, "full")


# State machines of link-level retry against what comes in, where the link block stands alone.
#
# There its port `status` tells the state; inside the controller only a register does, clocks
# later.


STATES, RRSM, ERRORS = codes("LRSM"), codes("RRSM"), codes("LINK_ERRORS")
_PLAIN: dict[type, str] = {RetryIdle: "RETRY.Idle", RetryFrame: "RETRY.Frame", Llcrd: "LLCRD"}


def event_name(event: FlitEvent, frames: int) -> str | None:
    """Return the event that a flit to the device causes in its retry state machines, or None.

    Args:
        event: The flit.
        frames: Number of RETRY.Frame flits just before it; RETRY.Req and RETRY.Ack need FRAMES.
    """
    if event.kind is FlitKind.BAD_CRC:
        return "bad CRC"
    if event.kind is FlitKind.BAD_ID:
        return "bad Protocol ID"
    if event.kind in (FlitKind.NULL, FlitKind.UNEXPECTED):
        return None
    control = event.control
    if control is None:
        return "data or header"
    if isinstance(control, RetryReq | RetryAck):
        name = "RETRY.Req" if isinstance(control, RetryReq) else "RETRY.Ack"
        return name if frames >= FRAMES else f"{name} alone"
    return _PLAIN.get(type(control), "INIT.Param")


class LinkStatePoints(Points):
    """Cover points of the retry state machines LRSM and RRSM inside the device.

    Used where the link block stands alone, with the port `status`. Call `clock` once per cycle,
    before the flit of that cycle is decoded.
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self.reset()

    def reset(self) -> None:
        """Follow a reset of the link: forget the last state and the flit that waits to be
        sampled.
        """
        self._state = ""
        self._waiting: str | None = None
        self._frames = 0
        self._phy = True

    def clock(self, status: dict[str, int], phy: bool, event: FlitEvent | None) -> None:
        """Count the bins of one cycle: state, change of state, and the event in this state.

        A flit is sampled one cycle later, in the state of that cycle.

        Args:
            status: Members of the port `status`.
            phy: Level of phy_up.
            event: Flit that the device samples in this cycle, or None.
        """
        state, rrsm = STATES[status["lrsm"]], RRSM[status["rrsm"]]
        for event_seen in (self._waiting, "phy down" if self._phy and not phy else None):
            if event_seen is not None:
                self.hit("link LRSM", state, event_seen)
                self.hit("link RRSM", rrsm, event_seen)
        self._waiting = None
        self._phy = phy
        self.hit("link LRSM with RRSM", state, rrsm)
        if self._state and state != self._state:
            self.hit("link LRSM step", f"{self._state} to {state}")
        self._state = state
        if status["error_kind"]:
            self.hit("link error", ERRORS[status["error_kind"] - 1])
        if event is not None:
            self._waiting = event_name(event, self._frames)
            frame = isinstance(event.control, RetryFrame) and event.kind is FlitKind.CONTROL
            self._frames = self._frames + 1 if frame else 0


# Faults on the wire: each kind, in a retry and outside of one, under every traffic profile.


PROFILES = codes("PROFILES")


class LinkFaultPoints(Points):
    """Cover point of injected link faults: kind, in a retry or not, and profile; sampled by
    `fault`.
    """

    def fault(self, kind: FaultKind, retrying: bool, profile: str) -> None:
        """Count the bin of an injected fault; kinds outside CAMPAIGN are ignored.

        Args:
            kind: Kind of the fault.
            retrying: Whether a retry was in progress.
            profile: Traffic profile of the run.
        """
        if kind in CAMPAIGN:
            self.hit("link fault", kind.value, "retry" if retrying else "no retry", profile)
