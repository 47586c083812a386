# SPDX-License-Identifier: Apache-2.0
"""Configuration of one run of the environment: hardware parameters, traffic profile, memory."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from cocotbext.cxl.config import CxlConfig
from models.device import DeviceParams
from verif.mem.memory_config import MemConfig
from verif.regs.regmap import HwParams

CLOCK_NS = 2
"""Any period will do: the design has one clock. A flit at x8 takes 2.125 ns."""


class Profile(enum.StrEnum):
    """How the outside of the device behaves. Every sequence runs under all of them."""

    STREAMING = "streaming"  # the host packs as densely as the link allows, fast memory
    IDLE = "idle"  # gaps between flits and sparse packing
    BACKPRESSURE = "backpressure"  # TX held, slow and reordering memory, few response credits


def hardware() -> HwParams:
    """Parameters of the build that is being simulated, as the runner names them."""
    given = json.loads(os.environ.get("NF_PARAMETERS", "{}"))
    known = {name.upper(): name for name in HwParams.__dataclass_fields__}
    return HwParams(**{known[name]: int(value) for name, value in given.items() if name in known})


def scale() -> float:
    """Multiplies the number of transactions of every sequence (NF_SCALE; 1 by default)."""
    return float(os.environ.get("NF_SCALE", "1"))


@dataclass(slots=True)
class EnvConfig:
    """One run. Tests change it in `configure` before the environment is built.

    `shape_link` may change the host link partner that the profile has chosen.
    """

    profile: Profile = Profile.STREAMING
    seed: int = 0
    hw: HwParams = field(default_factory=hardware)
    mem: MemConfig = field(default_factory=MemConfig)
    scale: float = field(default_factory=scale)
    stuck_clocks: int = 20000
    judge_budget: int = 10000
    check_counters: bool = True
    shape_link: Callable[[CxlConfig], None] = lambda _link: None

    def __post_init__(self) -> None:
        self.mem.lines_log2 = self.hw.mem_lines_log2
        if self.profile is Profile.BACKPRESSURE:
            mem = self.mem = self.mem.with_stall(0.3)
            mem.latency = (2, 40)
            mem.reorder = True
            mem.interleave = True
        elif self.profile is Profile.IDLE:
            self.mem.latency = (1, 12)
            self.mem.reorder = True

    @property
    def device(self) -> DeviceParams:
        """The same parameters, as the model takes them."""
        hw = self.hw
        return DeviceParams(hw.regions, hw.slots, hw.cnt_w, hw.mem_lines_log2)

    def count(self, transactions: int) -> int:
        """A number of transactions, scaled."""
        return max(1, round(transactions * self.scale))
