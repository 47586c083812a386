# SPDX-License-Identifier: Apache-2.0
"""What the examples train: a small ResNet on scikit-learn's digits (8x8 pixels, ten classes)."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

TEST_SHARE = 5  # every fifth image is kept for testing
GROUPS = 4  # of GroupNorm: a worker has too few images a step for the statistics of BatchNorm


class Block(nn.Module):
    """Two 3x3 convolutions beside a short cut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(GROUPS, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(GROUPS, outputs)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.short(x))


class DigitsResNet(nn.Module):
    """A stem, two blocks of 8 and 16 channels, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, 1, 1, bias=False)
        self.norm = nn.GroupNorm(GROUPS, 8)
        self.block1 = Block(8, 8, 1)
        self.block2 = Block(8, 16, 2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.stem(x)))
        x = self.block2(self.block1(x))
        return self.head(x.mean(dim=(2, 3)))


class Digits:
    """Images float32[n, 1, 8, 8] and labels int64[n], apart for training and testing."""

    def __init__(self) -> None:
        pixels, labels = load_digits(return_X_y=True)
        images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        classes = torch.tensor(labels)
        test = torch.arange(len(classes)) % TEST_SHARE == 0
        self.train, self.train_labels = images[~test], classes[~test]
        self.test, self.test_labels = images[test], classes[test]

    def batch(
        self, seed: int, step: int, rank: int, workers: int, size: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The images of one worker in one step: drawn from the seed, apart between workers."""
        draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
        chosen = torch.randperm(len(self.train), generator=draw)[: workers * size]
        own = chosen[rank::workers]
        return self.train[own], self.train_labels[own]

    @torch.no_grad()
    def judge(self, net: nn.Module) -> tuple[float, float]:
        """(mean loss over the training images, accuracy over the test images)."""
        net.eval()
        loss = functional.cross_entropy(net(self.train), self.train_labels).item()
        right = (net(self.test).argmax(dim=1) == self.test_labels).float().mean().item()
        net.train()
        return loss, right


@contextlib.contextmanager
def gloo() -> Iterator[None]:
    """A process group of CPU workers, from the environment that torchrun or `nf capture` gives.

    Models must be gone when the block ends (so train in a function of its own): a model keeps the
    group alive, and a thread of gloo that outlives Python aborts the process at its exit.
    """
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    yield
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
