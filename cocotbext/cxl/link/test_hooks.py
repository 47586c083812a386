# SPDX-License-Identifier: Apache-2.0
"""Hooks of a link partner, and their removal by a reset."""

from __future__ import annotations

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink
from cocotbext.cxl.wire.messages import M2SReq, ReqOp


def _both_up() -> tuple[HostLink, DeviceLink]:
    host, device = HostLink(LinkConfig(retry=True)), DeviceLink(LinkConfig(retry=True))
    _clocks(host, device, 60)
    assert host.active
    assert device.active
    return host, device


def _clocks(host: HostLink, device: DeviceLink, count: int) -> None:
    for _ in range(count):
        down, up = host.next_flit(), device.next_flit()
        if down is not None:
            device.receive(*down)
        if up is not None:
            host.receive(*up)


def test_acks_are_held_and_let_out() -> None:
    host, device = _both_up()
    device.hold_acks(True)
    for tag in range(40):
        host.send(M2SReq(ReqOp.MEM_RD, tag, 0))
    _clocks(host, device, 200)
    assert host.unacknowledged > 20
    device.hold_acks(False)
    host.hold_peer_acks(True)
    _clocks(host, device, 200)
    assert host.unacknowledged > 20
    host.hold_peer_acks(False)
    assert host.unacknowledged <= 1
    assert not host.issues


def test_credits_are_held_and_let_out() -> None:
    host, device = _both_up()
    credits = host.credits.plain
    host.hold_peer_credits(True)
    host.send(M2SReq(ReqOp.MEM_RD, 1, 0))
    _clocks(host, device, 60)
    assert not host.tx_idle
    host.hold_peer_credits(False)
    device.hold_credits(True)
    _clocks(host, device, 60)
    assert host.tx_idle
    assert host.credits.plain == credits - 1
    device.hold_credits(False)
    _clocks(host, device, 60)
    assert host.credits.plain == credits
    host.hold_peer_credits(True)
    host.reset()
    assert host.credits.plain == 0
    assert host._peer_credits is None, "a reset takes the hooks away"


def test_a_repeated_flit_comes_twice() -> None:
    for hook in (HostLink.repeat_sent, None):
        host, device = _both_up()
        if hook is None:
            device.repeat_received()
        else:
            hook(host)
        host.send(M2SReq(ReqOp.MEM_RD, 7, 0))
        host.send(M2SReq(ReqOp.MEM_RD, 8, 0))
        tags = []
        for _ in range(20):
            wire = host.next_flit()
            if wire is not None:
                tags += [message.tag for message in device.receive(*wire)]
        assert tags == [7, 8, 7, 8]
