# SPDX-License-Identifier: Apache-2.0
"""Batch, accumulation and autocast, as the forward passes of a training show them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from torch import nn

from neuron_fabric.hook.conditions import ConditionProbe, optimizer_name, valid_for
from neuron_fabric.profile.portability import Conditions
from neuron_fabric.profile.profile_types import ValidFor


class Model(nn.Module):
    """Stand-in for DistributedDataParallel, which knows whether a backward ends in a reduction."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.require_backward_grad_sync = nn.Linear(3, 3), True

    def forward(self, inputs: Any, more: Any = None) -> Any:
        return self.layer(inputs["x"] if isinstance(inputs, dict) else inputs)


def seen(*passes: tuple[Any, bool], amp: Any = None) -> Conditions:
    """Return the observed forward passes: inputs, and whether each is reduced."""
    model = Model()
    watch = ConditionProbe(model)
    for inputs, sync in passes:
        model.require_backward_grad_sync = sync
        with torch.autocast("cpu", amp or torch.bfloat16, enabled=amp is not None):
            model(inputs)
    return watch.found


def test_what_is_seen() -> None:
    x = torch.zeros(5, 3)
    assert seen((x, True)) == Conditions(None, 5, 1, amp="off")
    assert seen((x, False), (x, False), (x, True), (x, True)).accumulation == 3
    assert seen((x, False)) == Conditions()
    assert seen(({"n": 3, "x": torch.zeros(7, 3)}, True)).batch_per_worker == 7
    for amp in (torch.bfloat16, torch.float16):
        assert seen((x, True), amp=amp).amp == str(amp).removeprefix("torch.")


def test_evaluation_does_not_count() -> None:
    model = Model()
    watch = ConditionProbe(model)
    with torch.no_grad():
        model(torch.zeros(9, 3))
    model.eval()
    model(torch.zeros(9, 3))
    model.train()
    assert watch.found == Conditions()
    model(inputs=torch.zeros(2, 3))
    assert (watch.found.batch_per_worker, watch.found.accumulation) == (2, 1)
    assert not model._forward_pre_hooks


def test_what_is_told_comes_first() -> None:
    told = Conditions(None, 8, None, "SGD()", True, None)
    found = valid_for(told, Conditions(None, 9, 2, amp="off"), 4)
    assert found == ValidFor((4, 4), (8, 8), 2, "SGD()", True, "off")
    assert valid_for(Conditions(), Conditions(), 1) == ValidFor((1, 1))


def test_the_name_of_an_optimizer() -> None:
    parameters = [torch.zeros(1, requires_grad=True)]
    assert optimizer_name(None) is None
    assert optimizer_name(torch.optim.SGD(parameters, 1, momentum=0.9)) == "SGD(momentum=0.9)"
    assert optimizer_name(torch.optim.AdamW(parameters)) == "AdamW()"
