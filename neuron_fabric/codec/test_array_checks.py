# SPDX-License-Identifier: Apache-2.0
"""Wrong arrays and numbers for the codec: one ValueError, the same from both engines, and nothing
written anywhere else; also when `pack.c` is called directly, under ASan and UBSan."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuron_fabric import codec
from neuron_fabric.codec import Route, numpy_engine
from neuron_fabric.codec.engine import engine, using
from neuron_fabric.codec.native import NativeEngine, library

Array = NDArray[Any]
ENGINES = (engine(), numpy_engine)
VOTES = (Route.G_BINARY, Route.G_TERNARY)
GUARD = 64
ODD: tuple[Any, ...] = (-1, 0, 1, 255, 256, 1 << 40, 1 << 63, 1 << 70, 3.5, None, "7")


def guarded(size: int, skew: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Bytes between guards, and all of them."""
    space = np.full(size + 2 * GUARD + skew, 0xA5, np.uint8)
    inner = space[GUARD + skew : GUARD + skew + size]
    inner[:] = 0
    return inner, space


def kept(space: NDArray[np.uint8], size: int, skew: int = 0) -> bool:
    return bool(
        (space[: GUARD + skew] == 0xA5).all() and (space[GUARD + skew + size :] == 0xA5).all()
    )


# -- the arguments that the issue names -----------------------------------------------------------
def _wrong_outs(n: int) -> dict[str, Any]:
    good = np.zeros(n, np.float32)
    frozen = good.copy()
    frozen.flags.writeable = False
    return {
        "larger": np.zeros(4 * n, np.float32),
        "smaller": good[1:],
        "float16": np.zeros(n, np.float16),
        "float64": np.zeros(n, np.float64),
        "big-endian": np.zeros(n, ">f4"),
        "reversed": good[::-1],
        "strided": np.zeros(2 * n, np.float32)[::2],
        "2-D": good[None],
        "misaligned": np.zeros(4 * n + 1, np.uint8)[1:].view(np.float32),
        "read-only": frozen,
        "a list": good.tolist(),
        "the input": None,
    }


@pytest.mark.parametrize("loops", ENGINES, ids=["chosen", "numpy"])
@pytest.mark.parametrize("wrong", _wrong_outs(1))
def test_out_is_what_it_must_be(loops: Any, wrong: str) -> None:
    """A larger, float16 or reversed ``out`` was a segmentation fault; a strided or float64 one got
    wrong values without a word."""
    n, planes = 100, np.zeros((1, 1, 64), np.uint8)
    out, text = (
        _wrong_outs(n)[wrong],
        r"^out must be float32\[100\], contiguous, aligned, writable, not",
    )
    if wrong == "the input":
        n, text = 16, "^out must have its own memory, not that of an input$"
        out = planes.reshape(-1).view(np.float32)
    with using(loops):
        with pytest.raises(ValueError, match=text):
            codec.unpack(planes[0], Route.G_BINARY, n, out=out)
        with pytest.raises(ValueError, match=text):
            codec.unpack_net(planes, Route.G_TERNARY, n, 1, out=out)


@pytest.mark.parametrize("wrong", ["float64", "strided", "reversed", "read-only", "misaligned"])
def test_out_of_sums_is_what_it_must_be(wrong: str) -> None:
    sums, u = np.zeros((2, 1, 64), np.uint8), np.ones(1, np.float32)
    with pytest.raises(ValueError, match=r"^out must be float32\[n\], contiguous, aligned, writab"):
        codec.unpack_sums(sums, Route.G_INT4, u, 1, 1, _wrong_outs(32)[wrong])


def test_no_lines_of_codes_have_no_sums() -> None:
    """Found by the calls below: an empty tensor of G_INT4 was refused by numpy."""
    empty = np.zeros((3, 0, 64), np.uint8)
    for route in (Route.G_INT4, Route.G_INT8):
        assert codec.add_codes(empty, route).shape[1:] == (0, 64)
        none = codec.unpack_codes(empty[0], route, np.zeros(0, np.float32), 0)
        assert none.shape == (0,)


def test_pack_into_its_own_values() -> None:
    x = np.ones(512, np.float32)
    with pytest.raises(ValueError, match="out must have its own memory, not that of an input"):
        codec.pack(x, Route.G_BINARY, out=x.view(np.uint8)[:64].reshape(1, 64))


@pytest.mark.parametrize("loops", ENGINES, ids=["chosen", "numpy"])
def test_odd_kinds_of_arguments(loops: Any) -> None:
    """A mask, which only numpy would see; what is no route; numbers that are none."""
    x, lines = np.ones(8, np.float32), np.zeros((1, 64), np.uint8)
    masked, planes = np.ma.masked_array(x, mask=x > 0), lines[None]
    text: Any = "G_BINARY"
    odd: list[Any] = [None, 1j, np.ones(2)]
    with using(loops):
        for call, message in (
            (lambda: codec.pack(masked, Route.G_BINARY), "not MaskedArray"),
            (lambda: codec.maxima(masked), "not MaskedArray"),
            (lambda: codec.pack(x, text), "route must be a Route, not str"),
            (lambda: codec.count(planes, text), "route must be a Route, not str"),
            (lambda: codec.vote_of(planes, text, 1), "route must be a Route, not str"),
            (lambda: codec.units(x, text), "route must be a Route, not str"),
            (lambda: codec.pack(x, Route.G_TERNARY, ratio=text), "ratio must be a number, not str"),
            (lambda: codec.sum_kind(Route.G_INT4, 2.0), "workers must be an integer, not float"),  # type: ignore[arg-type]
            (lambda: codec.add_planes([planes], 2.0), "workers must be an integer, not float"),  # type: ignore[arg-type]
            (lambda: codec.unpack(lines, Route.G_BINARY, 8, scale=odd[0]), "scale must be a num"),
            (lambda: codec.unpack(lines, Route.G_BINARY, 8, scale=odd[1]), "scale must be a num"),
            (lambda: codec.unpack(lines, Route.G_BINARY, 8, scale=odd[2]), "scale must be a num"),
        ):
            with pytest.raises(ValueError, match=message):
                call()
        assert codec.add_planes([planes], np.int64(1)).shape == (1, 1, 64)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", [0.0, -1.0])
def test_a_unit_that_reaches_no_value(unit: float) -> None:
    """The codes of such values were 0, without a word; those of 0.0 are."""
    u = np.full(1, unit, np.float32)
    with pytest.raises(ValueError, match="a value is beyond the codes of G_INT8 with its unit"):
        codec.pack_codes(np.ones(8, np.float32), Route.G_INT8, u)
    assert not codec.pack_codes(np.zeros(8, np.float32), Route.G_INT8, u).lines.any()


# -- any arguments --------------------------------------------------------------------------------
def _spoilt(draw: st.DrawFn, array: Array) -> Any:
    """An array that is like this one, or is not."""
    how = draw(st.sampled_from(["not", "not", "kind", "size", "order", "place", "shape", "odd"]))
    if how == "kind":
        kinds = ["f2", "f4", "f8", ">f4", "u1", "i1", "?", "i4", "O", "S4", "c8"]
        return array.astype(draw(st.sampled_from(kinds)))
    if how == "size":
        axis = draw(st.integers(0, array.ndim - 1))
        n = draw(st.integers(0, array.shape[axis] + 3))
        return np.resize(array, (*array.shape[:axis], n, *array.shape[axis + 1 :]))
    if how == "order":
        return draw(
            st.sampled_from(
                [array[::-1], np.repeat(array, 2, axis=0)[::2], array.T, array[..., ::-1]]
            )
        )
    if how == "place":
        raw = np.zeros(array.nbytes + 1, np.uint8)
        moved = raw[1:].view(array.dtype).reshape(array.shape)
        moved[:] = array
        moved.flags.writeable = draw(st.booleans())
        return moved
    if how == "shape":
        return draw(st.sampled_from([array.reshape(-1), array[None], array[:0], array.sum()]))
    return draw(st.sampled_from([array.tolist(), None, b"x" * 64])) if how == "odd" else array


def _lines(draw: st.DrawFn, *shape: int) -> NDArray[np.uint8]:
    seed = draw(st.integers(0, 99))
    return np.random.default_rng(seed).integers(0, 256, (*shape, 64), np.uint8)


def _number(draw: st.DrawFn, usual: int) -> Any:
    return draw(st.just(usual) | st.just(usual) | st.sampled_from(ODD))


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Callable[[], Any]]:
    """A call of the codec, some of whose arguments may be wrong."""
    name = draw(st.sampled_from(sorted(_CALLS)))
    return name, _CALLS[name](draw)


def _out(draw: st.DrawFn, n: int) -> Any:
    return draw(st.sampled_from([None, _spoilt(draw, np.zeros(n, np.float32))]))


def _pack(draw: st.DrawFn) -> Callable[[], Any]:
    n, route = draw(st.integers(0, 1100)), draw(st.sampled_from([*VOTES, Route.FP32]))
    x = _spoilt(draw, np.random.default_rng(n).standard_normal(n).astype(np.float32))
    out = _spoilt(draw, np.zeros((codec.lines_of(n, route), 64), np.uint8))
    return lambda: codec.pack(x, route, out=draw_out(out))


def draw_out(out: Any) -> Any:
    """Its own copy for each engine, of the same kind."""
    if not isinstance(out, np.ndarray) or not out.flags.c_contiguous or not out.flags.aligned:
        return out
    copy = out.copy()
    copy.flags.writeable = out.flags.writeable
    return copy


def _count(draw: st.DrawFn) -> Callable[[], Any]:
    w = draw(st.integers(0, 20) | st.sampled_from([254, 255, 256, 257, 300]))
    n, route = draw(st.integers(0, 3)), draw(st.sampled_from([*VOTES, Route.G_INT4]))
    lines = _spoilt(draw, _lines(draw, w, n))
    here = _spoilt(draw, np.ones((w, n), np.bool_)) if draw(st.booleans()) else None
    planes, vote = draw(st.booleans()), draw(st.booleans())
    return lambda: codec.count(lines, route, present=here, planes=planes, vote=vote)


def _unpack(draw: st.DrawFn) -> Callable[[], Any]:
    n, route = draw(st.integers(0, 1100)), draw(st.sampled_from(VOTES))
    lines = _spoilt(draw, _lines(draw, codec.lines_of(n, route)))
    elements, out = _number(draw, n), _out(draw, n)
    return lambda: codec.unpack(lines, route, elements, scale=0.5, out=draw_out(out))


def _unpack_net(draw: st.DrawFn) -> Callable[[], Any]:
    n, route = draw(st.integers(0, 1100)), draw(st.sampled_from(VOTES))
    planes = _spoilt(draw, _lines(draw, draw(st.integers(0, 10)), codec.lines_of(n, route)))
    elements, workers, out = _number(draw, n), _number(draw, 3), _out(draw, n)
    return lambda: codec.unpack_net(planes, route, elements, workers, out=draw_out(out))


def _vote_of(draw: st.DrawFn) -> Callable[[], Any]:
    p, n = draw(st.integers(0, 10)), draw(st.integers(0, 3))
    planes = _spoilt(draw, _lines(draw, p, n))
    present = draw(st.sampled_from([*ODD, _spoilt(draw, np.ones(n, np.int64))]))
    return lambda: codec.vote_of(planes, Route.G_BINARY, present)


def _add_planes(draw: st.DrawFn) -> Callable[[], Any]:
    groups = [_spoilt(draw, _lines(draw, 3, 2)) for _ in range(draw(st.integers(0, 3)))]
    workers = draw(st.sampled_from([1, 7, 30, 255, 256]))
    return lambda: codec.add_planes(groups, workers)


def _codes(draw: st.DrawFn) -> Callable[[], Any]:
    n, route = draw(st.integers(0, 2100)), draw(st.sampled_from([Route.G_INT4, Route.G_INT8]))
    x, u = np.zeros(n, np.float32), np.ones(-(-n // codec.BUCKET), np.float32)
    values, unit, lines = _spoilt(draw, x), _spoilt(draw, u), _lines(draw, codec.lines_of(n, route))
    which = draw(st.integers(0, 5))
    if which == 0:
        return lambda: codec.maxima(values)
    if which == 1:
        return lambda: codec.units(unit, route)
    if which == 2:
        return lambda: codec.pack_codes(values, route, unit)
    if which == 3:
        own, elements = _spoilt(draw, lines), _number(draw, n)
        return lambda: codec.unpack_codes(own, route, unit, elements)
    w = draw(st.integers(1, 20))
    if which == 4:
        several, here = _spoilt(draw, np.stack([lines] * w)), np.ones((w, len(lines)), np.bool_)
        present = draw(st.sampled_from([None, _spoilt(draw, here)]))
        return lambda: codec.add_codes(several, route, present)
    sums = _spoilt(draw, codec.add_codes(np.stack([lines] * w), route))
    m, out = _number(draw, w), _spoilt(draw, x)

    def unpack_sums() -> Any:
        own = draw_out(out)
        codec.unpack_sums(sums, route, unit, w, m, own)
        return own

    return unpack_sums


_CALLS = {
    "pack": _pack,
    "count": _count,
    "unpack": _unpack,
    "unpack_net": _unpack_net,
    "vote_of": _vote_of,
    "add_planes": _add_planes,
    "codes": _codes,
}


def outcome(call: Callable[[], Any]) -> Any:
    """The bytes of a result, or its one line."""
    try:
        result = call()
    except ValueError as error:
        return str(error)
    if isinstance(result, codec.Packed):
        result = (result.lines, result.scale, np.int64(result.zeros), np.int64(result.open_gates))
    arrays = result if isinstance(result, tuple) else (result,)
    return [(one.dtype, one.shape, one.tobytes()) for one in arrays]


SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


def check_calls(examples: int) -> None:
    """So many calls: both engines say the same."""

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=SLOW)
    @given(calls())
    def run(drawn: tuple[str, Callable[[], Any]]) -> None:
        found = []
        for loops in ENGINES:
            with using(loops):
                found.append(outcome(drawn[1]))
        assert found[0] == found[1], drawn[0]

    run()


def test_any_arguments() -> None:
    check_calls(150)


# -- pack.c by itself -----------------------------------------------------------------------------
class Arrays:
    """Arrays for one call of `pack.c`, between guards; some are not what the call needs."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.fine = draw, True
        self._buffers: list[tuple[NDArray[np.uint8], int, int]] = []

    def array(self, size: int, most: int = 1 << 17) -> tuple[int | None, int]:
        """Address and bytes of an array that should have so many."""
        size = max(size, 0)
        how = self.draw.choice(["fits"] * 14 + ["size", "skew", "none"])
        real = min(size, most) if how != "size" else self.draw.randint(0, 2 * min(size, most) + 8)
        skew = self.draw.randint(1, 3) if how == "skew" else 0
        self.fine &= real == size and how in ("fits", "size")
        inner, space = guarded(real, skew)
        self._buffers.append((space, real, skew))
        return (None if how == "none" else inner.ctypes.data), real

    def kept(self) -> bool:
        return all(kept(*one) for one in self._buffers)


def _raw_pack(c: Any, a: Arrays, n: int) -> int:
    which, seen = a.draw.randrange(3), ctypes.create_string_buffer(24)
    if which == 0:
        return int(c.nf_look(*a.array(4 * n), n, 1, seen))
    route = VOTES[which - 1]
    lines, x = a.array(64 * codec.lines_of(n, route)), a.array(4 * n)
    if route == Route.G_BINARY:
        return int(c.nf_pack_binary(*x, n, *lines, 1, seen))
    return int(c.nf_pack_ternary(*x, n, 0.1, *lines, seen))


def _raw_count(c: Any, a: Arrays, n: int) -> int:
    w, n = a.draw.choice([1, 3, 7, 8, 20, 255, 255, 256, 300, 0, 1 << 63]), n % 4 if n < 5000 else n
    here = a.array(w * n) if a.draw.random() < 0.5 else (None, 0)
    lines, outs = a.array(64 * w * n), (*a.array(64 * n * w.bit_length()), *a.array(64 * n))
    a.fine &= 1 <= w <= 255
    return int(c.nf_count(*lines, w, n, *here, a.draw.randrange(2), *outs))


def _raw_decode(c: Any, a: Arrays, n: int) -> int:
    bits, p = a.draw.choice([1, 2] * 4 + [0, 3, 4, -1]), a.draw.choice([*range(1, 9), 0, -1, 9, 64])
    size = 64 * codec.lines_of(n, Route.G_TERNARY if bits == 2 else Route.G_BINARY)
    which = a.draw.randrange(3)
    a.fine &= bits in (1, 2) and (1 <= p <= 8 or which == 0)
    source = a.array(size if which == 0 else max(p, 0) * size)
    if which == 0:
        return int(c.nf_unpack(*source, n, bits, *a.array(8 * bits), *a.array(4 * n)))
    if which == 1:
        arrays = *a.array(1024 if bits == 1 else 2052), *a.array(4 * n)
        return int(c.nf_unpack_net(*source, size, p, n, bits, *arrays))
    return int(c.nf_counts(*source, size, p, n, bits, *a.array(n * bits)))


def check_library(examples: int) -> None:
    """So many calls of `pack.c` with sizes that fit or do not: it writes between the guards, and
    says OK when they fit."""
    c = NativeEngine(library()).c
    for name in c.__dict__:
        if name.startswith("nf_"):
            getattr(c, name).errcheck = lambda fault, *_: fault

    @settings(max_examples=examples, deadline=None, database=None)
    @given(st.integers(0, 1 << 32), st.sampled_from([_raw_pack, _raw_count, _raw_decode]))
    def run(seed: int, call: Callable[[Any, Arrays, int], int]) -> None:
        draw = random.Random(seed)
        arrays = Arrays(draw)
        n = draw.choice([draw.randint(0, 1100)] * 9 + [1 << 40, (1 << 64) - 1])
        fault = call(c, arrays, n)
        assert fault == 0 or not arrays.fine
        assert arrays.kept()

    run()


HAS_COMPILER = any(shutil.which(name) for name in ("cc", "gcc"))


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler is here")
def test_the_library_checks_by_itself() -> None:
    check_library(400)


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler is here")
def test_the_library_names_its_faults() -> None:
    native = NativeEngine(library())
    x, lines = np.zeros(600, np.float32), np.zeros((2, 64), np.uint8)
    with pytest.raises(ValueError, match=r"^nf_pack_binary: an array has another size$"):
        native.pack_binary(x, lines[:1], True)
    with pytest.raises(ValueError, match=r"must be float32.*not float64"):
        native.pack_binary(x.astype(np.float64), lines, True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^nf_pack_binary: arrays overlap$"):
        native.pack_binary(x, x.view(np.uint8)[:128].reshape(2, 64), True)
    votes, planes = np.zeros((256, 1, 64), np.uint8), np.zeros((9, 1, 64), np.uint8)
    with pytest.raises(ValueError, match=r"^nf_count: a number is out of range$"):
        native.count(votes, None, Route.G_BINARY, planes, None)
    with pytest.raises(ValueError, match=r"^nf_counts: a number is out of range$"):
        native.counts(planes, Route.G_BINARY, 9)


# -- ASan and UBSan -------------------------------------------------------------------------------
def sanitized(folder: Path, more: str, calls: int) -> None:
    """The checks above with `pack.c` built with ASan and UBSan, in a separate process."""
    asan = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, encoding="utf-8", check=True
    ).stdout.strip()
    if not os.path.isabs(asan):
        pytest.skip("gcc has no libasan here")
    compiler = folder / "cc"
    words = f"-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all {more}"
    compiler.write_text(f'#!/bin/sh\nexec gcc "$@" {words}\n', encoding="utf-8")
    compiler.chmod(0o755)
    code = (
        "from neuron_fabric.codec.engine import chosen\n"
        "from neuron_fabric.codec.test_array_checks import check_calls, check_library\n"
        "assert chosen().why.startswith('native'), chosen().why\n"
        f"check_calls({calls}); check_library({5 * calls})\n"
    )
    env = {
        **os.environ,
        "CC": str(compiler),
        "XDG_CACHE_HOME": str(folder),
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",  # red zones around what Python allocates
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc is here")
def test_under_sanitizers(tmp_path: Path) -> None:
    sanitized(tmp_path, "", 60)


@pytest.mark.nightly("27,000 calls; test_under_sanitizers has 360")
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc is here")
@pytest.mark.parametrize("more", ["", "-mno-avx2", "-O3"])
def test_under_sanitizers_at_length(tmp_path: Path, more: str) -> None:
    sanitized(tmp_path, more, 1_500)
