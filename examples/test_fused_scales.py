# SPDX-License-Identifier: Apache-2.0
"""Scales by rows for the fused query, key and value of a GPT, after 200 steps of training."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from examples.workloads import WORKLOADS  # noqa: E402
from neuron_fabric.codec import Route  # noqa: E402
from neuron_fabric.codec.scale_groups import ScaleGroups, groups_of  # noqa: E402

SEED, STEPS = 1, 200


def cosine(x: np.ndarray, net: bool, groups: ScaleGroups | None) -> float:
    """Return the cosine of the mean of gradients float32[W, n] and their decoded votes of one bit.

    Args:
        x: Gradients of the workers.
        net: Decode the counts, not the vote.
        groups: Groups with a scale each; None for one scale.
    """
    counts = np.where(x < 0, -1, 1).sum(axis=0).astype(np.float32)
    decoded = counts if net else np.where(counts < 0, np.float32(-1), np.float32(1))
    if groups is not None:
        groups.multiply(decoded, np.mean([groups.means(own) for own in x], axis=0))
    mean, wide = x.mean(axis=0, dtype=np.float64), decoded.astype(np.float64)
    return float(mean @ wide / np.sqrt(mean @ mean * (wide @ wide)))


@pytest.mark.nightly("a minute of training; profile/test_rule has a capture of the first steps")
def test_a_trained_fused_layer_gains_by_scales_of_rows() -> None:
    """Check every fused layer of the GPT: rows are torch's columns of GPT-2's transposed layer.

    Workers that disagree bound the vote; the last number has a scale for each element.
    """
    work = WORKLOADS["gpt"]
    data = work.data()
    torch.manual_seed(SEED)
    net = work.net()
    optimizer = work.optimizer(net.parameters())
    names = [name for name, _ in net.named_parameters()]
    for step in range(STEPS + 1):
        own = []
        for rank in range(work.workers):
            batch = data.batch(SEED, step, rank, work.workers, work.batch)
            gradients = torch.autograd.grad(data.loss(net, *batch), list(net.parameters()))
            own.append([one.detach() for one in gradients])
        for parameter, *each in zip(net.parameters(), *own, strict=True):
            parameter.grad = torch.stack(each).mean(0)
        optimizer.step()
    for name, *each in zip(names, *own, strict=True):
        if not name.endswith("in_proj.weight"):
            continue
        groups = groups_of(each[0].shape, each[0].stride(), Route.G_BINARY, "row")
        assert groups is not None
        x = np.stack([one.numpy().reshape(-1) for one in each])
        votes = [cosine(x, net, one) for net in (False, True) for one in (None, groups)]
        single = ScaleGroups(1, x.shape[1], 1, 1)
        figures = ", ".join(f"{one:.3f}" for one in (*votes, cosine(x, False, single)))
        print(f"{name}: vote, by rows, net, by rows, vote by elements: {figures}")
        assert votes[1] > votes[0] + 0.02
        assert votes[3] > votes[2] + 0.02
        assert votes[3] >= 0.65
