# SPDX-License-Identifier: Apache-2.0
"""Strict readers of YAML and JSON files: dataclasses say what they hold (`neuron_fabric.typed`).

A mistake in either is reported in one line that names the file and the place. YAML: no aliases (a
few of them can expand to 10^9 values), no duplicate key, no NaN, and limits on size and depth. JSON
is read by `neuron_fabric.data`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml

from neuron_fabric import output
from neuron_fabric.data import DataError, DataLimits, parse_json, read_json, read_text
from neuron_fabric.typed import FieldRule, typed
from scripts.common.errors import NfError
from scripts.common.paths import shown

YAML = DataLimits(size=2 << 20, depth=20, values=200_000)
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
T = TypeVar("T")
Listed = dict[str, Any]
"""Element of a list in a YAML file, before its fields are checked."""


def like(pattern: str) -> FieldRule:
    """Return the rule for a text in which a regular expression is found."""
    return FieldRule(re.compile(pattern).search, f"like {pattern}")


def at_least(length: int) -> FieldRule:
    """Return the rule for a text or a list of that length or more."""
    return FieldRule(lambda value: len(value) >= length, f"of length {length} or more")


def within(least: int, most: int) -> FieldRule:
    """Return the rule for a number between two limits, both included."""
    return FieldRule(lambda value: least <= value <= most, f"from {least} to {most}")


Id = Annotated[str, like("^[a-z][a-z0-9-]*$")]
Text = Annotated[str, at_least(1)]
Why = Annotated[str, at_least(10)]
Positive = Annotated[float, FieldRule(lambda value: value > 0, "above 0")]
Seed = Annotated[int, within(1, 2**31 - 1)]
Some = Annotated[tuple[T, ...], at_least(1)]


@contextmanager
def reading(path: Path, wrong: str = "{}: {}.") -> Iterator[None]:
    """Context that turns a fault of a file into an NfError; `wrong` is the text for bad data."""
    try:
        yield
    except OSError as error:
        raise NfError(f"cannot read {shown(path)}: {error.strerror}.") from error
    except DataError as error:
        line = f":{error.line}" if isinstance(error, _BadYaml) else ""
        raise NfError(wrong.format(f"{shown(path)}{line}", error)) from error


DAMAGED = "{} is damaged: {}."


def load(path: Path, kind: type[T]) -> T:
    """Read a YAML file as a ``kind``.

    Raises:
        NfError: The file cannot be read, is no strict YAML or does not fit ``kind``; one line.
    """
    with reading(path):
        return typed(kind, parse_yaml(read_text(path, YAML.size)))


def load_list(
    path: Path,
    name: str,
    kind: type[T],
    made_of: Callable[[Listed], Iterable[Listed]] = lambda value: [value],
    least: int = 0,
) -> list[T]:
    """Read the list in a YAML file (the only value of its mapping), each element as a ``kind``.

    Args:
        path: YAML file, or a folder whose `*.yaml` are read in order of name and concatenated.
        name: Key of the list.
        kind: Dataclass of the elements.
        made_of: Function that makes an element of the file into the fields of one ``kind`` or more.
        least: Least number of elements of a file.

    Raises:
        NfError: A file cannot be read, is no strict YAML, or does not fit ``kind``; one line.
    """
    if path.is_dir():
        files = sorted(path.glob("*.yaml"))
        return [one for file in files for one in load_list(file, name, kind, made_of, least)]
    found = load(path, dict[str, list[Listed]])
    with reading(path):
        if [*found] != [name]:
            raise DataError(f"the list {name!r} must be there, and no other")
        if len(found[name]) < least:
            raise DataError(f"the list {name!r} is empty")
        return [
            typed(kind, one, f"{name}[{n}]")
            for n, value in enumerate(found[name])
            for one in made_of(value)
        ]


def with_edits(value: Listed) -> Iterable[Listed]:
    """Yield an element whose `file`, `old` and `new` have become the only one of its `edits`."""
    if "old" in value and "edits" not in value:
        edit = {key: value[key] for key in ("file", "old", "new") if key in value}
        value = {key: one for key, one in value.items() if key not in edit} | {"edits": [edit]}
    yield value


def load_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file and convert it to a ``kind`` (see `neuron_fabric.typed`).

    Raises:
        NfError: The file cannot be read, or its content is no ``kind``; one line.
    """
    with reading(path, DAMAGED):
        return typed(kind, read_json(path))


def keep(path: Path, found: Any) -> None:
    """Write a dataclass as JSON, for `kept`; missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(path, json.dumps(asdict(found), indent=1) + "\n")


def kept(path: Path, kind: type[T]) -> T | None:
    """Return the ``kind`` in a JSON file; None if it is missing, damaged or of another version."""
    try:
        return typed(kind, read_json(path))
    except (OSError, DataError):
        return None


def from_text(text: object, kind: Any) -> Any:
    """Parse a JSON text and convert it to a ``kind``, which may be a union of types.

    Raises:
        DataError: ``text`` is no str, no JSON, or does not fit.
    """
    if not isinstance(text, str):
        raise DataError("no text")
    return typed(kind, parse_json(text))


class _BadYaml(DataError):
    """DataError with the number of the line of text in `line`, counted from 1."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def parse_yaml(text: str) -> Any:
    """Parse a YAML text within the rules of this module (no alias, no duplicate key, size limits).

    Raises:
        DataError: It is not such YAML; with the number of the line if that is known.
    """
    _scan(text)
    try:
        value = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise _not_yaml(error) from None
    except DataError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:  # 5,000 digits, a 13th month
        raise DataError(f"not YAML ({error})") from None
    _plain(value)
    return value


def _not_yaml(error: yaml.YAMLError) -> DataError:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    what = f"not YAML ({problem})" if problem else "not YAML"
    return _BadYaml(what, mark.line + 1) if mark else DataError(what)


def _scan(text: str) -> None:
    """Raise DataError for a YAML text with an alias, too many values or too deep nesting.

    It reads the events of the parser, before any value is constructed.
    """
    depth = values = 0
    try:
        for event in yaml.parse(text, yaml.CSafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else 0
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            values += 1
            if isinstance(event, yaml.AliasEvent):
                raise _BadYaml("an alias (*name), which is not allowed here", line)
            if depth > YAML.depth:
                raise _BadYaml(f"nested deeper than {YAML.depth}", line)
            if values > YAML.values:
                raise _BadYaml(f"has more than {YAML.values:,} values", line)
    except yaml.YAMLError as error:
        raise _not_yaml(error) from None


class _Loader(yaml.CSafeLoader):
    """Safe YAML loader that raises for a duplicate key and for a key that is not text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                what = f"key {str(key)[:80]} is no text; write it in quotes"
                raise _BadYaml(what, key_node.start_mark.line + 1)
            if key in seen:
                raise _BadYaml(f"key {str(key)[:80]!r} stands twice", key_node.start_mark.line + 1)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _plain(value: object) -> None:
    """Raise DataError for NaN, infinity, or text with NUL or surrogates, at any depth of a value.

    JSON and file names cannot hold these. `_scan` has limited the depth of the recursion.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{value} is no number here")
    if isinstance(value, str) and _NO_TEXT.search(value):
        raise DataError(f"{value[:80]!a} holds a NUL or half of a surrogate pair")
    for below in (
        [*value, *value.values()]
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else ()
    ):
        _plain(below)
