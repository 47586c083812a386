# SPDX-License-Identifier: Apache-2.0
"""Scenario as plain data: build, regions, operations of the host in order, behaviour of memory and
link.

It converts to and from JSON, and nothing in it refers to a simulator.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from models.line_packing import LINE_BYTES
from models.parameters import DeviceParams
from models.regions import RegionConfig
from neuron_fabric.data import DataError, parse_json
from neuron_fabric.typed import typed

VERSION = 1


class Do(StrEnum):
    """Kinds of operations."""

    WRITE = "write"
    READ = "read"
    REQUEST = "request"  # a Req of another opcode
    COMMIT = "commit"
    SET = "set"  # write of a register or field
    GET = "get"  # read of a register or field
    CLEAR = "clear"  # CTRL.CLEAR_COUNTERS
    DRAIN = "drain"
    WAIT = "wait"
    MEMORY = "memory"  # other behaviour of the memory from here on
    FAULTS = "faults"  # the lines that meet errors from here on; lines that the medium poisons now


@dataclass(frozen=True, slots=True)
class Memory:
    """Behaviour of the device memory (`verif.mem.memory_config.MemConfig`)."""

    latency: tuple[int, int] = (3, 3)
    aw_stall: float = 0.0
    w_stall: float = 0.0
    ar_stall: float = 0.0
    b_stall: float = 0.0
    r_stall: float = 0.0
    reorder: bool = False
    interleave: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """Settings of the host's link partner; fields as in `cocotbext.cxl.config`."""

    dense: bool = True
    empty_weight: float = 0.5
    idle_rate: float = 0.0
    idle_flit_rate: float = 0.0
    ready_rate: float = 1.0
    ready_hold: tuple[int, int] = (1, 1)
    grant_plain: int = 64
    grant_data: int = 64
    return_delay: tuple[int, int] = (0, 0)
    return_batch: int = 1
    ak_in_headers: bool = True
    credits_in_headers: bool = True


@dataclass(frozen=True, slots=True)
class Region:
    """Descriptor for region `number` of the device; a region that changes its shape has several."""

    number: int
    config: RegionConfig


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of the host, of which only the fields of its kind count.

    An access goes to (`selector`, `line`) of the descriptor `regions[region]`, or to the byte
    address `addr` when `region` is -1. `data`: 64 bytes in hex, byte 0 first. `be`: byte enables of
    a partial write, -1 for a full one. `limit`: waits until fewer requests than that are in flight
    on its line (0: it does not wait). `idle`: waits until every request is answered.
    `background`: a commit or register access goes on while the next operations follow. `value`:
    EPOCH, a register's value, or clocks to wait. `read_errors`, `write_errors`: lines of memory
    that fail until the next such operation, in addition to random lines by the rates. `poisoned`:
    lines of host data that the medium poisons; `spoilt`: the same of the device's records, healed
    by the next such operation.
    """

    do: Do
    region: int = -1
    selector: int = 0
    line: int = 0
    addr: int = 0
    ldid: int = 0
    opcode: int = 1
    data: str = ""
    be: int = -1
    poison: bool = False
    limit: int = 0
    name: str = ""
    value: int = 0
    idle: bool = False
    background: bool = False
    memory: Memory | None = None
    read_error_rate: float = 0.0
    write_error_rate: float = 0.0
    read_errors: tuple[int, ...] = ()
    write_errors: tuple[int, ...] = ()
    poisoned: tuple[int, ...] = ()
    spoilt: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.do is Do.WRITE and len(self.data) != 2 * LINE_BYTES:
            raise DataError(f"data of a write has {2 * LINE_BYTES} digits, not {len(self.data)}")

    def to_json(self) -> dict[str, Any]:
        """Return the values that differ from the defaults."""
        out: dict[str, Any] = {"do": self.do.value}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if one.name != "do" and value != one.default:
                plain = dataclasses.is_dataclass(value) and not isinstance(value, type)
                out[one.name] = dataclasses.asdict(value) if plain else value
        return out


@dataclass(frozen=True, slots=True)
class Scenario:
    """All of a run's stimulus. `seed` drew it and still drives what is open to chance while it is
    played (packing of flits, latencies within their range)."""

    seed: int
    hardware: DeviceParams
    regions: tuple[Region, ...] = ()
    operations: tuple[Operation, ...] = ()
    memory: Memory = field(default_factory=Memory)
    link: Link = field(default_factory=Link)
    background: str = "garbage"
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise DataError(f"a scenario of version {self.version}, this is version {VERSION}")
        for number, operation in enumerate(self.operations):
            if not -1 <= operation.region < len(self.regions):
                raise DataError(f"operations[{number}] names region {operation.region}: no such")
        for region in self.regions:
            if not 0 <= region.number < self.hardware.regions:
                raise DataError(f"the device has no region {region.number}")

    def text(self) -> str:
        """Return JSON with one operation per line; inverse of `parse`."""
        head = dataclasses.asdict(dataclasses.replace(self, operations=()))
        head.pop("operations")
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        steps = ",\n  ".join(json.dumps(one.to_json()) for one in self.operations)
        lines.append(f' "operations": [\n  {steps}\n ]' if steps else ' "operations": []')
        return "{\n" + ",\n".join(lines) + "\n}\n"


def parse(text: str) -> Scenario:
    """Return the scenario of a JSON text; DataError says what is wrong."""
    try:
        return typed(Scenario, parse_json(text))
    except DataError:
        raise
    except ValueError as error:  # a descriptor or a device that cannot be
        raise DataError(str(error)) from None
