# SPDX-License-Identifier: Apache-2.0
"""Training on integer codes end to end, by the models and by the RTL, and what its hook does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REASON = "{} is not installed: see requirements-torch.txt"
torch = pytest.importorskip("torch", reason=REASON.format("torch"))
pytest.importorskip("sklearn", reason=REASON.format("scikit-learn"))

from torch import distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from examples.integer_hook import IntegerState, integer_hook  # noqa: E402
from models.line_packing import Mode  # noqa: E402
from verif.replay.live import Contribution, ModelReducer, ReducerError  # noqa: E402
from verif.replay.views import Lines  # noqa: E402

ROOT = Path(__file__).parent.parent


def codes(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.integer_codes_in_the_loop", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=1800,  # against a hang: the machine may be busy
        check=False,
    )


def rows_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Every row of the table but for its accuracy; the loss has fallen in each."""
    assert done.returncode == 0, done.stderr
    row = r"^(\S+) +([\d.]+) +([\d.]+) +[\d.]+% +([\d,]+)$"
    rows = re.findall(row, done.stdout, re.M)
    assert [name for name, *_ in rows] == ["FP32", "G_INT4", "G_INT8"]
    assert all(float(after) < float(before) for _, before, after, _ in rows)
    sent = [int(count.replace(",", "")) for *_, count in rows]
    assert sent[0] > sent[2] > sent[1]
    return [" ".join(row) for row in rows]


@pytest.mark.parametrize("simulator", ["verilator"])
def test_the_loop_trains(simulator: str) -> None:
    """A few steps of every row, by the RTL as by the models."""
    words = ("--steps", "8", "--workers", "2")
    rtl, model = codes("--sim", simulator, *words), codes("--device", "model", *words)
    assert rows_of(rtl) == rows_of(model)
    assert re.search(r"^24 steps, [\d,]+ lines reduced, 0 mismatches, ", rtl.stdout, re.M)
    assert "mismatches" not in model.stdout


def test_more_workers_than_the_device_takes() -> None:
    done = codes("--device", "model", "--workers", "65")
    assert done.returncode == 2
    assert "'65' is not a number from 1 to 64" in done.stderr.splitlines()[-1]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    store = tmp_path / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def backward(model: Any) -> list[np.ndarray]:
    model(torch.linspace(-1, 1, 6).reshape(2, 3)).square().sum().backward()
    return [p.grad.numpy() for p in model.parameters()]


def test_one_worker_gets_its_own_gradient(group: None) -> None:
    """By G_INT8 to less than one code, a 127th of the largest; by FP32 bit for bit."""
    torch.manual_seed(3)
    net = torch.nn.Linear(3, 4)
    weight, bias = (g.copy() for g in backward(net))
    net.zero_grad(set_to_none=True)
    model = DistributedDataParallel(net)
    routes = {"weight": Mode.G_INT8, "bias": Mode.FP32}
    model.register_comm_hook(IntegerState(model, routes, ModelReducer()), integer_hook)
    rounded, mean = backward(model)
    off = np.abs(rounded - weight).max() / np.abs(weight).max()
    assert 0 < off < 1.01 / 127
    assert (mean == bias).all()


def test_several_buckets_are_refused(group: None) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 300), torch.nn.Linear(300, 2))
    model = DistributedDataParallel(net, bucket_cap_mb=0.001)
    routes = {name: Mode.G_INT4 for name, _ in net.named_parameters()}
    model.register_comm_hook(IntegerState(model, routes, ModelReducer()), integer_hook)
    backward(model)  # DDP starts with one bucket and cuts it up after the first step
    with pytest.raises(RuntimeError, match="raise bucket_cap_mb"):
        backward(model)


def test_votes_are_refused(group: None) -> None:
    model = DistributedDataParallel(torch.nn.Linear(3, 4))
    routes = {"weight": Mode.G_BINARY, "bias": Mode.FP32}
    with pytest.raises(ValueError, match="weight: votes go by neuron_fabric"):
        IntegerState(model, routes, ModelReducer())


def test_a_mismatch_comes_out_of_backward(group: None) -> None:
    class Broken(ModelReducer):
        def reduce(self, tensors: Sequence[Contribution]) -> dict[str, Lines]:
            raise ReducerError("1 of 2 lines differ")

    model = DistributedDataParallel(torch.nn.Linear(3, 4))
    routes = {"weight": Mode.G_INT4, "bias": Mode.FP32}
    model.register_comm_hook(IntegerState(model, routes, Broken()), integer_hook)
    with pytest.raises(ReducerError, match="1 of 2 lines differ"):
        backward(model)
