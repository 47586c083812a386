# SPDX-License-Identifier: Apache-2.0
"""The device-memory port: its beats, errors and poison, by who asked for them."""

from __future__ import annotations

from verif.axi import Resp
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.mem.memory_config import FULL_STROBE, MemBeat

ERRORS = (Resp.SLVERR.name, Resp.DECERR.name)
READ_PLACES = ("MEMORY", "IDENTITY", "FP32", "FP32 bookkeeping", "bookkeeping", "plane")
WRITE_PLACES = ("MEMORY", "IDENTITY", "FP32", "FP32 partial", "eviction", "initialiser")


class MemoryPortPoints:
    """Feed it with `beat`."""

    def __init__(self, model: CoverModel) -> None:
        self.memory = model.point(
            "memory",
            "what happens on the device-memory port",
            [
                "read",
                "write full",
                "write partial",
                "write poison",
                "read poison",
                "read error",
                "write error",
            ],
            test="test_memory_faults::memory_errors",
            at_least=CHEAP,
        )
        self.side_band = model.point(
            "memory side-band",
            "every error and poison of the memory met every path of the device to it",
            [f"read {place} {kind}" for place in READ_PLACES for kind in (*ERRORS, "poison")]
            + [f"write {place} {kind}" for place in WRITE_PLACES for kind in ERRORS]
            + [f"write {place} poison" for place in ("MEMORY", "IDENTITY")],
            test="test_memory_faults::record_errors",
            at_least=CHEAP,
        )

    def beat(self, beat: MemBeat, place: str) -> None:
        """A beat on the device-memory port; `place`: as `MemoryPort.place` names it."""
        kind = Resp(beat.resp).name if beat.error else "poison" if beat.poison else ""
        if kind:
            self.side_band.hit(f"{'write' if beat.write else 'read'} {place} {kind}")
        if beat.error:
            self.memory.hit(f"{'write' if beat.write else 'read'} error")
        elif not beat.write:
            self.memory.hit("read poison" if beat.poison else "read")
        else:
            self.memory.hit("write full" if beat.strobe == FULL_STROBE else "write partial")
            if beat.poison:
                self.memory.hit("write poison")
