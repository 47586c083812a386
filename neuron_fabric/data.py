# SPDX-License-Identifier: Apache-2.0
"""Strict reader of JSON and TOML files from untrusted sources: the result is a value or one
`DataError`.

JSON must be UTF-8, without duplicate keys, NaN, infinity or unpaired surrogates, and within limits
on size, depth, number of values and digits, so that no file can exhaust memory or the stack. TOML
has limits on the parts of a key and on integers. Only regular files are opened: a FIFO would block,
and a device may never end. `neuron_fabric.typed` checks the types of the values.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from neuron_fabric.errors import LineError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class DataError(LineError, ValueError):
    """Fault of some data in one line of text; the caller adds the name of the file."""


@dataclass(frozen=True)
class DataLimits:
    """Limits of a JSON text: characters, nesting depth, values, digits of an integer.

    ``values`` limits the commas and opening brackets.
    """

    size: int = 64 << 20
    depth: int = 64
    values: int = 4_000_000
    digits: int = 40


LIMITS = DataLimits()


def open_file(path: str | Path) -> BufferedReader:
    """Open a regular file for reading, without waiting for a writer of a FIFO.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "no name of a file: it has a NUL in it", str(path))
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            what = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            kind = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise OSError(what, f"is {kind}, not a file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | Path, size: int = LIMITS.size) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: It cannot be read or is no regular file.
        DataError: It has more than ``size`` bytes.
    """
    with open_file(path) as stream:
        data = stream.read(size + 1)
    if len(data) > size:
        raise DataError(f"has more than {size:,} bytes")
    return data


def read_text(path: str | Path, size: int = LIMITS.size) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        OSError: It cannot be read or is no regular file.
        DataError: It has more than ``size`` bytes or is not UTF-8.
    """
    return decode(read_bytes(path, size))


def decode(data: bytes) -> str:
    """Return the text of UTF-8 bytes. Raise DataError with the offset of the first wrong byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 at byte {error.start}") from None


def read_json(path: str | Path, limits: DataLimits = LIMITS) -> Any:
    """Return the value of a JSON file.

    Raises:
        OSError: It cannot be read or is no regular file.
        DataError: It is no strict JSON within ``limits``.
    """
    return parse_json(read_bytes(path, limits.size), limits)


def read_object(path: str | Path, limits: DataLimits = LIMITS) -> dict[str, Any]:
    """Return the object (dict) of a JSON file; raises as `read_json`, also for other values."""
    return as_object(read_json(path, limits))


def as_object(value: object) -> dict[str, Any]:
    """Return ``value`` if it is a dict, a JSON object. Raise DataError if not."""
    if not isinstance(value, dict):
        raise DataError("no JSON object")
    return value


def parse_json(data: bytes | str, limits: DataLimits = LIMITS) -> Any:
    """Return the value of a JSON text. Raise DataError if not strict JSON within ``limits``."""
    try:
        text = decode(data) if isinstance(data, bytes) else data
    except DataError as error:
        raise DataError(f"malformed JSON ({error})") from None
    if len(text) > limits.size:
        raise DataError(f"has more than {limits.size:,} characters")
    if sum(text.count(mark) for mark in ",[{") > limits.values:
        raise DataError(f"has more than {limits.values:,} values")

    def integer(digits: str) -> int:
        if len(digits) > limits.digits:
            raise DataError(f"malformed JSON (a number of {len(digits)} digits)")
        return int(digits)

    try:
        value = json.loads(
            text,
            object_pairs_hook=_pairs,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=integer,
        )
    except DataError:
        raise
    except RecursionError:
        raise DataError(f"malformed JSON (nested deeper than {limits.depth})") from None
    except (ValueError, MemoryError) as error:
        raise DataError(f"malformed JSON ({error or 'out of memory'})") from None
    if _too_deep(value, limits.depth):
        raise DataError(f"malformed JSON (nested deeper than {limits.depth})")
    if _SURROGATE.search(text) or not text.isascii():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise DataError("malformed JSON (half of a surrogate pair in a text)") from None
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise DataError(f"malformed JSON (key {key[:80]!r} stands twice)")
    return out


def _no_constant(text: str) -> Any:
    raise DataError(f"malformed JSON ({text} is no number)")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise DataError(f"malformed JSON ({text[:40]} is too large)")
    return value


def _too_deep(value: object, depth: int) -> bool:
    """Return whether a value is nested deeper than ``depth``, without recursion."""
    level = [value]
    for _ in range(depth):
        level = [
            below
            for one in level
            if isinstance(one, dict | list)
            for below in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


PARTS = 16
"""Greatest number of parts of a TOML key: tomllib takes quadratic time in them."""
BITS = 4096
"""Greatest size of a TOML integer in bits: Python does not print more than 4,300 digits."""
_TOML_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\\?\Z)|\'\'\'.*?(?:\'\'\'|\Z)'
    r'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[=,{}\[\]\n.]',
    re.DOTALL,
)
"""Strings, comments, and the ends of a key or of its parts; linear time."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text as a dict.

    Raises:
        DataError: It is malformed or exceeds the limits of this module.
    """
    parts = 1
    for token in _TOML_TOKEN.finditer(text):
        if token[0] == ".":
            parts += 1
            if parts > PARTS:
                raise DataError(f"is no TOML for this program (a key of more than {PARTS} parts)")
        elif token[0] in "=,{}[]\n":
            parts = 1
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"is no TOML ({error or 'nested'})") from None
    level: list[Any] = [table]
    while level:
        one = level.pop()
        if isinstance(one, dict | list):
            level += one.values() if isinstance(one, dict) else one
        elif isinstance(one, int) and one.bit_length() > BITS:
            raise DataError(f"is no TOML for this program (an integer of more than {BITS} bits)")
    return table


def toml_value(value: Any, number: Callable[[float], str] = repr) -> str:
    """Return the TOML text of a value; mappings and dataclasses as inline tables, without None.

    Args:
        value: Text, number, truth value, or a list, mapping or dataclass of such values.
        number: Function that writes a float.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):  # JSON has the same escapes, but allows a raw DEL
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(one, number) for one in value)}]"
    if is_dataclass(value):
        value = {key: one for key, one in vars(value).items() if one is not None}
    if not isinstance(value, Mapping):
        return str(value)
    pairs = (f"{toml_key(key)} = {toml_value(one, number)}" for key, one in value.items())
    return f"{{ {', '.join(pairs)} }}" if value else "{}"


def toml_key(key: str) -> str:
    """Return the TOML text of a key: bare if it may be."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def encodable(value: Any) -> Any:
    r"""Return plain data with texts that can be encoded in UTF-8.

    Bytes of file names or arguments that are not UTF-8 become escapes (``\udcff``).
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(one) for one in value]
    return value
