# SPDX-License-Identifier: Apache-2.0
"""Tests that the codec of the package is bit-identical to the reference models, on each engine."""

import importlib.util
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.line_packing import F32, U8, unpack_binary, unpack_ternary
from models.line_packing import pack_binary as model_binary
from models.line_packing import pack_fp32 as model_fp32
from models.line_packing import pack_ternary as model_ternary
from models.modes import Mode, Tie, elements_per_line, lines_needed
from models.votes import reduce_binary, reduce_ternary
from neuron_fabric import codec
from neuron_fabric.codec import numpy_engine
from neuron_fabric.codec.engine import Engine, engine, using

ENGINES: dict[str, Engine] = {"numpy": numpy_engine, "chosen": engine()}
if importlib.util.find_spec("torch"):
    from neuron_fabric.codec.torch_engine import TorchEngine

    ENGINES["torch"] = TorchEngine()
VOTES = (codec.Route.G_BINARY, codec.Route.G_TERNARY)
SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-45, 1.2e-38, 3.4028235e38, -3.4028235e38], np.float32)


@pytest.fixture(params=ENGINES, scope="module")
def loops(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Yield each engine of the codec in turn, while the codec uses it."""
    with using(ENGINES[request.param]):
        yield ENGINES[request.param]


@st.composite
def tensors(draw: st.DrawFn) -> F32:
    """Draw a finite float32 tensor at any alignment.

    Elements are any bit patterns, normal numbers with or without zeros, or special values.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(0, 1600) | st.integers(65_000, 66_500))
    space = np.zeros(4 * size + 67, np.uint8)
    x: F32 = space[(at := draw(st.integers(0, 67))) : at + 4 * size].view(np.float32)
    kind = draw(st.sampled_from(["bits", "normal", "special"]))
    if kind == "bits":
        bits = rng.integers(0, 2**32, size, np.uint32)
        bits[(bits & 0x7F80_0000) == 0x7F80_0000] &= 0x807F_FFFF
        x[:] = bits.view(np.float32)
    elif kind == "normal":
        x[:] = rng.standard_normal(size) * (rng.random(size) < draw(st.sampled_from([1.0, 0.3])))
    else:
        x[:] = rng.choice(SPECIAL, size)
    return x


def mean(x: F32) -> np.float32:
    """Return the mean of |x| as float32, from an exact sum."""
    return np.float32(math.fsum(np.abs(x).tolist()) / max(1, x.size))


@settings(max_examples=60, deadline=None)
@given(x=tensors(), ratio=st.sampled_from([0.0, 0.3, 0.7, 1.0, 5.0]))
def test_packing(loops: Engine, x: F32, ratio: float) -> None:
    zeros = int((x == 0).sum())
    binary = codec.pack(x, codec.Route.G_BINARY)
    assert np.array_equal(binary.lines, model_binary(x))
    assert binary.scale == mean(x)
    assert binary.zeros == zeros
    assert (binary.finite, binary.open_gates) == (True, x.size)
    bare = codec.pack(x, codec.Route.G_BINARY, scale=False)
    assert np.array_equal(bare.lines, binary.lines)
    assert bare.scale == 0
    assert bare.zeros == zeros
    ternary = codec.pack(x, codec.Route.G_TERNARY, ratio=ratio)
    with np.errstate(over="ignore"):
        threshold = np.float32(ratio) * mean(x)
    assert np.array_equal(ternary.lines, model_ternary(x, threshold))
    opened = x[np.abs(x) > threshold]
    assert ternary.open_gates == opened.size
    assert ternary.scale == mean(opened)
    assert (ternary.zeros, ternary.finite) == (zeros, True)
    assert np.array_equal(codec.pack(x, codec.Route.FP32).lines, model_fp32(x))


@settings(max_examples=30, deadline=None)
@given(x=tensors(), bad=st.sampled_from([np.nan, np.inf, -np.inf]), data=st.data())
def test_what_is_not_finite_has_no_votes(
    loops: Engine, x: F32, bad: float, data: st.DataObject
) -> None:
    """Check that a tensor with NaN or infinity has no votes, where the model refuses it."""
    if not x.size:
        return
    x[data.draw(st.integers(0, x.size - 1))] = bad
    with pytest.raises(ValueError, match="it has no sign vote"):
        model_binary(x)
    for route in VOTES:
        packed = codec.pack(x, route)
        assert (packed.finite, packed.open_gates) == (False, 0)
        assert np.isnan(packed.scale)
        assert not packed.lines.any()
        assert packed.zeros == int((x == 0).sum())
    assert not codec.pack(x, codec.Route.FP32).finite
    assert np.array_equal(codec.pack(x, codec.Route.FP32).lines, model_fp32(x))


@settings(max_examples=40, deadline=None)
@given(workers=st.integers(1, 64), size=st.integers(0, 9), seed=st.integers(0, 2**32))
def test_votes(loops: Engine, workers: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = rng.random((workers, size, 512)) < rng.choice([0.1, 0.5, 0.9])
    lines = np.packbits(bits, axis=2, bitorder="little")
    here = rng.random((workers, size)) < rng.choice([0.2, 0.8, 1.0])
    for route, reduce in zip(VOTES, (_binary, _ternary), strict=True):
        decided, planes = codec.count(lines, route, present=here)
        found = counted(planes)
        for n in range(size):
            those = lines[here[:, n], n : n + 1]
            if not len(those):  # nobody has voted: no plus, no minus
                assert not found[n].any()
                continue
            vote, plus, minus = reduce(those)
            assert np.array_equal(decided[n : n + 1], vote)
            wanted = plus if route == codec.Route.G_BINARY else np.stack([plus, minus], axis=1)
            assert np.array_equal(found[n], wanted.reshape(-1))
        if here.all():
            again = codec.count(lines, route)
            assert all(np.array_equal(a, b) for a, b in zip((decided, planes), again, strict=True))


def counted(planes: U8) -> NDArray[np.int64]:
    """Return the count of each bit, int64[n, 512], from count planes uint8[P, n, 64].

    In G_BINARY it is that of + votes; in G_TERNARY even bits count +, odd bits -.
    """
    bits = np.unpackbits(planes, axis=2, bitorder="little").astype(np.int64)
    return np.tensordot(1 << np.arange(len(planes)), bits, axes=1)


def _binary(lines: U8) -> tuple[U8, NDArray[np.int64], NDArray[np.int64]]:
    values = np.stack([unpack_binary(line) for line in lines])
    return reduce_binary(lines, None, Tie.PLUS).vote, (values > 0).sum(0), (values < 0).sum(0)


def _ternary(lines: U8) -> tuple[U8, NDArray[np.int64], NDArray[np.int64]]:
    values = np.stack([unpack_ternary(line) for line in lines])
    return reduce_ternary(lines, None, 1).vote, (values > 0).sum(0), (values < 0).sum(0)


@settings(max_examples=40, deadline=None)
@given(
    workers=st.integers(1, 40),
    elements=st.integers(1, 1200),
    seed=st.integers(0, 2**32),
    scale=st.floats(0, 100, width=32),
)
def test_decoding(loops: Engine, workers: int, elements: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    s, m = np.float32(scale), np.float32(workers)
    for route, mode, decode in zip(
        VOTES, (Mode.G_BINARY, Mode.G_TERNARY), (unpack_binary, unpack_ternary), strict=True
    ):
        assert codec.lines_of(elements, route) == lines_needed(elements, mode)
        assert codec.elements_of_line(route) == elements_per_line(mode)
        shape = (workers, codec.lines_of(elements, route), codec.LINE)
        lines = rng.integers(0, 256, shape, np.uint8)
        planes = codec.count(lines, route)[1]
        values = codec.unpack(lines[0], route, elements, scale=scale)
        assert np.array_equal(values, s * decode(lines[0], elements).astype(np.float32))
        counts = counted(planes).reshape(-1)
        plus, minus = (
            (counts, workers - counts) if route == codec.Route.G_BINARY else counts.reshape(-1, 2).T
        )
        net = (plus - minus)[:elements].astype(np.float32)
        got = codec.unpack_net(planes, route, elements, workers, scale=scale)
        assert np.array_equal(got, s * net / m)
        assert not codec.unpack_net(planes, route, elements, 0, scale=scale).any()


def test_a_codec_that_votes_on_the_sign_bit_fails_the_law() -> None:
    """Check that -0.0 votes +: a packer that sends the sign bit would differ (negative twin)."""
    x = np.array([-0.0], np.float32)
    by_sign_bit = np.packbits(np.signbit(x), bitorder="little")
    assert by_sign_bit[0] != codec.pack(x, codec.Route.G_BINARY).lines[0, 0]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([600, 65_536, 65_537, 200_000]))
def test_sums_have_one_order(loops: Engine, seed: int, size: int) -> None:
    """Check that both engines give bit-identical sums of |x|, which depend on the order of sums."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(size) * np.exp(4 * rng.standard_normal(size))).astype(np.float32)
    assert loops.look([x], True) == numpy_engine.look([x], True)
    lines = np.empty((codec.lines_of(size, codec.Route.G_TERNARY), codec.LINE), np.uint8)
    gate = np.array([0.5], np.float32)
    assert loops.pack_ternary([x], gate, lines) == numpy_engine.pack_ternary([x], gate, lines)


def test_gates_at_the_limit(loops: Engine) -> None:
    """Check that a gate opens only above the threshold, also for 0, -0.0 and infinity."""
    x = np.array([1, -1, 0, 2, -1] * 300, np.float32)  # the mean of |x| is 1
    for ratio in (0.0, -0.0, 1.0, 2.0, float("inf")):
        packed = codec.pack(x, codec.Route.G_TERNARY, ratio=ratio)
        assert np.array_equal(packed.lines, model_ternary(x, np.float32(ratio)))
        opened = x[np.abs(x) > ratio]
        assert packed.open_gates == opened.size
        assert packed.scale == mean(opened)
    for bad in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="is not 0 or more"):
            codec.pack(x, codec.Route.G_TERNARY, ratio=bad)


def test_bad_arguments_are_refused(loops: Engine) -> None:
    x = np.zeros(600, np.float32)
    with pytest.raises(ValueError, match=r"float32\[n\], contiguous, not float64\[3\]"):
        codec.pack(np.zeros(3), codec.Route.G_BINARY)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="contiguous"):
        codec.pack(x[::2], codec.Route.G_BINARY)
    with pytest.raises(ValueError, match=r"out must be uint8\[2, 64\]"):
        codec.pack(x, codec.Route.G_BINARY, out=np.zeros((3, 64), np.uint8))
    with pytest.raises(ValueError, match="no packer for G_INT4"):
        codec.pack(x, codec.Route.G_INT4)
    with pytest.raises(ValueError, match="FP32 has no votes"):
        codec.count(np.zeros((1, 1, 64), np.uint8), codec.Route.FP32)
    with pytest.raises(ValueError, match="256 workers, 1 to 255"):
        codec.count(np.zeros((256, 1, 64), np.uint8), codec.Route.G_BINARY)
    lines, here = np.zeros((2, 1, 64), np.uint8), np.ones((2, 2), np.bool_)
    with pytest.raises(ValueError, match=r"present must be bool\[2, 1\]"):
        codec.count(lines, codec.Route.G_BINARY, present=here)
    with pytest.raises(ValueError, match="2 lines do not hold 1025 elements, 3 would"):
        codec.unpack(np.zeros((2, 64), np.uint8), codec.Route.G_BINARY, 1025)
