# SPDX-License-Identifier: Apache-2.0
"""Readable listing of a scenario: unusual memory and link settings, descriptors, operations."""

from __future__ import annotations

import dataclasses
from typing import Any

from models.line_packing import LINE_BYTES
from verif.scenario.scenario_data import Do, Link, Memory, Operation, Region, Scenario

_RATES = ("read_error_rate", "write_error_rate")


def listing(scenario: Scenario) -> list[str]:
    """Return a scenario as lines of text for terminal and report.

    They are memory and link if they differ from the defaults, each descriptor, and each operation.
    """
    lines = []
    for name, value, usual in (
        ("memory", scenario.memory, Memory()),
        ("link", scenario.link, Link()),
    ):
        odd = _differences(value, usual)
        if odd:
            lines.append(f"{name}: {odd}")
    lines += [_region(index, region) for index, region in enumerate(scenario.regions)]
    return lines + [f"{n}: {_operation(one)}" for n, one in enumerate(scenario.operations, 1)]


def _differences(value: Any, usual: Any) -> str:
    changed = {
        one.name: getattr(value, one.name)
        for one in dataclasses.fields(value)
        if getattr(value, one.name) != getattr(usual, one.name)
    }
    return ", ".join(f"{name} {shown}" for name, shown in changed.items())


def _region(index: int, region: Region) -> str:
    config = region.config
    options = "".join(
        f" {name.upper()}"
        for name in ("tie_minus", "strict", "bind", "keep_sum")
        if getattr(config, name)
    )
    if config.bind:
        options += f" BIND_SHIFT={config.bind_shift}"
    return (
        f"descriptor {index}: region {region.number} {config.mode.name} W={config.workers} "
        f"lines=2^{config.lines_log2} T={config.threshold} LD_MASK={config.ld_mask:#x}{options} "
        f"window {config.base:#x} state {config.state_base:#x}"
    )


def _operation(one: Operation) -> str:
    """Return an operation as text: `write descriptor 0 worker 3 line 5 ld 2 data 00*64`."""
    waits = "  (when all is answered)" if one.idle and one.do is not Do.DRAIN else ""
    goes_on = "  (in the background)" if one.background else ""
    return f"{one.do}{_what(one)}{waits}{goes_on}"


def _what(one: Operation) -> str:
    if one.do is Do.COMMIT:
        return f" descriptor {one.region} epoch {one.value:#x}"
    if one.do is Do.SET:
        return f" {one.name} = {one.value:#x}"
    if one.do is Do.GET:
        return f" {one.name}"
    if one.do is Do.WAIT:
        return f" {one.value} clocks"
    if one.do is Do.MEMORY and one.memory is not None:
        return f" {_differences(one.memory, Memory()) or 'as usual'}"
    if one.do is Do.FAULTS:
        names = ("read_errors", "write_errors", "poisoned", "spoilt")
        rates = [f" {n} {getattr(one, n)}" for n in _RATES if getattr(one, n)]
        parts = [f" {n} {[hex(k) for k in getattr(one, n)]}" for n in names if getattr(one, n)]
        return "".join([*rates, *parts]) or " none"
    if one.do in (Do.WRITE, Do.READ, Do.REQUEST):
        return _access(one)
    return ""


def _access(one: Operation) -> str:
    place = f" address {one.addr:#x}"
    if one.region >= 0:
        place = f" descriptor {one.region} selector {one.selector} line {one.line}"
    text = f"{place} ld {one.ldid}"
    if one.do is not Do.WRITE:
        return text if one.opcode == 1 else f"{text} opcode {one.opcode}"
    text += f" data {_data(one.data)}"
    text += f" bytes {one.be:#x}" if one.be >= 0 else ""
    return f"{text} poisoned" if one.poison else text


def _data(data: str) -> str:
    """Return 64 bytes of data in hex; "XX*64" if all bytes are XX."""
    return f"{data[:2]}*{LINE_BYTES}" if data == data[:2] * LINE_BYTES else data
