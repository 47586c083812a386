# SPDX-License-Identifier: Apache-2.0
"""Statistics of a shadow compared with their definitions, and votes from counts with the codec."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuron_fabric.calibration.shadow_router import (
    NAMES,
    OfWorkers,
    decoded_net,
    decoded_vote,
    shadow_sums,
    squared,
)
from neuron_fabric.codec import Route, count, pack, unpack, unpack_net
from neuron_fabric.profile.samples import Samples, Way
from neuron_fabric.tests.ddp.naive_statistics import naive_statistics

ROUTES = (Route.G_BINARY, Route.G_TERNARY)
EXACT = 1 / 64
"""Gradients are multiples of this, so that rounding decides no sign and no tie."""


@st.composite
def gradients(draw: st.DrawFn) -> NDArray[np.float32]:
    """Draw float32[W, n] with zeros and ties; some workers have zeros only."""
    workers, size = draw(st.integers(1, 9)), draw(st.integers(1, 700))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sent = rng.integers(-6, 7, (workers, size)) * EXACT
    silent = draw(st.sets(st.integers(0, workers - 1), max_size=2))
    sent[sorted(silent)] = 0
    return sent.astype(np.float32)


def shadow(sent: NDArray[np.float32], route: Route) -> dict[str, dict[str, float]]:
    """Return the statistics by decode, computed as in the hook."""
    packed = [pack(one, route) for one in sent]
    here = np.array([one.zeros < sent.shape[1] and one.open_gates > 0 for one in packed])
    lines = np.stack([one.lines for one in packed])
    present = np.repeat(here[:, None], lines.shape[1], axis=1)
    vote, planes = count(lines, route, present=present)
    m, size = int(here.sum()), sent.shape[1]
    net = unpack_net(planes, route, size, m, scale=float(m))
    total = np.float32(sum(float(p.scale) for p, one in zip(packed, here, strict=True) if one))
    s = np.float32(total / np.float32(m)) if m else np.float32(0)
    votes = unpack(vote, route, size, scale=float(s)) if m else np.zeros(size, np.float32)
    np.testing.assert_array_equal(decoded_vote(net, route, s), votes)
    d = {"vote": votes, "net": decoded_net(net, s, np.float32(m)) if m else net}
    if m:
        wanted = unpack_net(planes, route, size, m, scale=float(s))
        np.testing.assert_array_equal(d["net"], wanted)
    own = OfWorkers(
        sum(squared(one) for one in sent),
        sum(float(one.zeros) for one in packed),
        {route: sum(float(one.open_gates) for one in packed)},
    )
    mean = (sent.astype(np.float64).sum(axis=0) / len(sent)).astype(np.float32)
    return {name: shadow_sums(mean, one, net, len(sent), route, own) for name, one in d.items()}


@settings(deadline=None)
@given(gradients())
def test_they_are_the_definitions(sent: NDArray[np.float32]) -> None:
    for route in ROUTES:
        for decode, found in shadow(sent, route).items():
            wanted = naive_statistics(sent, route.value, decode)
            assert found == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_each_sum_is_compared(name: str) -> None:
    """Check that each statistic is compared: a twin that differs by 1 % is detected."""
    sent = np.random.default_rng(1).standard_normal((8, 600)).astype(np.float32)
    found = shadow(sent, Route.G_TERNARY)["net"]
    if name == "zeros":
        return  # there is none in this one
    wanted = naive_statistics(sent, "G_TERNARY", "net")
    assert found == pytest.approx(wanted, rel=1e-4)
    assert {**found, name: found[name] * 1.01} != pytest.approx(wanted, rel=1e-4)


def test_what_is_not_finite_has_no_cosine() -> None:
    x = np.ones(4, np.float32)
    own = OfWorkers(1.0, 0.0, {Route.G_BINARY: 8.0})
    bad = np.array([1, np.nan, 1, 1], np.float32)
    for m, d, norm in ((bad, x, 1.0), (x, bad, 1.0), (x, x, np.inf)):
        of = OfWorkers(norm, own.zeros, own.gates)
        assert not any(shadow_sums(m, d, x, 2, Route.G_BINARY, of).values())


def test_means_of_a_region() -> None:
    """Check ratios of sums over a region's tensors, averaged over the samples of a window."""
    rng = np.random.default_rng(2)
    way, sent = Way("steady", "G_BINARY", "vote"), rng.standard_normal((2, 4, 2, 500))
    rows = np.array(
        [
            [list(shadow(x.astype(np.float32), Route.G_BINARY)["vote"].values()) for x in of_step]
            for of_step in sent.transpose(0, 2, 1, 3)
        ]
    )
    order = list(shadow(np.ones((4, 5), np.float32), Route.G_BINARY)["vote"])
    sums = {way: {name: rows[:, :, order.index(name)] for name in NAMES}}
    samples = Samples(4, ("a", "b"), (500, 500), {"steady": np.arange(2)}, sums)
    found = samples.statistics(way, [0, 1], [np.ones(2, bool)])
    whole = [
        naive_statistics(x.reshape(4, 1000).astype(np.float32), "G_BINARY", "vote") for x in sent
    ]
    share = np.mean([one["agree"] / 1000 for one in whole])
    assert found["gate"] == (1.0, 1.0)
    assert found["snr"][0] == pytest.approx(
        np.mean([3 * one["mean2"] / one["noise2"] for one in whole]), rel=1e-5
    )
    assert found["moment4"][0] == pytest.approx(
        np.mean([1000 * one["mean4"] / one["mean2"] ** 2 for one in whole]), rel=1e-5
    )
    weighted = np.mean([one["weighted"] / one["mean1"] for one in whole])
    assert found["agreement"][0] == pytest.approx(share)
    assert found["weighted_agreement"][0] == pytest.approx(weighted, rel=1e-5)
    # Random signs: no margin that the monitor could judge by.
    assert ("margin" in found) == (np.mean([one["margin"] for one in whole]) > 0)
