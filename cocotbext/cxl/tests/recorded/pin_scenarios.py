# SPDX-License-Identifier: Apache-2.0
"""Scenarios of host, device and monitor on pins without a simulator, and of link traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import fields
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from cocotbext.cxl import endpoint, host, trace, transactions
from cocotbext.cxl.bus import CxlMemBus, bits_reader
from cocotbext.cxl.config import CxlConfig, ReadyPattern
from cocotbext.cxl.errors import CxlError, ErrorLog
from cocotbext.cxl.link.broken_device import BrokenDevice, DeviceFault
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.monitor import CxlMemMonitor
from cocotbext.cxl.tests.recorded.draws import any_message, line
from cocotbext.cxl.tests.recorded.texts import (
    Lines,
    New,
    attributes,
    of_event,
    of_link,
    refusal,
    show,
)
from cocotbext.cxl.tests.test_pins import Ends, link_pins
from cocotbext.cxl.wire.control import (
    RetryFrame,
    encode_control,
)
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import WireFlit
from cocotbext.cxl.wire.messages import (
    M2SReq,
    ReqOp,
)
from cocotbext.cxl.wire.packer import Credits, M2SPacker


class Woken:
    """Event in place of that of cocotb, for calls that run without a simulator."""

    def __init__(self) -> None:
        self.sets, self._on = 0, False

    def is_set(self) -> bool:
        return self._on

    def set(self) -> None:
        self._on = True
        self.sets += 1

    def clear(self) -> None:
        self._on = False

    async def wait(self) -> None:
        if not self._on:
            await self

    def __await__(self) -> Generator[tuple[Woken, int]]:
        yield self, self.sets


class Calls:
    """Calls of a host that wait for events; ``resume`` runs those that were woken."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, Coroutine[Any, Any, object], Woken, int]] = []
        self._wakes: Counter[str] = Counter()
        self.notes: list[str] = []

    def start(self, name: str, call: Coroutine[Any, Any, object]) -> None:
        self._waiting.append((name, call, Woken(), -1))

    def resume(self) -> Lines:
        yield from self.notes
        self.notes.clear()
        waiting, self._waiting = self._waiting, []
        for name, call, event, sets in waiting:
            if event.sets > sets:
                self._wakes[name] += 1
                try:
                    event, sets = call.send(None)
                except StopIteration as end:
                    yield f"  {name} returns {show(end.value)} after {self._wakes[name]} wakes"
                    continue
                except (CxlError, ValueError) as error:
                    more = attributes(error, "lines data") if hasattr(error, "lines") else ""
                    yield f"  {name} raises {type(error).__name__}: {error} {more}"
                    continue
            self._waiting.append((name, call, event, sets))

    def close(self) -> None:
        for _, call, _, _ in self._waiting:
            call.close()


def pinned(
    cfg: CxlConfig,
    script: Callable[[Ends, Calls, int, Random], None],
    clocks: int,
    seed: str,
    stub: DeviceStub | None = None,
    explained: bool = False,
) -> Lines:
    """Run host, device and monitor on pins; ``script`` acts in each clock. Show all they tell."""
    rng, calls, said = Random(seed), Calls(), list[str]()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        for module in (host, transactions):
            patch.setattr(module, "Event", Woken)
        ends = Ends(patch, cfg, stub=stub, log=ErrorLog(said.append))
        ends.device.memory.size = 512
        news = New(
            host=lambda: ends.host.errors,
            device=lambda: ends.device.errors,
            monitor=lambda: ends.monitor.errors,
            waived=lambda: ends.monitor.tracker.waived,
            logged=lambda: said,
        )
        log: list[str] = []
        seen = ends.monitor
        seen.trace = trace.TraceWriter(Path(folder) / "link.trace")
        seen.on_flit.append(lambda event: log.append(of_event(event)))
        seen.on_request.append(lambda one: log.append(show(one)))
        seen.on_response.append(lambda one: log.append(show(one)))
        seen.on_phy.append(lambda up: log.append(f"phy {up}"))
        for clock in range(clocks):
            script(ends, calls, clock, rng)
            ends.clocks()
            yield from log
            log.clear()
            yield from calls.resume()
            yield from news()
            if clock % 60 == 59:
                names = [name for name in ends.pins if ends.pins[name].width == 1]
                yield from (f"{name} {ends.ones(name)}" for name in names)
                yield f"writes {[pin.writes for pin in ends.pins.values()]}"
                ends.levels.clear()
                yield attributes(ends.host, "outstanding has_room idle cycle _awaits_up")
                yield attributes(seen, "requests responses cycle")
                yield from (of_link(ends.host.link), of_link(ends.device.link))
        yield from (show(end.finish()) for end in ends.ends)
        for end in ends.ends:
            try:
                end.check()
            except CxlError as error:
                yield f"{error}"
        calls.close()
        ends.monitor.stop()
        if explained:
            entries = trace.explain(trace.read(Path(folder) / "link.trace"))
            yield from (text for _, text in entries)


PRESETS = {"dense": CxlConfig.dense, "sparse": CxlConfig.sparse, "starved": CxlConfig.starved}


WAIVED = "crc", "credit", "init", "message", "static_bits"


def drawn_call(one: host.CxlMemHost, rng: Random) -> Coroutine[Any, Any, object]:
    """Return a drawn call of a host that waits for a response."""
    address, length = rng.randrange(600), rng.choice((0, 1, 64, 90, 200))
    match rng.randrange(6):
        case 0 | 1:
            return one.read(address, length, ldid=rng.randrange(16))
        case 2 | 3:
            data = line(address)[:length]
            return one.write(address, data, ldid=rng.randrange(16), poison=rng.random() < 0.2)
        case 4:
            return one.call(any_message(rng, True))
    return one.call_all([any_message(rng) for _ in range(3)])


def injected(one: host.CxlMemHost) -> None:
    """Inject a flit with a read into a link."""
    packer, message = M2SPacker(), M2SReq(ReqOp.MEM_RD, one.cycle, 64)
    packer.push(message)
    packed = packer.next(Credits(1, 1))
    assert packed is not None
    one.inject(seal(packed.payload), retryable=True, plain=1, expect=[message])


def acted(ends: Ends, calls: Calls, clock: int) -> None:
    """Act at some clocks on a host and on the memory of a device, and note what they tell."""
    one, device = ends.host, ends.device
    if clock == 0:
        calls.start("up", one.wait_up())
    if clock in (90, 200):
        calls.start("drain", one.drain())
    if clock in (80, 100, 165):
        injected(one)
    if clock in (160, 190):
        one.inject(seal(encode_control(RetryFrame()) | 1 << 300))
    if clock in (169, 172):
        log = device.error_log
        calls.notes.append(refusal(log.check) if log._first else "no error")
    if clock in (50, 130):
        device.write(clock, line(clock), poison=clock == 50)
    if clock % 60 == 59:
        calls.notes.append(show([device.read(clock, 99), device.poisoned(9, 300)]))


def bytes_of(name: str, retry: bool = False) -> Lines:
    """Show a host that reads and writes bytes, with each call that it has."""

    def script(ends: Ends, calls: Calls, clock: int, rng: Random) -> None:
        acted(ends, calls, clock)
        if clock == 120 and retry:
            ends.device.retrain()
        if clock == 290:
            ends.host.submit(M2SReq(ReqOp.MEM_RD, 0, 64))
        if clock == 150 and name == "dense":
            calls.notes.append(f"retrain {ends.host.retrain()} {ends.host.retrain()}")
        if clock in (170, 174) and name == "starved":
            ends.reset(clock == 170)
        if clock < 220 and rng.random() < 0.12:
            calls.start(f"{clock} call", drawn_call(ends.host, rng))

    cfg, rng = PRESETS[name](len(name)), Random(name)
    cfg.link.retry, cfg.link.retry_timeout = retry, 50
    cfg.max_outstanding, cfg.queue_depth, cfg.sequential_tags = 9, 4, name != "dense"
    cfg.waive = lambda rule, _way: rule in WAIVED
    cfg.response_timeout = 150
    cfg.device_wrap = 63 if name != "sparse" else 62
    cfg.idle_rate = 0.2 * (name == "sparse")
    if retry:
        cfg.damage_to_device = cfg.damage_to_host = lambda wire: (
            wire[0],
            wire[1] ^ (rng.random() < 0.02) << rng.randrange(528),
        )
    yield from pinned(cfg, script, 300, name, explained=name == "starved" and not retry)


def used_late(ends: Ends, calls: Calls, clock: int, _rng: Random) -> None:
    """Use a host before and after an error, and after a reset."""
    if clock == 5:
        calls.start("up", ends.host.wait_up())
    if clock in (50, 60, 150):
        calls.start(f"{clock} read", ends.host.read(64 * clock, 90))
    if 50 < clock < 90 and clock % 3 == 0:
        calls.start(f"{clock} write", ends.host.write(64 * clock, line(clock) * 2))
    if clock in (130, 133):
        ends.reset(clock == 130)
    if clock == 138:
        calls.start("drain", ends.host.drain())


def damaged(wires: Iterator[int], wire: WireFlit) -> WireFlit:
    """Return a flit; one in 25 has a bad CRC."""
    return wire[0], wire[1] ^ (next(wires) % 25 == 17) << 300


def broken() -> Lines:
    """Show the errors of hosts whose devices are broken, each in one way, and of late calls."""
    for number, fault in enumerate(DeviceFault):
        for retry in (False, True):
            link = LinkConfig(retry=retry, retry_timeout=10, max_retry=2, max_phy_reinit=1)
            cfg = CxlConfig(link, response_timeout=60, link_up_timeout=70)
            if number % 2:
                cfg.waive = lambda rule, _way: rule == "timeout"
            if number % 3 == 0:
                cfg.ready = ReadyPattern(0.7, hold=(1, 3))
            if retry:
                cfg.damage_to_device = cfg.damage_to_host = partial(damaged, count(number))
            device = LinkConfig(retry=retry, grant_data=6, retry_timeout=30, max_retry=2)
            yield f"-- {fault.value} {retry}"
            stub = BrokenDevice(DeviceLink(device), fault)
            yield from pinned(cfg, used_late, 270, fault.value, stub)


class Edge:
    """Awaitable in place of an edge of the reset; it yields its name."""

    def __init__(self, name: str, _signal: object) -> None:
        self._name = name

    def __await__(self) -> Generator[str]:
        yield self._name


def resets() -> Lines:
    """Show how a monitor follows a reset of either level, and the signals that a bus finds."""
    for level in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("RisingEdge", "FallingEdge"):
                patch.setattr(endpoint, name, partial(Edge, name))
            for first in ("X", 0, 1):
                reset = SimpleNamespace(value=first)
                pins = CxlMemBus(**link_pins()), None, reset, level
                one = CxlMemMonitor(*pins, records=False, start=False)
                follow = one._follow_reset()
                for value in (1, 0, 1, 0):
                    yield f"{level} {first} {follow.send(None)} {one._in_reset}"
                    reset.value = value
                one._reset = None
                yield refusal(partial(one._follow_reset().send, None))
                yield str(one._in_reset)
    names = [f"{way}_{name}" for way in ("rx", "tx") for name in ("valid", "protocol_id", "flit")]
    plain = {name: name for name in names}
    for more in ({}, {"_path": "top.dut"}, {"_name": "dut"}, {"phy_up": "up", "tx_ready": "r"}):
        entity = SimpleNamespace(**plain, **more)
        yield show(CxlMemBus.from_entity(entity, host=len(more) > 1))
        named = SimpleNamespace(**{f"cxl_{name}": name for name in plain}, **more, other="other")
        yield show(CxlMemBus.from_prefix(named, "cxl", s2m_valid="other"))
        yield refusal(partial(CxlMemBus.from_entity, entity, s2m_valid="no"))
        yield refusal(partial(CxlMemBus.from_entity, entity, m2s_no="x"))
    reader = SimpleNamespace(get_signal_val_binstr=lambda: "10")
    for handle in (None, SimpleNamespace(value=7), SimpleNamespace(_handle=reader)):
        yield bits_reader(handle)() + bits_reader(handle, "1")()


def traces() -> Lines:
    """Show the entries and errors of files that are read as link traces."""
    flit = f"7 M2S 5555 {5:0132x}"
    good = ("reset\nphy_down", flit, f"{flit} # a\n\nreset", flit.replace("M2S", "S2M"))
    bad = ("", "# only", "reset now", f"{flit}0", f"-{flit}", flit.replace("5555", "555g"))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        for text in good + bad:
            path.write_text(text, encoding="utf-8")
            try:
                yield from (show(one) for one in trace.read(path))
            except trace.TraceError as error:
                yield str(error).replace(folder, "")
        path.write_bytes(b"\xff\xfe")
        yield refusal(lambda: list(trace.read(path))).replace(folder, "")
        yield refusal(lambda: list(trace.read(path / "no"))).replace(folder, "")


def held_in_reset() -> Lines:
    """Show a host in reset, first without and then with a call that waits, and its link-up."""

    def script(ends: Ends, calls: Calls, clock: int, rng: Random) -> None:
        if clock in (0, 200):
            ends.reset(clock == 0)
        if clock in (100, 101, 210):
            calls.start(f"{clock} up", ends.host.wait_up())

    for plain, data in ((0, 3), (3, 0), (3, 3)):
        stub = DeviceStub(DeviceLink(LinkConfig(grant_plain=plain, grant_data=data)))
        yield from pinned(CxlConfig(link_up_timeout=40), script, 300, "reset", stub)


def presets() -> Lines:
    """Show the settings of each preset, and drawn patterns of ready."""
    for seed in range(4):
        for preset in (CxlConfig.dense, CxlConfig.sparse, CxlConfig.starved):
            cfg = preset(seed)
            hidden = ("rng", "link", "pack")
            for one in (cfg.link, cfg.link.pack, cfg):
                names = [part.name for part in fields(one) if part.name not in hidden]
                yield attributes(one, " ".join(names))
            ready = cfg.ready.values(cfg.rng)
            yield "".join(str(int(next(ready))) for _ in range(60))


SCENARIOS: dict[str, Callable[[], Lines]] = {
    **{f"bytes {name}": partial(bytes_of, name) for name in PRESETS},
    **{f"bytes {name} retry": partial(bytes_of, name, retry=True) for name in PRESETS},
    **{one.__name__: one for one in (broken, held_in_reset, resets, traces, presets)},
}
