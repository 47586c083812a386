# SPDX-License-Identifier: Apache-2.0
"""Statistics of a shadow without a training; `tests/ddp/shadow_cases.py` has those of trainings."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.calibration.shadow_router import NAMES, shadow_sums
from neuron_fabric.profile.samples import Samples, Way
from neuron_fabric.tests.ddp.shadow_cases import naive_statistics


def test_what_is_not_finite_has_no_cosine() -> None:
    x = np.ones(4, np.float32)
    bad = np.array([1, np.nan, 1, 1], np.float32)
    for m, d, norm in ((bad, x, 1.0), (x, bad, 1.0), (x, x, np.inf)):
        assert not any(shadow_sums(m, d, x, 2, np.array([norm, 0.0, 8.0])).values())


def test_means_of_a_region() -> None:
    """Check ratios of sums over a region's tensors, averaged over the samples of a window."""
    sent = np.random.default_rng(2).standard_normal((2, 4, 2, 500)).astype(np.float32)
    each = [[naive_statistics(x, "G_BINARY", "vote") for x in s.transpose(1, 0, 2)] for s in sent]
    whole = [naive_statistics(s.reshape(4, 1000), "G_BINARY", "vote") for s in sent]
    way = Way("steady", "G_BINARY", "vote")
    sums = {name: np.array([[one[name] for one in row] for row in each]) for name in NAMES}
    samples = Samples(4, ("a", "b"), (500, 500), {"steady": np.arange(2)}, {way: sums})
    found = samples.statistics(way, [0, 1], [np.ones(2, bool)])
    for name, wanted in {
        "gate": [1.0, 1.0],
        "snr": [3 * one["mean2"] / one["noise2"] for one in whole],
        "moment4": [1000 * one["mean4"] / one["mean2"] ** 2 for one in whole],
        "agreement": [one["agree"] / 1000 for one in whole],
        "weighted_agreement": [one["weighted"] / one["mean1"] for one in whole],
    }.items():
        assert found[name][0] == pytest.approx(np.mean(wanted), rel=1e-5)
    # Random signs: no margin that the monitor could judge by.
    assert ("margin" in found) == (np.mean([one["margin"] for one in whole]) > 0)
