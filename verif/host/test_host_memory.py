# SPDX-License-Identifier: Apache-2.0
"""Tests of the memory of the C++ host (latency, beats, stalls), and of its second stream."""

from __future__ import annotations

import numpy as np
import pytest

from models.line_packing import LINE_BYTES
from verif.host.c_interface import Block, CMemory, Kind, operations
from verif.host.test_host import CHost, Wire, build_host

BURST = 4
STALLED = 40
SHARE = 2000


def awake(memory: CMemory) -> tuple[CHost, Wire]:
    """Return a C++ host with its link up, and the link model connected to it."""
    host = CHost(build_host(), memory=memory)
    wire = Wire(host, seed=1, dense=True)
    for _ in range(40):
        wire.clock()
    return host, wire


def beats(host: CHost, wire: Wire) -> list[int]:
    """Request a burst of reads at the memory port; return the cycles from request to each of its
    beats.
    """
    device, clocks = host.device, []
    device.m_axi_arvalid = device.m_axi_rready = 1
    device.m_axi_arsize, device.m_axi_arburst, device.m_axi_arlen = 6, 1, BURST - 1
    for clock in range(400):
        wire.clock()
        device.m_axi_arvalid = 0
        if host.to.m_axi_rvalid:
            clocks.append(clock)
    assert host.fault == ""
    return clocks


@pytest.mark.parametrize("latency", [1, 48, 300])
@pytest.mark.parametrize("beat", [1, 3])
def test_latency_and_beats(latency: int, beat: int) -> None:
    """Check that the first beat of a read burst comes after the latency, and others at the beat
    interval.
    """
    host, wire = awake(CMemory(latency, beat, 0))
    assert beats(host, wire) == [latency + beat * number for number in range(BURST)]


@pytest.mark.parametrize("latency", [2, 48])
def test_latency_of_a_write(latency: int) -> None:
    host, wire = awake(CMemory(latency, 1, 0))
    device = host.device
    device.m_axi_awvalid = device.m_axi_wvalid = device.m_axi_wlast = device.m_axi_bready = 1
    device.m_axi_awsize, device.m_axi_awburst = 6, 1
    wire.clock()
    device.m_axi_awvalid = device.m_axi_wvalid = 0
    took = 0
    while not host.to.m_axi_bvalid:
        wire.clock()
        took += 1
    assert (took, host.fault) == (latency, "")


@pytest.mark.parametrize("beat", [1, 4])
def test_write_beats_are_as_far_apart(beat: int) -> None:
    host, wire = awake(CMemory(3, beat, 0))
    device, taken = host.device, []
    device.m_axi_wvalid = 1  # data may come before their address
    for clock in range(40):
        if host.to.m_axi_wready:
            taken.append(clock)
        wire.clock()
    assert set(np.diff(taken)) == {beat}


def test_back_pressure() -> None:
    """Check the share of cycles without READY on each request channel of the memory: STALLED
    percent.
    """
    host, wire = awake(CMemory(3, 1, STALLED))
    open_clocks = np.zeros(3, int)
    for _ in range(SHARE):
        wire.clock()
        to = host.to
        open_clocks += (to.m_axi_awready, to.m_axi_wready, to.m_axi_arready)
    share = 100 * (1 - open_clocks / SHARE)
    assert np.all(np.abs(share - STALLED) < 5), share


def test_streams_do_not_wait_for_each_other() -> None:
    """Check that single reads in one stream are not delayed by as many writes as possible in the
    other.
    """
    count = 40
    ops = operations(2 * count, Kind.WRITE)
    ops["kind"][:count] = Kind.READ
    ops["after"][:count] = np.arange(count)
    ops["line"] = np.tile(np.arange(count), 2)
    ops["address"] = ops["line"] * LINE_BYTES
    block = Block.of(ops, np.zeros((count, LINE_BYTES), np.uint8), count, beside=count)
    host = CHost(build_host())
    wire = Wire(host, seed=1, dense=True)
    wire.stub._latency = (30, 30)
    wire.run(block)
    assert host.fault == ""
    clocks = block.clocks()
    assert clocks.min() >= 30
    assert host.figures().cycles > count * 30, "each read waits for the one before"
    assert clocks[:count].max() < 60, "no read waits for the writes"


def test_registers_have_no_stream_beside_them() -> None:
    host = CHost(build_host())
    ops = operations(2, Kind.REG_READ)
    host.begin(Block.of(ops, beside=1))
    assert "operation 0 of the block makes no sense" in host.fault
