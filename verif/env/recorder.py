# SPDX-License-Identifier: Apache-2.0
"""Recorder of all events that enter the checkers of a run, one JSON array a line.

The variable NF_RECORD names the file. `verif.recorded.replay_bench` replays it without a
simulator; verif/recorded/README.md lists the events.
"""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cocotbext.cxl.link.flit_event import FlitEvent
from neuron_fabric.data import DataError
from verif.mem.memory_config import MemBeat
from verif.regs.axil_agent import AxiLiteAccess

VARIABLE = "NF_RECORD"


class Recorder:
    """Writer of the events of one environment.

    Args:
        path: The file, to which each test of a process appends.
        clock: Returns the present cycle.
        busy: Returns whether a transfer on the memory port is in progress.

    Raises:
        DataError: The file cannot be written.
    """

    def __init__(self, path: Path, clock: Callable[[], int], busy: Callable[[], bool]) -> None:
        try:
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise DataError(f"{VARIABLE}: {path}: {error.strerror}") from None
        self._clock, self._busy = clock, busy
        self._last = (0, False)

    def put(self, kind: str, *values: Any) -> None:
        """Write an event, after a line with cycle and memory state if one of them has changed."""
        now = self._clock(), self._busy()
        if now != self._last:
            self._write(["at", now[0] - self._last[0], int(now[1])])
            self._last = now
        self._write([kind, *values])

    def _write(self, line: list[Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._file.flush()

    def flit(self, event: FlitEvent) -> None:
        """Write a flit on the pins of the link."""
        self.put("flit", event.direction.value, f"{event.protocol_id:04x}", f"{event.flit:0132x}")

    def beat(self, beat: MemBeat) -> None:
        """Write a beat on the memory port."""
        fields = dataclasses.asdict(beat) | {"data": f"{beat.data:0128x}"}
        self.put("beat", *(int(v) if isinstance(v, int) else v for v in fields.values()))

    def begin(self, access: AxiLiteAccess) -> None:
        """Write the acceptance of an access on the register bus."""
        self.put("begin", int(access.write), access.address, access.data, access.strobe)

    def end(self, access: AxiLiteAccess) -> None:
        """Write the answer of the oldest read, or of the oldest write, on the register bus."""
        self.put("end", int(access.write), access.data, int(access.resp))

    def wrap(self, owner: Any, method: str) -> None:
        """Write each call of a method that takes numbers, before the method runs."""
        called = getattr(owner, method)

        def recorded(*values: Any) -> Any:
            self.put(method, *values)
            return called(*values)

        setattr(owner, method, recorded)


def listeners(env: Any) -> list[tuple[Any, Callable[[Any], None]]]:
    """Return each analysis port of an `NfEnv` with the function that records what it publishes.

    The list is empty unless NF_RECORD names a file. Calls that reach the checkers on other ways are
    recorded from now on.
    """
    if not (path := os.environ.get(VARIABLE)):
        return []
    scoreboard, cfg = env.scoreboard, env.cfg
    recorder = Recorder(Path(path), scoreboard.clock, scoreboard.memory_busy)
    settings = {
        "seed": f"{cfg.seed:x}",
        "background": cfg.mem.background.value,
        "budget": cfg.order_budget,
        "marks_log2": env.coverage.pair.marks_log2,
        "scoreboard": type(scoreboard).__name__,
        "counters": cfg.check_counters,
        "grants": [env.link.link.grant_plain, env.link.link.grant_data],
    }
    recorder.put("device", dataclasses.asdict(cfg.hw), settings)
    for owner, method in (
        (env.predictor, "reset"),
        (env.link_state, "retrain"),
        (env.predictor.interrupts, "pin"),
        (scoreboard.judge, "poison"),
        (scoreboard, "finish"),
    ):
        recorder.wrap(owner, method)
    return [
        (env.cxl.link_port, recorder.flit),
        (env.cxl.phy_port, lambda up: recorder.put("phy", int(up))),
        (env.mem.monitor.ap, recorder.beat),
        (env.axil.monitor.begin_port, recorder.begin),
        (env.axil.monitor.ap, recorder.end),
    ]
