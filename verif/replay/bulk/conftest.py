# SPDX-License-Identifier: Apache-2.0
"""A device in Python in place of the RTL, for tests of what is around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models.device import DeviceModel
from models.nf_regs import REG_MAP
from models.regions import DeviceParams, RegionConfig
from verif.replay.backend import Outcome, SimulationJob
from verif.replay.bulk.block import ANSWERED, Block, Kind
from verif.replay.bulk.device import BulkFault, Figures
from verif.replay.conftest import capture as capture  # the same small capture

_NAMES = {register.address: name for name, register in REG_MAP.expand().items()}
Damage = Callable[[int, M2SRwD], M2SRwD | None]
"""(contributions so far, contribution) -> what the device makes of it; None: it is lost."""


class ModelDevice:
    """The device model, one operation after the other."""

    def __init__(self, params: DeviceParams, damage: Damage) -> None:
        self.model = DeviceModel(params)
        self.damage = damage
        self.shadow: dict[str, int] = {}
        self.contributions = 0
        self.cycles = 0
        self.twice = False

    def run(self, block: Block) -> None:
        for index, op in enumerate(block.ops):
            address, line, ldid = int(op["address"]), int(op["line"]), int(op["ldid"])
            value = 0
            if op["kind"] == Kind.WRITE:
                self._write(address, ldid, block.sent[line].tobytes())
            elif op["kind"] == Kind.READ:
                answer = self.model.step(M2SReq(ReqOp.MEM_RD, 0, address, ldid=ldid))
                assert isinstance(answer, S2MDRS)
                block.got[line] = np.frombuffer(answer.data, np.uint8)
                value = int(answer.poison)
            elif op["kind"] == Kind.REG_WRITE:
                self._register(_NAMES[address], line)
            else:
                value = self._value(_NAMES[address])
            block.answers[index] = ANSWERED | np.uint64(value)
            self.cycles += 1

    def _write(self, address: int, ldid: int, data: bytes) -> None:
        message = self.damage(
            self.contributions, M2SRwD(RwdOp.MEM_WR, 0, address, ldid=ldid, data=data)
        )
        self.contributions += 1
        if message is not None:
            for _ in range(1 + self.twice):
                self.model.step(message)

    def _register(self, name: str, value: int) -> None:
        self.shadow[name] = value
        if name == "CTRL":
            self.model.clear_counters()
        if name.endswith(".EPOCH"):
            region = int(name[7 : name.index("]")])
            leaf = {k.partition(".")[2]: v for k, v in self.shadow.items() if name[:9] == k[:9]}
            config = RegionConfig.from_registers(leaf)
            self.model.commit(region, config, value)

    def _value(self, name: str) -> int:
        if name == "DONE":
            return sum(self.model.region_status(r).done << r for r in range(8))
        if name.startswith("REGION["):
            status = self.model.region_status(int(name[7 : name.index("]")]))
            return status.complete_lines if name.endswith("LINES") else int(status.code) << 4
        return self.model.counters.get(name, 0)

    def figures(self) -> Figures:
        out = Figures()
        out.cycles = self.cycles
        return out

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


class BulkModelBackend:
    """Plays both simulators. `damage` and `twice` (contributions come twice) break the device,
    `dies_at` ends it after some rounds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damage: Damage = lambda _count, message: message
        self.dies_at: int | None = None
        self.rounds = 0
        self.twice = False
        self.build_seconds = 0.0

    def simulators(self, wanted: str) -> tuple[Sequence[str], str | None]:
        return (["verilator", "icarus"], None) if wanted == "both" else ([wanted], None)

    def workspace(self, name: str) -> Path:
        (self.folder / name).mkdir(exist_ok=True)
        return self.folder / name

    def simulate(self, job: SimulationJob) -> Outcome:
        raise AssertionError("nothing is driven at signal level")

    def bulk(self, simulator: str, parameters: Mapping[str, int]) -> BulkModelBackend:
        return self

    def open(self, folder: Path, mem_lines_log2: int, seed: int) -> ModelDevice:
        backend = self

        class Mortal(ModelDevice):
            def run(self, block: Block) -> None:
                if backend.rounds == backend.dies_at:
                    raise BulkFault("cycle 7: the simulator is gone")
                backend.rounds += 1
                super().run(block)

        device = Mortal(DeviceParams(mem_lines_log2=mem_lines_log2), lambda *a: self.damage(*a))
        device.twice = self.twice
        return device


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BulkModelBackend:
    """The device model behind the runner's interface; rounds of two lines: there are many."""
    for name in ("ROUND_LINES_LOG2", "SLOW_LINES_LOG2"):
        monkeypatch.setattr(f"verif.replay.bulk.job.{name}", 1)
    (tmp_path / "work").mkdir()
    return BulkModelBackend(tmp_path / "work")
