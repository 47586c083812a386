# SPDX-License-Identifier: Apache-2.0
"""The example end to end on the RTL, and what its hook computes."""

from __future__ import annotations

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

from examples.vote_hook import VoteState, vote_hook  # noqa: E402
from models.line_packing import Mode  # noqa: E402
from neuron_fabric.capture import Capture  # noqa: E402
from verif.replay.live import Contribution, ModelReducer, ReducerError  # noqa: E402
from verif.replay.views import Lines  # noqa: E402

ROOT = Path(__file__).parent.parent


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    store = tmp_path / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def backward(model: Any) -> list[np.ndarray]:
    model(torch.linspace(-1, 1, 6).reshape(2, 3)).square().sum().backward()
    return [p.grad.numpy() for p in model.parameters()]


def test_one_worker_gets_its_own_signs(group: None) -> None:
    """In G_BINARY one worker's vote is its sign (+1 for 0); by FP32 its gradient comes back."""
    torch.manual_seed(3)
    net = torch.nn.Linear(3, 4)
    weight, bias = (g.copy() for g in backward(net))
    net.zero_grad(set_to_none=True)
    model = DistributedDataParallel(net)
    routes = {"weight": Mode.G_BINARY, "bias": Mode.FP32}
    model.register_comm_hook(VoteState(model, routes, ModelReducer(), 0.5), vote_hook)
    votes, mean = backward(model)
    assert (votes == np.where(weight < 0, np.float32(-0.5), np.float32(0.5))).all()
    assert (mean == bias).all()


def test_several_buckets_are_refused(group: None) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 300), torch.nn.Linear(300, 2))
    model = DistributedDataParallel(net, bucket_cap_mb=0.001)
    routes = {name: Mode.G_BINARY for name, _ in net.named_parameters()}
    model.register_comm_hook(VoteState(model, routes, ModelReducer(), 1.0), vote_hook)
    backward(model)  # DDP starts with one bucket and cuts it up after the first step
    with pytest.raises(RuntimeError, match="raise bucket_cap_mb"):
        backward(model)


def test_a_mismatch_comes_out_of_backward(group: None) -> None:
    class Broken(ModelReducer):
        def reduce(self, tensors: Sequence[Contribution]) -> dict[str, Lines]:
            raise ReducerError("1 of 2 lines differ")

    model = DistributedDataParallel(torch.nn.Linear(3, 4))
    routes = {"weight": Mode.G_BINARY, "bias": Mode.FP32}
    model.register_comm_hook(VoteState(model, routes, Broken(), 0.5), vote_hook)
    with pytest.raises(ReducerError, match="1 of 2 lines differ"):
        backward(model)


@pytest.mark.parametrize("simulator", ["verilator"])
def test_the_loop_trains(tmp_path: Path, simulator: str) -> None:
    """Captured, replayed, and a few steps of every variant: the exit code is 1 where the loss does
    not fall, or a line differs."""
    words = ["--sim", simulator, "--steps", "12", "--seeds", "1", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "examples.votes_in_the_loop", *words, "--out", tmp_path / "c"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=1800,  # against a hang: the machine may be busy
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for variant in ("FP32", "G_BINARY everywhere", "G_INT4 everywhere", "G_TERNARY, head in FP32"):
        assert sum(line.startswith(variant) for line in done.stdout.splitlines()) == 2
    assert "nf replay: 72 lines, 0 mismatches" in done.stdout
    assert "96 steps, 8,076 lines reduced, 0 mismatches" in done.stdout
    assert Capture.open(tmp_path / "c").steps == (3, 11)
