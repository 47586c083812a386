# SPDX-License-Identifier: Apache-2.0
"""Which of 16 of Python's help texts a piece is from.

Judged by other pieces of the text that was seen: what 1 bit costs shows there. Of stripes that are
kept apart FP32 found 42.6 %, and 1 bit 39.3 % (whole texts, pieces of 96 characters, seeds 1 to 3).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from examples.small_transformer import SmallTransformer, alphabet, texts
from examples.workload import Workload

TOPICS, LENGTH, WIDTH, HEADS = 16, 64, 52, 2
SEEN = 3000  # characters of a text: 700 steps go over them often enough to learn them
TESTED = 64  # pieces of a topic
_LARGEST = [text[:SEEN] for text in sorted(texts(), key=len)[-TOPICS:]]
_CODES = alphabet(_LARGEST)


class Topics:
    """Pieces of 64 characters, and their topic's number."""

    def __init__(self) -> None:
        self._codes = torch.tensor([[_CODES[one] for one in text] for text in _LARGEST])
        draw = torch.Generator().manual_seed(16)
        numbers = torch.arange(TOPICS).repeat(TESTED)
        self._test, self._numbers = self._pieces(numbers, draw), numbers

    def batch(
        self, seed: int, step: int, rank: int, workers: int, size: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
        numbers = torch.randint(TOPICS, (workers * size,), generator=draw)
        pieces = self._pieces(numbers, draw)
        return pieces[rank::workers], numbers[rank::workers]

    def loss(self, net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(net(x), y)

    @torch.no_grad()
    def judge(self, net: nn.Module) -> float:
        """Per cent of the test pieces that are right."""
        return 100 * float((net(self._test).argmax(1) == self._numbers).float().mean())

    def _pieces(self, numbers: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
        first = torch.randint(SEEN - LENGTH, (len(numbers), 1), generator=draw)
        return self._codes[numbers[:, None], first + torch.arange(LENGTH)]


def _net() -> SmallTransformer:
    net = SmallTransformer(len(_CODES), TOPICS, WIDTH, LENGTH, HEADS, causal=False)
    with torch.no_grad():  # a standard deviation of 1 is large beside what attention adds
        for embedding in (net.characters, net.places):
            embedding.weight.mul_(0.1)
    return net


WORKLOAD = Workload(
    "topics",
    workers=8,
    batch=8,
    steps=700,
    metric="accuracy",
    higher=True,
    data=Topics,
    net=_net,
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
)
