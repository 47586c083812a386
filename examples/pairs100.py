# SPDX-License-Identifier: Apache-2.0
"""Two digits side by side: 100 classes, on which the vote of a softmax head points nowhere.

Images for testing are made of digits that no image for training has.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from examples.digits import GROUPS, Block, Digits
from examples.workload import Workload

TESTED = 2000


class PairsResNet(nn.Module):
    """A stem, three blocks of 12, 24 and 48 channels, and a head that sees both halves."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 12, 3, 1, 1, bias=False)
        self.norm = nn.GroupNorm(GROUPS, 12)
        self.block1 = Block(12, 12, 1)
        self.block2 = Block(12, 24, 2)
        self.block3 = Block(24, 48, 2)
        self.head = nn.Linear(2 * 48, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.stem(x)))
        x = self.block3(self.block2(self.block1(x)))
        halves = functional.adaptive_avg_pool2d(x, (1, 2))
        return self.head(halves.flatten(1))


class Pairs:
    """Images float32[n, 1, 8, 16], classes 10 * left + right."""

    def __init__(self) -> None:
        self._digits = Digits()
        draw = torch.Generator().manual_seed(100)
        test = self._digits.test, self._digits.test_labels
        self._test, self._test_classes = _pairs(*test, TESTED, draw)

    def batch(
        self, seed: int, step: int, rank: int, workers: int, size: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
        train = self._digits.train, self._digits.train_labels
        images, classes = _pairs(*train, workers * size, draw)
        return images[rank::workers], classes[rank::workers]

    def loss(self, net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(net(x), y)

    @torch.no_grad()
    def judge(self, net: nn.Module) -> float:
        """Per cent of the test images that are right."""
        return 100 * float((net(self._test).argmax(1) == self._test_classes).float().mean())


def _pairs(
    images: torch.Tensor, labels: torch.Tensor, number: int, draw: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = torch.randint(len(images), (2, number), generator=draw)
    both = torch.cat([images[left], images[right]], dim=3)
    return both, 10 * labels[left] + labels[right]


WORKLOAD = Workload(
    "pairs100",
    workers=8,
    batch=16,
    steps=200,
    metric="accuracy",
    higher=True,
    data=Pairs,
    net=PairsResNet,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    decay=True,
)
