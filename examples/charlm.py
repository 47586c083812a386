# SPDX-License-Identifier: Apache-2.0
"""The next character of Python's help texts, by a small Transformer; the last tenth is kept for
judging."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from examples.small_transformer import SmallTransformer, alphabet, texts
from examples.workload import Workload

LENGTH, WIDTH, HEADS = 64, 64, 4
TESTED = 256
_TEXTS = texts()
_CODES = alphabet(_TEXTS)


class Characters:
    """Pieces of 64 characters, and those that follow each."""

    def __init__(self) -> None:
        codes = torch.tensor([_CODES[one] for one in "".join(_TEXTS)])
        cut = len(codes) * 9 // 10
        self._train, test = codes[:cut], codes[cut:]
        starts = torch.linspace(0, len(test) - LENGTH - 1, TESTED).long()
        self._test, self._next = _pieces(test, starts)

    def batch(
        self, seed: int, step: int, rank: int, workers: int, size: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
        most = len(self._train) - LENGTH
        starts = torch.randint(most, (workers * size,), generator=draw)
        return _pieces(self._train, starts[rank::workers])

    def loss(self, net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(net(x).flatten(0, 1), y.flatten())

    @torch.no_grad()
    def judge(self, net: nn.Module) -> float:
        """Bits a character."""
        return self.loss(net, self._test, self._next).item() / math.log(2)


def _pieces(codes: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    index = starts[:, None] + torch.arange(LENGTH)
    return codes[index], codes[index + 1]


WORKLOAD = Workload(
    "charlm",
    workers=8,
    batch=4,
    steps=250,
    metric="bits a character",
    higher=False,
    data=Characters,
    net=lambda: SmallTransformer(len(_CODES), len(_CODES), WIDTH, LENGTH, HEADS, causal=True),
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
)
