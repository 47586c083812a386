# SPDX-License-Identifier: Apache-2.0
"""Draws register accesses: reads of everything that is compared, and writes that change what the
device does while traffic runs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from models.parameters import DeviceParams
from verif.scenario.live_region import LiveRegion
from verif.scenario.scenario_data import Do, Operation
from verif.scenario.weights import Weights
from verif.scoreboard.register_predictor import COUNTERS

_STATUS = ("STATUS", "DONE", "FALLBACK", "ERR_INFO", "IRQ_STATUS", "LINK_STATE", "ERR_ADDR_LO")
_LEAVES = ("STATUS", "COMPLETE_LINES", "EPOCH")


def register_operations(
    weights: Weights, rng: random.Random, hardware: DeviceParams, live: Sequence[LiveRegion]
) -> list[Operation]:
    """A register access, or a few that belong together; of the knob "register"."""
    kind = weights.pick(rng, "register")
    idle, background = rng.random() < 0.4, rng.random() < 0.3

    def write(name: str, value: int, wait: bool = False) -> Operation:
        return Operation(
            Do.SET, name=name, value=value, idle=wait, background=background and not wait
        )

    def get(name: str) -> Operation:
        return Operation(Do.GET, name=name, idle=idle, background=background and not idle)

    if kind == "status":
        return [get(rng.choice(_STATUS))]
    if kind == "counter":
        return [get(rng.choice(COUNTERS))]
    if kind == "region":
        number = rng.choice(live).number if live else rng.randrange(hardware.regions)
        return [get(f"REGION[{number}].{rng.choice(_LEAVES)}")]
    if kind == "irq enable":
        return [write("IRQ_ENABLE", rng.getrandbits(7))]
    if kind == "irq clear":
        return [write("IRQ_STATUS", rng.getrandbits(7), idle), get("IRQ_STATUS")]
    if kind.startswith("clear counters"):
        return [Operation(Do.CLEAR, idle=kind.endswith("idle"))]
    if kind == "capacity":
        window = rng.choice((0, 1, 2, rng.randint(3, 255), 256, 300))
        threshold = rng.choice((0, 1, 2, rng.randint(3, 255), 256, max(0, window - 1), window))
        return [write("CAP_WINDOW", window), write("CAP_THRESHOLD", threshold & 0x1FF)]
    if kind == "devload":
        levels = [rng.choice((0, 1, 2, rng.randint(3, 255), 255)) for _ in range(3)]
        return [write("DEVLOAD_THRESHOLD", levels[2] << 16 | levels[1] << 8 | levels[0])]
    if kind == "multi header":
        return [write("CTRL.MULTI_HEADER", rng.getrandbits(1))]
    if kind == "fallback clear":
        return [write("FALLBACK", rng.getrandbits(hardware.regions), idle), get("FALLBACK")]
    return [Operation(Do.SET, name="ERR_INFO", value=1, idle=True), get("ERR_INFO")]
