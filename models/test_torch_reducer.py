# SPDX-License-Identifier: Apache-2.0
"""Tests that TorchReducer is bit-identical to the reference models.

The number of workers, sizes of shares and abstaining tensors vary. Threads replace ranks, arrays
the network.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from models.fp32 import ordered_sum  # noqa: E402
from models.line_packing import U8, pack_fp32, unpack_binary, unpack_ternary  # noqa: E402
from models.votes import reduce_binary, reduce_ternary  # noqa: E402
from neuron_fabric.codec import Route, elements_of_line, unpack_net  # noqa: E402
from neuron_fabric.reducers import torch_reducer  # noqa: E402
from neuron_fabric.reducers.interface import Outcome, Part  # noqa: E402


class Network:
    """Network of all ranks: a row of data per rank, and a barrier."""

    def __init__(self, workers: int) -> None:
        self.workers, self.rows = workers, [np.empty(0, np.uint8)] * workers
        self.barrier = threading.Barrier(workers)

    def swap(self, rank: int, own: Any) -> list[Any]:
        self.rows[rank] = own
        self.barrier.wait()
        rows = list(self.rows)
        self.barrier.wait()
        return rows


class Group:
    """Stand-in for `OwnGroup`: the group of one rank on a `Network`."""

    def __init__(self, group: tuple[Network, int], timeout_s: float) -> None:
        self.network, self.rank = group
        self.size = self.network.workers

    def exchange(self, inbox: Any, sent: Any) -> Any:
        class Work:
            wait = lambda own: inbox.copy_(  # noqa: E731
                torch.stack([row[self.rank] for row in self.network.swap(self.rank, sent)])
            )

        return Work()

    def gather(self, own: Any) -> Any:
        return torch.stack(self.network.swap(self.rank, own))


def reduced(
    kind: type[torch_reducer.TorchReducer], parts: list[list[Part]], sidecars: Any
) -> list[Outcome]:
    """Reduce a bucket on all ranks; return the outcome of each rank, in arrays.

    Args:
        kind: Class of the reducer.
        parts: Parts of each rank.
        sidecars: Sidecar of each rank.
    """
    network = Network(len(parts))

    def rank_of(rank: int) -> Outcome:
        reducer = kind()
        reducer.open((network, rank))
        found = reducer.wait(reducer.submit(0, 0, parts[rank], sidecars[rank]))
        arrays = [np.asarray(one) for one in (*found.parts, found.scales, found.present)]
        return Outcome(arrays[:-2], arrays[-2], arrays[-1])

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(rank_of, range(len(parts))))


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_reducer, "OwnGroup", Group)


Reference = Callable[..., Any]
KINDS: dict[Route, tuple[Reference, Reference]] = {
    Route.G_BINARY: (reduce_binary, unpack_binary),
    Route.G_TERNARY: (reduce_ternary, unpack_ternary),
}


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    workers=st.integers(1, 9),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    absent=st.sampled_from([0.0, 0.3]),
    kind=st.sampled_from([torch_reducer.TorchReducer, torch_reducer.TensorReducer]),
)
def test_it_is_the_models_reduction(
    seed: int, workers: int, sizes: list[int], absent: float, kind: Any
) -> None:
    """Check one bucket with parts of every vote route and decoding, and FP32 sums.

    ``sizes`` are the lines of its tensors; ``absent`` is the share of workers that abstain from
    one.
    """
    rng = np.random.default_rng(seed)
    starts = tuple(int(n) for n in np.cumsum([0, *sizes[:-1]]))
    here = rng.random((workers, len(sizes))) >= absent
    present = np.repeat(here, sizes, axis=1)
    side = np.stack([here * rng.random(here.shape), here], axis=1).astype(np.float32)
    lines: dict[Route, U8] = {
        route: rng.integers(0, 256, (workers, sum(sizes), 64), np.uint8) for route in KINDS
    }
    full = rng.standard_normal((workers, 200)).astype(np.float32)
    columns = tuple(range(len(sizes)))
    kinds = [(route, net) for route in KINDS for net in (False, True)]
    parts = [
        [
            *(Part(route, net, lines[route][w], starts, columns) for route, net in kinds),
            Part(Route.FP32, False, pack_fp32(full[w])),
        ]
        for w in range(workers)
    ]
    for outcome in reduced(kind, parts, side):
        scales = side[0, 0].copy()
        for row in side[1:, 0]:
            scales += row
        assert np.array_equal(outcome.scales, scales)
        assert np.array_equal(outcome.present, here.sum(axis=0))
        sums = np.stack([pack_fp32(x) for x in full])
        assert np.array_equal(outcome.parts[-1][0], ordered_sum(sums))
        for (route, net), got in zip(kinds, outcome.parts, strict=False):
            reduce, decode = KINDS[route]
            per = elements_of_line(route)
            for n, (first, size) in enumerate(zip(starts, sizes, strict=True)):
                at = slice(first, first + size)
                those = lines[route][here[:, n], at]
                if not net:
                    want = reduce(lines[route][:, at], present[:, at]).vote
                    if here[:, n].any():
                        assert np.array_equal(got[0, at], want)
                    continue
                votes = [decode(one).astype(np.float32) for one in those]
                total = np.sum(votes, axis=0, dtype=np.float32)
                net_sum = unpack_net(got[:, at], route, size * per, len(those), scale=1.0)
                want = total / np.float32(len(those)) if len(those) else np.zeros_like(net_sum)
                assert np.array_equal(net_sum, want)


@pytest.mark.parametrize("kind", [torch_reducer.TorchReducer, torch_reducer.TensorReducer])
def test_a_lost_line_is_found(kind: Any) -> None:
    """Check that the comparison notices one wrong line of one worker (negative twin)."""
    rng = np.random.default_rng(5)
    lines = rng.integers(0, 256, (3, 7, 64), np.uint8)
    parts = [[Part(Route.G_BINARY, False, one, (0,), (0,))] for one in lines]
    parts[1][0].lines[4] ^= 0xFF
    side = np.ones((3, 2, 1), np.float32)
    [got] = reduced(kind, parts, side)[0].parts
    lines[1, 4] ^= 0xFF
    assert not np.array_equal(got[0], reduce_binary(lines).vote)
