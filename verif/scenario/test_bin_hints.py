# SPDX-License-Identifier: Apache-2.0
"""Tests of `bin_hints.toml`: knobs, choices, points and words exist, and hints change the draws."""

import fnmatch
import random

from scripts.coverage import functional_coverage
from verif.coverage.cover_model import BETWEEN
from verif.scenario.weights import CHEAP, HINTS, KNOBS, Weights, hints, pairs


def test_hints_are_choices_of_knobs() -> None:
    named = {pair for hint in HINTS for text in hint.words.values() for pair in pairs(text)}
    known = {(name, choice) for name, knob in KNOBS.items() for choice in knob.weights}
    assert named | CHEAP <= known


def test_hints_belong_to_points_and_words_of_bins() -> None:
    points = functional_coverage.planned().points
    values = {v for p in points.values() for name in p.bins for v in name.split(BETWEEN)}
    words = {"", *values, *(word for value in values for word in value.split())}
    for hint in HINTS:
        assert all(fnmatch.filter(points, glob) for glob in hint.points), hint.points
        assert hint.words.keys() <= words, (hint.points, hint.words.keys() - words)


def test_a_bin_asks_for_its_words_and_for_a_cheap_run() -> None:
    asked = hints("workers", "FP32 x 37")
    assert {("mode", "FP32"), ("workers", "37"), ("regions", "all")} <= asked
    assert {choice for knob, choice in asked if knob == "lines"} == {"1"}  # its own hint
    assert ("latency", "1..3") in asked


def test_an_exact_number_of_workers_is_drawn_on_demand_alone() -> None:
    def drawn(*overrides: dict[str, dict[str, float]]) -> set[str]:
        rng, weights = random.Random(1), Weights(*overrides)
        return {weights.pick(rng, "workers") for _ in range(2000)}

    assert "37" not in drawn()
    only = {**dict.fromkeys(KNOBS["workers"].weights, 0.0), "37": 1.0}
    assert drawn({"workers": only}) == {"37"}
