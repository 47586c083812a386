# SPDX-License-Identifier: Apache-2.0
"""The ten classes of the other examples, as a workload."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from examples.digits import Digits, DigitsResNet
from examples.workload import Workload


class TenDigits:
    """See `digits.Digits`."""

    def __init__(self) -> None:
        self._digits = Digits()

    def batch(
        self, seed: int, step: int, rank: int, workers: int, size: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._digits.batch(seed, step, rank, workers, size)

    def loss(self, net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(net(x), y)

    def judge(self, net: nn.Module) -> float:
        """Per cent of the test images that are right."""
        return 100 * self._digits.judge(net)[1]


WORKLOAD = Workload(
    "digits",
    workers=4,
    batch=16,
    steps=96,
    metric="accuracy",
    higher=True,
    data=TenDigits,
    net=DigitsResNet,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    decay=True,  # at one rate to the end, FP32 alone ends 70 to 91 % right, by its seed
)
