# SPDX-License-Identifier: Apache-2.0
"""Log of the messages of a run as the scoreboard decodes them, one JSON object a line.

The variable NF_MESSAGE_LOG names the file. The runner sets it where it records waves; it makes text
signals of the log (`scripts/waves`) and shows the history of a failing line.
"""

import json
import os
from collections import deque
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from cocotb.utils import get_sim_time

from cocotbext.cxl.monitor import ObservedRequest, ObservedResponse
from cocotbext.cxl.wire.messages import S2MNDR, Completion, completion_of
from models.access_decode import Access
from models.device import MEMORY_KEY
from verif.mem.memory_config import MemBeat
from verif.scoreboard.operations import describe, describe_near
from verif.scoreboard.scoreboard import Scoreboard

VARIABLE = "NF_MESSAGE_LOG"


class MessageLog:
    """Writer of the log of one test; a test of the same process appends to it.

    Args:
        path: The file.
        scoreboard: Decodes requests and names the owners of memory lines.
    """

    def __init__(self, path: Path, scoreboard: Scoreboard) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._scoreboard = scoreboard
        self._waiting: dict[tuple[bool, int, int], deque[Hashable]] = {}

    def request(self, observed: ObservedRequest) -> None:
        """Log a request with the line that it touches and the epoch of its region."""
        message = observed.message
        access: Access = self._scoreboard.model.decode(message, observed.misframed)
        line = self._scoreboard.model.line_key(message)
        where = access.kind.name
        if access.region is not None:
            where += f" region {access.region} selector {access.selector} line {access.line}"
        epoch = self._scoreboard.epochs.get(access.region) if access.region is not None else None
        self._put("requests", f"{where}: {describe(message)}", line, epoch)
        due = completion_of(message)
        if due is not Completion.NONE:
            key = (due is Completion.NDR, message.tag, message.ldid)
            self._waiting.setdefault(key, deque()).append(line)

    def response(self, observed: ObservedResponse) -> None:
        """Log a response with the line of its request."""
        message = observed.message
        key = (isinstance(message, S2MNDR), message.tag, message.ldid)
        lines = self._waiting.get(key)
        self._put("responses", describe_near(message, 0), lines.popleft() if lines else None)

    def beat(self, beat: MemBeat) -> None:
        """Log a beat on the memory port; the line is that whose record or data it moves."""
        record, place = self._scoreboard.memory.located(beat)
        line = (record.region, record.index) if record else (MEMORY_KEY, beat.line)
        of = f" of region {record.region} line {record.index}" if record else ""
        fault = " error" if beat.error else " poison" if beat.poison else ""
        signal = "memory_writes" if beat.write else "memory_reads"
        self._put(signal, f"{beat.line:#x} {place}{of}{fault}", line)

    def failure(self, found: str) -> None:
        """Log the first finding of the test; its line is the failing one."""
        self._put("failures", found.splitlines()[0], getattr(found, "line", None))

    def _put(self, signal: str, text: str, line: Any, epoch: int | None = None) -> None:
        entry = {"ns": get_sim_time("ns"), "signal": signal, "text": text, "line": line}
        self._file.write(json.dumps({**entry, "epoch": epoch}) + "\n")


def from_environment(scoreboard: Scoreboard) -> MessageLog | None:
    """Return a log if NF_MESSAGE_LOG names a file, else None."""
    path = os.environ.get(VARIABLE)
    return MessageLog(Path(path), scoreboard) if path else None
