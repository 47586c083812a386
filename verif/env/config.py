# SPDX-License-Identifier: Apache-2.0
"""Configuration of one run: parameters of the device, traffic profile, memory, link."""

import enum
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cocotbext.cxl.config import CxlConfig, ReadyPattern
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.wire.packer import PackOptions
from models.device import DeviceModel
from models.parameters import DeviceParams
from verif.mem.memory_config import MemConfig
from verif.mem.store import MemStore
from verif.parameters import device_params
from verif.scoreboard.register_predictor import RegisterPredictor
from verif.scoreboard.scoreboard import Scoreboard

CLOCK_NS = 2
"""Any period will do: the design has one clock. A flit at x8 takes 2.125 ns."""


class Profile(enum.StrEnum):
    """Traffic profile: behaviour of host and memory around the device."""

    STREAMING = "streaming"  # the host packs as densely as the link allows, fast memory
    IDLE = "idle"  # gaps between flits and sparse packing
    BACKPRESSURE = "backpressure"  # TX held, slow and reordering memory, few response credits


def scale() -> float:
    """Return the factor on the number of transactions of every sequence: NF_SCALE, 1 by default."""
    return float(os.environ.get("NF_SCALE", "1"))


@dataclass(slots=True)
class Parts:
    """Classes of the memory and of the checkers; a negative twin puts a subclass with a fault here.

    Components (`verif.mem.responder.MemResponder`) are overridden by the UVM factory instead.
    """

    store: type[MemStore] = MemStore
    model: type[DeviceModel] = DeviceModel
    scoreboard: type[Scoreboard] = Scoreboard
    predictor: type[RegisterPredictor] = RegisterPredictor


@dataclass(slots=True)
class EnvConfig:
    """Configuration of one run, which tests change in `configure` before the environment is built.

    Attributes:
        profile: Traffic profile.
        seed: Seed of all draws.
        hw: Parameters of the device.
        mem: Behaviour of the memory; the profile sets latency and stalls.
        scale: Factor on the number of transactions.
        stuck_clocks: Cycles without a response after which a request counts as stuck.
        order_budget: Steps after which the search for an order of racing requests gives up.
        check_counters: Whether counters are compared at the end.
        parts: Classes that a negative twin replaces.
        shape_link: Called with the settings of the host side of the link, to change them.
    """

    profile: Profile = Profile.STREAMING
    seed: int = 0
    hw: DeviceParams = field(default_factory=device_params)
    mem: MemConfig = field(default_factory=MemConfig)
    scale: float = field(default_factory=scale)
    stuck_clocks: int = 20000
    order_budget: int = 10000
    check_counters: bool = True
    parts: Parts = field(default_factory=Parts)
    shape_link: Callable[[CxlConfig], None] = lambda _link: None

    def __post_init__(self) -> None:
        self.mem.lines_log2 = self.hw.mem_lines_log2
        if self.profile is Profile.BACKPRESSURE:
            mem = replace(self.mem, latency=(2, 40), reorder=True, interleave=True)
            mem.aw_stall = mem.w_stall = mem.ar_stall = mem.b_stall = mem.r_stall = 0.3
            self.mem = mem
        elif self.profile is Profile.IDLE:
            self.mem.latency = (1, 12)
            self.mem.reorder = True

    def count(self, transactions: float) -> int:
        """Return a number of transactions multiplied by `scale`, at least 1."""
        return max(1, round(transactions * self.scale))


def cxl_config(cfg: EnvConfig) -> CxlConfig:
    """Return the settings of the host side of the link for a traffic profile, with link-level
    retry.
    """
    seed = cfg.seed * 2 + 1
    if cfg.profile is Profile.STREAMING:
        config = CxlConfig.dense(seed)
    elif cfg.profile is Profile.IDLE:
        config = CxlConfig.sparse(seed)
        config.idle_rate = max(config.idle_rate, 0.3)
    else:
        rng = random.Random(seed)
        link = LinkConfig(
            rng=rng,
            pack=PackOptions(dense=rng.random() < 0.5, rng=rng),
            grant_plain=8,
            grant_data=4,
            return_delay=(0, 20),
        )
        config = CxlConfig(link=link, rng=rng, ready=ReadyPattern(0.5, hold=(1, 8)))
    config.link.retry = True
    return config
