# SPDX-License-Identifier: Apache-2.0
"""Tests of the choice of scales on a real capture: GPT-2, whose query, key and value are fused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuron_fabric import codec
from neuron_fabric.capture import Capture
from neuron_fabric.codec import Route
from neuron_fabric.codec.scale_groups import groups_of, pack_groups
from neuron_fabric.profile import Kind, Profile, Region
from neuron_fabric.profile.profile_types import FULL, GRANULARITIES, ModelId, decode_name
from neuron_fabric.profile.route_rule import apply_rule
from neuron_fabric.profile.samples import Samples, Way

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
