# SPDX-License-Identifier: Apache-2.0
"""Handles of the device-memory port, so that another design can be bound by name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True)
class AxiPins:
    """Handles of an AXI4 port; WUSER and RUSER carry the poison in bit 0."""

    clk: Any
    rst_n: Any
    awid: Any
    awaddr: Any
    awlen: Any
    awsize: Any
    awburst: Any
    awvalid: Any
    awready: Any
    wdata: Any
    wstrb: Any
    wlast: Any
    wuser: Any
    wvalid: Any
    wready: Any
    bid: Any
    bresp: Any
    bvalid: Any
    bready: Any
    arid: Any
    araddr: Any
    arlen: Any
    arsize: Any
    arburst: Any
    arvalid: Any
    arready: Any
    rid: Any
    rdata: Any
    rresp: Any
    rlast: Any
    ruser: Any
    rvalid: Any
    rready: Any

    @classmethod
    def from_prefix(cls, dut: Any, prefix: str = "m_axi") -> AxiPins:
        """Binds `prefix_<signal>` of the design, and its `clk` and `rst_n`."""
        names = [f.name for f in fields(cls) if f.name not in ("clk", "rst_n")]
        handles = {name: getattr(dut, f"{prefix}_{name}") for name in names}
        return cls(clk=dut.clk, rst_n=dut.rst_n, **handles)
