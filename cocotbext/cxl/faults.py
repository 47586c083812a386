# SPDX-License-Identifier: Apache-2.0
"""Fault injection on the wire of a CXL.mem link, by rate or at chosen flits, with a fault table.

A FaultInjector executes a list of FaultRules through the hooks of CxlConfig (before and after the
device's pins) and through the host's link partner. The same rules and seed on the same traffic
inject the same faults. It counts injected faults by kind and direction, and detects when both
receivers accept flits again: the fault is then *recovered*. Counters of the receivers show which
faults were *detected* (`judge`).

A lost flit is replaced by a NULL flit, which receivers drop silently (spec: link spec §1).
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from enum import Enum

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.control import Llcrd, RetryAck, RetryFrame, RetryReq, decode_control
from cocotbext.cxl.wire.crc import FLIT_BITS, PAYLOAD_MASK
from cocotbext.cxl.wire.flits import Direction, ProtocolCode, WireFlit, is_control

MAX_BURST = 14
"""Longest burst that the CRC detects at any position of the flit (spec: link spec §2)."""
_NULL = ProtocolCode.NULL.word
_VALID = frozenset(code.word & 0xFF for code in ProtocolCode)


class FaultKind(Enum):
    """Kind of fault; the value is its name in tables."""

    FLIP_1 = "1 bit"
    FLIP_2 = "2 bits"
    FLIP_3 = "3 bits"
    BURST = "burst of 2..14 bits"
    PID_HALF = "Protocol ID, one half"
    PID_BOTH = "Protocol ID, both halves"
    LOST_FRAME = "lost RETRY.Frame"
    LOST_REQ = "lost RETRY.Req"
    LOST_ACK = "lost RETRY.Ack"
    DAMAGED_FRAME = "damaged RETRY.Frame"
    DAMAGED_REQ = "damaged RETRY.Req"
    DAMAGED_ACK = "damaged RETRY.Ack"
    DELAYED_ACK = "delayed acknowledgements"
    NO_CREDIT = "credit exhaustion"
    PHY_REINIT = "PHY reinit"
    SILENT_LOSS = "silent loss"  # beyond what the protocol can see: never in a campaign


CRC_KINDS = frozenset(
    {FaultKind.FLIP_1, FaultKind.FLIP_2, FaultKind.FLIP_3, FaultKind.BURST}
    | {FaultKind.DAMAGED_FRAME, FaultKind.DAMAGED_REQ, FaultKind.DAMAGED_ACK}
)
LOST_KINDS = frozenset({FaultKind.LOST_FRAME, FaultKind.LOST_REQ, FaultKind.LOST_ACK})
EPISODES = frozenset({FaultKind.DELAYED_ACK, FaultKind.NO_CREDIT})
CAMPAIGN = tuple(kind for kind in FaultKind if kind is not FaultKind.SILENT_LOSS)
_FLIPS = {FaultKind.FLIP_1: 1, FaultKind.FLIP_2: 2, FaultKind.FLIP_3: 3}
_TARGETS = {
    FaultKind.LOST_FRAME: RetryFrame,
    FaultKind.LOST_REQ: RetryReq,
    FaultKind.LOST_ACK: RetryAck,
    FaultKind.DAMAGED_FRAME: RetryFrame,
    FaultKind.DAMAGED_REQ: RetryReq,
    FaultKind.DAMAGED_ACK: RetryAck,
}


@dataclass(frozen=True)
class FaultRule:
    """One kind of fault on one direction (None: both).

    Attributes:
        rate: probability for each flit that the kind can hit.
        places: numbers of the flits to hit, counted from 0 among these when the injector is armed.
        where: predicate that restricts the flits that can be hit.
        spare_retry: hit no RETRY flit.
        in_retry: hit only flits that pass while either end is in a retry.
        clocks: (min, max) length of an episode (delayed acknowledgements, exhausted credits).

    Raises:
        ValueError: the rate is no probability, or the rule never fires.
    """

    kind: FaultKind
    direction: Direction | None = None
    rate: float = 0.0
    places: tuple[int, ...] = ()
    where: Callable[[WireFlit], bool] | None = None
    spare_retry: bool = False
    in_retry: bool = False
    clocks: tuple[int, int] = (50, 250)

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise ValueError(f"{self.kind.value}: a rate of {self.rate} is no chance")
        if not self.rate and not self.places:
            raise ValueError(f"{self.kind.value}: neither a rate nor a place")


@dataclass(slots=True)
class _Open:
    """Injected fault from which the link has not recovered.

    ``waits`` maps a direction to the number of a flit on the wire; the receiver must accept a flit
    with this or a later number. The link has recovered when ``waits`` is empty.
    """

    kind: FaultKind
    direction: Direction
    waits: dict[Direction, int]


@dataclass(slots=True)
class _Episode:
    rule: FaultRule
    direction: Direction
    end: int
    noticed: bool = False


Key = tuple[FaultKind, Direction]
_HOLDS: dict[Key, Callable[[HostLink, bool], None]] = {
    (FaultKind.DELAYED_ACK, Direction.M2S): HostLink.hold_peer_acks,
    (FaultKind.DELAYED_ACK, Direction.S2M): HostLink.hold_acks,
    (FaultKind.NO_CREDIT, Direction.M2S): HostLink.hold_peer_credits,
    (FaultKind.NO_CREDIT, Direction.S2M): HostLink.hold_credits,
}
"""Hook of the host that begins (True) and ends an episode."""


class FaultInjector:
    """Fault injector for both directions of a link.

    Call ``attach(cfg)`` before the agent is built, ``bind`` once the link partner exists, set
    ``armed`` once the link is up; call ``tick`` once per clock and ``observed`` for every flit on
    the pins.
    """

    def __init__(self, rules: tuple[FaultRule, ...], seed: int = 0) -> None:
        self.rules = rules
        self.rng = random.Random(seed)
        self.armed = False
        self.injected: Counter[Key] = Counter()
        self.recovered: Counter[Key] = Counter()
        self.noticed: Counter[Key] = Counter()
        """Episodes that stopped their sender."""
        self.passed: Counter[Direction] = Counter()
        """Flits that passed the hooks."""
        self.on_fault: list[Callable[[FaultKind, Direction], None]] = []
        """Observers, called for each injected fault."""
        self._seen = 0  # M2S flits that the monitor has seen
        self._candidates: Counter[tuple[int, Direction]] = Counter()
        self._open: list[_Open] = []
        self._episodes: list[_Episode] = []
        self._clock = 0
        self._host: HostLink | None = None
        self._tracker: LinkTracker | None = None
        self._retrain: Callable[[], bool] = lambda: False

    # -------------------------------------------------------------------------- wiring

    def attach(self, cfg: CxlConfig) -> None:
        """Install the hooks in the settings of an agent, and waive the link rules that faults
        break.
        """
        cfg.damage_to_device = self.to_device
        cfg.damage_to_host = self.to_host
        inner = cfg.waive
        rules = ("crc", "protocol_id", "retry")
        cfg.waive = lambda rule, way: bool(
            (way == "M2S" and rule in rules) or (inner is not None and inner(rule, way))
        )

    def bind(
        self,
        host: HostLink,
        retrain: Callable[[], bool] = lambda: False,
        tracker: LinkTracker | None = None,
    ) -> None:
        """Set the link partner, retrain function and tracker that faults and their recovery need.

        Args:
            host: link partner of the host.
            retrain: takes the physical layer down and up again; returns False if it did not start.
            tracker: link tracker of the monitor.
        """
        self._host, self._retrain, self._tracker = host, retrain, tracker

    @property
    def settled(self) -> bool:
        """Return True if no episode is active and the link has recovered from all faults."""
        return not self._open and not self._episodes

    @property
    def retrying(self) -> bool:
        """Return True if either end requests, waits for or sends a link-level replay."""
        host, way = self._host, self._tracker.m2s if self._tracker else None
        missing = way is not None and (way.frozen or way.cursor < way.accepted)
        return missing or (host is not None and (host.retry.busy or host.buffer.replaying))

    # -------------------------------------------------------------------------- hooks

    def to_device(self, wire: WireFlit) -> WireFlit:
        """Count a flit that the host sends; return it, damaged if a rule applies."""
        return self._pass(Direction.M2S, wire)

    def to_host(self, wire: WireFlit) -> WireFlit:
        """Count a flit that the host receives; return it, damaged if a rule applies.

        Before, faults that waited for the host to accept a flit count as recovered if the host's
        LRSM is in NORMAL.
        """
        host = self._host
        if host is not None and host.retry.lrsm is Lrsm.NORMAL:
            self._advance(Direction.S2M, self.passed[Direction.S2M])
        return self._pass(Direction.S2M, wire)

    def observed(self, event: FlitEvent) -> None:
        """Count a flit to the device, sampled on its pins; ignore flits to the host.

        If the device accepts it, faults that waited for a flit of this number count as recovered.
        """
        if event.direction is not Direction.M2S:
            return
        self._seen += 1
        taken = event.kind in (FlitKind.PROTOCOL, FlitKind.DATA, FlitKind.REPLAYED)
        if taken or (event.kind is FlitKind.CONTROL and isinstance(event.control, Llcrd)):
            self._advance(Direction.M2S, self._seen)

    def _advance(self, direction: Direction, number: int) -> None:
        if not self._open:
            return
        still: list[_Open] = []
        for fault in self._open:
            if fault.waits.get(direction, number + 1) <= number:
                del fault.waits[direction]
            if fault.waits:
                still.append(fault)
            else:
                self.recovered[fault.kind, fault.direction] += 1
        self._open = still

    def _pass(self, direction: Direction, wire: WireFlit) -> WireFlit:
        self.passed[direction] += 1
        if not self.armed:
            return wire
        hit = None
        for number, rule in enumerate(self.rules):
            if rule.direction not in (None, direction) or not _can_hit(rule, wire):
                continue
            if rule.in_retry and not self.retrying:
                continue
            place = self._candidates[number, direction]
            self._candidates[number, direction] += 1
            # At most one fault per flit: the first matching rule wins.
            chance = rule.rate > 0 and self.rng.random() < rule.rate
            if hit is None and (chance or place in rule.places):
                hit = rule
        return wire if hit is None else self._hit(hit, direction, wire)

    def _hit(self, rule: FaultRule, direction: Direction, wire: WireFlit) -> WireFlit:
        kind = rule.kind
        if kind in EPISODES:
            self._begin(rule, direction)
            return wire
        if kind is FaultKind.PHY_REINIT and not self._retrain():
            return wire  # the other direction's hook has begun one in this clock
        self._injected(kind, direction)
        if kind in _FLIPS or kind in (FaultKind.BURST, FaultKind.PID_HALF, FaultKind.PID_BOTH):
            waits = {direction: self.passed[direction]}
        else:
            # The fault may disturb a retry of either end, so both receivers must accept flits
            # again. A retrain starts one clock later; one more flit may arrive before.
            late = 2 * (kind is FaultKind.PHY_REINIT)
            waits = {way: self.passed[way] + late + (way is not direction) for way in Direction}
        self._open.append(_Open(kind, direction, waits))
        return damage(kind, wire, self.rng)

    # -------------------------------------------------------------------------- episodes

    def _injected(self, kind: FaultKind, direction: Direction) -> None:
        self.injected[kind, direction] += 1
        for take_fault in self.on_fault:
            take_fault(kind, direction)

    def _begin(self, rule: FaultRule, direction: Direction) -> None:
        host = self._host
        if host is None or any(
            (e.rule.kind, e.direction) == (rule.kind, direction) for e in self._episodes
        ):
            return
        self._injected(rule.kind, direction)
        episode = _Episode(rule, direction, self._clock + self.rng.randint(*rule.clocks))
        self._episodes.append(episode)
        # The host is held from the next clock on; its flit of this clock is already on the wire.
        if (rule.kind is FaultKind.DELAYED_ACK) == (direction is Direction.M2S):
            _HOLDS[rule.kind, direction](host, True)

    def tick(self) -> None:
        """Advance by one clock.

        Active episodes hold back acknowledgements or credits; those whose time is over end.
        """
        self._clock += 1
        for episode in list(self._episodes):
            self._hold(episode)
            if self._clock >= episode.end:
                self._end(episode)

    def _hold(self, episode: _Episode) -> None:
        host, tracker = self._host, self._tracker
        assert host is not None
        kind, direction = episode.rule.kind, episode.direction
        _HOLDS[kind, direction](host, True)
        acks = kind is FaultKind.DELAYED_ACK
        if direction is Direction.M2S:
            episode.noticed |= host.buffer.free <= 2 if acks else host.packer.waiting > 0
        elif tracker is not None:
            way = tracker.s2m
            full = way.accepted - way.acked >= way.wrap - 1
            episode.noticed |= full if acks else not way.plain or not way.data

    def _end(self, episode: _Episode) -> None:
        host, kind, direction = self._host, episode.rule.kind, episode.direction
        assert host is not None
        self._episodes.remove(episode)
        self.noticed[kind, direction] += episode.noticed
        _HOLDS[kind, direction](host, False)
        after = {direction: self.passed[direction] + 1}
        self._open.append(_Open(kind, direction, after))


def _can_hit(rule: FaultRule, wire: WireFlit) -> bool:
    target = _TARGETS.get(rule.kind)
    control = None
    if target is not None or rule.spare_retry:
        payload = wire[1] & PAYLOAD_MASK
        if is_control(payload):
            control, wrong = decode_control(payload)
            control = None if wrong else control
    if target is not None and not isinstance(control, target):
        return False
    if rule.spare_retry and isinstance(control, RetryFrame | RetryReq | RetryAck):
        return False
    return rule.where is None or rule.where(wire)


def damage(kind: FaultKind, wire: WireFlit, rng: random.Random) -> WireFlit:
    """Return the flit after a fault of this kind.

    A lost flit becomes a NULL flit. Delayed acknowledgements, exhausted credits and a PHY reinit
    leave the flit unchanged.
    """
    pid, flit = wire
    if kind in CRC_KINDS - {FaultKind.BURST}:
        return pid, flit ^ random_flips(rng, _FLIPS.get(kind) or rng.randint(1, 3))
    if kind is FaultKind.BURST:
        length = rng.randint(2, MAX_BURST)
        pattern = 1 | 1 << length - 1 | rng.getrandbits(length)
        return pid, flit ^ pattern << rng.randrange(FLIT_BITS - length + 1)
    if kind is FaultKind.PID_HALF:
        bad = rng.choice([code for code in range(256) if code not in _VALID])
        return rng.choice((bad << 8 | pid & 0xFF, pid & 0xFF00 | bad)), flit
    if kind is FaultKind.PID_BOTH:
        if rng.randrange(2):  # two valid halves that differ
            high, low = rng.sample(sorted(_VALID), 2)
        else:
            high, low = rng.choices([code for code in range(256) if code not in _VALID], k=2)
        return high << 8 | low, flit
    if kind in LOST_KINDS or kind is FaultKind.SILENT_LOSS:
        return _NULL, 0
    return wire


def random_flips(rng: random.Random, count: int) -> int:
    """Return a 528-bit error pattern with ``count`` bits set at random positions."""
    return sum(1 << bit for bit in rng.sample(range(FLIT_BITS), count))


# Fault table: injected, detected and recovered faults by kind, checked against the counters of both
# ends.
#
# Receivers count detections: the device's registers for M2S, the host partner's counters for S2M.
# Kinds that share a counter are checked by their sum; if the sum is exact, each fault was detected.


_EXACT = {
    "CRC_ERROR": CRC_KINDS,
    "PID_CORRECTABLE": frozenset({FaultKind.PID_HALF}),
    "PID_UNCORRECTABLE": frozenset({FaultKind.PID_BOTH}),
}
COUNTERS = (*_EXACT, "RETRY_LOCAL", "RETRY_REMOTE", "RETRY_TIMEOUT", "PHY_REINIT")
"""Device registers that a table needs; the host's counters have the same names."""
_CAUGHT_BY_RETRAIN = 4
"""Flits that a falling phy_up may drop between the pins and the device's checks."""


@dataclass
class FaultRow:
    """Counts of one kind of fault on one direction."""

    kind: str
    direction: str
    injected: int = 0
    detected: int = 0
    recovered: int = 0


@dataclass
class FaultTable:
    """Table of injected, detected and recovered faults of a run.

    ``flits`` are the numbers of M2S and S2M flits; ``problems`` lists the inconsistencies, one line
    each.
    """

    rows: list[FaultRow] = field(default_factory=list)
    flits: tuple[int, int] = (0, 0)
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the table as text lines for a log, without ``problems``."""
        head = f"{'fault':26} {'way':4} {'injected':>9} {'detected':>9} {'recovered':>9}"
        lines = [head]
        lines += [
            f"{r.kind:26} {r.direction:4} {r.injected:9} {r.detected:9} {r.recovered:9}"
            for r in self.rows
        ]
        lines.append(f"flits: {self.flits[0]} M2S, {self.flits[1]} S2M")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Return rows and flit counts as JSON data for the record of the run."""
        return {"rows": [list(astuple(row)) for row in self.rows], "flits": list(self.flits)}


def judge(
    faults: FaultInjector,
    device: Mapping[str, int],
    host: Mapping[str, int],
    flits: tuple[int, int] = (0, 0),
) -> FaultTable:
    """Return the fault table of a finished run; its ``problems`` list what does not agree.

    Args:
        faults: injector of the run.
        device: counters of the device, by the names in COUNTERS.
        host: counters of the host's link partner, by the same names.
        flits: number of M2S and S2M flits.
    """
    table = FaultTable(flits=flits)
    for direction, counted in ((Direction.M2S, device), (Direction.S2M, host)):
        detected = _detected(faults, direction, counted, table.problems)
        for kind in FaultKind:
            injected = faults.injected[kind, direction]
            if not injected:
                continue
            got = detected.get(kind, 0)
            if kind in LOST_KINDS:
                # A lost flit is not seen; the end that waits for it times out. Both ends may wait
                # for a RETRY.Frame, so the time-outs of both are added.
                got = min(injected, device["RETRY_TIMEOUT"] + host["RETRY_TIMEOUT"])
                # An earlier retrain restarts the request without a time-out.
                if not got and not device["PHY_REINIT"] + host["PHY_REINIT"]:
                    table.problems.append(f"{kind.value} {direction.value}: nobody timed out")
            recovered = faults.recovered[kind, direction]
            if recovered != injected:
                table.problems.append(
                    f"{kind.value} {direction.value}: {injected} injected, {recovered} recovered"
                )
            table.rows.append(FaultRow(kind.value, direction.value, injected, got, recovered))
    if not table.rows:
        table.problems.append("no fault was injected: nothing was tested")
    return table


def _detected(
    faults: FaultInjector, direction: Direction, counted: Mapping[str, int], problems: list[str]
) -> dict[FaultKind, int]:
    out: dict[FaultKind, int] = {}
    retrains = sum(faults.injected[FaultKind.PHY_REINIT, way] for way in Direction)
    slack = 0
    if direction is Direction.M2S:
        slack = _CAUGHT_BY_RETRAIN * max(retrains, counted["PHY_REINIT"])
    for name, kinds in _EXACT.items():
        injected = {kind: faults.injected[kind, direction] for kind in FaultKind if kind in kinds}
        total, seen = sum(injected.values()), counted[name]
        if not total - slack <= seen <= total:
            problems.append(f"{direction.value} {name} is {seen}, {total} flits were damaged")
        short = total - seen
        for kind, number in injected.items():
            out[kind] = number - min(max(short, 0), number)
            short -= number
    # A retrain is requested by either hook and counted by both ends.
    if counted["PHY_REINIT"] < retrains:
        problems.append(f"{direction.value} PHY_REINIT is {counted['PHY_REINIT']} of {retrains}")
    phy = faults.injected[FaultKind.PHY_REINIT, direction]
    out[FaultKind.PHY_REINIT] = min(phy, counted["PHY_REINIT"])
    for kind in EPISODES:
        out[kind] = faults.noticed[kind, direction]
    return out
