# SPDX-License-Identifier: Apache-2.0
"""Memory agent: AXI4 subordinate (active) and monitor of the device-memory port."""

from __future__ import annotations

from types import SimpleNamespace

from pyuvm import uvm_agent

from verif.mem.axi4_monitor import MemMonitor
from verif.mem.axi4_rules import AxiRules
from verif.mem.memory_config import MemConfig
from verif.mem.responder import MemResponder
from verif.mem.store import MemStore


class MemAgent(uvm_agent):
    """Memory agent; set `pins`, `cfg`, `seed` and `store_type` between construction and the build
    phase.

    A type override of `MemResponder` by the UVM factory changes what the memory answers.
    """

    pins: SimpleNamespace
    cfg: MemConfig
    seed: int = 0
    store_type: type[MemStore] = MemStore

    def build_phase(self) -> None:
        self.store = self.store_type(self.cfg.background, self.seed)
        self.rules = AxiRules(self.cfg.lines_log2, self.cfg.stuck_timeout)
        self.responder = MemResponder.create("responder", self)
        self.monitor = MemMonitor("monitor", self)

    def connect_phase(self) -> None:
        self.responder.pins = self.monitor.pins = self.pins
        self.responder.cfg = self.cfg
        self.responder.store = self.store
        self.responder.rng.seed(self.seed)
        self.monitor.rules = self.rules

    @property
    def idle(self) -> bool:
        """Return whether no transaction is pending in the memory."""
        return self.responder.idle

    def finish(self) -> list[str]:
        """Return the errors of the whole run, including unfinished transactions."""
        self.rules.finish(self.monitor.cycle)
        return self.rules.errors
