# SPDX-License-Identifier: Apache-2.0
"""Link traces: every flit at the pins of a device as text, written and read.

One flit per line: clock, direction, Protocol ID and the 528-bit flit, the last two in hex. A line
with ``reset`` clears the state of the link, one with ``phy_down`` records a drop of the physical
layer; ``#`` starts a comment. With NF_LINK_TRACE in the environment, the monitor of the active
agent writes a trace: a file name, or 1 for ``link.trace`` in the folder of the run.
"""

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
    """A link trace cannot be read or written, or is malformed; the text is one line."""


@dataclass(frozen=True, slots=True)
class TraceFlit:
    """One entry of a link trace: a flit, or an event if ``flit`` is None.

    ``note`` is then the event: "reset" or "phy_down".
    """

    clock: int
    direction: Direction = Direction.M2S
    protocol_id: int = 0
    flit: int | None = None
    note: str = ""


class TraceWriter:
    """Writer of a link trace; if the simulator is killed, at most the last few flits are missing.

    Nothing is written after ``close``. A full disk ends the trace with a warning, not the test.

    Args:
        path: file; its folder is created.
        more: append to the file, after a ``reset`` line; else write a new file.

    Raises:
        TraceError: the file cannot be opened.
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
        """Write the line of a flit that was transferred in clock ``clock``."""
        self._write(f"{clock} {direction.value} {protocol_id:04X} {flit:0{_FLIT_DIGITS}X}\n")

    def note(self, what: str) -> None:
        """Write the event ``reset`` or ``phy_down``."""
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
        """Flush and close the file."""
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
    """Return a writer for the file that NF_LINK_TRACE names; None if it is unset, "" or 0.

    Later writers of the same process append to the same file.
    """
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
    """Close all traces at exit: the buffered last flits of a failed test are the relevant ones."""
    for writer in _writers.values():
        writer.close()


def read(path: Path) -> Iterator[TraceFlit]:
    """Yield the entries of a link trace in a file.

    Raises:
        TraceError: the file cannot be read, a line is malformed, or there is no entry.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: no link trace, not even text") from error
    clock, found = 0, False
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        found = True
        if words in (["reset"], ["phy_down"]):
            yield TraceFlit(clock, note=words[0])
            continue
        # int() also accepts signs, underscores, 0x and the digits of other scripts.
        fields = _LINE.fullmatch(" ".join(words))
        if fields is None:
            raise TraceError(
                f"{path}:{number}: not 'clock M2S|S2M protocol_id flit' with {_FLIT_DIGITS} hex "
                "digits of flit"
            )
        clock = int(fields["clock"])
        way = Direction(fields["way"])
        yield TraceFlit(clock, way, int(fields["pid"], 16), int(fields["flit"], 16))
    if not found:
        raise TraceError(f"{path}: no flit in it")


def explain(trace: Iterable[TraceFlit]) -> Iterator[tuple[TraceFlit, str]]:
    """Yield each entry of a trace with its description: the slots as text and the broken rules."""
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
        # The type is unknown: the receiver does not track the owed data.
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
