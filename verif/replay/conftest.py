# SPDX-License-Identifier: Apache-2.0
"""A device in Python behind the runner's interface, and a small capture for it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models.device import CommitCode, DeviceModel
from models.regions import PLANE_SELECTOR
from neuron_fabric.capture.reader import write_capture
from verif.replay import cli
from verif.replay.backend import BulkError, BulkModel, Outcome, SimulationJob
from verif.replay.bench_job import JOB, BenchJob
from verif.replay.prepare import StepWork
from verif.replay.result import Figures, StepResult, write_raw
from verif.replay.sequence import mixed

Damage = Callable[[str, StepWork, StepResult], StepResult | None]
"""(simulator, work, result) -> what is left for the command line; None: nothing."""


class ModelBackend:
    """Plays both simulators with the device model, through the same files as the bench."""

    def __init__(self, folder: Path, damage: Damage | None = None) -> None:
        self.folder = folder
        self.damage = damage
        self.jobs: list[SimulationJob] = []
        self.passed = True

    def simulators(self, wanted: str) -> tuple[Sequence[str], str | None]:
        return (["verilator", "icarus"], None) if wanted == "both" else ([wanted], None)

    def workspace(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def bulk(self, simulator: str, parameters: Mapping[str, int]) -> BulkModel:
        raise BulkError("the device model has no bulk transport")

    def simulate(self, job: SimulationJob) -> Outcome:
        self.jobs.append(job)
        bench = BenchJob.read(Path(job.env[JOB]))
        model = DeviceModel(bench.options.device)
        for work in bench.prepare():
            result: StepResult | None = drive(model, work)
            if self.damage is not None and result is not None:
                result = self.damage(job.simulator, work, result)
            if result is not None:
                write_raw(bench.folder, work.step, result)
        return Outcome(self.passed, "mismatch: it says so", "run.log", None, 1.0, 0.0)


def drive(model: DeviceModel, work: StepWork) -> StepResult:
    """Every message of a step into the model."""
    got = {name: tensor.room() for name, tensor in work.tensors.items()}
    for one in work.plan.rounds:
        for use in one.uses:
            assert model.commit(use.region, use.config, one.epoch) == CommitCode.OK
        for use, place, line in mixed(one.uses):
            own, sent = got[place.tensor.name], work.tensors[place.tensor.name].sent
            at = place.first_line + line
            for worker in reversed(range(work.plan.workers)):
                data = sent[worker, line].tobytes()
                model.step(M2SRwD(RwdOp.MEM_WR, 0, use.config.address(worker, at), data=data))
            targets = [(0, own.result)]
            targets += [(PLANE_SELECTOR + p, plane) for p, plane in enumerate(own.planes)]
            for selector, target in targets:
                answer = model.step(M2SReq(ReqOp.MEM_RD, 0, use.config.address(selector, at)))
                assert isinstance(answer, S2MDRS)
                target[line] = np.frombuffer(answer.data, dtype=np.uint8)
    return StepResult(got, Figures(cycles=1000 + work.step, writes=work.writes, reads=work.reads))


def gradients(seed: int, workers: int = 5) -> dict[str, np.ndarray[Any, Any]]:
    """Odd sizes, one element, no dimension."""
    rng = np.random.default_rng(seed)
    shapes = {"a.weight": (31, 17), "a.bias": (31,), "b": (1,), "s": (), "c.weight": (7, 5)}
    return {
        name: rng.standard_normal((workers, *shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of two steps and five workers."""
    write_capture(tmp_path / "capture", "small", {3: gradients(1), 60: gradients(2)})
    return tmp_path / "capture"


@pytest.fixture
def backend(tmp_path: Path) -> ModelBackend:
    """The device model as both simulators."""
    (tmp_path / "work").mkdir()
    return ModelBackend(tmp_path / "work")


def nf_replay(backend: Any, *words: object) -> int:
    """`nf replay WORDS`; the exit code."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    cli.add_arguments(parser)
    return cli.run(parser.parse_args([str(word) for word in words]), backend)
