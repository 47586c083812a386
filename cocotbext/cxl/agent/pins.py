# SPDX-License-Identifier: Apache-2.0
"""Handles of a flit interface, so that any Type-3 device can be bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


def bits_reader(handle: Any) -> Callable[[], str]:
    """A call that gives the value of a handle as text of 0, 1, X and Z, one character a bit.

    ``handle.value`` builds a LogicArray, which costs several times the read itself; cocotb's own
    inner read is taken where it exists.
    """
    inner = getattr(getattr(handle, "_handle", None), "get_signal_val_binstr", None)
    if inner is None:
        return lambda: str(handle.value)
    reader: Callable[[], str] = inner
    return reader


@dataclass(slots=True)
class CxlPins:
    """Pins as the device names them: rx goes into it, tx comes out (spec: controller §7)."""

    clk: Any
    rst_n: Any
    rx_valid: Any
    rx_protocol_id: Any
    rx_flit: Any
    tx_valid: Any
    tx_protocol_id: Any
    tx_flit: Any
    tx_ready: Any
    phy_up: Any
    retrain_request: Any

    @classmethod
    def from_dut(cls, dut: Any, prefix: str = "") -> CxlPins:
        """Binds the pins by name; ``prefix`` goes before all of them but clk and rst_n."""
        return cls(
            *(
                getattr(dut, f.name if f.name in ("clk", "rst_n") else prefix + f.name)
                for f in fields(cls)
            )
        )
