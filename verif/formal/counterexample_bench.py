# SPDX-License-Identifier: Apache-2.0
"""Simulation of the counterexample of a formal proof: its inputs at the ports of the proof's
wrapper.

The assertions of the wrapper and of the module print their names when they fail (`nf_assert.svh`),
and the runner reads them in the log. With a broken assumption it is no counterexample.
"""

from __future__ import annotations

import os
import re
from typing import Any

import cocotb
from cocotb.triggers import Timer

from neuron_fabric.data import read_object

_PART = re.compile(r"(\w+)|\[(\d+)\]")


@cocotb.test()
async def replay(dut: Any) -> None:
    """Drive the counterexample in the file that NF_COUNTEREXAMPLE names, cycle by cycle.

    Registers that are still unknown during the reset get their initial values of the proof.
    """
    found = read_object(os.environ["NF_COUNTEREXAMPLE"])
    clocks = [{n: int(v, 16) for n, v in clock.items()} for clock in found["clocks"]]
    inputs = [name for name in clocks[0] if name != "clk"]
    dut.clk.value = 0
    for name in inputs:
        getattr(dut, name).value = clocks[0][name]
    if found["reset"]:  # it falls, and flops with a reset see that
        dut.rst_n.value = 1
        await Timer(1, "ns")
        dut.rst_n.value = 0
    await Timer(1, "ns")
    for name, value in found["initial"].items():
        handle = _find(dut, name)
        if handle is not None and not handle.value.is_resolvable:
            handle.value = int(value, 16)
    for clock in clocks:
        for name in inputs:
            getattr(dut, name).value = clock[name]
        await Timer(5, "ns")
        dut.clk.value = 1
        await Timer(5, "ns")
        dut.clk.value = 0
    await Timer(1, "ns")


def _find(dut: Any, name: str) -> Any:
    """Return the signal of a hierarchical name such as `mem[2]`, or None for one that yosys made
    up.
    """
    try:
        for word, index in _PART.findall(name):
            dut = dut[int(index)] if index else getattr(dut, word)
    except (AttributeError, IndexError):
        return None
    return dut
