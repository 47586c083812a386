# SPDX-License-Identifier: Apache-2.0
"""Rules for the strobes of ``nf_link`` in every clock of every bench (controller spec §7)."""

from __future__ import annotations

from typing import Any

from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import ProtocolCode
from models.nf_regs import REG_MAP
from verif.tests.packed_structs import layout, unpack

EVENTS, STATUS = layout("link_events_t"), layout("link_status_t")
_KIND = REG_MAP.enums["LinkError"]
_NAMES = {code: name for name, code in _KIND.items()}
_NO_STROBE = ("NONE", "ABORT")  # ABORT is reported with any strobe of its clock
_OWN_STROBE = {"crc_error": "CRC", "pid_uncorrectable": "PROTOCOL_ID"}


def count_events(total: dict[str, int], events: int, kind: int) -> None:
    """Add the strobes of one clock, port `events`, to those so far."""
    if events or kind:
        strobes = unpack(EVENTS, events)
        _check_error_kind(strobes, kind)
        for name, value in strobes.items():
            total[name] += value


def _check_error_kind(events: dict[str, int], kind: int) -> None:
    """Check that the kind of error is that of the strobe: none without one, none left out.

    A flit is judged once: a bad CRC or Protocol ID hides what its content would be, and everything
    else that is wrong counts as a protocol error.
    """
    name = _NAMES[kind]
    strobe = next((one for one in _OWN_STROBE if events[one]), "")
    if strobe:
        allowed: tuple[str, ...] = (_OWN_STROBE[strobe], "ABORT")
    elif events["protocol_error"]:
        own = (*_OWN_STROBE.values(), "NONE")
        allowed = tuple(one for one in _KIND if one not in own)
    else:
        allowed = _NO_STROBE
    told = [one for one, value in events.items() if value]
    assert name in allowed, f"error kind {name} with the strobes {told}"


async def broken(bench: Any, payload: int) -> None:
    """Drive a broken control flit; check one error and one retry, which the host ends at once."""
    errors, retries = bench.events["protocol_error"], bench.events["retry_local"]
    bench.raw.append((ProtocolCode.CACHEMEM.word, seal(payload)))
    await bench.clocks(4)
    for _ in range(60):
        if not unpack(STATUS, int(bench.dut.status.value))["lrsm"]:
            break
        await bench.clock()
    assert bench.events["protocol_error"] == errors + 1, f"{payload:x}h is no error, or two"
    assert bench.events["retry_local"] == retries + 1, f"{payload:x}h starts no retry"
