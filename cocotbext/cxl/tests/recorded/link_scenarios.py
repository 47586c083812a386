# SPDX-License-Identifier: Apache-2.0
"""Scenarios of link partners and of the tracker between them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any

from cocotbext.cxl.link.conftest import LinkBench
from cocotbext.cxl.link.flit_event import Way
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.tests.recorded.draws import PID, any_message, any_response, damages
from cocotbext.cxl.tests.recorded.texts import Lines, New, of_event, of_link, of_tracker, show
from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    decode_control,
    encode_control,
)
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import Direction, ProtocolCode, WireFlit
from cocotbext.cxl.wire.packer import Credits, M2SPacker, PackOptions, S2MPacker

CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sparse": {"pack": PackOptions(dense=False, rng=Random(5)), "eds_rate": 0.2},
    "starved": {"grant_plain": 1, "grant_data": 2, "return_delay": (5, 30)},
    "batched": {"grant_plain": 8, "grant_data": 8, "return_batch": 5, "idle_flit_rate": 0.1},
    "llcrd": {"ak_in_headers": False, "credits_in_headers": False, "flush_retimer": 9},
    "retry": {
        "retry": True,
        "retry_depth": 24,
        "retry_timeout": 60,
        "max_retry": 3,
        "idle_flit_rate": 0.3,
    },
    "retry sparse": {
        "retry": True,
        "retry_timeout": 40,
        "max_phy_reinit": 2,
        "max_retry": 2,
        "pack": PackOptions(dense=False, multi_header=True, rng=Random(6)),
    },
}


class Told(LinkBench):
    """Bench of link partners with a tracker that notes each flit and each answer."""

    tracker: LinkTracker

    def __init__(self, name: str, seed: int) -> None:
        plain = LinkBench.make(seed, **deepcopy(CONFIGS[name]))
        super().__init__(plain.stub, plain.config, LinkTracker(plain.config.retry))
        self.log: list[str] = []
        self.flits: list[tuple[Direction, int, int, int]] = []
        self.news = New(
            error=lambda: self.tracker.errors,
            host=lambda: self.host.issues,
            device=lambda: self.device.issues,
        )

    def observe(self, direction: Direction, flit: WireFlit) -> None:
        self.flits.append((direction, *flit, self.clock))
        self.log.append(of_event(self.tracker.observe(direction, *flit, self.clock)))

    def told(self) -> Lines:
        """Return what was noted since the last call, and all states every 40 clocks."""
        yield from self.log
        yield from self.news()
        yield from (f"  answer {show(one)}" for one in self.responses)
        self.log.clear()
        self.responses.clear()
        if self.clock % 40 == 0:
            yield from (of_link(self.host), of_link(self.device), of_tracker(self.tracker))


def exchange(name: str) -> Lines:
    """Show link partners of a configuration with legal drawn traffic."""
    rng, bench = Random(name), Told(name, 1)
    bench.ready = lambda: rng.random() < 0.9
    bench.delay = {Direction.M2S: 2, Direction.S2M: 1}
    if bench.config.retry:
        bench.at_pins[Direction.M2S] = bench.after_pins[Direction.S2M] = lambda wire: (
            wire[0],
            wire[1] ^ (rng.random() < 0.03) << rng.randrange(528),
        )
    for clock in range(180):
        for _ in range(rng.choice((0, 0, 0, 1, 3)) if clock < 120 else 0):
            bench.host.send(any_message(rng, True).with_tag(clock))
        bench.retrain = clock == 90
        bench.step()
        yield from bench.told()
    bench.tracker.finish(bench.clock)
    yield from bench.told()


def late_acknowledgements() -> Lines:
    """Show flits of a host that owes more acknowledgements than an LLCRD holds."""
    for owed in (1, 2, 15, 16, 255, 256, 600):
        one = LinkBench.make(retry=owed % 2 == 0).up().host
        one.num_ack = owed
        for _ in range(40):
            sent = one.next_flit()
            yield f"{owed} {show(sent and decode_control(sent[1])[0])} {one.num_ack}"


def disorder() -> Lines:
    """Show link partners whose flits are damaged, held, repeated and forged, and that are reset."""
    for seed, name in enumerate(CONFIGS):
        rng, bench = Random(f"disorder {seed}"), Told(name, seed)
        near = bench.tracker.s2m

        def change(
            wire: WireFlit, rng: Random = rng, bench: Told = bench, near: Way = near
        ) -> WireFlit:
            if bench.clock < 30 or rng.random() > 0.08:
                return wire
            said, found = damages(rng, wire, near.accepted)
            bench.log.append(said)
            return found[-1] if found else (ProtocolCode.NULL.word, 0)

        bench.at_pins[Direction.M2S] = bench.after_pins[Direction.S2M] = change
        yield f"-- {seed} {name}"
        for clock in range(92):
            for _ in range(rng.choice((0, 0, 1))):
                bench.host.send(any_message(rng, seed % 2 == 0))
            end: Any = rng.choice((bench.host, bench.device))
            if rng.random() < 0.1:
                hook = rng.choice(("acks", "peer_acks", "credits", "peer_credits"))
                getattr(end, f"hold_{hook}")(rng.random() < 0.5)
            if rng.random() < 0.05:
                rng.choice((end.repeat_sent, end.repeat_received))()
            if rng.random() < 0.03:
                packed = end._packer(end.config.pack).empty()
                end.inject(PID, seal(packed.payload), rng.random() < 0.8, *rng.choices((0, 1), k=2))
            if rng.random() < 0.01 and clock > 20:
                bench.set_phy(not bench.host.phy)
            if clock % 30 == 0 and not bench.host.phy:
                bench.set_phy(True)
            bench.step()
            yield from bench.told()
            if clock == 80:
                bench.host.reset()
                bench.stub.reset()
                bench.tracker.reset()
                bench.news = New()
        yield from (of_link(bench.host), of_link(bench.device), of_tracker(bench.tracker))


def sweep(name: str) -> Lines:
    """Show what a tracker says of an exchange in which one flit is damaged."""
    rng, bench = Random(f"sweep {name}"), Told(name, 1)
    befores = []
    for clock in range(110):
        if 40 < clock < 90:
            bench.host.send(any_message(rng, True).with_tag(clock))
        befores.append((len(bench.flits), deepcopy(bench.tracker)))
        bench.step()
    befores = [one for one in befores if one[0] < len(bench.flits) - 9]
    for number in range(200):
        place, tracker = rng.choice(befores)
        tracker = deepcopy(tracker)
        way, pid, flit, clock = bench.flits[place]
        near = (tracker.s2m if way is Direction.M2S else tracker.m2s).accepted
        near = near if rng.random() < 0.7 else tracker.m2s.accepted
        said, forged = damages(rng, (pid, flit), near)
        if number % 16 == 0:
            tracker.phy_down()
        kinds = [tracker.observe(way, *one, clock).kind for one in forged]
        for later in bench.flits[place + 1 : place + 9]:
            kinds.append(tracker.observe(*later).kind)
        if number % 8 == 0:
            tracker.finish(clock + rng.choice((10, 190, 230)))
        yield f"{place} {said} {show(kinds)} {show(tracker.errors)} {of_tracker(tracker)}"


class Forger:
    """Source of drawn payloads for a tracker: RETRY sequences, messages, replays, losses."""

    def __init__(self, rng: Random, tracker: LinkTracker) -> None:
        self._rng, self._tracker = rng, tracker
        self._packers: dict[Direction, Any] = {
            Direction.M2S: M2SPacker(),
            Direction.S2M: S2MPacker(),
        }
        self.sent: dict[Direction, list[int]] = {way: [] for way in Direction}

    def draw(self, way: Direction, start: bool) -> list[int]:
        """Return payloads for a direction, -1 for a bad flit; the physical layer may fall."""
        rng, event = self._rng, 5 if start else self._rng.randrange(9)
        if event < 3:
            return self._sequence(way)
        if event < 5:
            return [self._messages(way)]
        if event == 5:
            credits = Llcrd(2, *rng.choices((0, 9, 11), k=3))
            return [encode_control(rng.choice((RetryIdle(), InitParam(63), credits)))]
        if event == 6:
            return self.sent[way][-rng.randrange(1, 7) :][: rng.randrange(1, 5)]
        if event == 7 and rng.random() < 0.3:
            self._tracker.phy_down()
            return []
        return [-1]

    def _sequence(self, way: Direction) -> list[int]:
        rng, own, other = self._rng, self._tracker.m2s, self._tracker.s2m
        if way is Direction.S2M:
            own, other = other, own
        eseq = (other.accepted - rng.choice((0, 0, 1, 2, 3, 5, 6))) % 64
        control: ControlFlit = RetryReq(eseq, rng.choice((1, 1, 2)))
        if own.requests and rng.random() < 0.7:
            asked = rng.choice(own.requests)
            pointer = rng.choice((asked.eseq, own.accepted % 64))
            number = asked.num_retry + (rng.random() < 0.2)
            empty = (pointer == asked.eseq) ^ (rng.random() < 0.1)
            control = RetryAck(empty, False, number, pointer, asked.eseq, 60)
        frames = [encode_control(RetryFrame())] * rng.choice((0, 4, 5, 5, 5, 6))
        return [*frames, encode_control(control)]

    def _messages(self, way: Direction) -> int:
        rng, packer = self._rng, self._packers[way]
        for _ in range(rng.randrange(3)):
            packer.push(any_message(rng) if way is Direction.M2S else any_response(rng))
        packed = packer.next(Credits(2, 1)) or packer.empty()
        payload: int = packed.payload
        return payload | 8 * (rng.random() < 0.1)


def forged() -> Lines:
    """Show trackers and link partners that get drawn flits: RETRY sequences, replays, losses."""
    for seed in range(6):
        rng, retry, clock = Random(f"forged {seed}"), seed % 4 > 0, 0
        tracker = LinkTracker(retry, device_wrap=63 if seed % 2 else None)
        forger = Forger(rng, tracker)
        config = LinkConfig(retry=retry, retry_timeout=30)
        ends: dict[Direction, Any] = {
            Direction.M2S: DeviceLink(config),
            Direction.S2M: HostLink(config),
        }
        yield f"-- {seed}"
        for number in range(66):
            way = rng.choice(list(Direction))
            for payload in forger.draw(way, number < 8):
                clock += rng.choice((1, 1, 2))
                flit = seal(payload) if payload >= 0 else 1
                if payload > 0 and not payload & 1:
                    forger.sent[way].append(payload)
                event = tracker.observe(way, PID, flit, clock)
                ends[way].receive(PID, flit)
                said = [ends[way].next_flit() for _ in range(rng.randrange(3))]
                yield f"{of_event(event)} | {show(said)}"
            yield f"{show(tracker.errors)} {of_tracker(tracker)} {show(ends[way].issues)}"
            tracker.errors.clear()
            ends[way].issues.clear()
            if number % 10 == 0:
                yield of_link(ends[way])
        tracker.finish(clock + rng.choice((20, 200, 201, 210)))
        yield show(tracker.errors)


def frames_after_a_loss() -> Lines:
    """Show what a tracker says of RETRY.Frame flits a number of flits after a lost one."""
    for retry in (False, True):
        for idle in range(9):
            for frames in range(7):
                for last in (RetryIdle(), RetryReq(0, 1), RetryAck(), Llcrd()):
                    tracker = LinkTracker(retry)
                    rest = [RetryIdle()] * idle + [RetryFrame()] * frames
                    flits_of = [RetryIdle(), InitParam(63), 1 << 520, *rest, last]
                    for clock, one in enumerate(flits_of):
                        flit = one if isinstance(one, int) else seal(encode_control(one))
                        tracker.observe(Direction.S2M, PID, flit, clock)
                    yield f"{retry} {idle} {frames} {show(tracker.errors[2:])}"


SCENARIOS: dict[str, Callable[[], Lines]] = {
    **{f"exchange {name}": partial(exchange, name) for name in list(CONFIGS)[1:]},
    **{f"sweep {name}": partial(sweep, name) for name in ("plain", "retry sparse")},
    **{one.__name__: one for one in (disorder, forged, late_acknowledgements, frames_after_a_loss)},
}
