# SPDX-License-Identifier: Apache-2.0
"""Tests that wrong arrays and numbers for the codec give one ValueError, equal on both engines.

Nothing may be written elsewhere, also when `pack.c` is called directly, under ASan and UBSan.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuron_fabric import codec
from neuron_fabric.codec import Route, numpy_engine
from neuron_fabric.codec.draws import Key
from neuron_fabric.codec.engine import Engine, engine, using
from neuron_fabric.codec.native import NativeEngine, library

Array = NDArray[Any]
ENGINES: dict[str, Engine] = {"chosen": engine(), "numpy": numpy_engine}
if importlib.util.find_spec("torch") and "LD_PRELOAD" not in os.environ:  # torch dies under ASan
    from neuron_fabric.codec.torch_engine import TorchEngine

    ENGINES["torch"] = TorchEngine()
VOTES = (Route.G_BINARY, Route.G_TERNARY)
GUARD = 64
ODD: tuple[Any, ...] = (-1, 0, 1, 255, 256, 1 << 40, 1 << 63, 1 << 70, 3.5, None, "7")


def guarded(size: int, skew: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return ``size`` bytes of 0 between guard bytes, and the whole buffer."""
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


@pytest.mark.parametrize("loops", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("wrong", _wrong_outs(1))
def test_out_is_what_it_must_be(loops: Any, wrong: str) -> None:
    """Check that a wrong ``out`` is refused by unpack and unpack_net.

    A larger, float16 or reversed one was a segmentation fault; a strided or float64 one got wrong
    values without an error.
    """
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
    """Check that empty tensors of integer codes are accepted; numpy refused one of G_INT4."""
    empty = np.zeros((3, 0, 64), np.uint8)
    for route in (Route.G_INT4, Route.G_INT8):
        assert codec.add_codes(empty, route).shape[1:] == (0, 64)
        none = codec.unpack_codes(empty[0], route, np.zeros(0, np.float32), 0)
        assert none.shape == (0,)


def test_pack_into_its_own_values() -> None:
    x = np.ones(512, np.float32)
    with pytest.raises(ValueError, match="out must have its own memory, not that of an input"):
        codec.pack(x, Route.G_BINARY, out=x.view(np.uint8)[:64].reshape(1, 64))


@pytest.mark.parametrize("loops", ENGINES.values(), ids=ENGINES)
def test_odd_kinds_of_arguments(loops: Any) -> None:
    """Check that masked arrays, texts for routes, and values that are no numbers are refused."""
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
    """Check that a unit of 0 or below is refused for values other than 0.0; their codes were 0."""
    u = np.full(1, unit, np.float32)
    with pytest.raises(ValueError, match="a value is beyond the codes of G_INT8 with its unit"):
        codec.pack_codes(np.ones(8, np.float32), Route.G_INT8, u)
    assert not codec.pack_codes(np.zeros(8, np.float32), Route.G_INT8, u).lines.any()


# -- any arguments --------------------------------------------------------------------------------
def _spoilt(draw: st.DrawFn, array: Array) -> Any:
    """Return the array, or a variant with another type, size, order, alignment or shape."""
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


Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


def _right_call(name: str, n: int, w: int, route: Route, rng: np.random.Generator) -> Call:
    """Return a call of codec function ``name`` with arguments that fit.

    It is for ``n`` elements of ``w`` workers.
    """

    def lines(*shape: int) -> NDArray[np.uint8]:
        return rng.integers(0, 256, (*shape, codec.lines_of(n, route), 64), np.uint8)

    x, out = rng.standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
    u, here = np.full(-(-n // codec.BUCKET), 9, np.float32), np.ones(lines(w).shape[:2], np.bool_)
    planes = lines(w.bit_length())
    calls: dict[str, Callable[[], Call]] = {
        "pack": lambda: (codec.pack, [x, route], {"out": lines()}),
        "count": lambda: (codec.count, [lines(w), route], {"present": here}),
        "count planes": lambda: (codec.count, [lines(w), route], {"vote": False}),
        "unpack": lambda: (codec.unpack, [lines(), route, n], {"scale": 0.5, "out": out}),
        "unpack_net": lambda: (codec.unpack_net, [planes, route, n, w], {"out": out}),
        "vote_of": lambda: (codec.vote_of, [planes, route, w], {}),
        "vote_of each": lambda: (codec.vote_of, [planes, route, here.sum(axis=0)], {}),
        "add_planes": lambda: (codec.add_planes, [[planes, planes], 2 * w], {}),
        "maxima": lambda: (codec.maxima, [x], {}),
        "units": lambda: (codec.units, [u, route], {}),
        "pack_codes": lambda: (codec.pack_codes, [x, route, u], {}),
        "pack_codes drawn": lambda: (codec.pack_codes, [x, route, u, Key(n, w, 3, "p")], {}),
        "unpack_codes": lambda: (codec.unpack_codes, [lines(), route, u, n], {}),
        "add_codes": lambda: (codec.add_codes, [lines(w), route, here], {}),
        "unpack_sums": lambda: (
            codec.unpack_sums,
            [codec.add_codes(lines(w), route), route, u, w, w],
            {"out": out},
        ),
    }
    return calls[name]()


NAMES = ("pack", "count", "count planes", "unpack", "unpack_net", "vote_of", "vote_of each")
OF_CODES = (
    *("add_planes", "maxima", "units", "pack_codes", "pack_codes drawn", "unpack_codes"),
    *("add_codes", "unpack_sums"),
)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """Draw a call of the codec, some of whose arguments may be wrong."""
    codes = draw(st.booleans())
    routes = (Route.G_INT4, Route.G_INT8) if codes else VOTES
    name = draw(st.sampled_from(OF_CODES if codes else NAMES))
    workers = draw(st.integers(1, 20) | st.sampled_from([20] if codes else [127, 254, 255, 256]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    function, given_, words = _right_call(
        name, draw(st.integers(0, 1100)), workers, draw(st.sampled_from(routes)), rng
    )

    def maybe_wrong(value: Any) -> Any:
        if isinstance(value, Route):
            return draw(st.sampled_from([value] * 9 + [Route.FP32, Route.G_INT4]))
        if isinstance(value, list):
            return [maybe_wrong(one) for one in value][: draw(st.integers(0, 3))]
        if isinstance(value, np.ndarray):
            return _spoilt(draw, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return draw(st.just(value) | st.just(value) | st.sampled_from(ODD))
        return value

    changed = {key: draw(st.sampled_from([None, maybe_wrong(one)])) for key, one in words.items()}
    changed |= {key: words[key] for key in ("scale", "vote") if key in words}
    return function, [maybe_wrong(one) for one in given_], changed


def _own(out: Any) -> Any:
    """Return a copy of ``out`` for one engine; the same object if it is no proper array."""
    if not isinstance(out, np.ndarray) or not out.flags.c_contiguous or not out.flags.aligned:
        return out
    copy = out.copy()
    copy.flags.writeable = out.flags.writeable
    return copy


def outcome(call: Call) -> Any:
    """Run a call; return dtypes, shapes and bytes of result and ``out``, or its error's text."""
    function, given_, words = call
    own = {key: _own(one) if key == "out" else one for key, one in words.items()}
    try:
        result = function(*given_, **own)
    except ValueError as error:
        return str(error)
    if isinstance(result, codec.Packed):
        result = (result.lines, result.scale, np.int64(result.zeros), np.int64(result.open_gates))
    arrays = [*(result if isinstance(result, tuple) else [result]), own.get("out")]
    return [(one.dtype, one.shape, one.tobytes()) for one in arrays if one is not None]


SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


def check_calls(examples: int) -> None:
    """Check for ``examples`` random calls that both engines give the same result or error."""

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=SLOW)
    @given(calls())
    def run(drawn: Call) -> None:
        found = []
        for loops in ENGINES.values():
            with using(loops):
                found.append(outcome(drawn))
        assert all(one == found[0] for one in found), drawn[0]

    run()


def test_any_arguments() -> None:
    check_calls(150)


@pytest.mark.parametrize("route", [Route.G_INT4, Route.G_INT8])
@pytest.mark.parametrize("key", [Key(1, 2, 3, "p"), None], ids=["drawn", "nearest"])
def test_long_codes(route: Route, key: Key | None) -> None:
    """Check that both engines agree on tensors of many buckets of other units.

    A third of the values have the largest code.
    """
    rng, n, workers = np.random.default_rng(5), 70_001, 17
    x = rng.standard_normal((workers, n)) * 10.0 ** np.repeat(rng.integers(-40, 38, 69), 1024)[:n]
    x = x.astype(np.float32)
    largest = np.repeat(codec.maxima(np.abs(x).max(axis=0)), codec.BUCKET)[:n]
    x[:, ::3] = largest[::3]
    u = codec.units(codec.maxima(largest), route)
    found = []
    for loops in ENGINES.values():
        with using(loops):
            lines = np.stack([codec.pack_codes(own, route, u, key).lines for own in x])
            sums, out = codec.add_codes(lines, route), np.empty(n, np.float32)
            codec.unpack_sums(sums, route, u, workers, workers, out)
            found.append((lines.tobytes(), sums.tobytes(), out.tobytes()))
    assert all(one == found[0] for one in found)


# -- pack.c by itself -----------------------------------------------------------------------------
class Arrays:
    """Arrays for one call of `pack.c`, between guard bytes; some do not fit the call.

    ``fine`` is False once one did not fit.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.fine = draw, True
        self._buffers: list[tuple[NDArray[np.uint8], int, int]] = []

    def array(self, size: int, most: int = 1 << 17) -> tuple[int | None, int]:
        """Return address and size in bytes of a new array that should have ``size`` bytes.

        It may have another size or alignment, or be None.
        """
        size = max(size, 0)
        how = self.draw.choice(["fits"] * 14 + ["size", "skew", "none"])
        real = min(size, most) if how != "size" else self.draw.randint(0, 2 * min(size, most) + 8)
        skew = self.draw.randint(1, 3) if how == "skew" else 0
        self.fine &= real == size and how in ("fits", "size")
        inner, space = guarded(real, skew)
        self._buffers.append((space, real, skew))
        return (None if how == "none" else inner.ctypes.data), real

    def tensors(self, n: int) -> tuple[Any, int]:
        """Return a table of two tensors that should have ``n`` elements, and their number."""
        words = list[int]()
        for address, size in (self.array(4 * n), self.array(4 * n)):
            words += address or 0, n if n >> 62 else size // 4
        return (ctypes.c_size_t * 4)(*words), 2

    def kept(self) -> bool:
        return all(kept(*one) for one in self._buffers)


def _raw_pack(c: Any, a: Arrays, n: int) -> int:
    which, seen, x = a.draw.randrange(3), a.array(48), a.tensors(n)
    if which == 0:
        return int(c.nf_look(*x, 1, *seen))
    route = VOTES[which - 1]
    lines = a.array(128 * codec.lines_of(n, route))
    if route == Route.G_BINARY:
        return int(c.nf_pack_binary(*x, *lines, 1, *seen))
    return int(c.nf_pack_ternary(*x, *a.array(8), *lines, *seen))


def _raw_count(c: Any, a: Arrays, n: int) -> int:
    w, n = a.draw.choice([1, 3, 7, 8, 20, 255, 255, 256, 300, 0, 1 << 63]), n % 4 if n < 5000 else n
    here = a.array(w * n) if a.draw.random() < 0.5 else (None, 0)
    lines, outs = a.array(64 * w * n), (*a.array(64 * n * w.bit_length()), *a.array(64 * n))
    a.fine &= 1 <= w <= 255
    return int(c.nf_count(*lines, w, n, *here, a.draw.randrange(2), *outs))


def _raw_decode(c: Any, a: Arrays, n: int) -> int:
    bits, p = a.draw.choice([1, 2] * 4 + [0, 3, 4, -1]), a.draw.choice([*range(1, 9), 0, -1, 9, 64])
    size = 64 * codec.lines_of(n, Route.G_TERNARY if bits == 2 else Route.G_BINARY)
    net = a.draw.random() < 0.5
    a.fine &= bits in (1, 2) and (1 <= p <= 8 or not net)
    source = a.array(max(p, 0) * size if net else 2 * size)
    if not net:
        return int(c.nf_unpack(*source, bits, *a.array(16 * bits), *a.tensors(n)))
    arrays = *a.array(1024 if bits == 1 else 2052), *a.array(4 * n)
    return int(c.nf_unpack_net(*source, size, p, n, bits, *arrays))


def _raw_codes(c: Any, a: Arrays, n: int) -> int:
    bits, units = a.draw.choice([4, 8] * 4 + [0, 2, -8]), a.array(8 * -(-n // 1024))
    a.fine &= bits in (4, 8)
    lines = -(-n // (512 // (bits if bits in (4, 8) else 8)))
    which = a.draw.randrange(4)
    if which == 0:
        return int(c.nf_maxima(*a.tensors(n), *units))
    if which == 1:
        keys = a.array(32) if a.draw.random() < 0.5 else (None, 0)
        arrays = *units, bits, *keys, *a.array(128 * lines), *a.array(48)
        return int(c.nf_pack_codes(*a.tensors(n), *arrays))
    width, w = a.draw.choice([1, 2, 2, 0, 3]), a.draw.choice([1, 3, 8, 20, 255, 256, 0])
    layers = max(1, 8 // max(bits, 4) * width)
    a.fine &= width in (1, 2) and 1 <= w <= 255
    if which == 2:
        lines %= 5
        here = a.array(w * lines) if a.draw.random() < 0.5 else (None, 0)
        codes = a.array(64 * w * lines)
        return int(
            c.nf_add_codes(*codes, w, lines, *here, bits, width, *a.array(64 * layers * lines))
        )
    sums, many = a.array(128 * layers * lines), a.array(2)
    ctypes.memset(many[0] or 0, w & 255, many[1] if many[0] else 0)
    own = *units, *many, *a.tensors(n)
    return int(c.nf_unpack_sums(*sums, 2 * lines, layers, width, *own))


RAW = (_raw_pack, _raw_count, _raw_decode, _raw_codes)


def check_library(examples: int) -> None:
    """Check ``examples`` random calls of `pack.c` with sizes that fit or do not.

    It must not write outside of the arrays, and report no fault if they fit.
    """
    c = NativeEngine(library()).c
    for name in c.__dict__:
        if name.startswith("nf_"):
            getattr(c, name).errcheck = lambda fault, *_: fault

    @settings(max_examples=examples, deadline=None, database=None)
    @given(
        st.integers(0, 1 << 32), st.sampled_from([_raw_pack, _raw_count, _raw_decode, _raw_codes])
    )
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
        native.pack_binary([x], lines[:1], True)
    with pytest.raises(ValueError, match=r"must be float32.*not float64"):
        native.pack_binary([x.astype(np.float64)], lines, True)
    with pytest.raises(ValueError, match=r"^nf_pack_binary: arrays overlap$"):
        native.pack_binary([x], x.view(np.uint8)[:128].reshape(2, 64), True)
    votes, planes = np.zeros((256, 1, 64), np.uint8), np.zeros((9, 1, 64), np.uint8)
    with pytest.raises(ValueError, match=r"^nf_count: a number is out of range$"):
        native.count(votes, None, Route.G_BINARY, planes, None)


# -- ASan and UBSan -------------------------------------------------------------------------------
def sanitized(folder: Path, more: str, calls: int) -> None:
    """Run check_calls and check_library in a process with `pack.c` built with ASan and UBSan.

    Args:
        folder: Folder for the compiler's wrapper and the library.
        more: Further options of the compiler.
        calls: Number of calls.
    """
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
