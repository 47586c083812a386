# SPDX-License-Identifier: Apache-2.0
"""What the checks train: a net, its data, its optimizer, and how it is judged.

Each is small enough for two cores, and stands alone: scikit-learn's digits, and the texts of
`pydoc_data`, which come with Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

MODULES = {
    "pairs100": "examples.pairs100",
    "digits": "examples.digits_workload",
    "charlm": "examples.charlm",
    "topics": "examples.topics",
}


class Data(Protocol):
    """Batches drawn from a seed, apart between workers; and what is kept for judging."""

    def batch(
        self, seed: int, step: int, rank: int, workers: int, size: int
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

    def loss(self, net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor: ...

    def judge(self, net: nn.Module) -> float: ...


@dataclass(frozen=True)
class Workload:
    """``workers`` with ``batch`` examples each, for ``steps``. ``metric`` is what `Data.judge`
    gives, ``higher`` whether more of it is better. ``decay``: of the learning rate, linear."""

    name: str
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
        """Factor of the learning rate."""
        return 1 - step / steps if self.decay else 1.0


def workload(name: str) -> Workload:
    """By name. KeyError."""
    found: Workload = importlib.import_module(MODULES[name]).WORKLOAD
    return found
