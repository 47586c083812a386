# SPDX-License-Identifier: Apache-2.0
"""Scenario as plain data: device, descriptors, operations of the host in order, memory and link.

It converts to and from JSON and to a readable listing, and nothing in it refers to a simulator.
"""

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
_RATES = ("read_error_rate", "write_error_rate")


class Do(StrEnum):
    """Kinds of operations of a scenario."""

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
    """Behaviour of the device memory; fields as in `verif.mem.memory_config.MemConfig`."""

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
    """Settings of the host side of the link; fields as in `cocotbext.cxl.config`."""

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
    """Descriptor for a region of the device; a region that changes its shape has several.

    Attributes:
        number: Number of the region.
        config: Descriptor.
    """

    number: int
    config: RegionConfig


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation of the host, of which only the fields of its kind count.

    Attributes:
        do: Kind.
        region: Index into `Scenario.regions` of the descriptor that is accessed or committed; -1
            for an access to `addr`.
        selector: Selector in the window of the region.
        line: Index of the line in the region.
        addr: Byte address, if `region` is -1.
        ldid: LD-ID of the request.
        opcode: Opcode of a request without data.
        data: 64 bytes of a write in hex, byte 0 first.
        be: Byte enables of a partial write; -1 for a full one.
        poison: Whether the data of a write are poisoned.
        limit: Wait until fewer requests than that are in flight on the line; 0: do not wait.
        name: Name of the register or field.
        value: Value of EPOCH or of the register, or number of cycles to wait.
        idle: Wait until every request is answered.
        background: Let a commit or register access go on while the next operations follow.
        memory: Behaviour of the memory from now on.
        read_error_rate: Probability of an error of a read, until the next FAULTS operation.
        write_error_rate: The same for a write.
        read_errors: Lines of memory whose reads fail, until the next FAULTS operation.
        write_errors: The same for writes.
        poisoned: Lines of host data that the medium poisons.
        spoilt: Lines of the device's records that it poisons, until the next FAULTS operation.
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
        """Return the kind and the fields that differ from their defaults, as values for JSON."""
        out: dict[str, Any] = {"do": self.do.value}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if one.name != "do" and value != one.default:
                plain = dataclasses.is_dataclass(value) and not isinstance(value, type)
                out[one.name] = dataclasses.asdict(value) if plain else value
        return out


@dataclass(frozen=True, slots=True)
class Scenario:
    """Whole stimulus of a run.

    Attributes:
        seed: Seed that drew it, and that drives what stays random while it is played (packing of
            flits, latencies within their range).
        hardware: Parameters of the device.
        regions: Descriptors.
        operations: Operations in order.
        memory: Behaviour of the memory at the start.
        link: Settings of the host side of the link.
        background: Content of memory lines that were never written (`Background`).
        version: Version of the format.
    """

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
        """Return the scenario as JSON text with one operation per line; `parse` is the inverse."""
        head = dataclasses.asdict(dataclasses.replace(self, operations=()))
        head.pop("operations")
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        steps = ",\n  ".join(json.dumps(one.to_json()) for one in self.operations)
        lines.append(f' "operations": [\n  {steps}\n ]' if steps else ' "operations": []')
        return "{\n" + ",\n".join(lines) + "\n}\n"


def parse(text: str) -> Scenario:
    """Return the scenario of a JSON text.

    Raises:
        DataError: The text is no valid scenario; the message says why.
    """
    try:
        return typed(Scenario, parse_json(text))
    except DataError:
        raise
    except ValueError as error:  # a descriptor or a device that cannot be
        raise DataError(str(error)) from None


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
    what = {
        Do.COMMIT: f" descriptor {one.region} epoch {one.value:#x}",
        Do.SET: f" {one.name} = {one.value:#x}",
        Do.GET: f" {one.name}",
        Do.WAIT: f" {one.value} clocks",
        Do.MEMORY: f" {_differences(one.memory or Memory(), Memory()) or 'as usual'}",
        Do.FAULTS: _faults(one),
        **dict.fromkeys((Do.WRITE, Do.READ, Do.REQUEST), _access(one)),
    }.get(one.do, "")
    return f"{one.do}{what}{waits}{goes_on}"


def _faults(one: Operation) -> str:
    names = ("read_errors", "write_errors", "poisoned", "spoilt")
    rates = [f" {n} {getattr(one, n)}" for n in _RATES if getattr(one, n)]
    parts = [f" {n} {[hex(k) for k in getattr(one, n)]}" for n in names if getattr(one, n)]
    return "".join([*rates, *parts]) or " none"


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
