# SPDX-License-Identifier: Apache-2.0
"""Conversion of a simulator's VCD file to FST, cut to a window, with further signals of text.

Both simulators write VCD (IEEE 1800-2023, clause 21.7). The FST file has the same scopes from both:
copies of the ports (`$rootio`, of Verilator) and loop variables (`$ivl_for_loop`, of Icarus) are
left out. The caller names the scope of the text signals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from pylibfst import ffi, lib

Texts = Mapping[str, Sequence[tuple[float, str]]]
"""Text signals: for each name its values, each from a time in ns on, in order of time."""
_UNIT_EXPONENT = {b"s": 0, b"ms": -3, b"us": -6, b"ns": -9, b"ps": -12, b"fs": -15}
_TIMESCALE = re.compile(rb"\$timescale\s+(10*)\s*(\w+)")
_VAR = re.compile(rb"\$var\s+(\w+)\s+(\d+)\s+(\S+)\s+(\S+?)\s*(\[[^\]]*\])?\s*\$end")
_SCOPE = re.compile(rb"\$scope\s+\w+\s+(\S+)\s+\$end")
_UNWANTED = (b"$rootio", b"$ivl_for_loop")
_BITS = b"01xXzZ"
_TAIL = 1 << 20


def convert(
    source: Path,
    target: Path,
    window_ns: tuple[float, float] | None = None,
    texts: Texts | None = None,
    scope: str = "messages",
) -> None:
    """Write the changes of a VCD file to an FST file.

    Args:
        source: The VCD file.
        target: The FST file; it appears when it is complete.
        window_ns: First and last time in ns to keep; None for all. A last time of 0 is the end of
            the file, and the first counts from it. All values at the first time are written there.
        texts: Further signals.
        scope: Scope of the further signals.

    Raises:
        ValueError: The VCD file has no complete header.
        OSError: A file cannot be read or written.
    """
    with TemporaryDirectory(dir=target.parent) as folder, source.open("rb") as lines:
        writer = _Writer(Path(folder) / target.name, source, lines, {scope: texts or {}})
        try:
            writer.header()
            writer.body(lines, window_ns)
        finally:
            writer.close()
        writer.path.replace(target)


@dataclass
class _Writer:
    """Writer of one FST file, whose header is that of a VCD file."""

    path: Path
    source: Path
    lines: IO[bytes]
    scopes: Mapping[str, Texts]
    handles: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Handle and number of bits, by identifier code of the VCD file."""
    ticks_per_ns: float = 1.0

    def __post_init__(self) -> None:
        self.context: Any = lib.fstWriterCreate(str(self.path).encode(), 1)
        if self.context == ffi.NULL:
            raise OSError(0, "cannot write FST", str(self.path))
        self.texts: list[tuple[float, int, bytes]] = []
        self.strings: list[int] = []

    def close(self) -> None:
        """Write the buffer and close the file."""
        lib.fstWriterClose(self.context)

    def header(self) -> None:
        """Write the scopes and variables, then those of the text signals."""
        depth, skipped = 0, 0
        for line in _declarations(self.lines, self.source):
            if found := _TIMESCALE.match(line):
                exponent = _UNIT_EXPONENT[found[2]] + len(found[1]) - 1
                lib.fstWriterSetTimescale(self.context, exponent)
                self.ticks_per_ns = 10.0 ** (-9 - exponent)
            elif found := _SCOPE.match(line):
                depth += 1
                if skipped or found[1].startswith(_UNWANTED):
                    skipped = skipped or depth
                else:
                    lib.fstWriterSetScope(self.context, lib.FST_ST_VCD_MODULE, found[1], ffi.NULL)
            elif line.startswith(b"$upscope"):
                if not skipped:
                    lib.fstWriterSetUpscope(self.context)
                skipped = 0 if skipped == depth else skipped
                depth -= 1
            elif not skipped and (found := _VAR.match(line)):
                self._variable(*found.groups())
        for scope, texts in self.scopes.items():
            if texts:
                self._text_signals(scope, texts)

    def _variable(
        self, kind: bytes, bits: bytes, code: bytes, name: bytes, bounds: bytes | None
    ) -> None:
        if kind in (b"real", b"event", b"string"):
            return
        alias, _ = self.handles.get(code, (0, 0))
        named = name + (b" " + bounds if bounds else b"")
        handle = lib.fstWriterCreateVar(
            self.context, lib.FST_VT_VCD_WIRE, lib.FST_VD_IMPLICIT, int(bits), named, alias
        )
        self.handles.setdefault(code, (handle, int(bits)))

    def _text_signals(self, scope: str, texts: Texts) -> None:
        lib.fstWriterSetScope(self.context, lib.FST_ST_VCD_MODULE, scope.encode(), ffi.NULL)
        for name, values in texts.items():
            handle = lib.fstWriterCreateVar(
                self.context, lib.FST_VT_GEN_STRING, lib.FST_VD_IMPLICIT, 0, name.encode(), 0
            )
            self.strings.append(handle)
            self.texts += [(at * self.ticks_per_ns, handle, text.encode()) for at, text in values]
        lib.fstWriterSetUpscope(self.context)
        self.texts.sort(key=lambda one: -one[0])  # the next one is the last of the list

    def body(self, lines: IO[bytes], window_ns: tuple[float, float] | None) -> None:
        """Write the value changes that follow the header."""
        first, last = (round(one * self.ticks_per_ns) for one in window_ns or (0.0, 1e12))
        if window_ns and not last:
            last = self._last_time()
            first = max(0, first + last)
        self.texts = [(max(at, first), handle, text) for at, handle, text in self.texts]
        self.texts += [(first, handle, b"-") for handle in self.strings]
        before: dict[bytes, bytes] | None = {}  # by identifier code: its last change before `first`
        for line in lines:
            if line[:1] == b"#":
                now = int(line[1:])
                if now > last:
                    break
                if before is not None and now >= first:
                    self._start(before, first)
                    before = None
                if before is None:
                    self._time(now)
            elif line[:1] not in (b"$", b"\n"):
                code = _code(line)
                if before is None:
                    self._change(code, line)
                else:
                    before[code] = line
        if before is not None:
            self._start(before, first)
        if self.texts:
            self._time(min(last, round(self.texts[0][0])))

    def _last_time(self) -> int:
        """Return the last time of the VCD file; 0 if it has none."""
        with self.source.open("rb") as file:
            file.seek(max(0, self.source.stat().st_size - _TAIL))
            times = re.findall(rb"^#(\d+)", file.read(), re.MULTILINE)
        return int(times[-1]) if times else 0

    def _start(self, before: Mapping[bytes, bytes], first: int) -> None:
        self._time(first)
        for code, line in before.items():
            self._change(code, line)

    def _time(self, now: int) -> None:
        """Begin a time, once the text signals have changed that are due by then."""
        while self.texts and self.texts[-1][0] <= now:
            at, handle, text = self.texts.pop()
            lib.fstWriterEmitTimeChange(self.context, round(at))
            lib.fstWriterEmitVariableLengthValueChange(self.context, handle, text, len(text))
        lib.fstWriterEmitTimeChange(self.context, now)

    def _change(self, code: bytes, line: bytes) -> None:
        handle, bits = self.handles.get(code, (0, 0))
        if not handle:
            return
        if line[:1] in b"bB":
            value = line[1:].split(b" ", 1)[0]
            if len(value) < bits:  # the left is filled: x and z with themselves, else 0
                value = value.rjust(bits, value[:1] if value[:1] in b"xXzZ" else b"0")
        elif line[:1] in _BITS:
            value = line[:1].rjust(bits, b"0")
        else:
            return
        lib.fstWriterEmitValueChange(self.context, handle, value)


def _declarations(lines: IO[bytes], source: Path) -> Iterator[bytes]:
    """Yield the declarations of a VCD file, each whole and without leading spaces."""
    text = b""
    for line in lines:
        text += line.strip() + b" "
        if b"$end" not in line:
            continue
        yield text
        if text.startswith(b"$enddefinitions"):
            return
        text = b""
    raise ValueError(f"{source}: no $enddefinitions: this is no whole VCD file")


def _code(line: bytes) -> bytes:
    """Return the identifier code of a change: "0!" and "b0101 !" both have "!"."""
    return line.rpartition(b" ")[2].strip() if line[:1] in b"bBrRsS" else line[1:].strip()
