# SPDX-License-Identifier: Apache-2.0
"""Ports of RTL modules, read from their SystemVerilog, and the start of a testbench.

A testbench drives every input of its module from the start.
"""

import functools
import re
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.regression import TestGenerator
from cocotb.triggers import ClockCycles, RisingEdge

HDL = Path(__file__).resolve().parents[2] / "hdl"


@functools.cache
def ports(source: str, direction: str) -> tuple[str, ...]:
    """Return the names of the ports of a module of one direction, in their order.

    Args:
        source: Name of the file in hdl/ without folders; it has one port a line. Ports of macros
            belong to the file of the macro.
        direction: `input` or `output`.
    """
    text = next(HDL.rglob(source)).read_text(encoding="utf-8")
    return tuple(re.findall(rf"^\s*{direction}\b[^/\n]*?(\w+)\s*,?\s*(?:\\|//.*)?$", text, re.M))


def tie_inputs(dut: Any, module: str, **values: int) -> None:
    """Drive every input of a module with 0, or with its value in `values`, except clk and rst_n."""
    for name in ports(f"{module}.sv", "input"):
        if name not in ("clk", "rst_n"):
            getattr(dut, name).value = values.get(name, 0)


async def clock_and_reset(dut: Any, clocks: int) -> None:
    """Start a clock of 10 ns, hold the reset for some clocks, and wait one more."""
    Clock(dut.clk, 10, unit="ns", impl="gpi").start()
    dut.rst_n.value = 0
    await ClockCycles(dut.clk, clocks)
    dut.rst_n.value = 1
    await RisingEdge(dut.clk)


def block_test(
    start: Callable[[Any], Awaitable[Any]], **limits: Any
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], TestGenerator]:
    """Return a decorator that registers a block test with cocotb, which gets its testbench.

    Args:
        start: makes the testbench from the design, out of reset.
        limits: arguments of `cocotb.test`, such as `timeout_time`.
    """

    def register(test: Callable[..., Coroutine[Any, Any, None]]) -> TestGenerator:
        @functools.wraps(test)
        async def run(dut: Any) -> None:
            await test(await start(dut))

        return cocotb.test(**limits)(run)

    register.__name__ = "block_test"  # `nf list` knows decorators of tests by their names
    return register
