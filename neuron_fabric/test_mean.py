# SPDX-License-Identifier: Apache-2.0
"""A captured training against DDP without a hook: the weights of several ranks, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

ROOT = Path(__file__).parent.parent

# One process imports torch and forks the ranks; W = 2..6 are groups of the first W of them.
_RANKS = """
import json, sys, warnings
import torch, torch.distributed as dist, torch.multiprocessing as mp
import torch._dynamo  # here and not in every rank: DDP imports it
from torch.nn.parallel import DistributedDataParallel as DDP
from neuron_fabric import attach

OPTIONS = {
    "plain": {}, "static": {"static_graph": True}, "view": {"gradient_as_bucket_view": True},
    "batched": {"batched_grad_copy": True}, "unused": {"find_unused_parameters": True},
    "unused view": {"find_unused_parameters": True, "gradient_as_bucket_view": True},
}
KEEP = {"none": True, "zero": False, "never": None}  # what becomes of a gradient between steps

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = torch.nn.Linear(16, 24), torch.nn.LayerNorm(24)
        self.some, self.b = torch.nn.Linear(24, 24), torch.nn.Linear(24, 3)
    def forward(self, x, some):
        h = self.norm(self.a(x)).tanh()
        return self.b(self.some(h) if some else h)

def train(group, rank, case, folder):
    workers, dtype, option, keep, accumulate = case
    torch.manual_seed(1)
    model = DDP(Net().to(getattr(torch, dtype)), bucket_cap_mb=0.001, process_group=group,
                **OPTIONS[option])
    steps = "0" if option == "plain" else "9"  # the others: the hook alone, nothing is written
    attach(model, env={"NF_CAPTURE_DIR": folder, "NF_CAPTURE_STEPS": steps})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    draw = torch.Generator().manual_seed(rank)
    def backward(step):
        some = "unused" not in option or (step + rank) % 3 > 0
        x = torch.randn(8, 16, generator=draw).to(getattr(torch, dtype))
        model(x, some).float().square().mean().backward()
    for step in range(4):
        if KEEP[keep] is not None:
            optimizer.zero_grad(set_to_none=KEEP[keep])
        if accumulate:
            with model.no_sync():
                backward(step + 1)
        backward(step)
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])

def rank_of(rank, out):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=6)
    groups = {n: dist.new_group(range(n)) for n in range(2, 7)}
    try:
        attach(Net(), env={"NF_CAPTURE_DIR": f"{out}/bare"})
    except SystemExit:
        pass
    cases = [(n, "float32", "plain", "none", False) for n in range(2, 7)]
    cases += [(3, "float32", option, keep, False) for option in OPTIONS for keep in KEEP]
    cases += [(3, "float32", option, "zero", True) for option in ("plain", "view", "unused view")]
    cases += [(3, dtype, "plain", "none", False) for dtype in ("float16", "bfloat16")]
    cases += [(6, "float32", "view", "zero", False)]
    differ = {}
    for case in dict.fromkeys(cases):
        if rank < case[0]:
            without = train(groups[case[0]], rank, case, "")
            name = " ".join(map(str, case))
            hooked = train(groups[case[0]], rank, case, f"{out}/{name}")
            differ[name] = int((hooked != without).sum())
    with open(f"{out}/rank-{rank}.json", "w") as file:
        json.dump(differ, file)
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.start_processes(rank_of, (sys.argv[1],), nprocs=6, start_method="fork")
"""


def test_weights_are_those_of_ddp_without_a_hook(tmp_path: Path) -> None:
    """2 to 6 workers; every option of DDP that changes how gradients are scaled."""
    script = tmp_path / "ranks.py"
    script.write_text(_RANKS, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Net is no DistributedDataParallel model") == 1  # of six ranks
    differ = {name: count for file in tmp_path.glob("rank-*.json") for name, count in _read(file)}
    assert {name[0] for name in differ} == set("23456")
    assert {name: count for name, count in differ.items() if count} == {}


def _read(file: Path) -> Iterable[tuple[str, int]]:
    found: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))
    return found.items()
