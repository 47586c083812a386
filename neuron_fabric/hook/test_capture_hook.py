# SPDX-License-Identifier: Apache-2.0
"""Tests of the capture hook in a process group of one rank.

`scripts/cli/test_capture.py` has it with several workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuron_fabric.capture import Capture
from neuron_fabric.capture.layout import ModuleSpec
from neuron_fabric.capture.selection import Selection
from neuron_fabric.errors import CaptureError

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from torch import distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import attach
from neuron_fabric.hook.capture_hook import CaptureState, capture_hook, modules_of, sparse_tensors


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    torch.set_num_threads(1)
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def network(dtype: Any = None) -> Any:
    """Return a DistributedDataParallel net with several buckets of 1 KB, one parameter frozen."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(16, 24), torch.nn.Linear(24, 24), torch.nn.Linear(24, 3)]
    net = torch.nn.Sequential(*layers).to(dtype or torch.float32)
    net[1].bias.requires_grad = False
    return DistributedDataParallel(net, bucket_cap_mb=0.001)


def train(model: Any, steps: int, seed: int = 5) -> list[dict[str, np.ndarray]]:
    """Train with plain SGD; return the gradients by name of every step."""
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        first = next(model.parameters())
        model(torch.randn(8, 16, generator=draw).to(first.dtype)).square().mean().backward()
        named = model.module.named_parameters()
        seen.append({n: p.grad.float().numpy().copy() for n, p in named if p.requires_grad})
        optimizer.step()
    return seen


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradients_by_name_in_the_models_order(tmp_path: Path, dtype: str) -> None:
    model = network(getattr(torch, dtype))
    model.register_comm_hook(
        CaptureState(model, tmp_path / "c", Selection.parse("0-9:2")), capture_hook
    )
    seen = train(model, 5)
    capture = Capture.open(tmp_path / "c")
    names = [n for n, p in model.module.named_parameters() if p.requires_grad]
    assert [spec.name for spec in capture.tensors] == names
    assert {spec.dtype for spec in capture.tensors} == {
        {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[dtype]
    }
    assert (capture.steps, capture.model, capture.world_size) == ((0, 2, 4), "Sequential", 1)
    # With one worker the mean that DDP leaves in .grad is this worker's gradient.
    for step, _, spec, values in capture.values():
        assert values.tobytes() == seen[step][spec.name].tobytes(), (step, spec.name)


def test_layers_and_a_channels_last_tensor(tmp_path: Path) -> None:
    """Check that a channels-last gradient is written in C order, and other layers are left out."""
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 2, 3))
    model = DistributedDataParallel(net.to(memory_format=torch.channels_last))
    state = CaptureState(model, tmp_path / "c", Selection.parse(layers="1.*"), name="conv")
    model.register_comm_hook(state, capture_hook)
    model(torch.randn(1, 3, 8, 8)).square().sum().backward()
    capture = Capture.open(tmp_path / "c")
    assert (capture.model, [spec.name for spec in capture.tensors]) == (
        "conv",
        ["1.weight", "1.bias"],
    )
    assert not net[1].weight.is_contiguous()
    wanted = net[1].weight.grad.contiguous().numpy()
    assert capture.load(0)["1.weight"][0].tobytes() == wanted.tobytes()


def test_another_reduction_is_wrapped(tmp_path: Path) -> None:
    def zero(state: list[int], bucket: Any) -> Any:
        state.append(bucket.index())
        done = torch.futures.Future()
        done.set_result(torch.zeros_like(bucket.buffer()))
        return done

    model, seen = network(), list[int]()
    attach(model, reduce=zero, reduce_state=seen, env={"NF_CAPTURE_DIR": str(tmp_path / "c")})
    gradients = train(model, 2)
    assert seen == [0, 0, 1]  # DDP cuts its bucket up after the first step
    assert not any(values.any() for step in gradients for values in step.values())
    assert any(values.any() for _, _, _, values in Capture.open(tmp_path / "c").values())


def test_an_interrupted_backward_is_no_step(tmp_path: Path) -> None:
    """Check that a backward ended by an exception leaves no step; the next uses another file."""
    model = network()
    state = CaptureState(model, tmp_path / "c")
    model.register_comm_hook(state, capture_hook)
    train(model, 2)
    state._begin()  # as a backward that an exception ended leaves it
    assert state._file is not None
    train(model, 1)
    assert Capture.open(tmp_path / "c").steps == (0, 1, 2)


def test_one_hook_a_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Check that a second hook on a model is refused in one line, before or after attach."""
    env = {"NF_CAPTURE_DIR": str(tmp_path / "c")}
    model, other, hooked = network(), network(), network()
    attach(model, env=env)
    hooked.register_comm_hook(None, allreduce_hook)
    tries = {
        "this model is captured already": lambda: attach(model, env=env),
        "another capture is being written to this folder": lambda: attach(other, env=env),
        "and allreduce_hook is one too": lambda: attach(hooked, env=env),
        "attach(model, reduce=": lambda: model.register_comm_hook(None, allreduce_hook),
        "Linear is no DistributedDataParallel": lambda: attach(torch.nn.Linear(2, 2), env=env),
    }
    for text, attempt in tries.items():
        with pytest.raises(SystemExit) as ended:
            attempt()
        (line,) = capfd.readouterr().err.splitlines()
        assert ended.value.code == 2
        assert text in line
    train(model, 1)
    assert Capture.open(tmp_path / "c").steps == (0,)


def test_modules_and_sparse_gradients(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Embedding(5, 4, sparse=True), torch.nn.Linear(4, 5))
    model = DistributedDataParallel(net)
    with pytest.raises(CaptureError, match=r"tensor '0\.weight': its gradients are sparse"):
        CaptureState(model, tmp_path / "c")
    attach(model, env={"NF_CAPTURE_DIR": str(tmp_path / "c"), "NF_CAPTURE_LAYERS": "1.*"})
    model(torch.tensor([1, 2])).square().sum().backward()
    capture = Capture.open(tmp_path / "c")
    assert capture.modules == (ModuleSpec("1", "Linear", ("1.weight", "1.bias"), head=True),)


class MyLinear(nn.Linear):
    """Linear layer of a script, derived from torch's."""


class Conv1D(nn.Module):
    """Module of a script with a weight matrix, derived from nn.Module only."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(16, 16))


def gpt() -> nn.Module:
    """Return a model whose head is tied to its embedding, with a norm of two dimensions."""
    net = nn.Module()
    net.wte = nn.Embedding(40, 16)
    net.h = nn.Module()
    net.h.norm = nn.LayerNorm((8, 16), bias=False)
    net.h.mlp = Conv1D()
    net.lm_head = MyLinear(16, 40, bias=False)
    net.lm_head.weight = net.wte.weight
    net.ln_f = nn.LayerNorm(16, bias=False)
    return net


def test_kinds_ties_and_the_head() -> None:
    names = [name for name, _ in gpt().named_parameters()]
    assert modules_of(gpt(), names) == [
        ModuleSpec("wte", "Embedding", ("wte.weight",)),
        ModuleSpec("h.norm", "LayerNorm", ("h.norm.weight",)),
        ModuleSpec("h.mlp", "Conv1D", ("h.mlp.weight",)),
        ModuleSpec("lm_head", "Linear", ("wte.weight",), head=True),
        ModuleSpec("ln_f", "LayerNorm", ("ln_f.weight",)),
    ]


def test_a_head_that_is_not_captured() -> None:
    assert modules_of(gpt(), ["h.mlp.weight"]) == [ModuleSpec("h.mlp", "Conv1D", ("h.mlp.weight",))]


def test_the_model_itself_holds_a_parameter() -> None:
    (one,) = modules_of(nn.Linear(3, 4, bias=False), ["weight"])
    assert one == ModuleSpec("", "Linear", ("weight",), head=True)


def test_sparse_gradients() -> None:
    net = gpt()
    assert sparse_tensors(net) == set()
    net.wte.sparse = True
    assert sparse_tensors(net) == {"wte.weight"}
