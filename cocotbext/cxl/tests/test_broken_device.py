# SPDX-License-Identifier: Apache-2.0
"""Tests of the host's time-outs that take long on pins, and of a slow device without errors.

`test_host_and_device` and `test_uvm_agent` have the other errors for a broken device.
"""

import random

import pytest

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.errors import CxlError, CxlTimeout, ErrorLog
from cocotbext.cxl.link.broken_device import BrokenDevice, DeviceFault
from cocotbext.cxl.link.conftest import LinkBench
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.transactions import Outstanding, Watchdog
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.wire.messages import M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp

LIMIT = 300
READ = "M2SReq MEM_RD tag=0007 ld=3 addr=0x40"


class Agent(LinkBench):
    """Link partners with the host's request table, watchdog and error log, without pins."""

    def __init__(self, stub: DeviceStub, retry: bool = False, limit: int = LIMIT) -> None:
        self.logged: list[str] = []
        self.log = ErrorLog(self.logged.append)
        tracker = LinkTracker(retry, on_error=self.log.report)
        super().__init__(stub, LinkConfig(retry=retry, retry_timeout=100), tracker)
        self.cfg = CxlConfig(self.config, response_timeout=limit, link_up_timeout=limit)
        self.requests = Outstanding(self.log, random.Random(1))
        self.watchdog = Watchdog(self.cfg, self.host, self.requests)
        self.log.owed = lambda: self.requests.owed(self.clock)
        self.link_up = False

    def send(self, *messages: M2SMessage) -> None:
        for message in messages:
            self.requests.expect(message, self.clock)
            self.host.send(message)

    def step(self) -> None:
        if (self.clock + 1) % self.watchdog.interval == 0:
            text = self.watchdog.check(self.clock + 1, self.link_up)
            if text:
                self.log.report(self.clock + 1, text, kind=CxlTimeout)
        super().step()
        self.link_up |= bool(self.host.credits.plain and self.host.credits.data)

    def to_host(self, protocol_id: int, flit: int) -> None:
        for message in self.host.receive(protocol_id, flit):
            if wrong := self.requests.respond(message, self.clock):
                self.log.report(self.clock, wrong)

    def raised(self, clocks: int) -> CxlError:
        """Run up to ``clocks`` clocks; return the error that a waiting call would raise."""
        for _ in range(clocks):
            self.step()
            try:
                self.log.check()
            except CxlError as error:
                return error
        raise AssertionError(f"nothing was said within {clocks} clocks: it hangs")


def agent_of(fault: DeviceFault, retry: bool = False, limit: int = LIMIT) -> Agent:
    link = DeviceLink(LinkConfig(retry=retry, retry_timeout=100))
    return Agent(BrokenDevice(link, fault), retry, limit)


def read_by(fault: DeviceFault, retry: bool = False) -> Agent:
    """Return an agent with a broken device, whose link is up and that has just issued a read."""
    agent = agent_of(fault, retry)
    agent.steps(60)
    agent.send(M2SReq(ReqOp.MEM_RD, 7, 0x40, ldid=3))
    return agent


def test_a_lost_response_among_others_is_found() -> None:
    """Check that continuing traffic does not hide a lost response."""
    agent = read_by(DeviceFault.LOST_RESPONSE)

    for _ in range(LIMIT + 2 * agent.watchdog.interval):
        if agent.clock % 5 == 0:
            tag = 100 + agent.clock
            agent.send(M2SRwD(RwdOp.MEM_WR, tag, 64 * (tag % 9), data=bytes(64)))
        agent.step()
    with pytest.raises(CxlTimeout, match=f"DRS for {READ}"):
        agent.log.check()


def test_flits_that_are_never_acknowledged() -> None:
    agent = agent_of(DeviceFault.NO_ACKS, retry=True)
    agent.steps(60)
    agent.send(*(M2SRwD(RwdOp.MEM_WR, tag, 64 * tag, data=bytes(64)) for tag in range(80)))
    assert "flits that the device has not acknowledged: 6" in str(agent.raised(4 * LIMIT))


def test_requests_without_a_response_that_cannot_leave() -> None:
    """Check that MemSpecRd requests without credits time out, although no response is owed.

    Otherwise drain() would wait for ever for them to be sent.
    """
    agent = agent_of(DeviceFault.NO_CREDIT_RETURN)
    agent.steps(60)
    agent.send(*[M2SReq(ReqOp.MEM_SPEC_RD, 0, 0)] * 70)
    text = str(agent.raised(2 * LIMIT))
    assert "nothing could be sent within 300 clocks; no Req credits from the device" in text
    assert "requests not sent: 6" in text


def test_a_retry_that_is_never_acknowledged() -> None:
    """Check that the host times out if no RETRY.Ack arrives, before the protocol's 110 tries."""
    agent = read_by(DeviceFault.NO_RETRY_ACK, True)
    agent.watchdog = Watchdog(agent.cfg, agent.host, agent.requests)
    agent.cfg.link.retry_timeout = 1 << 30
    damaged = iter([1])
    agent.after_pins[Direction.S2M] = lambda flit: (
        (flit[0], flit[1] ^ (0 if flit[1] & 1 else next(damaged, 0)) << 300)
    )
    text = str(agent.raised(2 * LIMIT))
    assert "RETRY.Req 1 of the host is not acknowledged" in text
    assert "bad flits from the device: 1" in text


def test_a_device_that_retrains_for_ever() -> None:
    """Check that a host times out on a device that retrains for ever.

    Only a limited number of retries restart the time-out.
    """
    agent = read_by(DeviceFault.RETRAINS, True)
    text = str(agent.raised(20_000))
    assert "retrains: " in text


def test_the_retries_of_the_protocol_are_waited_for() -> None:
    """Check that each of 110 retries restarts the response time-out, and that it then expires.

    The protocol needs so many until a device whose flits are never received is in ABORT.
    """
    agent = read_by(DeviceFault.LOST_RESPONSE, True)
    for _ in range(110):
        agent.host.counters["retry_remote"] += 1
        agent.steps(LIMIT - 2 * agent.watchdog.interval)
        agent.log.check()
    assert isinstance(agent.raised(LIMIT), CxlTimeout)


def test_a_slow_device_is_waited_for() -> None:
    """Check that a slow device causes no time-out.

    The time of a request starts when it becomes the oldest one.
    """
    link = DeviceLink(LinkConfig(return_delay=(100, 130), grant_plain=1))
    agent = Agent(DeviceStub(link, (80, 120), random.Random(2)))
    agent.steps(60)
    agent.send(*(M2SReq(ReqOp.MEM_RD, tag, 64 * tag) for tag in range(30)))
    while agent.requests.completed < 30:
        agent.step()
        agent.log.check()
    assert agent.clock > 10 * LIMIT
    assert agent.logged == []


def test_no_time_out() -> None:
    agent = agent_of(DeviceFault.SILENT, limit=0)
    agent.steps(10_000)
    agent.log.check()


def test_a_reset_is_no_time_out_if_nobody_waits() -> None:
    dog = agent_of(DeviceFault.SILENT).watchdog
    assert not any(dog.check(k, False, in_reset=True, awaited=False) for k in range(2 * LIMIT))


def test_a_request_more_than_there_are_tags() -> None:
    """Check the error if all 65,536 tags are in use, where a search for a free one never ends."""
    log = ErrorLog(lambda _text: None)
    requests = Outstanding(log, random.Random(1), sequential=True)
    for _ in range(1 << 16):
        requests.expect(M2SReq(ReqOp.MEM_RD, requests.new_tag(), 0), 0)
    with pytest.raises(CxlError, match="all 65,536 tags are in flight"):
        requests.new_tag()
    requests.abort()
    assert requests.new_tag() == 0, "a reset frees all tags"
    assert requests.count == 0


def test_the_data_comes_after_what_is_owed() -> None:
    log = ErrorLog(lambda _text: None)
    log.owed = lambda: "owed: a response"
    log.report(7, "S2M crc: wrong", "0123")
    with pytest.raises(CxlError, match=r"^S2M crc: wrong, at clock 7; owed: a response: 0123$"):
        log.check()


def test_a_flood_of_errors_is_logged_in_part() -> None:
    logged: list[str] = []
    log = ErrorLog(logged.append)
    for k in range(1000):
        log.report(k, f"error {k}")
    assert len(logged) == ErrorLog.LOGGED + 1
    with pytest.raises(CxlError, match="error 0, at clock 0"):
        log.check()
    log.clear()
    log.check()
