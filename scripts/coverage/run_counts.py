# SPDX-License-Identifier: Apache-2.0
"""Compact code coverage of a run: hits by point number, and the name of the table of its keys.

Verilator writes a text of some 30 MB a run, nearly all of it keys, which are the same in every run
of a build. `pack` replaces it by 0.1 MB: a compressed array, and once a build the table of its keys
(`build/coverage/ID.keys`; ID is the hash of the keys). Paths in keys are those of the tree.

    FILE     = MAGIC, ID (16 hex digits), "\\n", zlib(planes)
    planes   = byte 0 of each count, byte 1 of each, ..: the high ones are zeros
    ID.keys  = zlib(keys, a line each)
"""

from __future__ import annotations

import hashlib
import re
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neuron_fabric import output
from neuron_fabric.data import DataError, read_bytes
from scripts.common import paths
from scripts.common.errors import NfError
from scripts.common.paths import shown

RAW, PACKED = "coverage.dat", "coverage.counts"
MAGIC = b"nf coverage 1 "
MAX_POINTS = 1 << 24
_SUFFIX = ".keys"
_MAX_FILE = 1 << 30  # bytes of Verilator's text
_BYTES = 4  # of a count; what is more stays at the largest
_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)

Counts = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class RunCounts:
    """Hits of a run by point number; `table` is the id of the key table that lists the points."""

    table: str
    counts: Counts


def tables() -> Path:
    """Return the folder of the key tables (`build/coverage`)."""
    return paths.BUILD / "coverage"


def pack(folder: Path, root: Path) -> None:
    """Replace Verilator's coverage file in the folder of a run, if any, by the compact form.

    A text that is cut short or damaged is left as it is, and counts for nothing. A new key table is
    also put into the folder, for `adopt` on the machine that receives the folder of a cluster
    worker.

    Args:
        folder: Folder of the run.
        root: Folder of the sources of the build; removed from the paths in keys.
    """
    raw = folder / RAW
    try:
        text = read_bytes(raw, _MAX_FILE).replace(f"{root}/".encode(), b"")
        keys, counts = parse(text)
    except (OSError, DataError, ValueError):
        return
    table = hashlib.sha256(keys).hexdigest()[:16]
    target = tables() / f"{table}{_SUFFIX}"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(folder / target.name, zlib.compress(keys, 6))
        adopt(folder)
    output.write_bytes(folder / PACKED, MAGIC + table.encode() + b"\n" + packed(counts))
    raw.unlink()


def parse(text: bytes) -> tuple[bytes, Counts]:
    """Split Verilator's text (`C 'KEY' COUNT` a line) into keys, one a line, and counts.

    Counts saturate at 2^32 - 1.

    Raises:
        ValueError: No points, or the text is cut off.
    """
    rows = [line.rpartition(b"' ") for line in text.split(b"\n") if line.startswith(b"C '")]
    numbers = np.array([row[2] for row in rows], dtype="S20")
    if not rows or any(not row[1] for row in rows) or not text.endswith(b"\n"):
        raise ValueError("no points, or cut off")
    counts = np.minimum(numbers.astype(np.uint64), np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return b"\n".join(row[0][3:] for row in rows), counts


def packed(counts: Counts) -> bytes:
    """Compress an array of counts to the stored form: planes of bytes, then zlib."""
    planes = counts.astype("<u4").view(np.uint8).reshape(-1, _BYTES).T
    return zlib.compress(np.ascontiguousarray(planes).tobytes(), 6)


def unpacked(data: bytes) -> Counts:
    """Expand the stored form of `packed` to counts; DataError if it is damaged."""
    planes = inflated(data, MAX_POINTS * _BYTES)
    if len(planes) % _BYTES:
        raise DataError("its counts are cut off")
    array = np.frombuffer(planes, dtype=np.uint8).reshape(_BYTES, -1)
    counts: Counts = array[0].astype(np.uint32)
    for byte, plane in enumerate(array[1:], 1):
        if plane.any():  # the high ones seldom are
            counts |= plane.astype(np.uint32) << np.uint32(8 * byte)
    return counts


def inflated(data: bytes, limit: int) -> bytes:
    """Expand zlib data to at most `limit` bytes; DataError for damaged or longer data."""
    try:
        stream = zlib.decompressobj()
        out = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise DataError(f"not compressed as it should be ({error})") from None
    if len(out) > limit or not stream.eof:
        raise DataError("too long, or cut off")
    return out


def read(path: Path) -> RunCounts:
    """Read the compact code coverage of a run.

    Raises:
        OSError: The file cannot be read.
        DataError: It is not such a file, or damaged.
    """
    data = read_bytes(path, MAX_POINTS * _BYTES)
    head, _, body = data.partition(b"\n")
    table = head.removeprefix(MAGIC).decode("ascii", "replace")
    if not head.startswith(MAGIC) or not _ID.fullmatch(table):
        raise DataError("no coverage counts of nf")
    return RunCounts(table, unpacked(body))


def adopt(folder: Path) -> None:
    """Copy the key tables in the folder of a run to `tables()`, where every command finds them."""
    for path in folder.glob(f"*{_SUFFIX}"):
        target = tables() / path.name
        if _ID.fullmatch(path.stem) and not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_suffix(f".{folder.name}")  # whole, or not there
            shutil.copyfile(path, temporary)
            temporary.replace(target)


def read_table(table: str, near: Path | None = None) -> bytes:
    """Return the keys of a key table, one a line.

    Args:
        table: Id of the table.
        near: Folder of a run, possibly moved or copied, with or without its `build`. The table is
            also searched there, in the neighbouring runs (one of them had it first), and in that
            build.

    Raises:
        NfError: The table is missing or damaged.
    """
    name = f"{table}{_SUFFIX}"
    places = [tables() / name]
    if near:
        places += [near / name, *near.parent.glob(f"*/{name}")]
        places += [near.parent.parent / tables().name / name]
    for path in places:
        try:
            keys = inflated(read_bytes(path), _MAX_FILE)
        except FileNotFoundError:
            continue
        except (OSError, DataError) as error:
            raise NfError(f"{shown(path)} is damaged ({error}): run with --cov again.") from error
        if hashlib.sha256(keys).hexdigest()[:16] != table:
            raise NfError(f"{shown(path)} is damaged: remove it and run with --cov again.")
        return keys
    raise NfError(f"{shown(tables())} holds no {table}{_SUFFIX}: run with --cov again.")
