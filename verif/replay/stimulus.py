# SPDX-License-Identifier: Apache-2.0
"""A few transactions in a file: what bulk replay found wrong, to be driven at signal level.

JSON: the parameters of the device, and operations in order: a commit, a write, or a read with the
line that the reducers expect. A read waits for every write before it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.cxl.messages import ADDR_BITS
from models.errors import CaptureError
from models.formats import LINE_BYTES, Mode
from models.regions import RegionConfig
from verif.replay.options import parse_parameters

FORMAT = "neuron-fabric-stimulus"
STIMULUS = "NF_REPLAY_STIMULUS"
"""The environment variable that names the file to the bench."""
_FIX = "write it again with `nf replay`"


@dataclass(frozen=True)
class Commit:
    """A region's descriptor and a new epoch."""

    region: int
    config: RegionConfig
    epoch: int


@dataclass(frozen=True)
class Write:
    """MemWr of a line."""

    address: int
    ldid: int
    data: bytes


@dataclass(frozen=True)
class Read:
    """MemRd, and what must come back."""

    address: int
    ldid: int
    expect: bytes


Operation = Commit | Write | Read


@dataclass(frozen=True)
class Stimulus:
    """``note`` says what is wrong; ``parameters`` are RTL parameters by name."""

    note: str
    parameters: Mapping[str, int]
    seed: int
    operations: Sequence[Operation]

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        content = {
            "format": FORMAT,
            "version": 1,
            "note": self.note,
            "parameters": dict(self.parameters),
            "seed": self.seed,
            "operations": [_to_json(one) for one in self.operations],
        }
        temporary = path.with_name(path.name + ".part")
        temporary.write_text(json.dumps(content, indent=1))
        os.replace(temporary, path)

    @staticmethod
    def read(path: Path) -> Stimulus:
        """Inverse of write(); CaptureError when it is no stimulus."""
        try:
            content = json.loads(path.read_text())
            if content["format"] != FORMAT or content["version"] != 1:
                raise ValueError(f"format {content['format']!r}")
            operations = tuple(_from_json(one) for one in content["operations"])
            if not any(isinstance(one, Read) for one in operations):
                raise ValueError("it reads nothing")
            values = [f"{name}={value}" for name, value in content["parameters"].items()]
            return Stimulus(
                str(content["note"]),
                parse_parameters(values),
                int(content["seed"]),
                operations,
            )
        except OSError as error:
            raise CaptureError(path, error.strerror or error, "check the file") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CaptureError(path, f"no stimulus ({error})", _FIX) from None


def _to_json(one: Operation) -> dict[str, Any]:
    if isinstance(one, Commit):
        config = dataclasses.asdict(one.config) | {"mode": one.config.mode.name}
        return {"commit": one.region, "epoch": one.epoch, "config": config}
    if isinstance(one, Write):
        return {"write": hex(one.address), "ldid": one.ldid, "data": one.data.hex()}
    return {"read": hex(one.address), "ldid": one.ldid, "expect": one.expect.hex()}


def _from_json(values: dict[str, Any]) -> Operation:
    if "commit" in values:
        config = dict(values["config"])
        config["mode"] = Mode[config["mode"]]
        return Commit(int(values["commit"]), RegionConfig(**config), int(values["epoch"]))
    ldid = int(values["ldid"])
    if ldid >> 4:
        raise ValueError(f"LD-ID {ldid}")
    if "write" in values:
        return Write(_address(values["write"]), ldid, _line(values["data"]))
    return Read(_address(values["read"]), ldid, _line(values["expect"]))


def _address(text: str) -> int:
    address = int(text, 16)
    if address % LINE_BYTES or address >> ADDR_BITS:
        raise ValueError(f"{text} is no address of a line")
    return address


def _line(text: str) -> bytes:
    data = bytes.fromhex(text)
    if len(data) != LINE_BYTES:
        raise ValueError(f"a line of {len(data)} bytes")
    return data
