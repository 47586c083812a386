# SPDX-License-Identifier: Apache-2.0
"""Messages of a run, as its bench logged them (`verif/env/message_log.py`).

They become text signals in the waves, and the history of the line whose check failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neuron_fabric.data import DataError, parse_json, read_text
from neuron_fabric.typed import typed
from scripts.waves.fst_file import Texts

VARIABLE, FILE = "NF_MESSAGE_LOG", "messages.jsonl"
FAILURES = "failures"
SIGNALS = ("requests", "responses", "memory_reads", "memory_writes", FAILURES)
LIMIT = 40
"""Messages of a line's history that are shown."""


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        ns: Simulated time.
        signal: Name of its text signal.
        text: The message, decoded.
        line: Line that it touches: region (-1: ordinary memory) and number; None for no line.
        epoch: Epoch of the region, if one was committed.
    """

    ns: float
    signal: str
    text: str
    line: tuple[int, int] | None = None
    epoch: int | None = None


def read(folder: Path) -> list[Message]:
    """Return the messages of a run from its folder; [] if it logged none.

    The last line of a killed simulation may be cut, so reading ends at the first damaged line.
    """
    found: list[Message] = []
    try:
        for line in read_text(folder / FILE).splitlines():
            found.append(typed(Message, parse_json(line)))
    except (OSError, DataError):
        pass
    return found


def texts(messages: Sequence[Message]) -> Texts:
    """Return the text signals of messages."""
    return {
        name: [(one.ns, one.text) for one in messages if one.signal == name] for name in SIGNALS
    }


def failure(messages: Sequence[Message]) -> Message | None:
    """Return the first finding of a checker, or None."""
    return next((one for one in messages if one.signal == FAILURES), None)


def line_history(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the last messages about the line whose check failed, one text each; () if none did.

    A response says whether its request found the line in the device (hit), or whether the device
    read the line or its record from memory first (miss).
    """
    failed = failure(messages)
    if failed is None or failed.line is None:
        return ()
    rows: list[str] = []
    missed = False
    for one in messages[: messages.index(failed) + 1]:
        if one.line != failed.line:
            continue
        note = f" epoch {one.epoch}" if one.epoch is not None else ""
        if one.signal == "memory_reads":
            missed = True
        elif one.signal == "responses":
            note += " (miss)" if missed else " (hit)"
            missed = False
        rows.append(f"{one.ns:12.1f} ns  {one.signal.removesuffix('s'):12}  {one.text}{note}")
    return tuple(rows[-LIMIT:])
