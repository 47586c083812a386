# SPDX-License-Identifier: Apache-2.0
"""Trimming of a VCD file to a window of simulated time, in one pass and in constant memory.

The result is a complete VCD file (IEEE 1800-2023, clause 21.7): the original header, all values at
the start of the window, then the changes inside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_UNIT_NS = {b"s": 1e9, b"ms": 1e6, b"us": 1e3, b"ns": 1.0, b"ps": 1e-3, b"fs": 1e-6}
_TIMESCALE = re.compile(rb"\$timescale\s+(\d+)\s*(\w+)")
_TAIL = 1 << 20


def trim(path: Path, first_ns: float, last_ns: float) -> None:
    """Cut a VCD file in place to the simulated time from `first_ns` to `last_ns`.

    Raises:
        ValueError: The file has no complete header.
    """
    target = path.with_name(path.name + ".new")
    try:
        with path.open("rb") as source, target.open("wb") as out:
            header = b"".join(_header(source))
            tick_ns = _tick_ns(header)
            out.write(header)
            _copy_window(source, out, round(first_ns / tick_ns), round(last_ns / tick_ns))
        target.replace(path)
    except (OSError, ValueError):  # a full disk above all: what is half written goes
        target.unlink(missing_ok=True)
        raise


def last_time_ns(path: Path) -> float:
    """Return the last time stamp of a VCD file in ns; 0 when it has none.

    Raises:
        ValueError: The file has no complete header.
    """
    with path.open("rb") as source:
        tick_ns = _tick_ns(b"".join(_header(source)))
        source.seek(max(0, path.stat().st_size - _TAIL))
        times = re.findall(rb"^#(\d+)", source.read(), re.MULTILINE)
    return int(times[-1]) * tick_ns if times else 0.0


def _header(source: IO[bytes]) -> Iterator[bytes]:
    for line in source:
        yield line
        if line.lstrip().startswith(b"$enddefinitions"):
            return
    raise ValueError("no $enddefinitions: this is no whole VCD file")


def _tick_ns(header: bytes) -> float:
    found = _TIMESCALE.search(header)
    if found is None:
        raise ValueError("no $timescale: this is no VCD file")
    return int(found[1]) * _UNIT_NS[found[2]]


def _copy_window(source: IO[bytes], out: IO[bytes], first: int, last: int) -> None:
    values: dict[bytes, bytes] = {}  # by identifier: the line that set it last
    for line in source:
        if line.startswith(b"#"):
            if int(line[1:]) >= first:
                break
        elif not line.startswith(b"$"):
            # "0!" and "b0101 !": one character of value, or the identifier after a space.
            _, space, name = line.rpartition(b" ")
            values[name if space else line[1:]] = line
    else:
        line = b"#%d\n" % first
    out.write(b"#%d\n$dumpvars\n" % first)
    out.writelines(values.values())
    out.write(b"$end\n")
    if int(line[1:]) > last:
        return
    out.write(line)
    for line in source:
        if line.startswith(b"#") and int(line[1:]) > last:
            return
        out.write(line)
