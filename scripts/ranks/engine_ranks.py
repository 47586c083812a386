# SPDX-License-Identifier: Apache-2.0
"""Rank of `nf train check gpu`, a process of a gloo or NCCL group.

Call: `python -m scripts.ranks.engine_ranks FOLDER RANK WORLD MASTER DEVICE PARTS FAULT`. PARTS are
names of `PARTS`, with commas, or `speed`; FAULT is 1 for one wrong bit in lines of G_BINARY. Rank 0
writes FOLDER/engine.json: lists of [name, difference, "" if there is none], and of [name, seconds,
bytes].
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import attach, codec
from neuron_fabric.capture import Capture
from neuron_fabric.codec import Route, torch_engine
from neuron_fabric.codec.draws import Key
from neuron_fabric.codec.engine import Engine, engine, using
from neuron_fabric.codec.torch_engine import TorchEngine
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.profile.profile_types import LEAST_WARMUP
from scripts.ranks.engine_setups import FED, INT4, INT8, NET, SETUPS, TERNARY, Training
from scripts.ranks.rank_process import Rank, profile_of

PORT = 29_521
Found = Iterator[tuple[str, str]]
SIZES = (1, 511, 512, 513, 65_537, 1_000_003)
SPECIAL = (0.0, -0.0, 1e-45, -1e-45, 1.2e-38, 3.4e38, -3.4e38, np.nan, np.inf, -np.inf)
ROUTES = {
    "G_BINARY vote": PhaseRoute(Route.G_BINARY),
    "G_BINARY net": NET,
    "G_BINARY net, feedback": FED,
    "G_TERNARY vote": PhaseRoute(Route.G_TERNARY),
    "G_TERNARY net": TERNARY,
    "G_INT4": INT4,
    "G_INT8": INT8,
}
WITH_NCCL = ("plain", "fp16, GradScaler", "compiled before DDP", "compiled after DDP")
"""Set-ups that the one rank of NCCL runs."""
MANY = {"cuda": 1 << 26, "cpu": 1 << 22}
"""Elements that are packed for a measured time."""


def _made(loops: Engine, x: codec.F32, route: Route) -> list[bytes]:
    """Return lines, results and values that an engine makes of a tensor."""
    arrays: list[Any]
    with using(loops):
        if route.votes:
            one = codec.pack(x, route)
            lines = np.stack([one.lines, codec.pack(-x, route).lines, one.lines])
            vote, planes = codec.count(lines, route)
            arrays = [lines, np.array(one.scale), vote, planes]
            arrays.append(codec.unpack_net(planes, route, x.size, 3, scale=0.7))
        else:
            u = codec.units(codec.maxima(x), route)
            one = codec.pack_codes(x, route, u, Key(1, 2, 3, "w"))
            sums, out = codec.add_codes(np.stack([one.lines] * 3), route), np.zeros_like(x)
            if one.finite:
                codec.unpack_sums(sums, route, u, 3, 3, out)
            arrays = [one.lines, sums, out]
    return [one.tobytes() for one in arrays]


def codec_bits(_: Rank, device: torch.device) -> Found:
    """Compare the bits of the codec on the device with those of the engine of the host."""
    rng, there = np.random.default_rng(1), TorchEngine(device)
    for route in (Route.G_BINARY, Route.G_TERNARY, Route.G_INT4, Route.G_INT8):
        wrong = []
        for size in SIZES:
            normal = rng.standard_normal(size).astype(np.float32)
            odd = rng.choice(np.array(SPECIAL, np.float32), size)
            for kind, x in (
                ("normal", normal),
                ("special", odd),
                ("finite", np.nan_to_num(odd, posinf=1, neginf=-1)),
                ("zero", odd * 0 if np.isfinite(odd).all() else np.zeros_like(odd)),
            ):
                if _made(there, x, route) != _made(engine(), x, route):
                    wrong.append(f"{size} {kind} elements")
        yield f"bits of {route}", f"differ for {', '.join(wrong)}" if wrong else ""


class Fixed(nn.Module):
    """Parameters whose gradients are given tensors, exactly, on any device.

    The gradients of a channels_last parameter have its order in memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(43, 40), nn.Linear(43, 37)
        self.c = nn.Conv2d(8, 9, 5).to(memory_format=torch.channels_last)

    def gradients(self, seed: int) -> list[Tensor]:
        """Return drawn gradients; that of ``b.weight`` is 0 for every fourth seed."""
        draw = torch.Generator().manual_seed(seed)
        return [
            torch.randn(p.shape, generator=draw) * (name != "b.weight" or seed % 4 > 0)
            for name, p in self.named_parameters()
        ]

    def forward(self, seed: int) -> Tensor:
        own = zip(self.parameters(), self.gradients(seed), strict=True)
        return torch.stack([(p * g.to(p.device)).sum() for p, g in own]).sum()


def _reduced(
    how: PhaseRoute, name: str, device: torch.device, env: Mapping[str, str]
) -> dict[str, Tensor]:
    """Return the reduced gradients of three low-bit steps of `Fixed`, on the CPU."""
    net = Fixed().to(device)
    model, found = DistributedDataParallel(net), {}
    session = attach(model, profile_of(net, how), engine=name, scaler=False, env=env)
    assert session is not None
    for step in range(LEAST_WARMUP + 3):
        model.zero_grad()
        model(4 * step + dist.get_rank()).backward()
        if step >= LEAST_WARMUP:
            for key, p in net.named_parameters():
                assert p.grad is not None
                found[f"{key}, step {step}"] = p.grad.detach().cpu().clone()
    if not session.sent.get(how.route) and dist.get_world_size() > 1:
        raise RuntimeError(f"nothing is sent by {how.route}")
    session.close()
    return found


def _difference(got: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """Return how many elements of the first tensor that is not equal bit by bit differ."""
    for name, one in wanted.items():
        size = one.element_size()
        a, b = (_bytes(x).view(-1, size) for x in (got[name], one))
        if differ := int((a != b).any(1).sum()):
            return f"{differ} of {one.numel()} elements of {name} differ"
    return ""


def _bytes(x: Tensor) -> Tensor:
    return x.contiguous().view(-1).view(torch.uint8)


def buckets(_: Rank, device: torch.device) -> Found:
    """Compare reduced gradients of the device with those of the engine `c` on the CPU."""
    for name, how in ROUTES.items():
        wanted = _reduced(how, "c", torch.device("cpu"), {})
        yield f"bucket, {name}", _difference(_reduced(how, "torch", device, {}), wanted)


def captured(rank: Rank, device: torch.device) -> Found:
    """Compare a capture beneath a profile with the gradients of all ranks."""
    folder = rank.folder / f"capture-{rank.world}"
    _reduced(NET, "torch", device, {"NF_CAPTURE_DIR": str(folder)})
    dist.barrier()
    capture, net, wrong = Capture.open(folder), Fixed(), ""
    for step in range(LEAST_WARMUP + 3):
        own = capture.load(step)
        for worker in range(rank.world):
            drawn = net.gradients(4 * step + worker)
            for (name, _), one in zip(net.named_parameters(), drawn, strict=True):
                if not np.array_equal(own[name][worker], one.numpy()):
                    wrong = wrong or f"{name} of worker {worker}, step {step} differs"
    yield "capture beneath a profile", wrong


def setups(rank: Rank, device: torch.device) -> Found:
    """Train all set-ups: the ranks end with the same weights, and on the CPU both engines do."""
    nccl = device.type == "cuda" and rank.world == 1
    for name, setup in SETUPS.items():
        if nccl and name not in WITH_NCCL:
            continue
        runs = [Training(setup, "torch", device, {})]
        weights = [runs[0].train()]
        if device.type == "cpu":
            weights.append(Training(setup, "c", device, {}).train())
        own = hashlib.sha256()
        for one in weights[0].values():
            own.update(_bytes(one).numpy().tobytes())
        every: list[Any] = [None] * rank.world
        wrong = _difference(weights[0], weights[-1])
        sent = runs[0].sent.get(setup.how.route, 0) > 0 or rank.world == 1
        dist.all_gather_object(every, (own.hexdigest(), wrong, sent))
        wrong = next((one[1] for one in every if one[1]), "")
        if len({one[0] for one in every}) > 1:
            wrong = "the ranks have other weights"
        if not all(one[2] for one in every):
            wrong = f"nothing is sent by {setup.how.route}"
        if not all(bool(one.isfinite().all()) for one in weights[0].values()):
            wrong = "weights are not finite"
        yield f"set-up: {name}", wrong


def speeds(device: torch.device) -> list[tuple[str, float, int]]:
    """Return [name, seconds, bytes of the gradient] of a device copy and of packing."""
    x = torch.randn(MANY[device.type], device=device)
    out, limit = torch.empty_like(x), torch.full((), 0.5, device=device)
    lines = torch_engine.pack_binary(x)
    ways: dict[str, Callable[[], object]] = {
        "copy": lambda: out.copy_(x),
        "1 bit": lambda: torch_engine.pack_binary(x),
        "1 bit, sum of magnitudes": lambda: (torch_engine.pack_binary(x), torch_engine.total(x)),
        "2 bits": lambda: torch_engine.pack_ternary(x, limit),
        "votes": lambda: torch_engine.votes_of(lines, Route.G_BINARY),
    }
    if device.type == "cuda":
        compiled = torch.compile(torch_engine.pack_binary)
        ways["1 bit, torch.compile"] = lambda: compiled(x)
    return [(name, _seconds(way, device), x.nbytes) for name, way in ways.items()]


def _seconds(way: Callable[[], object], device: torch.device, runs: int = 7) -> float:
    """Return the least time of some runs, after two that are not measured."""
    times = []
    for run in range(runs + 2):
        start = time.perf_counter()
        way()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times += [time.perf_counter() - start] * (run >= 2)
    return min(times)


def seeded_fault() -> None:
    """Change one bit of all lines of G_BINARY that this process packs in torch operations."""
    pack = torch_engine.pack_binary

    def wrong(x: Tensor) -> Tensor:
        lines = pack(x)
        lines[0, 0] ^= 1
        return lines

    torch_engine.pack_binary = wrong


PARTS: dict[str, Callable[[Rank, torch.device], Found]] = {
    "codec": codec_bits,
    "buckets": buckets,
    "capture": captured,
    "setups": setups,
}


def main() -> None:
    """Run the parts of the command line as one rank."""
    rank, (kind, parts, fault) = Rank.of_command()
    device = torch.device(kind, 0) if kind == "cuda" else torch.device(kind)
    if fault == "1":
        seeded_fault()
    backend = "cpu:gloo,cuda:nccl" if kind == "cuda" and rank.world == 1 else "gloo"
    with rank.joined(PORT, 300.0, backend):
        chosen = [one for one in parts.split(",") if one in PARTS]
        found = [line for one in chosen for line in PARTS[one](rank, device)]
        every: list[Any] = [None] * rank.world
        dist.all_gather_object(every, found)
        of_ranks = zip(*every, strict=True)
        lines = [max(own, key=lambda one: bool(one[1])) for own in of_ranks]
        times = speeds(device) if "speed" in parts else []
        rank.leave("engine.json", {"lines": lines, "speeds": times})


if __name__ == "__main__":
    main()
