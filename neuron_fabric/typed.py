# SPDX-License-Identifier: Apache-2.0
"""Typed values from JSON data: annotations of frozen dataclasses are the schema.

`typed(RunRecord, values)` returns a RunRecord whose fields have the annotated types, or raises one
`DataError` that names the field: ``cases[2].seconds: 'x' is not a number``. A field that is
``Annotated[int, FieldRule(...)]`` has a rule in addition to its type.

Data classes of `msgspec` would be shorter, but ignore unknown fields, accept NaN, and do not name
keys of mappings and members of enumerations in errors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from neuron_fabric.data import DataError

T = TypeVar("T")
_AS_THEY_ARE: frozenset[Any] = frozenset({str, int, bool})
"""Types whose values are kept unchanged."""


@dataclass(frozen=True)
class FieldRule:
    """Rule for the value of an `Annotated` field, and the text for an error, "above 0"."""

    holds: Callable[[Any], object]
    what: str


def typed(kind: type[T], value: object, place: str = "") -> T:
    """Check ``value``, as from `json.loads`, and convert it to type ``kind``.

    Args:
        kind: A dataclass, or any type that a field of one may have.
        value: The value.
        place: Name of the value in an error.

    Raises:
        DataError: The value has another type.
    """
    return cast(T, _as(kind, value, place))


def _as(kind: Any, value: object, place: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        return _ruled(kind, value, place)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, place)
    if origin is Literal:
        return value if value in get_args(kind) else _wrong(value, _choice(get_args(kind)), place)
    if origin in (tuple, list, Sequence):
        return _sequence(kind, value, place)
    if origin in (dict, Mapping):
        return _mapping(get_args(kind), value, place)
    if dataclasses.is_dataclass(kind):
        return _dataclass(cast(type, kind), value, place)
    return _plain(kind, value, place)


def _ruled(kind: Any, value: object, place: str) -> Any:
    made = _as(kind.__origin__, value, place)
    for rule in kind.__metadata__:
        if not rule.holds(made):
            _wrong(value, rule.what, place)
    return made


def _plain(kind: Any, value: object, place: str) -> Any:
    if kind is bool:
        return value if isinstance(value, bool) else _wrong(value, "true or false", place)
    if kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
        return value if fits else _wrong(value, "an integer", place)
    if kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        try:
            number = float(cast(float, value)) if fits else math.nan
        except OverflowError:  # integers of TOML and of a command line are unlimited
            number = math.inf
        return number if math.isfinite(number) else _wrong(value, "a number", place)
    if kind in (str, Path):
        return kind(value) if isinstance(value, str) else _wrong(value, "a text", place)
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = [member.value for member in kind]
        return kind(value) if value in members else _wrong(value, _choice(members), place)
    raise TypeError(f"{kind} has no JSON form")


def _one_of(kinds: Sequence[Any], value: object, place: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    rest = [kind for kind in kinds if kind is not types.NoneType]
    for kind in rest[:-1]:
        with contextlib.suppress(DataError):
            return _as(kind, value, place)
    return _as(rest[-1], value, place)


def _sequence(kind: Any, value: object, place: str) -> Any:
    if not isinstance(value, list | tuple):
        return _wrong(value, "a list", place)
    args = get_args(kind)
    if get_origin(kind) is tuple and args[-1] is not Ellipsis:
        if len(value) != len(args):
            return _wrong(value, f"a list of {len(args)}", place)
        kinds: Sequence[Any] = args
    else:
        kinds = [args[0]] * len(value)
    made = [
        _as(one, x, f"{place}[{n}]") for n, (one, x) in enumerate(zip(kinds, value, strict=True))
    ]
    return made if get_origin(kind) is list else tuple(made)


def _mapping(args: Sequence[Any], value: object, place: str) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        return cast(dict[Any, Any], _wrong(value, "an object", place))
    of_keys, of_values = args
    if (
        {of_keys, of_values} <= _AS_THEY_ARE
        and all(type(key) is of_keys for key in value)
        and all(type(one) is of_values for one in value.values())
    ):
        return dict(value)  # fast path for thousands of counts by name
    return {
        _as(of_keys, key, place): _as(of_values, one, _below(place, key))
        for key, one in value.items()
    }


def _dataclass(kind: type, value: object, place: str) -> Any:
    if not isinstance(value, Mapping):
        return _wrong(value, "an object", place)
    hints = _hints(kind)
    unknown = [key for key in value if key not in hints]
    if unknown:
        raise DataError(f"{_head(place)}field {_short(unknown[0])} is not known here")
    made = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            made[field.name] = _as(hints[field.name], value[field.name], _below(place, field.name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DataError(f"{_head(place)}field {field.name!r} is missing")
    try:
        return kind(**made)
    except DataError as error:  # __post_init__ does not know the place
        raise DataError(f"{_head(place)}{error}") from None


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if name in names}


def _wrong(value: object, what: str, place: str) -> Any:
    raise DataError(f"{_head(place)}{_short(value)} is not {what}")


def _choice(values: Sequence[object]) -> str:
    return "one of " + ", ".join(map(str, values))


def _head(place: str) -> str:
    return f"{place}: " if place else ""


def _below(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)


def _short(value: object) -> str:
    """Return a value as short text for a message; "an object" or "a list" for a container."""
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 70 else text[:67] + "..."
