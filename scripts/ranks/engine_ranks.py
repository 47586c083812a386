# SPDX-License-Identifier: Apache-2.0
"""Rank of `nf train check gpu`, a process of a gloo or NCCL group.

Call: `python -m scripts.ranks.engine_ranks FOLDER DEVICE PARTS FAULT`. PARTS are
names of `PARTS`, with commas, or `speed`; FAULT is 1 for one wrong bit in lines of G_BINARY. Rank 0
writes FOLDER/result.json: lists of [name, difference, "" if there is none], and of [name, seconds,
bytes].

Set-ups are small stand-ins for models and uses of DDP: transformers is not needed, GPT-2, Llama,
BERT and ViT are nets of one block with their parts. A set-up trains a few steps with low-bit
gradients, by `attach`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from timeit import repeat
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from neuron_fabric import attach, codec
from neuron_fabric.capture import Capture
from neuron_fabric.codec import Route, torch_engine
from neuron_fabric.codec.draws import Key
from neuron_fabric.codec.engine import Engine, engine, using
from neuron_fabric.codec.torch_engine import TorchEngine
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.profile.profile_types import LEAST_WARMUP
from scripts.ranks.rank_process import Rank, profile_of

STEPS = LEAST_WARMUP + 4
WIDTH, WORDS, LENGTH, ROWS = 64, 96, 12, 4


class ThreeLayers(nn.Module):
    """Three linear layers.

    Args:
        kind: "" for a plain one; "checkpoint" computes the middle layer again in backward; "frozen"
            does not train the first; "lora" trains a product of rank 16 in place of the middle one;
            "unused" leaves out the middle one in every third pass of a rank.
    """

    def __init__(self, kind: str = "") -> None:
        super().__init__()
        self.kind, self.passes = kind, 0
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        if kind == "frozen":
            self.a.requires_grad_(False)
        if kind == "lora":
            self.b.requires_grad_(False)
            self.down, self.up = nn.Linear(WIDTH, 16, bias=False), nn.Linear(16, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        h = torch.tanh(self.a(x))
        if self.kind == "checkpoint":
            h = checkpoint(self._middle, h, use_reentrant=False)
        elif self.kind != "unused" or (self.passes + dist.get_rank()) % 3:
            h = self._middle(h)
        out: Tensor = self.c(h)
        return out

    def _middle(self, h: Tensor) -> Tensor:
        more = self.up(self.down(h)) if self.kind == "lora" else 0.0
        return torch.tanh(self.b(h) + more)


class Attention(nn.Module):
    """Self-attention of two heads, with one fused matrix (``fused``) or three."""

    def __init__(self, fused: bool, causal: bool) -> None:
        super().__init__()
        sizes = [3 * WIDTH] if fused else [WIDTH] * 3
        self.parts = nn.ModuleList(nn.Linear(WIDTH, size, bias=fused) for size in sizes)
        self.out, self.causal = nn.Linear(WIDTH, WIDTH, bias=fused), causal

    def forward(self, x: Tensor) -> Tensor:
        parts = torch.cat([one(x) for one in self.parts], -1).chunk(3, -1)
        q, k, v = (one.unflatten(-1, (2, -1)).transpose(1, 2) for one in parts)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        out: Tensor = self.out(h.transpose(1, 2).flatten(2))
        return out


class SwiGlu(nn.Module):
    """Feed-forward block of Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class Transformer(nn.Module):
    """One block of GPT-2 (tied head), Llama or BERT over words, or of ViT over patches."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        norm = nn.RMSNorm if kind == "llama" else nn.LayerNorm
        self.first, self.second = norm(WIDTH), norm(WIDTH)
        self.attention = Attention(kind in ("gpt2", "vit"), kind in ("gpt2", "llama"))
        dense = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.dense: nn.Module = SwiGlu() if kind == "llama" else dense
        if kind == "vit":
            self.patches = nn.Conv2d(3, WIDTH, 4, 4).to(memory_format=torch.channels_last)
        else:
            self.words = nn.Embedding(WORDS, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if kind == "gpt2":
            self.head.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.patches(x).flatten(2).transpose(1, 2) if self.kind == "vit" else self.words(x)
        h = h + self.attention(self.first(h))
        out: Tensor = self.head(h + self.dense(self.second(h)))
        return out


def _vectors(draw: torch.Generator) -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=draw)


def _words(draw: torch.Generator) -> Tensor:
    return torch.randint(WORDS, (ROWS, LENGTH), generator=draw)


def _images(draw: torch.Generator) -> Tensor:
    return torch.randn(ROWS, 3, 12, 12, generator=draw)


BINARY = PhaseRoute(Route.G_BINARY)
NET, TERNARY = PhaseRoute(Route.G_BINARY, "net"), PhaseRoute(Route.G_TERNARY, "net")
INT4, INT8 = PhaseRoute(Route.G_INT4), PhaseRoute(Route.G_INT8)
FED = PhaseRoute(Route.G_BINARY, "net", feedback=True)


@dataclass(frozen=True)
class Setup:
    """Training of a net with low-bit gradients.

    Attributes:
        net: Makes the net.
        batch: Draws a batch.
        how: Route of all regions.
        options: Options of DistributedDataParallel.
        dtype: Type of the parameters.
        scaled: Whether it uses autocast to float16, and GradScaler.
        backwards: Backward passes of a step.
        clip: Whether gradients are clipped.
        join: Whether ranks have different numbers of batches.
        compiled: torch.compile "before" DDP or "after" it; "" for neither.
    """

    net: Callable[[], nn.Module] = ThreeLayers
    batch: Callable[[torch.Generator], Tensor] = _vectors
    how: PhaseRoute = BINARY
    options: Mapping[str, Any] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    scaled: bool = False
    backwards: int = 1
    clip: bool = False
    join: bool = False
    compiled: str = ""


SETUPS: dict[str, Setup] = {
    "plain": Setup(),
    "GPT-2, tied": Setup(lambda: Transformer("gpt2"), _words, NET),
    "Llama": Setup(lambda: Transformer("llama"), _words, TERNARY),
    "BERT": Setup(lambda: Transformer("bert"), _words, INT8),
    "ViT": Setup(lambda: Transformer("vit"), _images, INT4),
    "accumulation": Setup(how=FED, backwards=2),
    "clipping": Setup(how=TERNARY, clip=True),
    "bf16": Setup(dtype=torch.bfloat16),
    "fp16, GradScaler": Setup(how=FED, scaled=True),
    "checkpointing": Setup(lambda: ThreeLayers("checkpoint"), how=INT8),
    "frozen layers": Setup(lambda: ThreeLayers("frozen"), how=NET),
    "LoRA": Setup(lambda: ThreeLayers("lora"), how=TERNARY),
    "unused parameters": Setup(
        lambda: ThreeLayers("unused"), options={"find_unused_parameters": True}
    ),
    "static graph": Setup(how=INT4, options={"static_graph": True}),
    "small buckets": Setup(how=TERNARY, options={"bucket_cap_mb": 0.01}),
    "join": Setup(join=True),
    "compiled before DDP": Setup(how=NET, compiled="before"),
    "compiled after DDP": Setup(how=NET, compiled="after"),
}


class Training:
    """Training of a set-up on this rank.

    Args:
        setup: The set-up.
        engine: Engine of the hook.
        device: Device of the net.
        env: Environment of `attach`.
    """

    def __init__(
        self, setup: Setup, engine: str, device: torch.device, env: Mapping[str, str]
    ) -> None:
        torch.manual_seed(1)
        torch._dynamo.reset()
        self.setup, self.device, self.rank = setup, device, dist.get_rank()
        net = setup.net()
        backend = "inductor" if device.type == "cuda" else "eager"
        made: Any = net.to(device, setup.dtype)
        profile = profile_of(net, setup.how)
        if setup.compiled == "before":
            made = torch.compile(made, backend=backend)
        self.model: Any = DistributedDataParallel(made, **setup.options)
        self.scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, enabled=setup.scaled)
        scaler = self.scaler if setup.scaled else False
        self.session = attach(self.model, profile, engine=engine, scaler=scaler, env=env)
        if setup.compiled == "after":
            self.model = torch.compile(self.model, backend=backend)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        self.net = net

    def train(self) -> dict[str, Tensor]:
        """Train `STEPS` steps; return the weights on the CPU.

        With GradScaler a gradient of the last step but one is infinite on one rank, so that all
        skip it.
        """
        steps = STEPS + 2 * self.rank if self.setup.join else STEPS
        with self.model.join() if self.setup.join else nullcontext():
            for step in range(steps):
                self._step(step)
        assert self.session is not None
        self.sent = dict(self.session.sent)
        self.session.close()
        return {name: one.detach().cpu() for name, one in self.net.named_parameters()}

    def _step(self, step: int) -> None:
        setup = self.setup
        self.optimizer.zero_grad()
        for number in range(setup.backwards):
            last = number == setup.backwards - 1
            with nullcontext() if last else self.model.no_sync():
                self._backward(setup.backwards * step + number)
        if setup.clip:
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _backward(self, number: int) -> None:
        draw = torch.Generator().manual_seed(100 * number + self.rank)
        x = self.setup.batch(draw).to(self.device)
        if x.is_floating_point():
            x = x.to(self.setup.dtype)
        if self.setup.scaled and number == STEPS - 2 and self.rank == 0:
            x = x * torch.inf
        with torch.autocast(self.device.type, torch.float16, enabled=self.setup.scaled):
            out = self.model(x)
        self.scaler.scale(out.float().square().mean()).backward()


# ---- parts of the check ----------------------------------------------------------------------
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


def _seconds(way: Callable[[], object], device: torch.device) -> float:
    """Return the least time of seven runs, after two that are not measured."""

    def run() -> None:
        way()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return min(repeat(run, repeat=9, number=1)[2:])


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
    with rank.joined(300.0, backend):
        chosen = [one for one in parts.split(",") if one in PARTS]
        found = [line for one in chosen for line in PARTS[one](rank, device)]
        every: list[Any] = [None] * rank.world
        dist.all_gather_object(every, found)
        of_ranks = zip(*every, strict=True)
        lines = [max(own, key=lambda one: bool(one[1])) for own in of_ranks]
        times = speeds(device) if "speed" in parts else []
        rank.leave({"lines": lines, "speeds": times})


if __name__ == "__main__":
    main()
