# SPDX-License-Identifier: Apache-2.0
"""ESeq of ``nf_link_lrsm`` alone (top ``nf_link_lrsm``; spec: link spec §8, §9).

Before INIT.Param nothing moves ESeq through the pins of the link, so its wrap value of that time
can only be seen here.
"""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

_INPUTS = [
    "phy_up",
    "lost",
    "good_retryable",
    "got_init",
    "init_wrap",
    "got_frame",
    "got_req",
    "got_ack",
    "got_other",
    "req_held",
    "rx_eseq",
    "rx_num_retry",
    "rx_echo",
    "rx_empty",
    "req_sent",
    "ack_begun",
    "tx_flit",
]


@cocotb.test
async def eseq_wraps(dut: Any) -> None:
    """0..9 until INIT.Param has come, 0..wrap afterwards; frozen from an error to RETRY.Ack."""
    for name in _INPUTS:
        getattr(dut, name).value = 0
    dut.phy_up.value = 1
    dut.rst_n.value = 0
    Clock(dut.clk, 2, unit="ns", impl="gpi").start()
    edge = FallingEdge(dut.clk)
    await edge
    dut.rst_n.value = 1

    async def pulse(*names: str) -> None:
        for name in names:
            getattr(dut, name).value = 1
        await edge
        for name in names:
            getattr(dut, name).value = 0

    async def count(flits: int) -> list[int]:
        seen = []
        for _ in range(flits):
            seen.append(int(dut.eseq.value))
            await pulse("good_retryable")
        return seen

    assert await count(23) == [n % 10 for n in range(23)]
    for wrap in (21, 63, 254):
        dut.init_wrap.value = wrap
        await pulse("got_init")
        start = int(dut.eseq.value)
        assert await count(600) == [(start + n) % (wrap + 1) for n in range(600)]
    frozen = int(dut.eseq.value)
    await pulse("lost")
    assert not int(dut.normal.value)
    await pulse("req_sent")
    for _ in range(5):
        await pulse("got_frame")
    dut.rx_echo.value = 1
    await pulse("got_ack")
    assert int(dut.normal.value)
    assert int(dut.eseq.value) == frozen
