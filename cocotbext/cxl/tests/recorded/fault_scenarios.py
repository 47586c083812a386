# SPDX-License-Identifier: Apache-2.0
"""Scenarios of fault injection and of its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.faults import COUNTERS, FaultInjector, FaultKind, FaultRule, damage, judge
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.link.retry import RetryMachine
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.tests.recorded.draws import PID, any_control, any_message
from cocotbext.cxl.tests.recorded.texts import Lines, attributes, of_tracker, show
from cocotbext.cxl.tests.test_faults import FaultyBench, rules_for
from cocotbext.cxl.wire.control import (
    encode_control,
)
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import Direction, ProtocolCode
from cocotbext.cxl.wire.messages import (
    M2SReq,
    ReqOp,
)


def campaigns() -> Lines:
    """Show each kind of fault between two link partners, and the table of it."""
    for number, kind in enumerate((*FaultKind, FaultKind.NO_CREDIT)):
        bench = FaultyBench(rules_for(kind, 0.04), number)
        yield f"-- {kind.value}"
        log: list[str] = []
        bench.faults.on_fault.append(lambda *fault, log=log: log.append(f"fault {show(fault)}"))
        for clock in range(330):
            bench.faults.armed = 30 <= clock < 200
            if clock > 30 and bench.rng.random() < 0.4 and clock < 260:
                bench.host.send(any_message(bench.rng, True).with_tag(clock))
            bench.step()
            yield from (f"{clock} {one}" for one in log)
            log.clear()
            if clock % 20 == 0:
                names = "settled retrying injected recovered noticed passed"
                yield f"{clock} {attributes(bench.faults, names)} {of_tracker(bench.tracker)}"
        device, host_counts = bench.counters()
        for change in (0, -1, 1):
            device["CRC_ERROR"] += change
            host_counts["PHY_REINIT"] += change
            table = judge(bench.faults, device, host_counts, (clock, 7))
            yield f"{table.text()}\n{show(table.to_json())}\n{show(table.problems)}"
        yield show(bench.tracker.errors[:3] + bench.tracker.waived[:3])


def tables() -> Lines:
    """Show the tables of drawn counts of faults, and drawn damage."""
    rng = Random("tables")
    for _ in range(120):
        faults = FaultInjector(())
        for kind in FaultKind:
            for way in Direction:
                if rng.random() < 0.3:
                    faults.injected[kind, way] = count = rng.randrange(4)
                    faults.recovered[kind, way] = count - (rng.random() < 0.1)
                    faults.noticed[kind, way] = rng.randrange(2)
        device, host = (
            Counter({name: rng.choice((0, 1, 2, 5, 9)) for name in COUNTERS}) for _ in "dh"
        )
        table = judge(faults, device, host)
        yield f"{show(table.to_json())} {show(table.problems)}"
    for _ in range(10):
        for kind in FaultKind:
            yield f"{kind.value} {show(damage(kind, (PID, seal(rng.getrandbits(512))), rng))}"


def injectors() -> Lines:
    """Show an injector with rules of all forms on drawn flits."""
    for seed in range(6):
        rng = Random(f"injectors {seed}")
        drawn = [
            FaultRule(
                rng.choice(list(FaultKind)),
                rng.choice((None, *Direction)),
                rng.choice((0.05, 0.3)),
                tuple(rng.sample(range(30), 2)),
                (lambda wire: bool(wire[1] >> 9 & 1)) if rng.random() < 0.2 else None,
                rng.random() < 0.2,
                rng.random() < 0.2,
                (3, 20),
            )
            for _ in range(9)
        ]
        cfg, faults = CxlConfig(), FaultInjector(tuple(drawn), seed)
        if seed % 2:
            cfg.waive = lambda rule, _way: rule == "ack"
        faults.attach(cfg)
        assert cfg.waive is not None
        rules = ("crc", "protocol_id", "retry", "ack", "end")
        yield show([cfg.waive(rule, way.value) for rule in rules for way in Direction])
        link, tracker = HostLink(LinkConfig(retry=True)), LinkTracker(True, cfg.waive)
        if seed != 5:
            faults.bind(
                link, partial(rng.choice, (True, True, False)), tracker if seed != 4 else None
            )
        for clock in range(80):
            faults.armed = clock > 5
            wire = rng.choice((PID, ProtocolCode.IO.word)), seal(encode_control(any_control(rng)))
            if rng.random() < 0.5:
                wire = PID, seal(rng.getrandbits(500) & ~1)
            hook, way = rng.choice(
                ((faults.to_device, Direction.M2S), (faults.to_host, Direction.S2M))
            )
            out = hook(wire)
            event = tracker.observe(way, *out, clock)
            faults.observed(event)
            if rng.random() < 0.1:
                tracker.m2s.frozen = rng.random() < 0.5
                link.retry = RetryMachine(link.buffer, link.counters, link.config)
                if rng.random() < 0.3:
                    link.retry.error()
                link.buffer.free = rng.choice((2, 3, 40))
            names = "settled retrying injected recovered noticed passed"
            yield f"{clock} {show(out)} {show(event.kind)} {attributes(faults, names)}"
            faults.tick()


def episodes() -> Lines:
    """Show whether delayed acknowledgements and exhausted credits stop their sender."""
    for kind in (FaultKind.DELAYED_ACK, FaultKind.NO_CREDIT):
        for way in Direction:
            for number in range(12):
                faults = FaultInjector((FaultRule(kind, way, places=(0,), clocks=(3, 3)),))
                link, tracker = HostLink(LinkConfig(retry=True)), LinkTracker(True)
                faults.bind(link, lambda: True, tracker if number else None)
                faults.armed = True
                (faults.to_device if way is Direction.M2S else faults.to_host)((PID, seal(0)))
                link.buffer.free = (1, 2, 3, 40)[number % 4]
                if number % 3 == 0:
                    link.send(M2SReq(ReqOp.MEM_RD, 1, 0))
                own = tracker.s2m
                own.plain, own.data = divmod(number, 4)[0] % 2, number % 2
                own.accepted = 20 + own.wrap
                own.acked = 20 + number % 4
                texts = []
                for _ in range(4):
                    faults.tick()
                    own.plain, own.data, own.acked = 2, 2, own.accepted
                    texts.append(attributes(faults, "noticed settled recovered"))
                yield f"{kind.value} {way.value} {number} {texts}"


SCENARIOS: dict[str, Callable[[], Lines]] = {
    one.__name__: one for one in (campaigns, tables, injectors, episodes)
}
