# SPDX-License-Identifier: Apache-2.0
"""Files of fuzz cases: captures, histories, records and copies of the tree, and damage to them.

A step that cannot be done on this machine skips the case.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from neuron_fabric.capture import write_capture
from neuron_fabric.capture.layout import MANIFEST
from scripts.build import registry
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST, TOP, BuildSpec, RunRecord, RunSpec
from scripts.fuzz.fuzz_case import FuzzCase, digest_of
from scripts.history.database import History
from verif.replay.stimulus_file import Read, Stimulus, Write

_EXAMPLE = Path(__file__).with_name("example_history.json")
REPLAY = ("replay", "c", "--transport", "bulk", "--sim", registry.quick().name)
OUT = "out.safetensors"
_MARK = "@@fuzz@@"
_FILL = struct.Struct("<Q")


def capture(folder: Path, to: str = "c", workers: int = 2, steps: int = 1) -> None:
    """Write a small random capture with three tensors.

    Args:
        folder: Folder of the case.
        to: Name of the capture in it.
        workers: Number of workers.
        steps: Number of training steps.
    """
    draw = np.random.default_rng(7).standard_normal
    content = {
        step: {
            "conv.weight": draw((workers, 3, 40), np.float32),
            "norm.bias": draw((workers, 5), np.float32),
            "fc.weight": draw((workers, 4, 8), np.float32),
        }
        for step in range(1, steps + 1)
    }
    write_capture(folder / to, "small", content, note="a note", created="today")


def stimulus(folder: Path, to: str = "s.json") -> None:
    """Write a stimulus file with two operations: a write to plain memory, and its read."""
    line = bytes(range(64))
    Stimulus("a note", {}, 1, (Write(0x40, 0, line), Read(0x40, 0, line))).write(folder / to)


def history(folder: Path, to: str = "build/history.sqlite") -> None:
    """Write a history database with one finished command of a passed and a failed run."""
    (folder / to).parent.mkdir(parents=True, exist_ok=True)
    book = History(folder / to)
    number = book.begin("nf run: test_regs", 2, "nf run test_regs", "abc")
    for spec, record in _runs():
        book.add(number, spec, record, "print")
    book.finish(number, json.loads(_EXAMPLE.read_bytes())["document"])
    book.close()


def _runs() -> Iterator[tuple[RunSpec, RunRecord]]:
    """Yield spec and record of a passed and of a failed run, from `example_history.json`."""
    build = BuildSpec(registry.quick().name, TOP, FILELIST)
    for example in json.loads(_EXAMPLE.read_bytes())["runs"]:
        spec = RunSpec(build, "verif.tests.test_regs", ("unmapped",), example["seed"])
        own = {"id": spec.id, "name": spec.name, "sim": build.sim}
        yield spec, RunRecord.from_json(example | own)


def records(folder: Path, to: str = "runs") -> None:
    """Write run folders with a `record.json` each, as `nf report --runs` reads them."""
    for spec, record in _runs():
        (folder / to / spec.id).mkdir(parents=True)
        (folder / to / f"{spec.id}/record.json").write_text(
            json.dumps(record.to_json()), encoding="utf-8"
        )


def row(folder: Path, table: str, column: str, odd: object) -> None:
    """Write an odd value into a column of every row of a table of the history.

    SQLite accepts any type in any column. A value that a constraint refuses skips the case.
    """
    with sqlite3.connect(folder / "build/history.sqlite") as db:
        try:
            db.execute(f"UPDATE {table} SET {column} = ?", (odd,))
        except sqlite3.IntegrityError as error:
            pytest.skip(str(error))
    db.close()


def _the(folder: Path, glob: str) -> Path:
    found = sorted(folder.glob(glob))
    if not found:
        raise FileNotFoundError(f"the set-up has made no {glob}")
    return found[0]


def json_value(folder: Path, file: str, at: str, text: str) -> None:
    """Replace one value in JSON data by another JSON text.

    Args:
        folder: Folder of the case.
        file: JSON file, safetensors file (its header), or TABLE.COLUMN of the history.
        at: Path of the value, ``a/0/b``.
        text: The new JSON text; need not be valid.
    """
    if "." in file and "/" not in file and not (folder / file).exists():
        table, column = file.split(".")
        with sqlite3.connect(folder / "build/history.sqlite") as db:
            for key, old in db.execute(f"SELECT id, {column} FROM {table}").fetchall():
                new = _splice(json.loads(old), at, text)
                db.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (new, key))
        db.close()
        return
    path = _the(folder, file)
    data = path.read_bytes()
    if path.suffix == ".safetensors":
        size = _FILL.unpack_from(data)[0]
        header = _splice(json.loads(data[8 : 8 + size]), at, text).encode()
        path.write_bytes(_FILL.pack(len(header)) + header + data[8 + size :])
    else:
        path.write_text(_splice(json.loads(data), at, text), encoding="utf-8")


def _splice(content: Any, at: str, text: str) -> str:
    *way, last = [int(part) if part.isdecimal() else part for part in at.split("/")]
    inside = content
    for part in way:
        inside = inside[part]
    inside[last] = _MARK
    return json.dumps(content).replace(f'"{_MARK}"', text)


def damage(folder: Path, random: Random, file: str, how: str) -> None:
    """Damage a file by one way of `CONTENTS`, or replace it by one of `IN_ITS_PLACE`.

    Args:
        folder: Folder of the case.
        random: Source of positions and bits.
        file: Glob of the file.
        how: Name of the damage.
    """
    path = _the(folder, file)
    data = b"" if path.is_dir() else path.read_bytes()
    place, bit = random.randrange(max(1, len(data))), 1 << random.randrange(8)
    if how in CONTENTS:
        path.write_bytes(CONTENTS[how](data, place, bit, random))
        return
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    IN_ITS_PLACE[how](path)


def _hole(path: Path) -> None:
    path.touch()
    os.truncate(path, 4 << 30)


def _socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)  # the name of a socket may have 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{here}/{path.name}")
    except OSError as error:
        pytest.skip(f"no socket can be made: {error}")
    finally:
        os.close(here)


# Functions of (data, a place in it, a bit of a byte, random numbers).
CONTENTS: dict[str, Callable[[bytes, int, int, Random], bytes]] = {
    "empty": lambda data, at, bit, random: b"",
    "cut": lambda data, at, bit, random: data[:at],
    "flip": lambda data, at, bit, random: data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :],
    "swap": lambda data, at, bit, random: data[at:] + data[:at],
    "append": lambda data, at, bit, random: data + random.randbytes(100),
    "garbage": lambda data, at, bit, random: random.randbytes(max(64, len(data))),
    "zeros": lambda data, at, bit, random: bytes(len(data) + 1),
    "not UTF-8": lambda data, at, bit, random: data[:at] + b"\xff\xfe" + data[at:],
    "twice": lambda data, at, bit, random: data + data,
}
IN_ITS_PLACE: dict[str, Callable[[Path], object]] = {
    "huge": _hole,
    "missing": lambda path: None,
    "fifo": os.mkfifo,
    "folder": Path.mkdir,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "dangling": lambda path: path.symlink_to("nowhere"),
}


def header_length(folder: Path, file: str, length: int) -> None:
    """Overwrite the length of the header (first 8 bytes) of a safetensors file."""
    path = _the(folder, file)
    path.write_bytes(_FILL.pack(length % (1 << 64)) + path.read_bytes()[8:])


def text(folder: Path, file: str, holds: str) -> None:
    """Write a text file, and its folder."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(holds.encode("utf-8", "surrogateescape"))


def many_tensors(folder: Path, count: int) -> None:
    """Write the manifest of a capture with ``count`` tensors, two of which share a name."""
    names = [f"t{number}" for number in range(count)]
    names[-1] = names[-2]
    content = {
        "format": "neuron-fabric-capture",
        "version": 1,
        "model": "many",
        "world_size": 2,
        "steps": [1],
        "tensors": [{"name": name, "shape": [1], "dtype": "F32"} for name in names],
    }
    (folder / "c").mkdir()
    (folder / "c" / MANIFEST).write_text(json.dumps(content), encoding="utf-8")


def tree(folder: Path) -> None:
    """Copy the project's sources to `tree` in the folder; the command of the case runs there."""
    skip = shutil.ignore_patterns("__pycache__", "captures", "*.safetensors", "docs")
    for name in ("cocotbext", "neuron_fabric", "models", "verif", "scripts", "hdl"):
        shutil.copytree(ROOT / name, folder / "tree" / name, ignore=skip)


def link(folder: Path, file: str, to: str) -> None:
    """Make a symbolic link ``file`` to ``to``, both in the folder."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).symlink_to(folder / to)


DAMAGES = (*CONTENTS, *IN_ITS_PLACE)
"""Names of all kinds of damage."""


@functools.cache
def undamaged(steps: int = 1, *words: str) -> str:
    """Return the SHA-256 of the file that `REPLAY` writes if nothing is damaged or interrupted.

    Args:
        steps: Number of steps of the capture.
        words: Further options of the replay.
    """
    with tempfile.TemporaryDirectory(prefix="nf-fuzz-") as name:
        case = FuzzCase(Path(name), Random(0))
        capture(case.folder, steps=steps)
        result = case.execute(*REPLAY, *words, "--out", OUT, seconds=300)
        assert result.code == 0, result.error
        return digest_of(case.folder / OUT)
