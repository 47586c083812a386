# SPDX-License-Identifier: Apache-2.0
"""Link traces: flits at the pins of a device, as text, and back (`nf report flits` prints them).

One flit a line: clock, direction, Protocol ID, the 528-bit flit, the last two in hex; a line with
``reset`` alone forgets the state of the link, one with ``phy_down`` tells that the physical layer
went down; ``#`` begins a comment. NF_LINK_TRACE in the environment makes the active agent's monitor
write one: a file name, or 1 for ``link.trace`` beside the run's metrics.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.control import UnknownControl
from cocotbext.cxl.wire.describe import describe
from cocotbext.cxl.wire.flits import Direction, decode_protocol_id

VARIABLE = "NF_LINK_TRACE"
HEADER = "# link trace 1: clock direction protocol_id flit"
_FLIT_DIGITS = 132
_LINE = re.compile(
    r"(?P<clock>[0-9]{1,18}) (?P<way>M2S|S2M) (?P<pid>[0-9A-Fa-f]{4}) "
    rf"(?P<flit>[0-9A-Fa-f]{{{_FLIT_DIGITS}}})"
)


class TraceError(ValueError):
    """A file that is no link trace; one clear line."""


@dataclass(frozen=True, slots=True)
class TraceFlit:
    """One line; ``flit`` None: ``note`` says what happened to the link instead."""

    clock: int
    direction: Direction = Direction.M2S
    protocol_id: int = 0
    flit: int | None = None
    note: str = ""


class TraceWriter:
    """Writes as the flits come; a simulator that is killed leaves all but the last few.

    Nothing is written after ``close``. A disk that is full ends the trace with a warning and not
    the test. TraceError: the file cannot be written at all.
    """

    def __init__(self, path: Path, more: bool = False) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._out: TextIO | None = path.open(
                "a" if more else "w", buffering=1 << 16, encoding="utf-8"
            )
        except OSError as error:
            raise TraceError(f"cannot write the link trace {path}: {error.strerror}") from error
        self._write("reset\n" if more else HEADER + "\n")

    def flit(self, clock: int, direction: Direction, protocol_id: int, flit: int) -> None:
        """A flit that was transferred."""
        self._write(f"{clock} {direction.value} {protocol_id:04X} {flit:0{_FLIT_DIGITS}X}\n")

    def note(self, what: str) -> None:
        """``reset`` or ``phy_down``."""
        self._write(f"{what}\n")

    def _write(self, line: str) -> None:
        if self._out is not None:
            try:
                self._out.write(line)
            except OSError as error:
                self._warn(error)
                with contextlib.suppress(OSError):  # it tries to write the rest again
                    self._out.close()
                self._out = None

    def close(self) -> None:
        """Everything is in the file, and no more will be."""
        out, self._out = self._out, None
        if out is not None:
            try:
                out.close()
            except OSError as error:
                self._warn(error)

    def _warn(self, error: OSError) -> None:
        _LOG.warning("the link trace %s ends early: %s", self._path, error.strerror)


_LOG = logging.getLogger("cxl.trace")
_writers: dict[Path, TraceWriter] = {}


def from_environment() -> TraceWriter | None:
    """The writer that NF_LINK_TRACE asks for; later tests of a process go on in the same file."""
    wanted = os.environ.get(VARIABLE, "")
    if not wanted or wanted == "0":
        return None
    path = Path(wanted)
    if wanted == "1":
        path = Path(os.environ.get("NF_METRICS", "metrics.json")).with_name("link.trace")
    before = _writers.get(path)
    if before is not None:
        before.close()  # a test that failed has not
    _writers[path] = writer = TraceWriter(path, before is not None)
    return writer


@atexit.register
def _close_all() -> None:
    """A test that failed leaves its last flits, which are the ones that matter, in a buffer."""
    for writer in _writers.values():
        writer.close()


def read(path: Path) -> Iterator[TraceFlit]:
    """The lines of a trace. TraceError names the first that is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: no link trace, not even text") from error
    clock = flits = 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        flits += 1
        if words in (["reset"], ["phy_down"]):
            yield TraceFlit(clock, note=words[0])
            continue
        # int() would also take signs, underscores, 0x and the digits of other scripts.
        fields = _LINE.fullmatch(" ".join(words))
        if fields is None:
            raise TraceError(
                f"{path}:{number}: not 'clock M2S|S2M protocol_id flit' with {_FLIT_DIGITS} hex "
                "digits of flit"
            )
        clock = int(fields["clock"])
        way = Direction(fields["way"])
        yield TraceFlit(clock, way, int(fields["pid"], 16), int(fields["flit"], 16))
    if not flits:
        raise TraceError(f"{path}: no flit in it")


def explain(trace: Iterable[TraceFlit]) -> Iterator[tuple[TraceFlit, str]]:
    """Each flit with its text, slot by slot, and what the tracker has against it."""
    tracker = LinkTracker(retry=True)
    owed: dict[tuple[Direction, int], int] = {}  # of flits that were taken, for their replays
    for item in trace:
        if item.flit is None:
            if item.note == "reset":
                tracker.reset()
                owed.clear()
            else:
                tracker.phy_down()
            yield item, item.note
            continue
        before = len(tracker.errors)
        event = tracker.observe(item.direction, item.protocol_id, item.flit, item.clock)
        text = _text(event, owed)
        for error in tracker.errors[before:]:
            rule = error.split(": ", 1)[1].removeprefix(f"{item.direction.value} ")
            if not rule.startswith("crc"):  # the text has both CRCs
                text += f"\n  ! {rule}"
        yield item, text


def _text(event: FlitEvent, owed: dict[tuple[Direction, int], int]) -> str:
    key = event.direction, event.flit
    head = f"{event.cycle} {event.protocol_id:04X} "
    kind = event.kind
    if kind in (FlitKind.NULL, FlitKind.UNEXPECTED, FlitKind.BAD_ID):
        code = decode_protocol_id(event.protocol_id).code
        name = f" ({code.name})" if code else ""
        return f"{head}{event.direction.value} {kind.value}{name}"
    if kind is FlitKind.DISCARDED:
        # What it is cannot be known: the receiver does not follow the data that is owed.
        slots = [f"{event.flit >> 128 * k & (1 << 128) - 1:032x}" for k in range(4)]
        lines = [f"{head}{event.direction.value} {kind.value}"]
        return "\n".join(lines + [f"  slot {k}: {slot}" for k, slot in enumerate(slots)])
    if kind in (FlitKind.PROTOCOL, FlitKind.DATA):
        owed[key] = event.owed_before
    if event.control is not None and not isinstance(event.control, UnknownControl):
        text = describe(event.flit, event.direction)
    else:
        text = describe(event.flit, event.direction, owed.get(key, event.owed_before))
    if kind is FlitKind.REPLAYED:
        text = text.replace("\n", " (replayed)\n", 1) if "\n" in text else f"{text} (replayed)"
    return head + text
