# SPDX-License-Identifier: Apache-2.0
"""Tests of the rule: routes chosen by the cosine of samples, with reasons."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from neuron_fabric import codec
from neuron_fabric.capture import Capture
from neuron_fabric.codec import Route
from neuron_fabric.codec.scale_groups import groups_of, pack_groups
from neuron_fabric.errors import ProfileError
from neuron_fabric.profile import Kind, Profile, Region
from neuron_fabric.profile.profile_types import (
    FULL,
    GRANULARITIES,
    Assign,
    Floor,
    ModelId,
    Phases,
    Reference,
    Rule,
    Spread,
    Steady,
    decode_name,
)
from neuron_fabric.profile.route_rule import apply_rule, bits_both_ways
from neuron_fabric.profile.samples import (
    Samples,
    Way,
    read_samples,
    samples_path,
    write_samples,
)

WORKERS = 8
NAMES, SIZES = ("body.weight", "head.weight", "norm.weight"), (4096, 3000, 64)
PROFILE = Profile(
    "p",
    ModelId("", sum(SIZES)),
    tuple(
        Region(name, kind, (f"{name}.*",), size, {"warmup": FULL, "steady": FULL})
        for name, kind, size in zip(
            ("body", "head", "norm"), (Kind.LINEAR, Kind.HEAD, Kind.NORM), SIZES, strict=True
        )
    ),
    verified=True,
    reference=Reference("accuracy", Spread(0.9, 0.01), Spread(0.89, 0.01)),
)
COSINES = {
    Way("steady", "G_BINARY", "vote"): (0.70, 0.05, 0.9),
    Way("steady", "G_BINARY", "net"): (0.80, 0.15, 0.9),
    Way("steady", "G_TERNARY", "vote"): (0.75, 0.10, 0.9),
    Way("steady", "G_TERNARY", "net"): (0.85, 0.20, 0.9),
}
"""Cosines of body, head and norm: a majority vote is nearly orthogonal to a head's gradient."""
WAYS = list(COSINES)


def sample(steps: int = 4) -> Samples:
    """Return samples of the regions body, head and norm whose cosines rise by 0.01 a step.

    The gradients of the body are the largest.
    """
    mean2 = np.tile([100.0, 1.0, 1.0], (steps, 1))
    sums = {
        way: {
            # Decoded values are twice as large: no cosine depends on that.
            "dot": 2 * mean2 * (np.array(cosines) + 0.01 * np.arange(steps)[:, None]),
            "mean2": mean2,
            "decoded2": 4 * mean2,
            "zeros": np.zeros((steps, 3)),
        }
        for way, cosines in COSINES.items()
    }
    return Samples(WORKERS, NAMES, SIZES, {"steady": np.arange(steps) * 5}, sums)


SAMPLES = sample()


@pytest.mark.parametrize(("column", "granularity"), [(0.72, "tensor"), (0.80, "column")])
def test_the_granularity_of_most_cosine_per_byte(column: float, granularity: str) -> None:
    """Check that scales of columns are chosen where their cosine is worth 5 % more bytes."""
    tensor, of_columns = (Way("steady", "G_BINARY", one) for one in ("vote", "vote_column"))
    zeros = np.zeros((1, 3))
    same = {"mean2": zeros + 1, "decoded2": zeros + 1, "zeros": zeros}
    sums = {tensor: {**same, "dot": zeros + 0.70}, of_columns: {**same, "dot": zeros + column}}
    samples = Samples(WORKERS, NAMES, SIZES, {"steady": np.zeros(1, np.int64)}, sums)
    chosen = apply_rule(PROFILE, samples).regions[0].phases["steady"]
    assert (chosen.route, chosen.decode, chosen.granularity) == ("G_BINARY", "vote", granularity)
    assert chosen.why == f"cosine {column if granularity == 'column' else 0.70:.3f} >= 0.45"


def test_codes_cost_their_sums_too() -> None:
    """Check the costs in bits sent and received: codes return as sums, of 16 bits above 16 workers.

    Sums of 8-bit codes always have 16 bits.
    """
    costs = {
        (route, workers): bits_both_ways(workers)(Way("steady", route, "vote"), 100)
        for route in ("G_BINARY", "G_TERNARY", "G_INT4", "G_INT8")
        for workers in (8, 17)
    }
    assert [costs[route, 8] for route in ("G_BINARY", "G_TERNARY")] == [200, 400]
    assert (costs["G_INT4", 8], costs["G_INT4", 17]) == (1200, 2000)
    assert costs["G_INT8", 8] == costs["G_INT8", 17] == 2400


def test_cosine_decides() -> None:
    """Check that the body uses the cheapest route that passes, and the head no majority vote.

    The head's vote is nearly orthogonal to its mean gradient.
    """
    body, head, norm = (region for region in apply_rule(PROFILE, SAMPLES).regions)
    steady = body.phases["steady"]
    assert (steady.route, steady.decode) == (Route.G_BINARY, "vote")
    assert steady.why.startswith("cosine 0.")
    assert 0 < steady.shrink < 2
    assert body.measured["steady"]["G_BINARY"]["vote"]["cosine"][0] > 0.5
    best = body.measured["steady"]
    recovery = body.phases["recovery"]
    highest = max(best[r][d]["cosine"][0] for r in best for d in best[r])
    assert best[recovery.route][recovery.decode]["cosine"][0] == highest
    assert abs(head.measured["steady"]["G_BINARY"]["vote"]["cosine"][0]) < 0.3
    assert head.phases["steady"].route != Route.G_BINARY or head.phases["steady"].decode == "net"
    assert norm.phases["steady"] == dataclasses.replace(FULL, why="no tensor of 1,024 elements")
    assert "recovery" not in norm.phases


@pytest.mark.parametrize(
    ("budget", "body", "head"),
    [(2.0, "G_BINARY", "G_BINARY"), (0.97, "G_TERNARY", "G_BINARY"), (0.1, "FP32", "FP32")],
)
def test_a_budget_assigns_all_regions(budget: float, body: str, head: str) -> None:
    """Check that a small budget buys the most error for its bytes, and that FP32 is left.

    The larger region has the lower error by G_TERNARY; of the head no route but FP32 is better.
    """
    rule = Rule(Floor(0, 0, 0), protect=(), assign=Assign(Route.G_BINARY, budget))
    chosen = apply_rule(dataclasses.replace(PROFILE, rule=rule), SAMPLES)
    steady = [one.phases["steady"] for one in chosen.regions]
    assert [one.route for one in steady] == [body, head, "FP32"]
    assert all(one.why.endswith("assigned") for one in steady if one.route != "FP32")


def test_heads_and_embeddings_get_no_votes() -> None:
    """Check that a protected kind gets no vote even if its cosine passes, for the stated reason.

    Other kinds can be protected instead.
    """
    regions = (dataclasses.replace(PROFILE.regions[0], kind=Kind.EMBEDDING), *PROFILE.regions[1:])
    profile = dataclasses.replace(PROFILE, regions=regions)
    found = apply_rule(profile, SAMPLES).regions[0]
    steady = found.phases["steady"]
    assert (steady.route, "recovery" in found.phases) == (Route.FP32, False)
    assert steady.why.startswith("embedding is protected; G_")
    assert " would pass: 0." in steady.why
    assert found.measured["steady"]["G_BINARY"]["vote"]["cosine"][0] > 0.5
    for protect, route in (((), Route.G_BINARY), ((Kind.EMBEDDING,), Route.FP32)):
        rule = Rule(protect=protect)
        again = apply_rule(dataclasses.replace(profile, rule=rule), SAMPLES)
        assert again.regions[0].phases["steady"].route == route
    bad = {way: {**one, "dot": one["dot"] * 0.1} for way, one in SAMPLES.sums.items()}
    steady = apply_rule(profile, dataclasses.replace(SAMPLES, sums=bad)).regions[0].phases["steady"]
    assert "protected" not in steady.why  # it would be in FP32 anyhow
    assert " < " in steady.why


def test_codes_are_for_protected_kinds_too() -> None:
    """Check that integer codes are admitted for protected kinds: sums express what votes cannot."""
    way = Way("steady", "G_INT4", "vote")
    samples = dataclasses.replace(SAMPLES, sums={way: SAMPLES.sums[WAYS[0]]})
    rule = Rule(Floor(other=0.0), routes=(Route.G_BINARY, Route.G_INT4))
    head = apply_rule(dataclasses.replace(PROFILE, rule=rule), samples).regions[1]
    assert head.phases["steady"].route == Route.G_INT4


def test_the_least_cosine_of_a_region_is_its_own() -> None:
    """Check that the cosine of a region is that of its worst parameter, not of the sum.

    Of body and head as one region, the sum is near the body's, whose gradients are larger, and
    would admit the head's vote.
    """
    members, way, whole = [0, 1], WAYS[0], [np.ones(4, bool)]
    found = SAMPLES.statistics(way, members, whole)
    alone = [SAMPLES.statistics(way, [one], whole)["cosine"][0] for one in members]
    assert found["cosine"] == pytest.approx((min(alone), min(alone)))
    sums = {name: one[:, :2].sum(axis=1) for name, one in SAMPLES.sums[way].items()}
    cosine = sums["dot"] / np.sqrt(sums["mean2"] * sums["decoded2"])
    assert alone[1] < 0.45 < cosine.mean()
    error = (1 - cosine**2).mean()
    assert found["error"] == pytest.approx((error, error))
    both = Region("all", Kind.LINEAR, ("*.weight",), sum(SIZES), {"warmup": FULL, "steady": FULL})
    steady = apply_rule(dataclasses.replace(PROFILE, regions=(both,)), SAMPLES).regions[0].phases
    assert (steady["steady"].route, steady["steady"].decode) != (Route.G_BINARY, "vote")
    assert found["zeros"] == (0, 0)
    zeros = {way: {**SAMPLES.sums[way], "zeros": np.full((4, 3), 100.0)}}
    found = dataclasses.replace(SAMPLES, sums=zeros).statistics(way, members, whole)
    assert found["zeros"] == pytest.approx((200 / 7096, 200 / 7096))


def test_each_window_has_its_own_least_parameter() -> None:
    """Check that the least cosine is taken per window: a parameter bad in one window fails."""
    way = WAYS[0]
    sums = {name: one.copy() for name, one in SAMPLES.sums[way].items()}
    sums["dot"][:, 1] = 0.9 * np.sqrt(sums["mean2"][:, 1] * sums["decoded2"][:, 1])
    sums["dot"][2:, 0] *= 0.1
    windows = [np.arange(4) < 2, np.arange(4) >= 2]
    changed = dataclasses.replace(SAMPLES, sums={way: sums})
    body = [changed.statistics(way, [0], [one])["cosine"][0] for one in windows]
    assert changed.statistics(way, [0, 1], windows)["cosine"] == pytest.approx((body[1], body[0]))
    assert body[1] < 0.1 < body[0]


def test_floors_and_windows() -> None:
    strict = Rule(Floor(1.0, 1.0, 1.0))
    changed = apply_rule(dataclasses.replace(PROFILE, rule=strict), SAMPLES)
    why = changed.regions[0].phases["steady"].why
    assert changed.regions[0].phases["steady"].route == Route.FP32
    assert why.endswith("< 1.00")
    windows = Phases(steady=Steady((0.5, 1.0)))
    found = apply_rule(dataclasses.replace(PROFILE, phases=windows), SAMPLES)
    least, most = found.regions[0].measured["steady"]["G_BINARY"]["vote"]["cosine"]
    assert least < most
    # A window where the cosine is bad is enough.
    way = WAYS[0]
    bad = {name: one.copy() for name, one in SAMPLES.sums[way].items()}
    bad["dot"][2:] = 0
    worse = dataclasses.replace(SAMPLES, sums={way: bad})
    assert apply_rule(PROFILE, worse).regions[0].phases["steady"].route == Route.FP32
    only = dataclasses.replace(PROFILE, phases=windows)
    why = apply_rule(only, worse).regions[0].phases["steady"].why
    assert why == "G_BINARY vote: cosine 0.000 < 0.45"


def test_shrink_is_a_choice() -> None:
    one = apply_rule(dataclasses.replace(PROFILE, rule=Rule(shrink="one")), SAMPLES)
    assert one.regions[0].phases["steady"].shrink == 1


def test_zeros_are_named() -> None:
    sums = {way: {**one, "zeros": one["zeros"] + 1000} for way, one in SAMPLES.sums.items()}
    found = apply_rule(PROFILE, dataclasses.replace(SAMPLES, sums=sums))
    assert found.regions[0].phases["steady"].why.endswith("with 24% zeros")


def test_net_costs_its_planes_and_has_no_shrink() -> None:
    net = dataclasses.replace(SAMPLES, sums={way: SAMPLES.sums[way] for way in (WAYS[1], WAYS[3])})
    steady = apply_rule(PROFILE, net).regions[0].phases["steady"]
    assert (steady.route, steady.decode, steady.shrink) == (Route.G_BINARY, "net", 1)
    cost = bits_both_ways(8)
    assert [cost(way, 1) for way in WAYS] == [2, 5, 4, 10]
    assert cost(Way("steady", "Q4", "vote"), 2) == 16


def test_changed_routes_are_not_verified() -> None:
    changed = apply_rule(PROFILE, SAMPLES)
    assert not changed.verified
    assert changed.reference == Reference("accuracy", Spread(0.9, 0.01))
    again = apply_rule(dataclasses.replace(changed, verified=True), SAMPLES)
    assert again.verified


def test_samples_are_read_as_they_were(tmp_path: Path) -> None:
    path = samples_path(tmp_path / "p.toml")
    assert path.name == "p.calibration.safetensors"
    write_samples(SAMPLES, path)
    again = read_samples(path)
    assert (again.parameters, again.sizes, again.workers) == (NAMES, SIZES, WORKERS)
    assert apply_rule(PROFILE, again) == apply_rule(PROFILE, SAMPLES)
    first = path.read_bytes()
    write_samples(again, path)
    assert path.read_bytes() == first


def test_damaged_samples(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(ProfileError, match=r"cannot be read \(No such file"):
        read_samples(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(ProfileError, match="is damaged"):
        read_samples(path)
    save_file({"a": np.zeros(1)}, path)
    with pytest.raises(ProfileError, match="no neuron-fabric-calibration of version 1"):
        read_samples(path)
    broken = {
        "is not finite": ("dot", np.full((4, 3), np.nan)),
        "is not float64.4, 3.": ("zeros", np.zeros((4, 2))),
        "tensor 'steady/G_BINARY/vote/other' is not known": ("other", np.zeros((4, 3))),
    }
    for text, (name, values) in broken.items():
        sums = {WAYS[0]: {**SAMPLES.sums[WAYS[0]], name: values}}
        write_samples(dataclasses.replace(SAMPLES, sums=sums), path)
        with pytest.raises(ProfileError, match=text):
            read_samples(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ProfileError, match="cannot be read"):
        read_samples(path)


def test_a_region_without_samples_is_refused() -> None:
    other = dataclasses.replace(PROFILE.regions[0], name="other", match=("x.*",))
    with pytest.raises(ProfileError, match="region 'other' has no samples; calibrate again"):
        apply_rule(dataclasses.replace(PROFILE, regions=(other,)), SAMPLES)


def test_a_region_of_slices_is_refused() -> None:
    one = dataclasses.replace(PROFILE.regions[0], match=(f"{PROFILE.regions[0].match[0]}[0:4]",))
    with pytest.raises(ProfileError, match="names slices, and samples are of whole parameters"):
        apply_rule(dataclasses.replace(PROFILE, regions=(one,)), SAMPLES)


# The choice of scales on a real capture: GPT-2, whose query, key and value are fused.

FUSED = Path(__file__).parents[2] / "captures" / "gpt2-fused-qkv"
LAYERS = tuple(
    f"transformer.h.{n}.{one}.weight" for n in (0, 1) for one in ("attn.c_attn", "mlp.c_fc")
)


def voted(x: codec.F32, granularity: str) -> codec.F32:
    """Return the decoded vote on gradients float32[W, rows, columns], with scales of groups."""
    workers, rows, columns = x.shape
    groups = groups_of((rows, columns), (columns, 1), Route.G_BINARY, granularity)  # type: ignore[arg-type]
    flat = np.ascontiguousarray(x.reshape(workers, -1))
    if groups is None:
        packed = [codec.pack(own, Route.G_BINARY) for own in flat]
        scales = np.array([[one.scale] for one in packed])
    else:
        both = [pack_groups(own, Route.G_BINARY, groups) for own in flat]
        packed, scales = [one for one, _ in both], np.stack([one for _, one in both])
    votes, _ = codec.count(np.stack([one.lines for one in packed]), Route.G_BINARY, planes=False)
    assert votes is not None
    out = codec.unpack(votes, Route.G_BINARY, flat.shape[1])
    mean = scales.mean(axis=0)
    if groups is None:
        out *= mean[0]
    else:
        groups.multiply(out, mean)
    return out


@pytest.mark.skipif(not FUSED.is_dir(), reason="the wheel holds no capture")
def test_a_fused_layer_gets_scales_of_columns() -> None:
    """Check that the rule gives the fused layers, and these alone, scales of columns by itself.

    With one scale the vote has a cosine of at most 0.40, with columns of at least 0.65, at no more
    than 5 % more bytes.
    """
    capture = Capture.open(FUSED)
    gradients = capture.load(5)
    workers = len(gradients[LAYERS[0]])
    sums: dict[Way, dict[str, list[float]]] = {}
    for name in LAYERS:
        x = gradients[name]
        mean = x.reshape(workers, -1).mean(axis=0, dtype=np.float64)
        for granularity in GRANULARITIES:
            way = Way("steady", "G_BINARY", decode_name("vote", granularity))
            out = voted(x, granularity).astype(np.float64)
            found = {"dot": mean @ out, "mean2": mean @ mean, "decoded2": out @ out, "zeros": 0.0}
            for one, value in found.items():
                sums.setdefault(way, {}).setdefault(one, []).append(float(value))
    sizes = tuple(gradients[name][0].size for name in LAYERS)
    arrays = {
        way: {name: np.array([row]) for name, row in rows.items()} for way, rows in sums.items()
    }
    samples = Samples(workers, LAYERS, sizes, {"steady": np.array([5])}, arrays)
    regions = tuple(
        Region(glob, Kind.LINEAR, (f"*{glob}.weight",), 1, {"warmup": FULL, "steady": FULL})
        for glob in ("h.0.attn.c_attn", "h.1.attn.c_attn", "c_fc")
    )
    chosen = apply_rule(Profile("p", ModelId("", 1), regions), samples).regions
    ways = [(one.phases["steady"].granularity, one.phases["steady"].route) for one in chosen]
    assert ways == [("column", "G_BINARY")] * 2 + [("tensor", "G_BINARY")]
    cosine = {
        (region.name, way): found["cosine"][0]
        for region in chosen
        for way, found in region.measured["steady"]["G_BINARY"].items()
    }
    for layer in ("h.0.attn.c_attn", "h.1.attn.c_attn"):
        assert cosine[layer, "vote"] < 0.41
        assert cosine[layer, "vote_column"] >= 0.65
