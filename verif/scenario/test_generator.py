# SPDX-License-Identifier: Apache-2.0
"""Tests of the scenario generator: draws are legal, reproducible, and reach every choice of a
knob.
"""

from collections import Counter

import numpy as np
import pytest

from models.commit_check import CommitCode, check_commit
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from neuron_fabric.data import DataError
from verif.scenario import weights
from verif.scenario.generator import fp32, generate, lines_of, low_bit
from verif.scenario.scenario_data import Do, listing, parse
from verif.scenario.weights import KNOBS, USES, Weights

SMALL = DeviceParams(regions=3, slots=4, cnt_w=4)
EDGE_SMALL = DeviceParams(regions=1, slots=4, cnt_w=1, mem_lines_log2=8, retry_depth=22)
EDGE_LARGE = DeviceParams(regions=16, slots=256, mem_lines_log2=38, retry_depth=255)
DEVICES = (DeviceParams(), SMALL, EDGE_SMALL, EDGE_LARGE)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("use", ["mixed", *USES])
def test_a_scenario_is_plain_data(device: DeviceParams, use: str) -> None:
    table = Weights(USES.get(use, {}))
    drawn = generate(7, device, table, 60)
    assert drawn == generate(7, device, table, 60)
    assert parse(drawn.text()) == drawn
    assert len(drawn.operations) >= 60
    assert len(listing(drawn)) > len(drawn.operations)


def test_seeds_differ() -> None:
    table = Weights()
    assert len({generate(seed, SMALL, table, 30).text() for seed in range(8)}) == 8


def test_every_shape_of_a_region_is_drawn() -> None:
    table = Weights()
    configs: list[RegionConfig] = []
    codes: Counter[CommitCode] = Counter()
    for seed in range(60):
        drawn = generate(seed, DeviceParams(), table, 60)
        active: dict[int, RegionConfig] = {}
        for one in drawn.operations:
            if one.do is Do.COMMIT:
                region = drawn.regions[one.region]
                others = [c for number, c in active.items() if number != region.number]
                code = check_commit(drawn.hardware, region.config, others)
                codes[code] += 1
                if code is CommitCode.OK:
                    active[region.number] = region.config
                    configs.append(region.config)
    assert {mode for mode in Mode if not mode.optional} == {config.mode for config in configs}
    assert {1, 2, 3, 63, 64} <= {config.workers for config in configs}
    assert {0, 13} <= {config.lines_log2 for config in configs}
    assert max(config.lines_log2 for config in configs) > 13
    assert {config.threshold for config in configs} >= {1, 255}
    assert codes[CommitCode.OK] > 200
    assert len(codes) >= 8  # refused ones, by code


def test_every_choice_of_every_knob_is_drawn() -> None:
    class Noting(Weights):
        def pick(self, rng, knob):  # type: ignore[no-untyped-def]
            choice = super().pick(rng, knob)
            seen.add((knob, choice))
            return choice

    seen: set[tuple[str, str]] = set()
    for seed in range(300):
        generate(seed, DeviceParams(), Noting(), 120)
    missing = {(n, c) for n, knob in KNOBS.items() for c, w in knob.weights.items() if w} - seen
    assert not missing


def test_weights_move_the_draws() -> None:
    modes = [mode for mode in Mode if not mode.optional]
    table = Weights({"mode": {mode.name: float(mode is Mode.FP32) for mode in modes}})
    drawn = generate(1, DeviceParams(), table, 60)
    # The end of a scenario may claim one small low-bit area, to wait for the initialiser.
    shapes = {(region.config.mode, region.config.lines) for region in drawn.regions}
    assert {mode for mode, lines in shapes if lines > 1} == {Mode.FP32}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"colour": {"red": 1}}', "no knob 'colour'"),
        ('{"mode": {"FP64": 1}}', "no choice 'FP64'"),
        ('{"tie": {"PLUS": -1}}', "must be 0 or more"),
        ('{"tie": {"PLUS": 0, "MINUS": 0}}', "no choice with a weight"),
        ('{"tie": 3}', "not an object"),
        ("{", "malformed"),
    ],
)
def test_bad_weights_are_told(text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        weights.parse(text)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"version": 1', '"version": 9', "version 9"),
        ('"do": "commit"', '"do": "jump"', "not one of"),
        ('"number": ', '"number": 9', "no region"),
        ('"region": 0', '"region": 99', "no such"),
        ('"data": "', '"data": "0', "128 digits"),
    ],
)
def test_a_damaged_scenario_is_told(old: str, new: str, says: str) -> None:
    text = generate(3, SMALL, Weights(), 60).text()
    assert old in text
    with pytest.raises(DataError, match=says):
        parse(text.replace(old, new, 1))


# -- values -----------------------------------------------------------------------------------
def region(mode: Mode, workers: int, threshold: int = 1) -> RegionConfig:
    return RegionConfig(1 << 30, 0, 0, workers, mode, threshold=threshold)


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 8, 63, 64])
def test_ties_are_exact(workers: int) -> None:
    rng = np.random.default_rng(workers)
    votes = low_bit("ties", workers, region(Mode.G_BINARY, workers), rng)
    assert set((votes > 0).sum(axis=0)) <= {workers // 2, (workers + 1) // 2}
    assert set((votes > 0).sum(axis=0) + (votes < 0).sum(axis=0)) == {workers}


@pytest.mark.parametrize("threshold", [1, 3, 20])
def test_net_is_near_the_threshold(threshold: int) -> None:
    rng = np.random.default_rng(threshold)
    votes = low_bit("near threshold", 33, region(Mode.G_TERNARY, 33, threshold), rng)
    net = np.abs(votes.astype(int).sum(axis=0))
    assert set(net) == {threshold - 1, threshold, threshold + 1}


@pytest.mark.parametrize("kind", KNOBS["values"].weights)
@pytest.mark.parametrize("mode", [Mode.G_BINARY, Mode.G_TERNARY])
def test_low_bit_lines_are_legal(kind: str, mode: Mode) -> None:
    lines = lines_of(region(mode, 9, 3), kind, np.random.default_rng(1))
    assert len(lines) == 9
    assert {len(line) for line in lines} == {64}
    if mode is Mode.G_TERNARY:
        bits = np.unpackbits(np.frombuffer(b"".join(lines), np.uint8), bitorder="little")
        sign, gate = bits.reshape(-1, 2).T
        assert not (sign & ~gate).any()


@pytest.mark.parametrize("kind", KNOBS["values_fp32"].weights)
def test_fp32_operands(kind: str) -> None:
    words = fp32(kind, 6, np.random.default_rng(1))
    assert words.shape == (6, 16)
    assert words.dtype == np.uint32
    if kind == "equal corners":
        assert (words == words[0]).all()
