# SPDX-License-Identifier: Apache-2.0
"""Set-ups of trainings for `nf train check gpu`: small stand-ins for models and uses of DDP.

transformers is not needed: GPT-2, Llama, BERT and ViT are nets of one block with their parts. A
set-up trains a few steps with low-bit gradients, by `attach`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from neuron_fabric import attach
from neuron_fabric.codec import Route
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.profile.profile_types import LEAST_WARMUP
from scripts.ranks.rank_process import profile_of

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
