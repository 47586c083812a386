# SPDX-License-Identifier: Apache-2.0
"""Tests of the strict reader of JSON files: a value, or one line."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

from neuron_fabric.data import DataError, DataLimits, open_file, parse_json, read_bytes, read_json
from neuron_fabric.typed import FieldRule, typed

BAD = {
    "empty": (b"", "malformed"),
    "no JSON": (b"{", "malformed"),
    "not UTF-8": (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    "NaN": (b"[NaN]", "NaN is no number"),
    "infinity": (b"[-Infinity]", "-Infinity is no number"),
    "too large": (b"[1e999]", "too large"),
    "digits": (b"[" + b"9" * 41 + b"]", "41 digits"),
    "more digits than Python takes": (b"[" + b"9" * 5000 + b"]", "5000 digits"),
    "deep": (b"[" * 200 + b"]" * 200, "nested deeper"),
    "deeper than the stack": (b"[" * 200_000, "nested deeper"),
    "deep objects": (b'{"a":' * 200_000, "nested deeper"),
    "key twice": (b'{"a": 1, "a": 2}', "key 'a' stands twice"),
    "surrogate": (b'{"a": ["\\ud800"]}', "surrogate"),
    "surrogate key": (b'[{"\\uDC00": 1}]', "surrogate"),
    "many values": (b"[" + b"0," * 5_000_000 + b"0]", "more than 4,000,000 values"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_json_is_one_line(name: str) -> None:
    text, says = BAD[name]
    with pytest.raises(DataError, match=says) as error:
        parse_json(text)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


def test_good_json() -> None:
    value = {"a": [1, -2.5, "Größe", None, True], "pair": "\U0001f600"}
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


def test_limits(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[1,2]", encoding="utf-8")
    assert read_json(path) == [1, 2]
    with pytest.raises(DataError, match="more than 4 bytes"):
        read_json(path, DataLimits(size=4))
    with pytest.raises(DataError, match="more than 1 values"):
        read_json(path, DataLimits(values=1))


def test_only_files_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that FIFOs, devices, sockets and folders, which may block or never end, are refused."""
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    os.mkfifo("fifo")
    for path, kind in (("fifo", "a FIFO"), ("/dev/zero", "a device"), (".", "a folder")):
        with pytest.raises(OSError, match=kind):
            open_file(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(OSError, match="No such device"):
            read_bytes("socket")
    with pytest.raises(FileNotFoundError):
        read_bytes("missing")
    with pytest.raises(OSError, match="has a NUL in it"):
        read_bytes("a\0b")


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    name: str
    size: float = 0.0


@dataclass(frozen=True)
class Whole:
    number: int
    good: bool
    colour: Colour | None
    place: Path
    parts: tuple[Part, ...] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    free: dict[str, Any] = field(default_factory=dict)
    odd: Annotated[int, FieldRule(lambda value: value % 2, "odd")] = 1


GOOD: dict[str, Any] = {
    "number": 3,
    "good": True,
    "colour": "red",
    "place": "a/b",
    "parts": [{"name": "x", "size": 2}],
    "pairs": [["a", 1]],
    "free": {"x": [1]},
}


def test_typed_makes_what_the_fields_say() -> None:
    made = typed(Whole, GOOD)
    assert made == Whole(
        3, True, Colour.RED, Path("a/b"), (Part("x", 2.0),), (("a", 1),), {"x": [1]}
    )
    assert isinstance(made.parts[0].size, float)
    assert typed(Whole, GOOD | {"colour": None}).colour is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"number": True}, "number: True is not an integer"),
        ({"number": "3"}, "number: '3' is not an integer"),
        ({"number": 1.5}, "number: 1.5 is not an integer"),
        ({"good": 1}, "good: 1 is not true or false"),
        ({"colour": "blue"}, "colour: 'blue' is not one of red"),
        ({"colour": []}, "colour: a list is not one of red"),
        ({"parts": {}}, "parts: an object is not a list"),
        ({"parts": [{"name": "x", "size": "y"}]}, r"parts\[0\].size: 'y' is not a number"),
        (
            {"parts": [{"name": "x", "size": 10**400}]},
            r"parts\[0\].size: 10+\.\.\. is not a number",
        ),
        ({"parts": [{}]}, r"parts\[0\]: field 'name' is missing"),
        ({"parts": [None]}, r"parts\[0\]: None is not an object"),
        ({"pairs": [["a"]]}, r"pairs\[0\]: a list is not a list of 2"),
        ({"free": []}, "free: a list is not an object"),
        ({"odd": 2}, "odd: 2 is not odd"),
        ({"odd": "x"}, "odd: 'x' is not an integer"),
        ({"later": 1}, "field 'later' is not known"),
    ],
)
def test_typed_names_the_field_that_is_wrong(change: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        typed(Whole, GOOD | change)
    with pytest.raises(DataError, match="not an object"):
        typed(Whole, [])
