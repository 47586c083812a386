# SPDX-License-Identifier: Apache-2.0
"""Laws of the torch engine: the bits of every function equal those of the chosen engine.

`test_array_checks` and `models.test_codec_law` run the other laws of the codec on it too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
import torch

from neuron_fabric import codec
from neuron_fabric.codec import F32, Route, torch_engine
from neuron_fabric.codec.draws import Key, draws
from neuron_fabric.codec.engine import Engine, engine, using
from neuron_fabric.codec.numpy_engine import ScanResult, Tensors
from neuron_fabric.codec.torch_engine import TorchEngine

SIZES = (1, 511, 512, 513, 1023, 1025, 65_535, 65_537, 200_001)
SPECIAL = (0.0, -0.0, 1e-45, -1e-45, 1.2e-38, 3.4e38, -3.4e38, np.nan, np.inf, -np.inf)
KEY = Key(1, 2, 3, "w")


def drawn(size: int, kind: str) -> F32:
    """Return float32[size]: normal, special values with or without NaN and infinity, or all 0."""
    rng = np.random.default_rng(size)
    if kind == "normal":
        return rng.standard_normal(size).astype(np.float32)
    values = {"special": SPECIAL, "finite": SPECIAL[:-3], "zero": (0.0, -0.0)}[kind]
    return rng.choice(np.array(values, np.float32), size)


def packed(loops: Engine, x: F32) -> list[bytes]:
    """Return all that an engine makes of a tensor, as bytes: lines, scales, codes and sums."""
    found: list[NDArray[Any]] = []
    with using(loops):
        for route in (Route.G_BINARY, Route.G_TERNARY):
            one = codec.pack(x, route)
            lines = np.stack([one.lines, codec.pack(-x, route).lines, one.lines])
            vote, planes = codec.count(lines, route)
            net = codec.unpack_net(planes, route, x.size, 3, scale=0.7)
            value = codec.unpack(vote, route, x.size, scale=0.3)
            numbers = np.array([one.scale, one.zeros, one.finite, one.open_gates], np.float64)
            found += [one.lines, numbers, vote, planes, net, value]
        for route in (Route.G_INT4, Route.G_INT8):
            u = codec.units(codec.maxima(x), route)
            for key in (KEY, None):
                code = codec.pack_codes(x, route, u, key)
                sums = codec.add_codes(np.stack([code.lines] * 17), route)
                out = np.empty(x.size, np.float32)
                codec.unpack_sums(sums, route, u, 17, 16, out)
                found += [code.lines, sums, *([out] if code.finite else [])]
    return [one.tobytes() for one in found]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["normal", "special", "finite", "zero"])
def test_bits(size: int, kind: str) -> None:
    x = drawn(size, kind)
    assert packed(TorchEngine(), x) == packed(engine(), x)


class Wrong(TorchEngine):
    """Engine with one wrong bit in lines of G_BINARY."""

    def pack_binary(self, xs: Tensors, lines: codec.U8, add: bool) -> list[ScanResult]:
        seen = super().pack_binary(xs, lines, add)
        lines[0, 0] ^= 1
        return seen


def test_a_wrong_bit_is_seen() -> None:
    x = drawn(513, "normal")
    assert packed(Wrong(), x) != packed(engine(), x)


def test_views_are_packed_in_memory_order() -> None:
    """Check a channels_last view, and one at an odd offset of its storage."""
    x = torch.randn(6, 5, 8, 3, generator=torch.Generator().manual_seed(1))
    last = x.to(memory_format=torch.channels_last)
    flat = last.permute(0, 2, 3, 1).reshape(-1)
    assert flat.data_ptr() == last.data_ptr()
    for one in (flat, flat[3:]):
        lines = torch_engine.pack_binary(one).numpy()
        assert np.array_equal(lines, codec.pack(one.numpy(), Route.G_BINARY).lines)


def test_draws_are_those_of_numpy() -> None:
    for key in (KEY, Key(2606, 10**6, 255, "layer.weight", "reduced")):
        found = torch_engine.draws_of(key, 10_003, "cpu").numpy()
        assert np.array_equal(found, draws(key, 10_003))
    assert not np.array_equal(found, draws(KEY, 10_003))


@pytest.mark.parametrize("size", SIZES)
def test_a_sum_has_every_bit(size: int) -> None:
    """Check sums in float64, in which another order shows."""
    rng = np.random.default_rng(size)
    x = (rng.standard_normal(size) * 10.0 ** rng.integers(-12, 12, size)).astype(np.float32)
    assert float(torch_engine.total(torch.from_numpy(x))) == engine().look([x], True)[0].total


def test_both_sums_have_one_order() -> None:
    """Check the sum that only CUDA uses; a sum in pairs differs."""
    draw = torch.Generator().manual_seed(1)
    rows = torch.rand(3, 128, 512, generator=draw) * 10 ** (
        12 * torch.rand(3, 128, 512, generator=draw)
    )
    assert torch_engine._added(rows).equal(torch_engine._scanned(rows))
    assert not torch_engine._added(rows).equal(rows.double().flip(1).sum(1))


def test_units_are_those_of_numpy() -> None:
    largest = np.abs(drawn(5000, "special"))
    for route in (Route.G_INT4, Route.G_INT8):
        found = torch_engine.units(torch.from_numpy(largest), route).numpy()
        assert np.array_equal(found, codec.units(largest, route), equal_nan=True)


def test_a_sum_in_worker_order() -> None:
    rows = drawn(4000, "special").reshape(8, 500)
    found = torch_engine.ordered_sum(torch.from_numpy(rows)).numpy()
    assert found.tobytes() == codec.reduction.ordered_sum(rows).tobytes()
    other = torch_engine.ordered_sum(torch.from_numpy(rows[::-1].copy())).numpy()
    assert found.tobytes() != other.tobytes()
