# SPDX-License-Identifier: Apache-2.0
"""Handles of a port's signals, bound by name, so that another design can be bound as well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

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
    """`prefix_<signal>` of the design for each word of `signals`, and its `clk` and `rst_n`."""
    handles = {name: getattr(dut, f"{prefix}_{name}") for name in signals.split()}
    return SimpleNamespace(clk=dut.clk, rst_n=dut.rst_n, **handles)
