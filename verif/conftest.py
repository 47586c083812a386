# SPDX-License-Identifier: Apache-2.0
"""Device model in place of both simulators, for tests of `nf replay`, and captures for them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models import integer_codes as oracle
from models.commit_check import CommitCode
from models.device import DeviceModel
from models.fp32 import ordered_sum
from models.int_sums import reduce_int
from models.line_packing import F32, U8, pack_int
from models.modes import Mode, Tie
from models.parameters import DeviceParams
from models.regions import RegionConfig
from models.register_map import REG_MAP
from models.votes import count_planes, reduce_binary, reduce_ternary
from neuron_fabric.capture import write_capture
from scripts.cli import replay
from scripts.common.errors import BuildError
from scripts.common.records import FailureKind, RunRecord
from scripts.run.replay_simulators import Simulators
from verif.host.bulk_device import BulkFault
from verif.host.bulk_device import BulkModel as BulkModelProtocol
from verif.host.c_interface import ANSWERED, Block, Figures, Kind
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming
from verif.replay.epoch import EpochLines, traffic
from verif.replay.signal.job_file import JOB, SignalJob, steps_of, write_raw
from verif.replay.tensor_lines import TERNARY_RATIO, outputs_from_lines, pack_tensor

_NAMES = {register.address: name for name, register in REG_MAP.expand().items()}


# -- signal level -------------------------------------------------------------------------------
@dataclass
class StepResult:
    """Results of one step of a replay at signal level, which `SignalModel.spoil` may change.

    Attributes:
        works: Epochs with the returned lines.
        figures: Cycles and lines.
        problems: Errors reported by registers.
    """

    works: list[EpochLines]
    figures: Counter[str]
    problems: list[str]


Spoil = Callable[[str, StepResult], bool | None]
"""(simulator, result) -> changes it in place; False: nothing is left of it."""


class _Modelled(Simulators):
    """Simulators of `nf replay` that are always found; runs keep their files."""

    def choose(self, wanted: str) -> tuple[list[str], str | None]:
        return (["verilator", "icarus"], None) if wanted == "both" else ([wanted], None)

    def workspace(self, name: str, source: str = "") -> Path:
        (self.files / name).mkdir(exist_ok=True)
        return self.files / name


class SignalModel(_Modelled):
    """Device model in place of both simulators, at signal level; it exchanges the files of the
    testbench.

    Attributes:
        spoil: Changes the results of a step, as a fault of the device.
        runs: Options of each simulated run.
        passed: Whether the record of a run says passed.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(files=folder)
        self.spoil: Spoil = lambda _sim, _result: True
        self.runs: list[Mapping[str, Any]] = []
        self.passed = True

    def bulk(self, sim: str, parameters: Mapping[str, int]) -> BulkModelProtocol:
        raise BuildError("the device model has no bulk transport")

    def simulate(self, sim: str, bench: str, **how: Any) -> RunRecord:
        self.runs.append(how)
        job = SignalJob.read(Path(dict(how["env"])[JOB]))
        model = DeviceModel(job.options.device)
        for works in steps_of(job.prepare(), job.keys):
            result = StepResult(works, drive(model, works), [])
            if self.spoil(sim, result) is not False:
                write_raw(job.folder, result.works, result.figures, result.problems)
        return record(sim, self.passed)


def record(sim: str, passed: bool, cause: str = "it says so") -> RunRecord:
    """Return a `RunRecord`, as of a simulator process that passed, or failed for `cause`."""
    kind = None if passed else FailureKind.MISMATCH
    return RunRecord(
        *("replay", "replay", sim, 1, "default", (), passed, kind, cause),
        *(0.0, 1.0, 0.0, (), "run.log", None, None, "rerun"),
    )


def drive(model: DeviceModel, works: list[EpochLines]) -> Counter[str]:
    """Send every request of a step to the device model and store the returned lines; return its
    figures.
    """
    for work in works:
        for use in work.uses:
            assert model.commit(use.region, use.config, work.epoch) == CommitCode.OK
        count = work.plan.workers
        order = [np.tile(np.arange(count)[::-1], (use.lines, 1)) for use in work.uses]
        sent = np.concatenate([one.reshape(-1, 64) for one in work.sent])
        for op in traffic(work, 16, order)[0]:
            address, line = int(op["address"]), int(op["line"])
            if op["kind"] == Kind.WRITE:
                model.step(M2SRwD(RwdOp.MEM_WR, 0, address, data=sent[line].tobytes()))
                continue
            answer = model.step(M2SReq(ReqOp.MEM_RD, 0, address))
            assert isinstance(answer, S2MDRS)
            work.returned[line] = np.frombuffer(answer.data, dtype=np.uint8)
    lines = sum(work.lines for work in works)
    return Counter({"cycles": 1000 + works[0].step, "lines": lines})


# -- bulk ---------------------------------------------------------------------------------------
Damage = Callable[[int, M2SRwD], M2SRwD | None]
"""(contributions so far, contribution) -> what the device makes of it; None: it is lost."""


class ModelDevice:
    """Device model with the interface `BulkDevice`, which does one operation after the other.

    Args:
        params: Parameters of the device.
        plays: Design that opened the device, with the faults to play.
    """

    def __init__(self, params: DeviceParams, plays: BulkModel) -> None:
        self.model, self.plays = DeviceModel(params), plays
        self.shadow: dict[str, int] = {}
        self.contributions = 0
        self.counted = Figures()

    def run(self, block: Block) -> None:
        if self.plays.epochs == self.plays.dies_at:
            raise BulkFault("cycle 7: the simulator is gone")
        self.plays.epochs += 1
        for index in _late_reads(block):
            op = block.ops[index]
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
            self.counted.cycles += 1

    def _write(self, address: int, ldid: int, data: bytes) -> None:
        sent = M2SRwD(RwdOp.MEM_WR, 0, address, ldid=ldid, data=data)
        message = self.plays.damage(self.contributions, sent)
        self.contributions += 1
        if message is not None:
            for _ in range(1 + self.plays.twice):
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
        return Figures.from_buffer_copy(self.counted)

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


def _late_reads(block: Block) -> Iterator[int]:
    """Yield the operations of a block by index, each read as late as `OP.after` allows.

    The device promises no order between overlapping requests to a line.
    """
    waiting: list[int] = []
    for index, op in enumerate(block.ops):
        if op["kind"] == Kind.READ:
            waiting.append(index)
            continue
        if waiting and (op["kind"] != Kind.WRITE or op["after"] > waiting[0]):
            yield from waiting
            waiting.clear()
        yield index
    yield from waiting


class BulkModel(_Modelled):
    """Device model in place of both simulators, in bulk.

    Attributes:
        damage: Changes or drops a contribution, as a fault of the device.
        twice: Whether each contribution arrives twice.
        dies_at: Number of epochs after which the simulator is gone; None: it stays.
        epochs: Number of epochs begun.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(files=folder)
        self.damage: Damage = lambda _count, message: message
        self.dies_at: int | None = None
        self.epochs = 0
        self.twice = False
        self.build_seconds = 0.0

    def bulk(self, sim: str, parameters: Mapping[str, int]) -> BulkModelProtocol:
        return self

    def open(
        self, folder: Path, mem_lines_log2: int, seed: int, memory: MemoryTiming = USUAL_MEMORY
    ) -> ModelDevice:
        return ModelDevice(DeviceParams(mem_lines_log2=mem_lines_log2), self)


# -- references ---------------------------------------------------------------------------
def pack_workers(x: F32, mode: Mode, ratio: float = TERNARY_RATIO) -> U8:
    """Pack the tensor of each worker, float32[W, *shape], as lines uint8[W, n, 64] by reference
    models.

    Integer codes are rounded to nearest.
    """
    if mode.bits:
        flat, u = x.reshape(len(x), x[0].size), _oracle_scales(x, mode)
        codes = [
            [oracle.code(v, u[n // oracle.BUCKET], mode) for n, v in enumerate(own.tolist())]
            for own in flat
        ]
        return np.stack([pack_int(own, mode) for own in codes])
    return np.stack([pack_tensor(one, mode, ratio) for one in x])


def _oracle_scales(x: F32, mode: Mode) -> list[float]:
    """Return the scale u of each bucket of float32[W, *shape], computed element by element."""
    values = np.abs(x.reshape(len(x), x[0].size)).max(axis=0).tolist()
    firsts = range(0, len(values), oracle.BUCKET)
    return [oracle.scale(max(values[n : n + oracle.BUCKET]), mode) for n in firsts]


def expected_outputs(
    x: F32,
    mode: Mode,
    tie: Tie = Tie.PLUS,
    threshold: int = 1,
    ratio: float = TERNARY_RATIO,
    cnt_max: int = 255,
) -> dict[str, NDArray[Any]]:
    """Return the outputs that a replay of a tensor must give, computed by the reference models.

    Args:
        x: Tensor of each worker, float32[W, *shape].
        mode: Route.
        tie: Result of a tied binary vote.
        threshold: Least net count of a ternary vote.
        ratio: Gate of G_TERNARY relative to the mean magnitude.
        cnt_max: Greatest count of the device.

    Returns:
        Arrays by suffix, as in `verif.replay.tensors.OUTPUTS`.
    """
    lines = pack_workers(x, mode, ratio)
    shape = tuple(x.shape[1:])
    if mode.bits:
        u = _oracle_scales(x, mode)
        sums = reduce_int(lines, mode).sums.reshape(-1)[: x[0].size]
        means = [
            oracle.mean(total, u[n // oracle.BUCKET], len(x))
            for n, total in enumerate(sums.tolist())
        ]
        return {
            "sum": sums.astype(np.int16).reshape(shape),
            "mean": np.array(means, np.float32).reshape(shape),
            "scale": np.array(u, np.float32),
        }
    if mode == Mode.FP32:
        return outputs_from_lines(mode, shape, ordered_sum(lines))
    if mode == Mode.G_BINARY:
        low = reduce_binary(lines, None, tie, cnt_max)
    else:
        low = reduce_ternary(lines, None, threshold, cnt_max)
    return outputs_from_lines(mode, shape, low.vote, count_planes(low.counts))


# -- captures -----------------------------------------------------------------------------------
def gradients(seed: int, workers: int = 5) -> dict[str, np.ndarray[Any, Any]]:
    """Draw gradients by name, float32[workers, *shape]: odd sizes, one element, no dimension."""
    rng = np.random.default_rng(seed)
    shapes = {"a.weight": (31, 17), "a.bias": (31,), "b": (1,), "s": (), "c.weight": (7, 5)}
    return {
        name: rng.standard_normal((workers, *shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return the folder of a capture with two steps (3 and 60) and five workers."""
    write_capture(tmp_path / "capture", "small", {3: gradients(1), 60: gradients(2)})
    return tmp_path / "capture"


@pytest.fixture
def signal_model(tmp_path: Path) -> SignalModel:
    """Return a device model for replays at signal level."""
    (tmp_path / "work").mkdir()
    return SignalModel(tmp_path / "work")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BulkModel:
    """Return a device model for replays in bulk, with epochs of two lines so that there are
    many.
    """
    for name in ("EPOCH_LINES_LOG2", "SLOW_LINES_LOG2"):
        monkeypatch.setattr(f"verif.replay.options.{name}", 1)
    monkeypatch.setattr("verif.replay.job.PIECE_EPOCHS", 2)
    (tmp_path / "work").mkdir()
    return BulkModel(tmp_path / "work")


def nf_replay(simulators: Simulators, *words: object) -> int:
    """Run `nf replay WORDS` in this process and return its exit code.

    A bulk replay uses one job, unless the words ask for more.

    Args:
        simulators: Simulators, or a model in their place.
        words: Words of the command line.
    """
    parser = argparse.ArgumentParser(exit_on_error=False)
    replay.add_arguments(parser)
    given = [str(word) for word in words]
    given += ["-j", "1"] if "bulk" in given and "-j" not in given else []
    return replay.run(parser.parse_args(given), simulators)


STEPS = (3, 60)
"""Steps of the capture `odd`."""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Return the folder of a capture with three workers and the steps STEPS.

    Tensor `a` has 25 lines of G_BINARY, the last one partial; the folder's name has a space.
    """
    rng = np.random.default_rng(7)
    shapes = {"a": (25, 500), "t": (77,), "f": (5, 11), "s": ()}
    drawn = {
        step: {
            name: rng.standard_normal((3, *shape)).astype(np.float32)
            for name, shape in shapes.items()
        }
        for step in STEPS
    }
    path = tmp_path / "my grads" / "odd"
    write_capture(path, "odd", drawn)
    return path
