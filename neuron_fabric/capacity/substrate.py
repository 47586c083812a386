# SPDX-License-Identifier: Apache-2.0
"""Substrate file: measured limits and coefficients of a reducer and its host.

The file is TOML in UTF-8 with a version, written whole or not at all. Unknown keys are refused
(spec: runtime section 5.2).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

from neuron_fabric.capacity.cost_model import Coefficients, Device
from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, parse_toml, read_text, toml_value
from neuron_fabric.errors import InputError
from neuron_fabric.output import write_text
from neuron_fabric.typed import typed

FORMAT = "neuron-fabric-substrate"
VERSION = 2
MOST_BYTES = 64 << 10
SHIPPED = Path(__file__).with_name("rtl.toml")
"""Substrate of the RTL, without a host; written by `nf measure capacity measure --device-only`."""


class SubstrateError(InputError):
    """A substrate file cannot be read, or its content is wrong."""


@dataclass(frozen=True)
class Substrate:
    """A reducer: limits of its device and measured coefficients.

    For people: ``name``, how it was ``measured``, ``revision`` of the repository, ``date``.
    """

    name: str
    measured: str
    coefficients: Coefficients
    device: Device = field(default_factory=Device)
    revision: str = ""
    date: str = ""


def read_substrate(path: Path) -> Substrate:
    """Read a substrate file.

    Raises:
        SubstrateError: The file cannot be read or its content is wrong, whatever it is.
    """
    try:
        values = parse_toml(read_text(path, MOST_BYTES))
        if values.pop("format", None) != FORMAT:
            raise DataError(f'no substrate file (format = "{FORMAT}" is missing)')
        version = values.pop("version", None)
        if version != VERSION:
            raise DataError(f"is of version {version!r}, this program reads {VERSION}")
        found = typed(Substrate, values)
        _check(found)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise SubstrateError(path, f"cannot be read ({why})", "give a substrate file") from None
    except ValueError as error:  # DataError, and what dataclasses refuse
        raise SubstrateError(path, error, "write it by `nf measure capacity measure`") from None
    return found


def shipped() -> Substrate:
    """Return the measured substrate of the RTL, for use without a file."""
    return read_substrate(SHIPPED)


def write_substrate(path: Path, substrate: Substrate) -> None:
    """Write a substrate file, whole or not at all. Raises OSError."""
    head = asdict(substrate)
    known, device = head.pop("coefficients"), head.pop("device")
    finite = {key: one for key, one in known.items() if one != math.inf}
    lines = [f'format = "{FORMAT}"', f"version = {VERSION}"]
    for title, table in (("", head), ("[device]", device), ("[coefficients]", finite)):
        lines += ["", title] * bool(title)
        lines += [f"{key} = {toml_value(value)}" for key, value in table.items()]
    write_text(path, "\n".join(lines) + "\n")


def _check(found: Substrate) -> None:
    known = asdict(found.coefficients)
    zero = {"fp32_line", "overlap", "turnaround", "start", "commit", "memory_latency"}
    if not all(one > 0 for key, one in known.items() if key not in zero):
        raise DataError("coefficients: rates and clocks of an access are above 0")
    if min(known[key] for key in zero) < 0:
        raise DataError(f"coefficients: {', '.join(sorted(zero))} are not negative")
    device = found.device
    if not (0 < device.cnt_w <= 8 and 0 <= device.mem_lines_log2 <= 46 and device.regions > 0):
        raise DataError("device: cnt_w is 1..8, mem_lines_log2 0..46, regions above 0")
    if Route.FP32 not in device.routes:
        raise DataError("device.routes: FP32 is always there")
