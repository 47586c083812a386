# SPDX-License-Identifier: Apache-2.0
"""Seeded runs of the memory agent on plain pins, clock by clock, and what they leave.

`python -m verif.mem.trace_bench` stores all traces anew.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from random import Random
from typing import Any

from neuron_fabric.data import read_json
from verif.mem.memory_config import FULL_STROBE
from verif.mem.test_responder import Port

TRACES = Path(__file__).with_name("traces.json")
RUNS = 48
"""Runs: all combinations of stalls, order, errors and damaged pins."""
CLOCKS = 300
_FLIPPED = ("valid", "ready", "id", "addr", "len", "size", "burst", "data", "strb", "last", "resp")


def trace(seed: int) -> dict[str, Any]:
    """Return counts, findings and a checksum of each channel of a seeded run of the memory.

    The bits of `seed` choose the settings; in a quarter of the runs pins flip.
    """
    rng = Random(seed)
    stalls: dict[str, Any] = {
        f"{name}_stall": rng.choice((0.0, 0.4)) for name in ("aw", "w", "ar", "b", "r")
    }
    rates: dict[str, Any] = {
        f"{name}_error_rate": rng.choice((0.0, 0.2)) for name in ("read", "write")
    }
    beat, latency = rng.choice((1, 1, 3)), rng.choice(((1, 1), (1, 12), (7, 7)))
    port = Port(
        seed,
        latency=latency,
        beat=beat,
        reorder=bool(seed & 1),
        interleave=bool(seed & 2),
        stuck_timeout=40,
        **stalls,
        **rates,
    )
    port.rules.stuck_timeout, port.held = 40, rng.choice((0.0, 0.5))
    sums: dict[str, int] = {}

    def note(name: str, value: object) -> None:
        sums[name] = zlib.crc32(repr(value).encode(), sums.get(name, 0))

    for clock in range(CLOCKS):
        if rng.random() < 0.25:
            line, beats, axi_id = rng.randrange(24), rng.randrange(1, 5), rng.randrange(3)
            if rng.random() < 0.5:
                port.read(axi_id, line, beats)
            else:
                strobe = rng.choice((FULL_STROBE, rng.getrandbits(64)))
                words = [(rng.getrandbits(512), strobe, rng.getrandbits(1)) for _ in range(beats)]
                port.write(axi_id, line, *words)
        if seed % 4 == 3 and rng.random() < 0.1:
            _flip(port, rng)
        port.clock()
        if seed % 8 == 5 and clock == CLOCKS // 2:
            port.memory._reset()
        for channel in ("aw", "w", "b", "ar", "r"):
            pins = {n: pin.value for n, pin in vars(port.pins).items() if n.startswith(channel)}
            note(channel.upper(), pins)
        note("waiting", (port.memory.waiting, port.memory.idle, port.rules.outstanding))
        if clock % 32 == 0:
            port.rules.stuck(clock)
    port.rules.finish(CLOCKS)
    note("data", port.beats)
    note("store", (sorted(port.store.lines.items()), sorted(port.store.poisoned)))
    errors = [text.partition(" to ")[0][:60] for text in port.rules.errors]
    return {"beats": len(port.beats), "cycle": port.memory.cycle, "errors": errors, **sums}


def _flip(port: Port, rng: Random) -> None:
    """Flip bits of a pin, as a broken manager would."""
    name = rng.choice([one for one in vars(port.pins) if one.endswith(_FLIPPED)])
    pin = getattr(port.pins, name)
    pin.value = pin.value ^ rng.choice((1, 1, 3, 64))


def stored() -> list[dict[str, Any]]:
    """Return the stored traces."""
    found: list[dict[str, Any]] = read_json(TRACES)
    return found


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(trace(seed), sort_keys=True) for seed in range(RUNS))
    TRACES.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
