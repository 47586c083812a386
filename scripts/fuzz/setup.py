# SPDX-License-Identifier: Apache-2.0
"""Steps of a set-up: each is a function of the case's folder, its random numbers, and the values
that the table gives. A step that cannot be done as root, or here, raises `Skip`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from neuron_fabric.capture import write_capture
from neuron_fabric.capture.layout import MANIFEST
from scripts.build import registry
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST, TOP, BuildSpec, RunRecord, RunSpec
from scripts.fuzz import values
from scripts.record.database import History
from verif.replay.stimulus import Read, Stimulus, Write

_EXAMPLE = Path(__file__).with_name("example_history.json")
_MARK = "@@fuzz@@"
_FILL = struct.Struct("<Q")


class Skip(Exception):
    """The case cannot be made here; the text says why."""


def apply(step: dict[str, Any], folder: Path, random: Random) -> None:
    """One step: ``{name: {arguments}}`` of the table."""
    [(name, arguments)] = step.items()
    STEPS[name](folder, random, **(arguments or {}))


def capture(folder: Path, random: Random, to: str = "c", workers: int = 2, steps: int = 1) -> None:
    """A small capture: three tensors."""
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


def stimulus(folder: Path, random: Random, to: str = "s.json") -> None:
    """A stimulus: a line of plain memory, written and read back."""
    line = bytes(range(64))
    Stimulus("a note", {}, 1, (Write(0x40, 0, line), Read(0x40, 0, line))).write(folder / to)


def history(folder: Path, random: Random, to: str = "build/history.sqlite") -> None:
    """The history of one command with a green and a red run, which has ended."""
    (folder / to).parent.mkdir(parents=True, exist_ok=True)
    book = History(folder / to)
    number = book.begin("nf run: test_regs", 2, "nf run test_regs", "abc")
    for spec, record in _runs():
        book.add(number, spec, record, "print")
    book.finish(number, json.loads(_EXAMPLE.read_bytes())["document"])
    book.close()


def _runs() -> Iterator[tuple[RunSpec, RunRecord]]:
    """A green and a red run."""
    build = BuildSpec(registry.quick().name, TOP, FILELIST)
    for example in json.loads(_EXAMPLE.read_bytes())["runs"]:
        spec = RunSpec(build, "verif.tests.test_regs", ("unmapped",), example["seed"])
        own = {"id": spec.id, "name": spec.name, "sim": build.sim}
        yield spec, RunRecord.from_json(example | own)


def records(folder: Path, random: Random, to: str = "runs") -> None:
    """Run folders with a record each, as `nf report --runs` takes them."""
    for spec, record in _runs():
        (folder / to / spec.id).mkdir(parents=True)
        (folder / to / f"{spec.id}/record.json").write_text(
            json.dumps(record.to_json()), encoding="utf-8"
        )


def row(folder: Path, random: Random, table: str, column: str, value: str) -> None:
    """An odd value in every row of a table of the history: SQLite takes any."""
    text = values.JSON.get(value, value)
    odd: object = {"null": None, "zero": 0, "minus": -1, "fraction": 1.5}.get(value, text)
    if value == "large":
        odd = float(text)
    with sqlite3.connect(folder / "build/history.sqlite") as db:
        try:
            db.execute(f"UPDATE {table} SET {column} = ?", (odd,))
        except sqlite3.IntegrityError as error:
            raise Skip(str(error)) from None
    db.close()


def _the(folder: Path, glob: str) -> Path:
    found = sorted(folder.glob(glob))
    if not found:
        raise FileNotFoundError(f"the set-up has made no {glob}")
    return found[0]


def json_value(folder: Path, random: Random, file: str, at: str, value: str) -> None:
    """The JSON text of `values.JSON` in place of what stands at ``a/0/b`` (a column of the history
    where ``file`` is TABLE.COLUMN)."""
    if "." in file and "/" not in file and not (folder / file).exists():
        table, column = file.split(".")
        with sqlite3.connect(folder / "build/history.sqlite") as db:
            for key, text in db.execute(f"SELECT id, {column} FROM {table}").fetchall():
                new = _splice(json.loads(text), at, values.JSON[value])
                db.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (new, key))
        db.close()
        return
    path = _the(folder, file)
    data = path.read_bytes()
    if path.suffix == ".safetensors":
        size = _FILL.unpack_from(data)[0]
        header = _splice(json.loads(data[8 : 8 + size]), at, values.JSON[value]).encode()
        path.write_bytes(_FILL.pack(len(header)) + header + data[8 + size :])
    else:
        path.write_text(_splice(json.loads(data), at, values.JSON[value]), encoding="utf-8")


def _splice(content: Any, at: str, text: str) -> str:
    *way, last = [int(part) if part.isdecimal() else part for part in at.split("/")]
    inside = content
    for part in way:
        inside = inside[part]
    inside[last] = _MARK
    return json.dumps(content).replace(f'"{_MARK}"', text)


def damage(folder: Path, random: Random, file: str, how: str) -> None:
    """Something done to a file as a whole: one of `CONTENTS` or `IN_ITS_PLACE`."""
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
        raise Skip(f"no socket can be made: {error}") from None
    finally:
        os.close(here)


# Other contents: (data, a place in it, a bit of a byte, random numbers) -> data
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


def header_length(folder: Path, random: Random, file: str, length: int) -> None:
    """Another header length in a safetensors file."""
    path = _the(folder, file)
    path.write_bytes(_FILL.pack(length % (1 << 64)) + path.read_bytes()[8:])


def text(folder: Path, random: Random, file: str, holds: str, value: str = "") -> None:
    """A text file; ``$VALUE`` in it stands for an odd value of YAML, JSON or words."""
    odd = {**values.WORDS, **values.JSON, **values.YAML}.get(value, value)
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(holds.replace("$VALUE", odd).encode("utf-8", "surrogateescape"))


def many_tensors(folder: Path, random: Random, count: int, twice: bool = True) -> None:
    """A manifest of many tensors, of which two share a name."""
    names = [f"t{number}" for number in range(count)]
    names[-1] = names[-2] if twice else names[-1]
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


def tree(folder: Path, random: Random) -> None:
    """A copy of the project, to damage what is read from it; the command runs there."""
    skip = shutil.ignore_patterns("build", ".venv", ".git", "captures", "*.safetensors", "docs")
    for name in ("cocotbext", "neuron_fabric", "models", "verif", "scripts", "hdl"):
        shutil.copytree(ROOT / name, folder / "tree" / name, ignore=skip)


def link(folder: Path, random: Random, file: str, to: str) -> None:
    """A symbolic link."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).symlink_to(folder / to)


def folder(folder: Path, random: Random, name: str, mode: int = 0o755) -> None:
    """A folder; without rights it is no obstacle to root."""
    if mode != 0o755 and os.geteuid() == 0:
        raise Skip("root may do everything")
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name).chmod(mode)


STEPS: dict[str, Callable[..., None]] = {
    "capture": capture,
    "stimulus": stimulus,
    "history": history,
    "records": records,
    "row": row,
    "json": json_value,
    "damage": damage,
    "header": header_length,
    "text": text,
    "many-tensors": many_tensors,
    "tree": tree,
    "link": link,
    "folder": folder,
}
