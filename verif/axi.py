# SPDX-License-Identifier: Apache-2.0
"""Common parts of the agents of both AXI ports: handles by name, response codes, the VALID/READY
rule, and the sampling loop.
"""

from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from cocotb.triggers import First, RisingEdge

AXI4 = """
    awid awaddr awlen awsize awburst awvalid awready wdata wstrb wlast wuser wvalid wready
    bid bresp bvalid bready arid araddr arlen arsize arburst arvalid arready
    rid rdata rresp rlast ruser rvalid rready
"""
"""Signals of the device-memory port; WUSER and RUSER carry the poison in bit 0."""
AXI4_LITE = """
    awaddr awprot awvalid awready wdata wstrb wvalid wready bresp bvalid bready
    araddr arprot arvalid arready rdata rresp rvalid rready
"""
"""Signals of the register port."""


def bind_port(dut: Any, prefix: str, signals: str) -> SimpleNamespace:
    """Return handles of a port's signals.

    Args:
        dut: Top level of the simulated design.
        prefix: Prefix of the port's signals, without the underscore.
        signals: Names of the signals, separated by spaces.

    Returns:
        A namespace with each signal by its name without the prefix, and `clk` and `rst_n`.
    """
    handles = {name: getattr(dut, f"{prefix}_{name}") for name in signals.split()}
    return SimpleNamespace(clk=dut.clk, rst_n=dut.rst_n, **handles)


class Resp(IntEnum):
    """AXI response codes."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


class Handshakes:
    """Check of the rule of every AXI channel: VALID and its payload stay until READY."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, ...]] = {}

    def violation(self, channel: str, valid: bool, ready: bool, payload: tuple[int, ...]) -> str:
        """Check a channel in one cycle.

        Args:
            channel: Name of the channel: "AW", "W", "B", "AR" or "R".
            valid: Level of VALID.
            ready: Level of READY.
            payload: Values of the payload signals; ignored while VALID is 0.

        Returns:
            Text of the violation, or "".
        """
        held = self._held.pop(channel, None)
        if valid and not ready:
            self._held[channel] = payload
        if held is None or (valid and held == payload):
            return ""
        if not valid:
            return f"{channel}VALID fell before {channel}READY, with {_hex(held)}"
        change = f"{_hex(held)} to {_hex(payload)}"
        return f"{channel} payload changed while {channel}READY was low: {change}"

    def waiting(self, channel: str = "") -> bool:
        """Return whether a channel (for "" any channel) has VALID without READY."""
        return channel in self._held if channel else bool(self._held)

    def clear(self) -> None:
        """Forget all waiting transfers, for a reset."""
        self._held.clear()


def _hex(payload: tuple[int, ...]) -> str:
    return ", ".join(f"{value:#x}" for value in payload)


async def clock_port(
    pins: SimpleNamespace, step: Callable[[], bool], reset: Callable[[], None] = lambda: None
) -> None:
    """Call `step` at every rising clock edge, or `reset` at those within a reset; never return.

    After a step that returns False the loop sleeps until the device raises a VALID of a request.

    Args:
        pins: Handles of the port, see `bind_port`.
        step: Samples one cycle; returns whether anything is in progress.
        reset: Called at clock edges with rst_n = 0.
    """
    edge = RisingEdge(pins.clk)
    wake = (RisingEdge(pins.awvalid), RisingEdge(pins.wvalid), RisingEdge(pins.arvalid))
    while True:
        await edge
        if pins.rst_n.value != 1:
            reset()
        elif not step():
            await First(*wake)
