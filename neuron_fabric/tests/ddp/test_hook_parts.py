# SPDX-License-Identifier: Apache-2.0
"""Tests of parts of the hook without a process group: residuals, scales, samples, agreements."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
import weakref
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric.codec import (
    LINE,
    Route,
    count,
    lines_of,
    maxima,
    pack,
    pack_codes,
    units,
    unpack,
)
from neuron_fabric.codec.reduction import ordered_sum
from neuron_fabric.codec.scale_groups import groups_of
from neuron_fabric.hook import monitor_samples, payload
from neuron_fabric.hook.attachment import _reducer_of
from neuron_fabric.hook.bucket_hook import InOrder, exposed
from neuron_fabric.hook.error_feedback import Memory
from neuron_fabric.hook.hook_state import then_once
from neuron_fabric.hook.parameter_pieces import gather, pieces_of, scatter, scattered
from neuron_fabric.hook.steady_signs import RUN, Signs
from neuron_fabric.monitor.signals import random_margin
from neuron_fabric.profile import Kind, PhaseRoute, Profile, Region
from neuron_fabric.profile.portability import fit
from neuron_fabric.profile.profile_types import ModelId, Phase
from neuron_fabric.profile.slices import Slice
from neuron_fabric.reducers.interface import F32
from neuron_fabric.reducers.server_wire import PartShape
from neuron_fabric.reducers.shared_lines import BucketShape

SEEDS = st.integers(0, 2**32)
ROUTES = st.sampled_from([Route.G_BINARY, Route.G_TERNARY])


def f32(*values: float) -> F32:
    return np.array(values, np.float32)


def drawn(rng: np.random.Generator, size: int) -> F32:
    """Return ``size`` float32 of a random magnitude from 1e-20 to 1e20, a tenth of them 0."""
    x = rng.standard_normal(size) * 10.0 ** rng.integers(-20, 20)
    return (x * (rng.random(size) < 0.9)).astype(np.float32)


@given(seed=SEEDS, route=ROUTES, size=st.integers(1, 700))
@settings(max_examples=60, deadline=None)
def test_sent_and_kept_is_what_came_in(seed: int, route: Route, size: int) -> None:
    """Check that decoded votes and the residual add up to all gradients so far, within rounding.

    Two roundings a step: at most 2 ulp of the largest of gradient, signal, vote and residual.
    """
    rng, memory = np.random.default_rng(seed), Memory()
    came = np.zeros(size)
    sent_in_all = np.zeros(size)
    most = np.zeros(size, np.float32)
    for step in range(1, 6):
        gradient = drawn(rng, size)
        signal = memory.corrected("p", torch.from_numpy(gradient)).numpy()
        packed = pack(signal, route)
        s = np.float32(packed.scale * np.float32(rng.random() + 0.5))
        sent = payload.own_votes(packed, route, size) * s
        memory.keep("p", torch.from_numpy(signal), torch.from_numpy(sent))
        kept = memory.residuals["p"].numpy()
        came += gradient
        sent_in_all += sent
        for x in (gradient, signal, sent, kept):
            most = np.maximum(most, np.abs(x))
        lost = np.abs(sent_in_all + kept - came)
        assert (lost <= 2 * step * np.spacing(most)).all()


def test_a_residual_goes_once_and_follows_the_loss_scale() -> None:
    memory = Memory()
    one = torch.tensor([1.0, -2.0])
    memory.keep("p", one, torch.tensor([0.5, -0.5]))
    memory.rescale(2.0)
    assert memory.corrected("p", one).tolist() == [2.0, -5.0]
    residual = memory.flushed("p")
    assert residual is not None
    assert residual.tolist() == [1.0, -3.0]
    assert memory.flushed("p") is None
    assert (memory.corrected("p", one) == one).all()


def test_momentum_forgets_a_gradient_that_is_not_finite() -> None:
    memory = Memory()
    one = torch.ones(3)
    first = memory.momentum("p", one, 0.75)
    assert not memory.momentum("p", torch.tensor([1, torch.nan, 1]), 0.75).isfinite().all()
    assert (memory.momentum("p", one * 0, 0.75) == first * 0.75).all()


def test_momentum_is_the_formula() -> None:
    """Check m = beta * m + (1 - beta) * gradient, also after the loss scale doubled.

    The old momentum is then doubled too.
    """
    memory, gradient, b = Memory(), f32(1, -2, 3), np.float32(0.9)
    first = memory.momentum("p", torch.from_numpy(gradient), 0.9).numpy()
    assert (first == (1 - b) * gradient).all()
    memory.rescale(2.0)
    second = memory.momentum("p", torch.from_numpy(2 * gradient), 0.9).numpy()
    assert (second == b * (2 * first) + (1 - b) * (2 * gradient)).all()


@given(seed=SEEDS, route=ROUTES, workers=st.integers(1, 6), net=st.booleans())
@settings(max_examples=60, deadline=None)
def test_decoding_is_the_formula(seed: int, route: Route, workers: int, net: bool) -> None:
    rng = np.random.default_rng(seed)
    how = PhaseRoute(route, "net" if net else "vote", rng.choice(["mean_abs", "rms"]), 0.75)
    x = np.stack([rng.standard_normal(600).astype(np.float32) for _ in range(workers)])
    x[rng.random(workers) < 0.3] = 0
    packed = [pack(one, route) for one in x]
    columns = [
        payload.column(p, 600, payload.own_scale(v, p, how)) for p, v in zip(packed, x, strict=True)
    ]
    rows = np.stack([payload.sidecar([one]) for one in columns])
    total, present = ordered_sum(rows)[:, 0]
    s = payload.common_scale(total, present, how)
    here = np.array([[bool(one[1])] * len(packed[0].lines) for one in columns])
    lines, planes = count(np.stack([p.lines for p in packed]), route, present=here)
    got = np.empty(600, np.float32)
    payload.decode(planes if net else lines[None], route, net, [got], [s], [present])
    assert present == (x != 0).any(axis=1).sum()
    if not present:
        assert (got == 0).all()
        return
    votes = [payload.own_votes(p, route, 600) for p, v in zip(packed, x, strict=True) if v.any()]
    c = np.sum(votes, axis=0, dtype=np.float32)
    tie = 1 if route == Route.G_BINARY else 0
    vote = np.where(c == 0, tie, np.sign(c)).astype(np.float32)
    assert (got == (s * c / np.float32(present) if net else s * vote)).all()


def test_scales() -> None:
    """Check the scale by which votes are decoded: fixed, mean magnitude or rms; without votes; NaN.

    No worker with votes gives 0; a NaN of one worker gives NaN.
    """
    fixed = PhaseRoute(Route.G_BINARY, scale="fixed:0.25", shrink=0.5)
    mean = dataclasses.replace(fixed, scale="mean_abs")
    three, zero, nan = np.float32(3), np.float32(0), np.float32(np.nan)
    assert payload.common_scale(three, three, fixed) == 0.125
    assert payload.common_scale(np.float32(6), three, mean) == 1
    assert payload.common_scale(zero, zero, fixed) == 0
    assert np.isnan(payload.common_scale(nan, three, fixed))
    x, rms = f32(3, -4, 0, 0), dataclasses.replace(mean, scale="rms")
    packed = pack(x, Route.G_BINARY)
    assert [payload.own_scale(x, packed, how) for how in (mean, rms, fixed)] == [1.75, 2.5, 1]
    bad = pack(f32(1, np.inf), Route.G_BINARY)
    assert np.isnan(payload.column(bad, 2, np.float32(1))[0])


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 100_000), step=st.integers(0, 10_000))
def test_samples_are_whole_lines(size: int, step: int) -> None:
    index = monitor_samples.sample_of("a.weight", size, step)
    if index is None:
        assert size < 4096
        return
    assert (np.diff(index) > 0).all()
    assert index[0] >= 0
    assert index[-1] < size
    lines = np.unique(index // 512)
    assert len(lines) == max(
        math.ceil(math.ceil(size / 512) / monitor_samples.ONE_LINE_IN),
        monitor_samples.WHOLE_BELOW // 512,
    )
    assert len(index) == sum(min(512, size - 512 * n) for n in lines)


def test_a_sample_of_a_few_lines_is_of_the_whole() -> None:
    """Check that sampled cosines of a small head represent all of it, though 1/13 of it is wrong.

    The head of `nf train check charlm` has 103 classes of 64 weights, and a memory line of votes
    has 8 classes. One line of characters that are rare had a cosine of 0.06 where the head had 0.7.
    """
    m = np.random.default_rng(1).standard_normal(103 * 64)
    d = m.copy()
    d[:512] = np.roll(d[:512], 1)  # of some classes nothing is right
    cosines = []
    for step in range(0, 2000, 50):
        index = monitor_samples.sample_of("head.weight", m.size, step)
        assert index is not None
        a, b = m[index], d[index]
        cosines.append(float(a @ b / np.sqrt((a @ a) * (b @ b))))
    assert min(cosines) > 0.8


def test_samples_move_with_the_step() -> None:
    drawn = [monitor_samples.sample_of("a", 512 * 64, step) for step in range(20)]
    assert len({one.tobytes() for one in drawn if one is not None}) > 15


def test_signs_that_stay() -> None:
    signs = Signs()
    steady = torch.ones(8)
    steady[4] = 0  # a zero has no sign
    for step in range(RUN + 1):
        steady[5] = -steady[5]
        assert signs.saturation({"p": "r"}).get("r", 0.0) == (0.0 if step < RUN else 6 / 8)
        signs.see({"p": (steady, 1.0)})
    assert signs.saturation({"p": "r"}) == {"r": 6 / 8}
    signs.forget("p")
    assert signs.saturation({"p": "r"}) == {}


def test_what_a_step_has_measured() -> None:
    measured = monitor_samples.Measured()
    d, m = f32(3, -4), f32(3, 4)
    measured.decoded("r", d)
    measured.sampled("r", m[:1], d[:1], 2, shadow=False)
    measured.sampled("q", m, d, 2, shadow=True)
    measured.margin("r", f32(0.5, -1.0), 0.5, 4)
    measured.decoded("s", f32(-2, 2, 2), 2.0)  # signs alone: it is not read
    assert measured.norms == {"r": (25.0, 18.0), "q": (25.0, 25.0), "s": (12.0, None)}
    assert measured.cosines == {"r": (9.0, 9.0, 9.0), "q": (-7.0, 25.0, 25.0)}
    assert measured.margins == {"r": (12, 2)}


def _wait(gate: threading.Event) -> None:
    gate.wait(10)


def test_the_thread_keeps_the_order_and_stops_at_an_error() -> None:
    thread, done, told = InOrder("test"), list[int](), list[Exception]()
    gate = threading.Event()
    thread.put(lambda: _wait(gate))
    for n in range(5):
        thread.put(partial(done.append, n))
    time.sleep(0.01)
    assert done == []
    gate.set()
    last = thread.ask(lambda: done[-1])
    assert last() == 4
    thread.drain()
    assert done == [0, 1, 2, 3, 4]
    for _ in range(2):
        thread.put(lambda: done.append(1 // 0), told.append)
    with pytest.raises(ZeroDivisionError):
        thread.drain()
    assert len(told) == 2
    with pytest.raises(ZeroDivisionError):
        thread.ask(lambda: done[-1])()
    assert len(done) == 5
    thread.close()
    with pytest.raises(RuntimeError, match="test: it is closed"):
        thread.put(lambda: done.append(6))


def test_the_thread_has_room_for_so_many_and_keeps_nothing_that_is_done() -> None:
    thread, gate, put = InOrder("test", room=2), threading.Event(), list[int]()

    def many() -> None:
        for n in range(4):
            thread.put(partial(_wait, gate))
            put.append(n)

    filling = threading.Thread(target=many)
    filling.start()
    time.sleep(0.05)
    assert put == [0, 1]
    gate.set()
    filling.join()
    held = np.zeros(4)
    gone = weakref.ref(held)
    thread.put(partial(held.fill, 1))
    del held
    thread.drain()
    deadline = time.monotonic() + 10
    while gone() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert gone() is None
    thread.close()


@given(SEEDS, ROUTES, st.integers(1, 4096), st.integers(2, 8), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_agreement_of_a_worker(
    seed: int, route: Route, size: int, workers: int, net: bool
) -> None:
    """Check that the agreement of worker 0 with the decoded votes is that of the formula.

    Up to 4,096 elements are all compared, with those of the last line.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((workers, size)).astype(np.float32) + np.float32(0.3)
    packs = [pack(row, route) for row in drawn]
    voted, planes = count(np.stack([one.lines for one in packs]), route)
    d = np.empty(size, np.float32)
    reduced = planes if net else voted[None]
    payload.decode(reduced, route, net, [d], [np.float32(0.5)], [np.float32(workers)])
    one = monitor_samples.Agreements(workers)
    one.see([("r", route, packs[0].lines, d, 1.0)])
    product = payload.own_votes(packs[0], route, size) * np.sign(d)
    least, votes = random_margin(workers), int((product != 0).sum())
    want = (float(product.sum()) / votes - least) / (1 - least) if votes else 0.0
    want = min(max(want, -monitor_samples.MOST), monitor_samples.MOST)
    found = one.step().get("r", 0.0) * monitor_samples.NEW
    assert found == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("workers", [2, 5, 8, 64])
def test_what_an_agreement_says(workers: int) -> None:
    """Check the agreement of worker 0: about 0 if all are random, above it if all are alike.

    It is below 0 for a worker that is random while the others are alike, and least for one that
    votes against them.
    """
    found = {}
    for way, (mine, theirs) in {
        "random": (0.0, 0.0),
        "alike": (0.5, 0.5),
        "alone": (0.0, 0.5),
        "against": (-0.5, 0.5),
    }.items():
        rng, one = np.random.default_rng(workers), monitor_samples.Agreements(workers)
        for _ in range(6 * monitor_samples.NEW):
            x = rng.standard_normal((workers, monitor_samples.WATCHED)).astype(np.float32)
            x += np.float32(theirs)
            x[0] += np.float32(mine - theirs)
            packs = [pack(row, Route.G_BINARY) for row in x]
            voted, _ = count(np.stack([each.lines for each in packs]), Route.G_BINARY)
            d = unpack(voted, Route.G_BINARY, monitor_samples.WATCHED, scale=0.5)
            one.see([("r", Route.G_BINARY, packs[0].lines, d, 1.0)])
            value = one.step()["r"]
        found[way] = value
    assert found["random"] == pytest.approx(0.0, abs=0.02)
    assert found["alike"] > 0.08
    assert found["alone"] < -0.05
    assert found["against"] < -0.09


def test_neither_codes_nor_one_worker_have_an_agreement() -> None:
    d, alone, pair = f32(1, 1, -1, -1), monitor_samples.Agreements(1), monitor_samples.Agreements(2)
    alone.see([("r", Route.G_BINARY, pack(d, Route.G_BINARY).lines, d, 1.0)])
    codes = pack_codes(d, Route.G_INT8, units(maxima(d), Route.G_INT8))
    pair.see([("r", Route.G_INT8, codes.lines, d, 1.0)])
    assert alone.step() == pair.step() == {}


def test_a_region_that_has_not_voted_keeps_its_mean() -> None:
    one, d = monitor_samples.Agreements(2), f32(1, 1, -1, -1)
    lines = pack(d, Route.G_BINARY).lines
    one.see([("r", Route.G_BINARY, lines, d, 1.0)])
    assert one.step() == {"r": pytest.approx(monitor_samples.MOST / monitor_samples.NEW)}
    assert one.step() == {}
    one.see([("r", Route.G_BINARY, lines, np.zeros_like(d), 1.0)])  # nobody has won
    assert one.step() == {}
    assert one.running == {"r": pytest.approx(monitor_samples.MOST / monitor_samples.NEW)}


@pytest.mark.parametrize("once", [True, False])
def test_an_action_is_dropped_before_its_future_is_complete(once: bool) -> None:
    """Check that what an action holds is gone before the training can go on; torch's `then` fails.

    Else a thread of gloo may be the last to hold the process group, which it then destroys.
    """
    at: list[bool] = []

    class Held:
        """Stand-in for the state of a hook: notes at its end whether the future is complete."""

        def __del__(self) -> None:
            at.append(after.done())

    def action(done: torch.futures.Future[torch.Tensor], held: Held) -> torch.Tensor:
        return done.value()

    first: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    bound = partial(action, held=Held())
    after = then_once(first, bound) if once else first.then(bound)
    del bound
    first.set_result(torch.ones(1))
    assert after.wait() == 1
    assert at == ([False] if once else [True])


def test_a_wait_is_exposed_after_the_last_bucket() -> None:
    """Check waits from 2 to 5 with backward that ends before, within, after them, or not yet."""
    assert [exposed(2.0, 5.0, given) for given in (1.0, 4.0, 6.0, math.inf)] == [3.0, 1.0, 0.0, 0.0]


@given(SEEDS, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_pieces_are_gathered_and_return(seed: int, dims: int) -> None:
    """Check that a gathered piece is its slice in C order, and that scattering restores it all.

    The parameter has a drawn order of dimensions in memory, as with channels last.
    """
    rng = np.random.default_rng(seed)
    order, shape = rng.permutation(dims).tolist(), rng.integers(1, 7, dims).tolist()
    parameter = torch.randn([shape[dim] for dim in order]).permute(*np.argsort(order).tolist())
    axis = int(rng.integers(dims))
    first, end = sorted(rng.choice(shape[axis] + 1, 2, replace=False).tolist())
    pieces = pieces_of("w", parameter, [Slice(axis, first, end)])
    flat = torch.as_strided(parameter, [parameter.numel()], [1]).clone()
    before = flat.clone()
    gather(flat, pieces)
    own = flat.split([one.elements for one in pieces])
    at = {piece.name: one for piece, one in zip(pieces, own, strict=True)}
    index = (*[slice(None)] * axis, slice(first, end))
    assert (at[f"w{Slice(axis, first, end)}"] == parameter[index].reshape(-1)).all()
    assert sum(one.elements for one in pieces) == parameter.numel()
    assert scattered(pieces) or (flat == before).all()
    scatter(flat, pieces)
    assert (flat == before).all()


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize("glob", ["*", "*[:, :]"])
def test_a_server_has_room_for_the_scales_of_groups(block: int, glob: str) -> None:
    """Check that a bucket of all tensors, each with a scale a row, has the lines of HELLO."""
    how = PhaseRoute(Route.G_BINARY, granularity="row", block=block)
    region = Region("a", Kind.LINEAR, (glob,), 0, {Phase.STEADY: how})
    net = torch.nn.Sequential(*(torch.nn.Linear(640, 192, bias=False) for _ in range(3)))
    profile = Profile("p", ModelId("", 0), (region,))
    found = fit(profile, net)
    options = SimpleNamespace(reducer="unix:/s", fp32="ring", close_after=None, timeout_s=1.0)
    asked: Any = SimpleNamespace(profile=profile, fit=found, options=options, digest="")
    regions = {name: one.name for name, one in found.binding.regions.items()}
    reducer: Any = _reducer_of(asked, net, regions)
    sizes = [one.elements for one in found.binding.members("a")]
    shapes = [one.shape for one in found.binding.members("a")]
    found_groups = [groups_of(one, (2, 1), how.route, "row", block) for one in shapes]
    counts = [one.count for one in found_groups if one is not None]
    assert counts
    parts = (
        PartShape(how.route, False, sum(lines_of(n, how.route) for n in sizes), len(sizes)),
        PartShape(Route.FP32, False, sum(lines_of(n, Route.FP32) for n in counts), len(counts)),
    )
    assert BucketShape(parts, len(sizes)).lines <= reducer._hello.lines


def test_lines_are_joined_in_their_order() -> None:
    whole = np.random.default_rng(1).integers(0, 256, (5, LINE), np.uint8)
    first, second = whole[:2], whole[2:]
    assert payload.joined([first, second]) is whole
    np.testing.assert_array_equal(payload.joined([second, first]), np.roll(whole, 3, axis=0))
    np.testing.assert_array_equal(payload.joined([first, first]), whole[[0, 1, 0, 1]])
