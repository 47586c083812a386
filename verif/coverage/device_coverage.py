# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of the controller, composed from the points of each feature.

`NfCoverage` passes judged operations, commits, registers and memory beats on to them.
"""

from collections.abc import Mapping
from typing import Any

from models.access_decode import Cause, Kind
from models.aggregated_line import AggregatedLine
from models.expected_response import ExpectedResponse
from models.modes import Mode
from models.regions import RegionConfig
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Judged
from verif.coverage.engine_points import (
    CountPoints,
    EnginePoints,
    Fp32Points,
    IntPoints,
    Tern5Points,
)
from verif.coverage.link_points import LinkFaultPoints, LinkPoints, LinkStatePoints
from verif.coverage.pair_points import PairPoints
from verif.coverage.region_points import CapacityPoints, EpochPoints, RegionPoints, ViewPoints
from verif.coverage.register_points import RamPoints, RegisterPoints
from verif.coverage.transaction_points import ControlPoints, MemoryPortPoints, TransactionPoints
from verif.coverage.white_box import WhiteBoxPoints
from verif.mem.memory_config import MemBeat
from verif.scoreboard.memory_port import EVICTION_ID
from verif.scoreboard.observer import Observer
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit
from verif.scoreboard.scoreboard import Scoreboard


class NfCoverage(Observer):
    """Functional coverage of the controller, sampled as an observer of the scoreboard.

    The environment also calls `beat` and `register` with the results of its monitors.
    """

    def __init__(self) -> None:
        model = self.model = CoverModel()
        self.transaction = TransactionPoints(model)
        self.engine = EnginePoints(model)
        self.count = CountPoints(model)
        self.fp32 = Fp32Points(model)
        self.int_codes = IntPoints(model)
        self.tern5 = Tern5Points(model)
        self.memory_port = MemoryPortPoints(model)
        self.epoch = EpochPoints(model)
        self.region = RegionPoints(model)
        self.view = ViewPoints(model)
        self.control = ControlPoints(model)
        self.capacity = CapacityPoints(model)
        self.pair = PairPoints(model)
        self.white_box = WhiteBoxPoints(model)
        self.ram = RamPoints(model)
        self.fields = RegisterPoints(model)
        self.link = LinkPoints(model)
        self.link_state = LinkStatePoints(model)
        self.link_fault = LinkFaultPoints(model)

    def watch(self, scoreboard: Scoreboard) -> None:
        """Set the scoreboard, for looking up descriptors and for reporting illegal bins."""
        self.scoreboard = scoreboard
        self.device, self.memory = scoreboard.model, scoreboard.memory
        self.model.on_illegal = scoreboard.error
        self.pair.slots = scoreboard.model.params.slots
        self.pair.generations = (1 << scoreboard.model.params.gen_w) - 1
        self.pair.credits = self.link.credits_of_device
        self.fields.regions = len(scoreboard.configs)

    def finished(self, top: Any = None) -> CoverModel:
        """Return the coverage model at the end of a run, with all pending samples counted.

        Args:
            top: Simulated design, whose white-box counters are added; None leaves them out.
        """
        self.fp32.flush()
        if top is not None:
            self.white_box.take(top)
        return self.model

    def requested(self, op: Op) -> None:
        config = None if op.window is None else self.scoreboard.configs[op.window]
        self.pair.requested(op, config, self.scoreboard.clock())

    def begun(self, region: int, closes: bool) -> None:
        self.pair.begun(region, closes, self.scoreboard.clock())

    def register_read(self, name: str, data: int, certain: Mapping[str, int]) -> None:
        self.fields.read(name, data, certain)

    def closed(self, region: int, busy: bool) -> None:
        self.view.closed(busy)
        self.pair.closed(region, self.scoreboard.clock())

    def raced(self, first: Commit, last: Commit) -> None:
        self.control.raced(first, last)

    def status_read(self, op: Op, words: list[int], exact: bool) -> None:
        self.view.status(op, words, exact)
        if exact:
            self.fields.view(op)

    def answered(self, op: Op, config: RegionConfig | None) -> None:
        self.transaction.op(op, config)
        self.pair.answered(op, self.scoreboard.clock())
        if config is not None and config.mode.bits:
            self.int_codes.op(op, config)
        if op.access.cause is Cause.UNMAPPED:
            self.transaction.unmapped(op.msg.addr, self.scoreboard.configs)
        self.region.op(op)
        self.view.op(op, config)
        self.control.op(op, self.device.control)
        self.capacity.op(op)

    def judged(
        self, op: Op, before: AggregatedLine, after: AggregatedLine, expected: ExpectedResponse
    ) -> None:
        access = op.access
        config = self.device.config(access.region)
        if config is None:
            return
        self.fields.view(op)
        status = self.device.region_status(access.region)
        one = Judged(op, config, before, after, status.closed, status.done)
        self.view.judged(one)
        if status.closed or access.kind is Kind.INFO:  # their other points know open rounds alone
            return
        if config.mode.bits:  # a line of theirs goes the way of G_BINARY's
            self.int_codes.judged(one)
            return
        if config.mode is Mode.G_TERN5:
            self.tern5.judged(one)
            return
        self.engine.judged(one)
        self.epoch.judged(one)
        self.region.judged(one)
        if access.kind is Kind.RESULT and not config.mode.low_bit:
            self.fp32.sum(after.data[worker] for worker in sorted(after.data))
        elif access.kind is Kind.RESULT:
            self.count.result(config, after.reduced(config, self.device.params.cnt_max))
        elif access.kind is Kind.PLANE:
            data = getattr(expected.response, "data", b"")
            self.count.plane(config.mode, access.selector - 8, data)

    def committed(
        self, region: int, config: RegionConfig, epoch: int, code: int, busy: bool
    ) -> None:
        self.pair.committed(region, config, code == 0)
        self.epoch.committed(region, config, epoch, code, busy)
        self.region.committed(region, code)
        if config.mode is Mode.G_TERN5:
            self.tern5.committed(config, code)
        self.int_codes.committed(config, code)
        if code == 0:
            self.engine.committed(region)
            self.transaction.placed(self.scoreboard.configs, self.device.params)

    def beat(self, beat: MemBeat) -> None:
        """Count the bins of a beat on the device-memory port."""
        record, place = self.memory.located(beat)
        if record is not None and beat.axi_id == EVICTION_ID:
            self.pair.beat(beat, (record.region, record.index), self.scoreboard.clock())
        config = None if record is None else self.scoreboard.configs[record.region]
        if beat.write and beat.poison and self.memory.may_poison():
            return  # damaged inside the device: see RamPoints
        self.memory_port.beat(beat, place, record, config.mode if config else None)
        if record is None or record.beat:
            return
        self.region.record(record.region, place, beat.write)
        if beat.write and beat.axi_id == EVICTION_ID:
            self.engine.write_back(record.region, record.index)

    def register(self, name: str, value: int, write: bool = False) -> None:
        """Count the bins of a register access.

        Args:
            name: Name of the register, with its region: REGION[2].STATUS.
            value: Value read or written.
            write: Whether it is a write.
        """
        self.control.register(name, value, write)
        self.ram.register(name, value, write)
        if write:
            self.capacity.written(name, value)
        else:
            self.pair.register(name, value)
            self.engine.register(name, value)
            self.capacity.register(name, value)
