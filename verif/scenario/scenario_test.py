# SPDX-License-Identifier: Apache-2.0
"""Base test of the scenario generator: draw or read a scenario, write it next to the log, play
it.

The player is a sequence that drives the operations, and waits where they say so. It also waits
where the scoreboard could not judge, so any scenario may be played, also one that was cut down.
"""

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar

import cocotb

from cocotbext.cxl.config import CxlConfig, ReadyPattern
from cocotbext.cxl.wire.messages import M2SMessage, M2SReq, ReqOp
from models.commit_check import CommitCode, check_commit
from models.modes import Mode
from models.regions import RegionConfig, state_lines
from neuron_fabric.data import DataError, read_text
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.mem.memory_config import Background, MemConfig
from verif.scenario import weights
from verif.scenario.generator import OPERATIONS, generate
from verif.scenario.scenario_data import Do, Link, Memory, Operation, Region, Scenario, parse
from verif.scenario.weights import USES
from verif.sequences.base import NfSequence


def configure(cfg: EnvConfig, scenario: Scenario) -> None:
    """Set memory and link settings of a run's configuration to those of the scenario."""
    apply_memory(cfg.mem, scenario.memory)
    cfg.mem.background = Background(scenario.background)
    cfg.shape_link = lambda link: apply_link(link, scenario.link)


def apply_memory(target: MemConfig, memory: Memory) -> None:
    """Copy latency, stalls and order of a scenario's memory into a memory agent's settings.

    This may be done during the run.
    """
    target.latency = memory.latency
    for name in ("aw_stall", "w_stall", "ar_stall", "b_stall", "r_stall", "reorder", "interleave"):
        setattr(target, name, getattr(memory, name))


def apply_link(target: CxlConfig, link: Link) -> None:
    """Copy the link settings of a scenario into those of the host side, before the host is
    built.
    """
    pack = target.link.pack
    pack.dense, pack.empty_weight = link.dense, link.empty_weight
    target.idle_rate = link.idle_rate
    target.ready = ReadyPattern(link.ready_rate, hold=link.ready_hold)
    for name in (
        *("grant_plain", "grant_data", "return_delay", "return_batch"),
        *("ak_in_headers", "credits_in_headers", "idle_flit_rate"),
    ):
        setattr(target.link, name, getattr(link, name))


class ScenarioSequence(NfSequence):
    """Sequence that plays a scenario.

    Attributes:
        scenario: Scenario to play.
        done: Number of operations begun.
    """

    scenario: Scenario | None = None
    done: int = 0

    async def body(self) -> None:
        assert self.scenario is not None
        self.regions = self.scenario.regions
        self.model = self.env.scoreboard.model
        self.active: dict[int, RegionConfig] = {}
        """Descriptors by region as the last commits wrote them, taken or not."""
        self.moving: list[RegionConfig] = []
        """Descriptors of commits under way that change a region."""
        self.spoilt: tuple[int, ...] = ()
        self.task: cocotb.task.Task[None] | None = None
        for operation in self.scenario.operations:
            self.done += 1
            if operation.idle:
                await self.quiet()
            await self._play(operation)
        await self.quiet()
        await self.initialised()

    async def quiet(self) -> None:
        """Wait until every request is answered and every register access is done."""
        await self._registers_done()
        await self.drain()

    async def _play(self, operation: Operation) -> None:
        do, registers = operation.do, self.registers
        if do in (Do.WRITE, Do.READ, Do.REQUEST):
            await self._request(operation)
        elif do is Do.SET:
            await self._register(operation, registers.write(operation.name, operation.value))
        elif do is Do.GET:
            await self._register(operation, registers.read(operation.name))
        elif do is Do.WAIT:
            await self.cycles(operation.value)
        elif do is Do.MEMORY and operation.memory is not None:
            apply_memory(self.mem, operation.memory)
        elif do in (Do.COMMIT, Do.CLEAR, Do.FAULTS):
            work = {Do.COMMIT: self._commit, Do.CLEAR: self._clear, Do.FAULTS: self._faults}
            await work[do](operation)

    # -- requests -----------------------------------------------------------------------------
    async def _request(self, operation: Operation) -> None:
        message = self.message(operation)
        inert = self.env.host.line_key(message) is None
        # Whether a refused access races with the commit of what it depends on cannot be told.
        if inert or any(self._touches(message, config) for config in self.moving):
            await self._registers_done()
        if not inert or message.opcode != ReqOp.MEM_SPEC_RD:
            await self.issue(message, operation.limit or None)

    def message(self, operation: Operation) -> M2SMessage:
        """Return the request of an access operation; a line index beyond the region wraps
        around.
        """
        addr = operation.addr
        if operation.region >= 0:
            config = self.regions[operation.region].config
            addr = config.address(operation.selector, operation.line % config.lines)
        if operation.do is not Do.WRITE:
            return M2SReq(operation.opcode, 0, addr, ldid=operation.ldid)
        data, be = bytes.fromhex(operation.data), None if operation.be < 0 else operation.be
        return self.write_msg(addr, data, operation.ldid, operation.poison, be)

    def _touches(self, message: M2SMessage, config: RegionConfig) -> bool:
        line = message.addr >> 6
        inside = 0 <= line - config.base_line < config.window_lines
        return inside or 0 <= line - config.state_line < state_lines(config, self.hw.cnt_w)

    # -- registers ----------------------------------------------------------------------------
    async def _registers_done(self) -> None:
        if self.task is not None:
            await self.task
            self.task = None
            self.moving.clear()

    async def _register(self, operation: Operation, access: Coroutine[Any, Any, Any]) -> None:
        """Start a register access after the earlier ones, and wait for it unless it is in the
        background.

        Args:
            operation: Operation.
            access: Coroutine that does the access.
        """
        await self._registers_done()
        self.task = cocotb.start_soon(self._run(access))
        if not operation.background:
            await self._registers_done()

    @staticmethod
    async def _run(access: Coroutine[Any, Any, Any]) -> None:
        await access

    async def _commit(self, operation: Operation) -> None:
        """Write the shadow registers and EPOCH of a region.

        A commit that changes the descriptor waits until no request is in flight, since a racing
        request could be decoded with either descriptor.
        """
        region = self.regions[operation.region]
        old = self.active.get(region.number)
        await self._registers_done()
        if old == region.config:
            await self.env.host.drain_if(lambda msg: self.env.host.line_key(msg) is None)
        else:
            await self.drain()
            self.moving += [config for config in (old, region.config) if config is not None]
            self._heal(region)
        self.active[region.number] = region.config
        access = self.env.registers.commit(region.number, region.config, operation.value)
        await self._register(operation, access)

    def _heal(self, region: Region) -> None:
        """Remove poison from memory lines that a commit turns into records.

        When a record is fetched is micro-architecture, so the loss could race with requests.
        """
        config, configs = region.config, self.env.scoreboard.configs
        others = [c for number, c in enumerate(configs) if c and number != region.number]
        if check_commit(self.cfg.hw, config, others) is not CommitCode.OK:
            return
        first = config.state_line
        end = first + state_lines(config, self.cfg.hw.cnt_w)
        if config.mode is Mode.FP32:
            first += config.workers * config.lines
        poisoned = self.env.mem.store.poisoned
        if config.mode is not Mode.IDENTITY:
            poisoned.difference_update([line for line in poisoned if first <= line < end])

    async def _clear(self, operation: Operation) -> None:
        """Write CTRL.CLEAR_COUNTERS; unless the operation is idle, repeat it with nothing in
        flight.

        A clear under traffic leaves the counters known in a range only.
        """
        await self.env.registers.write("CTRL.CLEAR_COUNTERS", 1)
        if not operation.idle:
            await self.quiet()
            await self.env.registers.write("CTRL.CLEAR_COUNTERS", 1)

    # -- errors of the memory -----------------------------------------------------------------
    async def _faults(self, operation: Operation) -> None:
        """Set errors and poison of memory, once nothing is in flight.

        The model gets those on host data here; those on records are reported to it by the memory
        port.
        """
        await self.quiet()
        memory, model = self.env.cfg.mem, self.model
        memory.read_error_rate = operation.read_error_rate
        memory.write_error_rate = operation.write_error_rate
        for lines, *targets in (
            (operation.read_errors, memory.read_error_lines, model.read_errors),
            (operation.write_errors, memory.write_error_lines, model.write_errors),
        ):
            for target in targets:
                target.clear()
                target.update(lines)
        store = self.env.mem.store
        store.poisoned.difference_update(self.spoilt)
        self.spoilt = operation.spoilt
        for line in operation.spoilt:
            store.poison(line)
        for line in operation.poisoned:
            store.poison(line)
            self.env.scoreboard.judge.poison(line)


SEED_MASK = (1 << 64) - 1
STUCK_CLOCKS = 40_000
INIT_CLOCKS, INIT_LINES = 10, 1 << 16
"""A line of a large region may wait until the initialiser has come to it, which gives way to others
for up to 7 clocks a record, while memory stalls. More lines of a region count as so many: a hang
has to be told before the run's own time-out."""


class ScenarioTest(NfBaseTest):
    """Test that plays a drawn scenario, or the one in the file that NF_SCENARIO names.

    Attributes:
        use: Directed use of the generator (a key of `weights.USES`), or "mixed" for the default
            weights. NF_WEIGHTS overrides the weights.
    """

    use: ClassVar[str] = "mixed"

    def configure(self, cfg: EnvConfig) -> None:
        given = os.environ.get("NF_SCENARIO")
        if given:
            self.drawn = read_scenario(given, cfg)
            cfg.seed = self.drawn.seed
        else:
            cfg.seed &= SEED_MASK  # cocotb's have 160 bits
            table = weights.Weights(USES.get(self.use, {}), weights.from_environment())
            self.drawn = generate(cfg.seed, cfg.hw, table, cfg.count(OPERATIONS))
        configure(cfg, self.drawn)
        records = sum(min(region.config.lines, INIT_LINES) for region in self.drawn.regions)
        cfg.stuck_clocks = STUCK_CLOCKS + INIT_CLOCKS * records
        self._keep()

    def _keep(self) -> None:
        """Write the scenario as `scenario-USE.json` next to the run's metrics, before the run can
        fail.
        """
        metrics = os.environ.get("NF_METRICS")
        if metrics:
            file = Path(metrics).with_name(f"scenario-{self.use}.json")
            file.write_text(self.drawn.text(), encoding="utf-8")

    async def scenario(self) -> None:
        regions, operations = len(self.drawn.regions), len(self.drawn.operations)
        self.logger.info(
            "scenario: seed %d, %d descriptors, %d operations",
            *(self.drawn.seed, regions, operations),
        )
        await ScenarioSequence(self.env, scenario=self.drawn).run()


def read_scenario(path: str, cfg: EnvConfig) -> Scenario:
    """Return the scenario in a file.

    Raises:
        DataError: The file cannot be read, is no scenario, or is for another device than the build.
    """
    try:
        found = parse(read_text(path))
    except OSError as error:
        raise DataError(f"NF_SCENARIO: {path}: {error.strerror}") from None
    except DataError as error:
        raise DataError(f"NF_SCENARIO: {path}: {error}") from None
    if found.hardware != cfg.hw:
        raise DataError(f"NF_SCENARIO: {path}: is for {found.hardware}, this build is {cfg.hw}")
    return found
