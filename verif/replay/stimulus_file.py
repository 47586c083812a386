# SPDX-License-Identifier: Apache-2.0
"""Stimulus file: the transactions of a failed bulk replay, to be driven at signal level.

It is JSON with the parameters of the device and operations in order: commit, write, or read with
the line that the reducers expect. A read waits for all earlier writes.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocotbext.cxl.wire.messages import ADDR_BITS
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import RegionConfig
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import CaptureError
from neuron_fabric.output import write_text
from neuron_fabric.typed import typed
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming
from verif.replay.options import parse_parameters

FORMAT = "neuron-fabric-stimulus"
VERSION = 1
_MODES = {mode.name: mode.value for mode in Mode}
REGIONS = 256
LDIDS = 16
STIMULUS = "NF_REPLAY_STIMULUS"
"""Environment variable with the name of the file, for the bench."""
_FIX = "write it again with `nf replay`"


@dataclass(frozen=True)
class CommitOperation:
    """Commit of a region.

    Attributes:
        region: Number of the region.
        config: Descriptor.
        epoch: Value of EPOCH.
    """

    region: int
    config: RegionConfig
    epoch: int


@dataclass(frozen=True)
class Write:
    """Write of a line (MemWr).

    Attributes:
        address: Byte address.
        ldid: LD-ID.
        data: 64 bytes.
    """

    address: int
    ldid: int
    data: bytes


@dataclass(frozen=True)
class Read:
    """Read of a line (MemRd).

    Attributes:
        address: Byte address.
        ldid: LD-ID.
        expect: The 64 bytes that must be returned.
    """

    address: int
    ldid: int
    expect: bytes


Operation = CommitOperation | Write | Read


@dataclass(frozen=True)
class Stimulus:
    """Transactions that show a fault.

    Attributes:
        note: Description of the fault.
        parameters: RTL parameters by name.
        seed: Seed of the simulation.
        operations: Transactions in order.
        memory: Timing of the device memory.
    """

    note: str
    parameters: Mapping[str, int]
    seed: int
    operations: Sequence[Operation]
    memory: MemoryTiming = USUAL_MEMORY

    def write(self, path: Path) -> None:
        """Write the stimulus file, whole or not at all."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "note": self.note,
            "parameters": dict(self.parameters),
            "seed": self.seed,
            "memory": dataclasses.asdict(self.memory),
            "operations": [_to_json(one) for one in self.operations],
        }
        write_text(path, json.dumps(content, indent=1))

    @staticmethod
    def read(path: Path) -> Stimulus:
        """Read a stimulus file.

        Raises:
            CaptureError: The file cannot be read, or is no valid stimulus.
        """
        try:
            content = read_object(path)
            if content.get("format") != FORMAT:
                raise DataError(f"format {content.get('format')!r}")
            if content.get("version") != VERSION:
                raise DataError(f"version {content.get('version')!r}, not {VERSION}")
            file = typed(_File, content)
            operations = tuple(
                _from_json(one, f"operations[{at}]") for at, one in enumerate(file.operations)
            )
            if not any(isinstance(one, Read) for one in operations):
                raise DataError("it reads nothing")
            if not 1 <= file.seed < 1 << 31:
                raise DataError(f"seed {file.seed}")
            values = [f"{name}={value}" for name, value in file.parameters.items()]
            parameters = parse_parameters(values)
            return Stimulus(file.note, parameters, file.seed, operations, file.memory)
        except OSError as error:
            raise CaptureError(path, error.strerror or error, "check the file") from None
        except (DataError, CaptureError, ValueError) as error:
            raise CaptureError(path, f"no stimulus ({error})", _FIX) from None


def _to_json(one: Operation) -> dict[str, Any]:
    if isinstance(one, CommitOperation):
        config = dataclasses.asdict(one.config) | {"mode": one.config.mode.name}
        return {"commit": one.region, "epoch": one.epoch, "config": config}
    if isinstance(one, Write):
        return {"write": hex(one.address), "ldid": one.ldid, "data": one.data.hex()}
    return {"read": hex(one.address), "ldid": one.ldid, "expect": one.expect.hex()}


@dataclass(frozen=True)
class _File:
    """Schema of the stimulus file; the fields of an operation determine its kind."""

    format: str
    version: int
    note: str
    parameters: dict[str, int]
    seed: int
    operations: list[dict[str, Any]]
    memory: MemoryTiming = USUAL_MEMORY


@dataclass(frozen=True)
class _Commit:
    commit: int
    epoch: int
    config: dict[str, Any]


@dataclass(frozen=True)
class _Write:
    write: str
    ldid: int
    data: str


@dataclass(frozen=True)
class _Read:
    read: str
    ldid: int
    expect: str


def _from_json(values: dict[str, Any], place: str) -> Operation:
    """Return an operation from its JSON object.

    Args:
        values: The object.
        place: Place in the file, with which error messages begin.

    Raises:
        DataError: It is no valid operation.
    """
    try:
        if "commit" in values:
            commit = typed(_Commit, values)
            mode = _MODES.get(typed(str, commit.config.get("mode"), "config.mode"))
            config = typed(RegionConfig, commit.config | {"mode": mode}, "config")
            region, epoch = _below(commit.commit, REGIONS), _below(commit.epoch, 1 << 32)
            return CommitOperation(region, config, epoch)
        if "write" in values:
            write = typed(_Write, values)
            return Write(_address(write.write), _below(write.ldid, LDIDS), _line(write.data))
        read = typed(_Read, values)
        return Read(_address(read.read), _below(read.ldid, LDIDS), _line(read.expect))
    except ValueError as error:  # DataError is one
        raise DataError(f"{place}: {error}") from None


def _below(value: int, limit: int) -> int:
    if not 0 <= value < limit:
        raise DataError(f"{value} is not from 0 to {limit - 1}")
    return value


def _address(text: str) -> int:
    address = int(text, 16) if re.fullmatch("0x[0-9a-fA-F]{1,16}", text) else 1
    if address % LINE_BYTES or address >> ADDR_BITS:
        raise DataError(f"{text[:40]!r} is no address of a line")
    return address


def _line(text: str) -> bytes:
    if not re.fullmatch(f"[0-9a-fA-F]{{{2 * LINE_BYTES}}}", text):
        raise DataError(f"{text[:40]!r} is no line of {LINE_BYTES} bytes in hex")
    return bytes.fromhex(text)
