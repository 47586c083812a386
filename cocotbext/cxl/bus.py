# SPDX-License-Identifier: Apache-2.0
"""Signal handles of a flit interface, so that any device or host can be bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


def bits_reader(handle: Any, absent: str = "0") -> Callable[[], str]:
    """Return a function that reads a handle as text of 0, 1, X and Z, one character per bit.

    ``absent`` is returned if the handle is None. ``handle.value`` builds a LogicArray, which costs
    several times the read itself; the function uses cocotb's internal read if it exists.
    """
    if handle is None:
        return lambda: absent
    inner = getattr(getattr(handle, "_handle", None), "get_signal_val_binstr", None)
    if inner is None:
        return lambda: str(handle.value)
    reader: Callable[[], str] = inner
    return reader


@dataclass(slots=True)
class CxlMemBus:
    """Signals of a link: m2s from the host to the device, s2m from the device to the host.

    ``*_valid``, ``*_protocol_id`` (16 bits) and ``*_flit`` (528 bits) carry one 68-byte flit per
    clock. Optional signals may be None: ``s2m_ready`` (the host stalls the device; default: never),
    ``phy_up`` (the physical layer is up; default: always) and ``retrain_request`` (the device
    requests a retrain; default: never).
    """

    m2s_valid: Any
    m2s_protocol_id: Any
    m2s_flit: Any
    s2m_valid: Any
    s2m_protocol_id: Any
    s2m_flit: Any
    s2m_ready: Any = None
    phy_up: Any = None
    retrain_request: Any = None
    name: str = "cxl"
    """Name for logs."""

    @classmethod
    def from_entity(cls, entity: Any, *, host: bool = False, **signals: str) -> CxlMemBus:
        """Bind the signals ``rx_*``, ``tx_*``, ``phy_up`` and ``retrain_request`` of ``entity``.

        Args:
            entity: a device, which receives on rx and sends on tx.
            host: the entity is a host: its tx is m2s.
            signals: names of signals that differ (``m2s_valid="in_valid"``).

        Raises:
            AttributeError: a signal is missing; the text names it.
        """
        return cls.from_prefix(entity, "", host=host, **signals)

    @classmethod
    def from_prefix(
        cls, entity: Any, prefix: str, *, host: bool = False, **signals: str
    ) -> CxlMemBus:
        """Bind signals whose names begin with ``prefix`` and ``_``; see from_entity()."""
        ways = {"m2s": "tx" if host else "rx", "s2m": "rx" if host else "tx"}
        handles: dict[str, Any] = {}
        path = getattr(entity, "_path", None) or getattr(entity, "_name", "entity")
        for entry in fields(cls):
            if entry.name == "name":
                continue
            way, _, rest = entry.name.partition("_")
            plain = f"{ways[way]}_{rest}" if way in ways else entry.name
            name = signals.pop(entry.name, f"{prefix}_{plain}" if prefix else plain)
            handles[entry.name] = handle = getattr(entity, name, None)
            if handle is None and entry.default is not None:
                raise AttributeError(f"{path} has no signal {name}, the {entry.name} of CxlMemBus")
        if signals:
            raise TypeError(f"CxlMemBus has no signal {', '.join(sorted(signals))}")
        return cls(**handles, name=f"{path}.{prefix}" if prefix else str(path))
