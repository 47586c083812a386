# SPDX-License-Identifier: Apache-2.0
"""Laws of the quantiser: its mean is the gradient, its error a unit at most; and of the choice."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuron_fabric.bits import (
    Coded,
    Key,
    Layer,
    Option,
    Quantizer,
    assignment,
    decode,
    encode,
    kmeans,
    lgreco,
    mean_of,
    quantizer,
    route_errors,
    settle,
    uniform,
)
from neuron_fabric.bits.quantizer import from_environment, from_wire
from neuron_fabric.capture import Capture
from neuron_fabric.codec.draws import draws
from neuron_fabric.errors import InputError
from neuron_fabric.profile.binding import LEAST

F32 = NDArray[np.float32]
KEY = Key(1, 2, 3, "w")
QUANTIZERS = st.builds(Quantizer, st.integers(2, 8), st.sampled_from([128, 136, 512, 1024]))


def test_a_key_of_numpy_is_the_same() -> None:
    """numpy prints its integers as np.int64(2): other draws would round another way."""
    assert Key(np.int64(1), np.int64(2), np.int32(3), "w").words() == KEY.words()  # type: ignore[arg-type]


@st.composite
def tensors(draw: st.DrawFn) -> F32:
    """Of every magnitude, some buckets constant."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(0, 2500))
    scale = np.float32(draw(st.sampled_from([1.0, 1e-3, 1e-40, 1e30, 3e38])))
    x = rng.uniform(-1, 1, size).astype(np.float32) * scale
    if draw(st.booleans()):
        x[: size // 2] = draw(st.sampled_from([0.0, -0.0, 1.5]))
    return x


def error_in_units(x: F32, coded: Coded, how: Quantizer) -> NDArray[np.float64]:
    """|x - decoded| over the unit of its bucket, less what float32 rounds; 0 in constant buckets,
    which have to be exact."""
    got, wide = decode(coded, how), x.astype(np.float64)
    each = np.repeat(np.arange(coded.low.size), how.bucket)[: x.size]
    unit = coded.unit.astype(np.float64)[each]
    assert np.array_equal(got[unit == 0], x[unit == 0])
    rounding = np.spacing(np.maximum(np.abs(x), np.abs(got)))
    off = np.maximum(np.abs(got - wide) - rounding, 0)
    out: NDArray[np.float64] = np.divide(off, unit, out=np.zeros_like(off), where=unit > 0)
    return out


@settings(max_examples=60, deadline=None)
@given(x=tensors(), how=QUANTIZERS)
def test_an_error_is_a_unit_at_most(x: F32, how: Quantizer) -> None:
    coded = encode(x, how, KEY)
    assert (error_in_units(x, coded, how) <= 1).all()
    reach = ((1 << how.bits) - 1) * coded.unit.astype(np.float64)
    pieces = [x[at : at + how.bucket].astype(np.float64) for at in range(0, x.size, how.bucket)]
    spans = [np.ptp(piece) for piece in pieces]
    assert (reach >= spans).all()  # no element has to be clipped
    wire = coded.wire()
    assert wire.size == how.size(x.size)
    again = from_wire(wire, x.size, how)
    assert np.array_equal(decode(again, how), decode(coded, how))


def mean_over_draws(x: F32, how: Quantizer, times: int) -> tuple[F32, NDArray[np.float64]]:
    """Mean of many codings of x, in units above x; and the units."""
    codings = [encode(x, how, dataclasses.replace(KEY, step=n)) for n in range(times)]
    mean = np.mean([decode(one, how).astype(np.float64) for one in codings], axis=0)
    unit = np.repeat(codings[0].unit, how.bucket)[: x.size].astype(np.float64)
    return (mean - x) / unit, unit


@pytest.mark.parametrize("bits", range(2, 9))
def test_the_mean_is_the_gradient(bits: int) -> None:
    """The rounding of an element has a standard deviation of half a unit at most."""
    x = np.random.default_rng(bits).standard_normal(700).astype(np.float32)
    off, _ = mean_over_draws(x, Quantizer(bits), 400)
    assert np.abs(off).max() < 5 * 0.5 / np.sqrt(400)


def test_rounding_to_nearest_fails_that_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failing twin."""
    monkeypatch.setattr(quantizer, "draws", lambda _, count, first=0: np.full(count, 0.5))
    x = np.random.default_rng(1).standard_normal(700).astype(np.float32)
    off, _ = mean_over_draws(x, Quantizer(2), 10)
    assert np.abs(off).max() > 0.4


def test_draws_are_uniform_and_of_their_key_alone() -> None:
    found = draws(KEY, 40_000)
    assert 0 <= found.min() < 1e-3
    assert 1 - 1e-3 < found.max() < 1
    assert abs(found.mean() - 0.5) < 5 * np.sqrt(1 / 12 / found.size)
    others = [
        dataclasses.replace(KEY, **change)
        for change in (
            *({"seed": 9}, {"step": 9}, {"rank": 9}),
            *({"parameter": "v"}, {"stage": "reduced"}),
        )
    ]
    for other in others:
        assert abs(np.corrcoef(found, draws(other, found.size))[0, 1]) < 5 / np.sqrt(found.size)
    for first, count in ((0, 1), (5, 20), (8, 8), (8191, 3)):
        assert np.array_equal(draws(KEY, count, first), found[first : first + count])


@settings(max_examples=30, deadline=None)
@given(how=QUANTIZERS, cut=st.integers(0, 4), seed=st.integers(0, 99))
def test_pieces_are_coded_as_the_whole(how: Quantizer, cut: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(4 * how.bucket + 5).astype(np.float32)
    at = cut * how.bucket
    whole = decode(encode(x, how, KEY), how)
    pieces = [decode(encode(x[:at], how, KEY), how), decode(encode(x[at:], how, KEY, at), how)]
    assert np.array_equal(np.concatenate(pieces), whole)


def test_the_mean_of_workers() -> None:
    """Each quantisation adds a unit at most; the order of the workers is theirs."""
    how = Quantizer(8)
    x = np.random.default_rng(5).standard_normal((4, 3000)).astype(np.float32)
    sent = [encode(one, how, dataclasses.replace(KEY, rank=n)) for n, one in enumerate(x)]
    got = mean_of(sent, how, dataclasses.replace(KEY, stage="reduced"))
    unit = max(float(one.unit.max()) for one in (*sent, got))
    assert np.abs(decode(got, how) - x.mean(axis=0)).max() < 2 * unit + 1e-6
    with pytest.raises(ValueError, match="nobody has sent"):
        mean_of([], how, KEY)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "1 bit": (lambda: Quantizer(1), "1 bits, 2 to 8 or 32"),
    "9 bits": (lambda: Quantizer(9), "9 bits, 2 to 8 or 32"),
    "bucket": (lambda: Quantizer(4, 100), "a bucket of 100, a multiple of 8 from 128 to 1024"),
    "odd bucket": (lambda: Quantizer(4, 513), "a bucket of 513, a multiple of 8"),
    "least": (lambda: Quantizer(4, 512, -1), "least -1 is negative"),
    "nan": (
        lambda: encode(np.array([np.nan], np.float32), Quantizer(), KEY),
        "a value that is not finite has no code",
    ),
    "first": (
        lambda: encode(np.zeros(9, np.float32), Quantizer(), KEY, 8),
        "element 8 does not begin a bucket of 512",
    ),
    "identity": (
        lambda: encode(np.zeros(9, np.float32), Quantizer(32), KEY),
        "the identity has no codes",
    ),
    "wire": (
        lambda: from_wire(np.zeros(9, np.uint8), 512, Quantizer()),
        "9 bytes, 512 elements take 264",
    ),
}


@pytest.mark.parametrize(("action", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_arguments(action: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        action()


def test_settings_of_cgx() -> None:
    prefix = "CGX_COMPRESSION_"
    assert from_environment({}) == Quantizer()
    env = {
        f"{prefix}QUANTIZATION_BITS": "3",
        f"{prefix}BUCKET_SIZE": "1024",
        f"{prefix}MINIMAL_SIZE": "16",
    }
    assert from_environment(env) == Quantizer(3, 1024, 16)
    assert from_environment({f"{prefix}QUANTIZATION_BITS": "32"}).size(5) == 20
    with pytest.raises(InputError, match="QUANTIZATION_BITS: 'four' is no number"):
        from_environment({f"{prefix}QUANTIZATION_BITS": "four"})
    with pytest.raises(InputError, match="1 bits, 2 to 8 or 32 it is"):
        from_environment({f"{prefix}QUANTIZATION_BITS": "1"})


def test_errors_of_routes_are_measured() -> None:
    x = np.random.default_rng(7).standard_normal(8192).astype(np.float32)
    found = route_errors(x, KEY, ("FP32", "Q2", "Q4", "Q8", "G_BINARY", "G_TERNARY"))
    assert found["FP32"] == 0
    assert found["Q8"] < found["Q4"] < found["G_TERNARY"] < found["G_BINARY"] < found["Q2"]
    norm = float(x.astype(np.float64) @ x)
    assert found["G_BINARY"] / norm == pytest.approx(1 - 2 / np.pi, abs=0.02)  # of Gaussians


@st.composite
def models(draw: st.DrawFn) -> list[Layer]:
    """Up to 5 layers with up to 4 routes; more bits cost more and lose less."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    layers = []
    for number in range(draw(st.integers(1, 5))):
        options = {
            f"Q{bits}": Option(float(rng.random() * 4.0**-bits), float(bits * rng.integers(1, 9)))
            for bits in (2, 3, 4, 8)[: draw(st.integers(2, 4))]
        }
        layers.append(Layer(f"l{number}", 100, options))
    return layers


def best_of_all(layers: list[Layer], allowed: float) -> float:
    """The least cost by trying everything, with errors counted as L-GreCo does."""
    cost = np.inf
    for routes in itertools.product(*(layer.options for layer in layers)):
        chosen = [layer.options[route] for layer, route in zip(layers, routes, strict=True)]
        steps = sum(
            np.ceil(one.error / allowed * assignment.ERROR_BUCKETS) if one.error > 0 else 0
            for one in chosen
        )
        if steps <= assignment.ERROR_BUCKETS:
            cost = min(cost, sum(one.cost for one in chosen))
    return cost


@settings(max_examples=60, deadline=None)
@given(layers=models(), alpha=st.sampled_from([0.5, 1.0, 1.5]))
def test_lgreco_is_the_best_within_the_error(layers: list[Layer], alpha: float) -> None:
    reference = uniform(layers, "Q3")
    chosen = lgreco(layers, reference, alpha)
    allowed = alpha * assignment.error_of(layers, reference)
    best, now = best_of_all(layers, allowed), assignment.cost_of(layers, reference)
    assert assignment.cost_of(layers, chosen) == min(best, now)
    assert chosen == reference or assignment.error_of(layers, chosen) <= allowed
    assert lgreco(layers[::-1], reference, alpha).keys() == chosen.keys()


def test_errors_are_rounded_up() -> None:
    """Less than a step too much, twice, is too much."""
    options = {"Q3": Option(0.5, 3), "Q2": Option(0.50004, 2)}
    layers = [Layer("a", 9, options), Layer("b", 9, options)]
    assert lgreco(layers, uniform(layers, "Q3")) == uniform(layers, "Q3")


def test_bits_alone_mislead() -> None:
    """The failing twin of measured errors: Q2 has more bits than G_BINARY, and loses more."""
    options = {"G_BINARY": Option(0.49, 1), "Q2": Option(1.12, 2), "Q4": Option(0.04, 4)}
    layers = [Layer("a", 100, options), Layer("b", 100, options)]
    assert "Q2" not in lgreco(layers, uniform(layers, "Q2")).values()


def test_no_error_is_allowed() -> None:
    layers = [Layer("a", 9, {"FP32": Option(0, 32), "Q4": Option(1e-9, 4)})]
    assert lgreco(layers, uniform(layers, "FP32")) == {"a": "FP32"}
    with pytest.raises(ValueError, match="layer a has no route Q3"):
        uniform(layers, "Q3")


def test_kmeans() -> None:
    """Large layers with small norms get few bits; the same on every rank."""
    sizes = {"embedding": (1000, 1.0), "mlp": (500, 4.0), "mlp2": (480, 4.2), "norm": (5, 9.0)}
    layers = [Layer(name, size, {}, norm) for name, (size, norm) in sizes.items()]
    assert kmeans(layers) == {"embedding": "Q2", "mlp": "Q3", "mlp2": "Q3", "norm": "Q4"}
    assert kmeans([]) == {}
    assert kmeans(layers[:1]) == {"embedding": "Q2"}
    alike = [Layer(str(n), 10, {}, 1.0) for n in range(5)]
    assert set(kmeans(alike).values()) == {"Q2"}


def test_an_assignment_stays_unless_another_saves_enough() -> None:
    def layer(cost: float, error: float = 1.0) -> list[Layer]:
        return [Layer("a", 9, {"Q4": Option(error, 100), "Q3": Option(1, cost)})]

    now, wanted = {"a": "Q4"}, {"a": "Q3"}
    assert settle(layer(98.1), now, wanted, allowed=2) == now
    assert settle(layer(97.9), now, wanted, allowed=2) == wanted
    assert settle(layer(98.1, error=3), now, wanted, allowed=2) == wanted
    assert settle(layer(98.1), {"a": "Q2"}, wanted, allowed=2) == wanted
    assert settle(layer(98.1), {}, wanted, allowed=2) == wanted


SHIPPED = Path(__file__).parents[2] / "captures" / "digits-resnet-8x"


@pytest.mark.skipif(not SHIPPED.is_dir(), reason="the repository alone has a capture")
def test_two_bits_lose_more_than_a_vote() -> None:
    """Of the norm of the gradients in the shipped capture that are large enough for a route, as
    README and specification say."""
    routes = ("Q2", "Q3", "Q4", "Q8", "G_BINARY", "G_TERNARY")
    capture, lost, norm = Capture.open(SHIPPED), np.zeros(len(routes)), 0.0
    for step in capture.steps:
        for name, workers in capture.load(step).items():
            for rank, x in enumerate(workers.reshape(len(workers), -1)):
                if x.size >= LEAST:
                    norm += float(np.sum(x.astype(np.float64) ** 2))
                    found = route_errors(x, Key(1, step, rank, name), routes)
                    lost += [found[route] for route in routes]
    shares = dict(zip(routes, np.sqrt(lost / norm), strict=True))
    said = {"Q2": 1.12, "Q3": 0.48, "Q4": 0.22, "Q8": 0.013, "G_BINARY": 0.72, "G_TERNARY": 0.55}
    assert shares == pytest.approx(said, abs=0.01)
