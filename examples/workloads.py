# SPDX-License-Identifier: Apache-2.0
"""Workloads of the examples and of `nf train check`: a net, its data, its optimizer, its metric.

Each is small enough for two cores and needs no download: the images are scikit-learn's digits (8x8
pixels, ten classes), the texts are the help texts of Python (`pydoc_data`).
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pydoc_data.topics import topics as help_texts
from typing import Any

import torch
import torch._dynamo  # here and not in every rank: DDP imports it
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from neuron_fabric.capacity.gpt_model import Gpt

TEST_SHARE = 5  # every fifth image is kept for testing
GROUPS = 4  # of GroupNorm: a batch of a worker is too small for the statistics of BatchNorm
PAIRS_TESTED = 2000
LAYERS, LENGTH = 2, 64  # of the Transformers: blocks, and characters of a piece
PIECES_TESTED = 256
TOPICS, TOPIC_PIECES = 16, 64
SEEN = 3000  # characters of a text: 700 steps read them often enough to learn them
Batch = tuple[torch.Tensor, torch.Tensor]


class Data:
    """Base of data sets: random batches from a seed, disjoint between workers, and test data."""

    def batch(self, seed: int, step: int, rank: int, workers: int, size: int) -> Batch:
        """Return the examples of worker `rank` in a step: `size` inputs and labels."""
        draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
        x, y = self.draw(workers * size, draw)
        return x[rank::workers], y[rank::workers]

    def draw(self, count: int, draw: torch.Generator) -> Batch:
        """Draw `count` examples, those of all workers in a step: inputs and labels."""
        raise NotImplementedError

    def loss(self, net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(net(x), y)

    def judge(self, net: nn.Module) -> float:
        """Return the metric of the workload for a net, over the test data."""
        raise NotImplementedError


@torch.no_grad()
def accuracy(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the accuracy of a net for inputs x and classes y, in per cent."""
    return 100 * float((net(x).argmax(1) == y).float().mean())


# -- images ---------------------------------------------------------------------------------------
class Block(nn.Module):
    """Residual block: two 3x3 convolutions, added to a 1x1 convolution of the input."""

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
    """ResNet for images of 8x8 pixels: a stem, blocks of 8 and 16 channels, and a linear head."""

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


class Digits(Data):
    """scikit-learn's digits: images float32[n, 1, 8, 8] and labels int64[n].

    Every fifth image is a test image.
    """

    def __init__(self) -> None:
        pixels, labels = load_digits(return_X_y=True)
        images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        classes = torch.tensor(labels)
        test = torch.arange(len(classes)) % TEST_SHARE == 0
        self.train, self.train_labels = images[~test], classes[~test]
        self.test, self.test_labels = images[test], classes[test]

    def draw(self, count: int, draw: torch.Generator) -> Batch:
        chosen = torch.randperm(len(self.train), generator=draw)[:count]
        return self.train[chosen], self.train_labels[chosen]

    def judge(self, net: nn.Module) -> float:
        """Return the accuracy over the test images in per cent."""
        return accuracy(net, self.test, self.test_labels)


class PairsResNet(nn.Module):
    """ResNet for pairs of digits: a stem, blocks of 12, 24 and 48 channels, and a linear head.

    The head's inputs are the pooled features of the left and the right half.
    """

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


class Pairs(Data):
    """Two digits side by side: images float32[n, 1, 8, 16], classes 10 * left + right.

    With 100 classes the vote of a softmax head is orthogonal to its gradient. Test images consist
    of digits that no training image has.
    """

    def __init__(self) -> None:
        self._digits = Digits()
        draw = torch.Generator().manual_seed(100)
        test = self._digits.test, self._digits.test_labels
        self._test = _pairs(*test, PAIRS_TESTED, draw)

    def draw(self, count: int, draw: torch.Generator) -> Batch:
        return _pairs(self._digits.train, self._digits.train_labels, count, draw)

    def judge(self, net: nn.Module) -> float:
        """Return the accuracy over the test images in per cent."""
        return accuracy(net, *self._test)


def _pairs(
    images: torch.Tensor, labels: torch.Tensor, number: int, draw: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = torch.randint(len(images), (2, number), generator=draw)
    both = torch.cat([images[left], images[right]], dim=3)
    return both, 10 * labels[left] + labels[right]


# -- texts ----------------------------------------------------------------------------------------
class TransformerBlock(nn.Module):
    """Pre-norm Transformer block: attention, then two linear layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class SmallTransformer(nn.Module):
    """Transformer over characters.

    With ``causal`` it returns ``outputs`` numbers per position, else ``outputs`` numbers for the
    whole text.
    """

    def __init__(self, characters: int, outputs: int, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(TransformerBlock(width, heads) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length, mask = x.shape[1], None
        if self.causal:
            mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        y = self.characters(x) + self.places(torch.arange(length))
        for block in self.blocks:
            y = block(y, mask)
        y = self.norm(y)
        return self.head(y if self.causal else y.mean(1))


def _alphabet(texts: list[str]) -> dict[str, int]:
    return {one: n for n, one in enumerate(sorted(set("".join(texts))))}


_TEXTS = [help_texts[name] for name in sorted(help_texts)]
_LARGEST = [text[:SEEN] for text in sorted(_TEXTS, key=len)[-TOPICS:]]


class Characters(Data):
    """Prediction of the next character in pieces of 64 characters.

    The labels are the characters that follow each position. The last tenth of the texts is test
    data.
    """

    codes = _alphabet(_TEXTS)

    def __init__(self) -> None:
        codes = torch.tensor([self.codes[one] for one in "".join(_TEXTS)])
        cut = len(codes) * 9 // 10
        self._train, test = codes[:cut], codes[cut:]
        starts = torch.linspace(0, len(test) - LENGTH - 1, PIECES_TESTED).long()
        self._test = self._pieces(test, starts)

    def _pieces(self, codes: torch.Tensor, starts: torch.Tensor) -> Batch:
        index = starts[:, None] + torch.arange(LENGTH)
        return codes[index], codes[index + 1]

    def draw(self, count: int, draw: torch.Generator) -> Batch:
        starts = torch.randint(len(self._train) - LENGTH, (count,), generator=draw)
        return self._pieces(self._train, starts)

    def loss(self, net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(net(x).flatten(0, 1), y.flatten())

    @torch.no_grad()
    def judge(self, net: nn.Module) -> float:
        """Return the cross entropy over the test pieces in bits per character."""
        return self.loss(net, *self._test).item() / math.log(2)

    @classmethod
    def net(cls) -> nn.Module:
        return SmallTransformer(len(cls.codes), len(cls.codes), 64, 4, causal=True)

    @classmethod
    def gpt(cls) -> nn.Module:
        """Return a GPT of 1.4 M parameters, whose head is tied to the embedding."""
        net = Gpt(layers=3, width=192, tokens=len(cls.codes), length=LENGTH)
        with torch.no_grad():  # a standard deviation of 1 is too much for the tied head
            for embedding in (net.embedding, net.position):
                embedding.weight.mul_(0.02)
        return net


class Topics(Data):
    """Classification of the topic of a piece of 64 characters, tested on text that was trained on.

    On text that is held out FP32 reaches 42.6 % and 1 bit 39.3 % (whole texts, pieces of 96
    characters, seeds 1 to 3), too close to tell them apart.
    """

    codes = _alphabet(_LARGEST)

    def __init__(self) -> None:
        self._codes = torch.tensor([[self.codes[one] for one in text] for text in _LARGEST])
        draw = torch.Generator().manual_seed(16)
        numbers = torch.arange(TOPICS).repeat(TOPIC_PIECES)
        self._test = self._pieces(numbers, draw), numbers

    def draw(self, count: int, draw: torch.Generator) -> Batch:
        numbers = torch.randint(TOPICS, (count,), generator=draw)
        return self._pieces(numbers, draw), numbers

    def judge(self, net: nn.Module) -> float:
        """Return the accuracy over the test pieces in per cent."""
        return accuracy(net, *self._test)

    def _pieces(self, numbers: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
        first = torch.randint(SEEN - LENGTH, (len(numbers), 1), generator=draw)
        return self._codes[numbers[:, None], first + torch.arange(LENGTH)]

    @classmethod
    def net(cls) -> nn.Module:
        net = SmallTransformer(len(cls.codes), TOPICS, 52, 2, causal=False)
        with torch.no_grad():  # a standard deviation of 1 would dominate the attention
            for embedding in (net.characters, net.places):
                embedding.weight.mul_(0.1)
        return net


# -- table ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Workload:
    """Settings of a training: model, data, optimizer, and numbers of workers and steps.

    Attributes:
        workers: Number of workers.
        batch: Examples per worker and step.
        steps: Default number of steps.
        metric: Name of the number that `Data.judge` returns.
        higher: Whether a higher metric is better.
        data: Makes the data set.
        net: Makes the model.
        optimizer: Makes the optimizer of given parameters.
        decay: Whether the learning rate decays linearly to 0.
    """

    workers: int
    batch: int
    steps: int
    metric: str
    higher: bool
    data: Callable[[], Data]
    net: Callable[[], nn.Module]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    decay: bool = False

    def rate(self, step: int, steps: int) -> float:
        """Return the factor of the learning rate in `step` of `steps`; 1 unless it decays."""
        return 1 - step / steps if self.decay else 1.0


def _sgd(rate: float) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=0.9)


def _adam(parameters: Any, rate: float = 3e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=rate)


WORKLOADS: Mapping[str, Workload] = {
    "pairs100": Workload(8, 16, 200, "accuracy", True, Pairs, PairsResNet, _sgd(0.05), decay=True),
    # At one rate to the end FP32 alone ends 70 to 91 % right, depending on the seed.
    "digits": Workload(4, 16, 96, "accuracy", True, Digits, DigitsResNet, _sgd(0.1), decay=True),
    "charlm": Workload(8, 4, 250, "bits a character", False, Characters, Characters.net, _adam),
    "topics": Workload(8, 8, 700, "accuracy", True, Topics, Topics.net, _adam),
    "gpt": Workload(
        *(4, 2, 320, "bits a character", False, Characters, Characters.gpt),
        partial(_adam, rate=1e-3),
    ),
}


@contextlib.contextmanager
def gloo(backend: str = "gloo", **where: Any) -> Iterator[None]:
    """Initialize the process group, by default from the environment of torchrun.

    ``where`` are further arguments of `init_process_group`. At the end of the block it waits for
    all workers and destroys the group. Models must be gone by then (so train in a separate
    function): a model keeps the group alive, and a thread of gloo that outlives Python aborts the
    process at its exit.
    """
    torch.set_num_threads(1)
    dist.init_process_group(backend, **where)
    yield
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


def fork_ranks(do: Callable[[int], int], workers: int, folder: str) -> None:
    """Fork ranks of one gloo group, which exit with the code of ``do(rank)``, and wait for them.

    Args:
        do: Function of the rank; its models are gone when it returns.
        workers: Number of ranks.
        folder: Folder for the store of the group, used by one group alone.

    Raises:
        ProcessExitedException: A rank has ended with another code than 0.
    """
    gc.freeze()  # a collection in a rank need not look at all of torch
    torch.multiprocessing.start_processes(
        _rank, (do, workers, folder), nprocs=workers, start_method="fork"
    )


def _rank(rank: int, do: Callable[[int], int], workers: int, folder: str) -> None:
    warnings.simplefilter("ignore")
    with gloo(init_method=f"file://{folder}/store", rank=rank, world_size=workers):
        try:
            code = do(rank)
        except Exception:
            # The launcher of torch would print the exception, but call no excepthook, by which
            # `attach` names a lost rank.
            sys.excepthook(*sys.exc_info())
            code = 1
        sys.stdout.flush()
    os._exit(code)  # a thread of gloo may outlive its group
