# SPDX-License-Identifier: Apache-2.0
"""Faults of hosts in the numpy executor, and twins: promises that break without their reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from models.pool import Pool, PoolFault, Rules
from models.pool_devices import Line, PoolDevice
from models.pool_faults import FAULTS, Finding, inject
from models.pool_oracle import drawn_inputs
from neuron_fabric.collectives.schedule import Collective
from neuron_fabric.collectives.shipped import shipped

PAUSED = "paused over close and shrink"


@pytest.mark.parametrize("fault", FAULTS)
def test_every_promise_holds(fault: str) -> None:
    found = [inject(fault, seed) for seed in range(5)]
    assert [one.problem for one in found] == [""] * 5
    assert any(one.reported for one in found)


def test_l5_all_writes_of_zombies_are_counted() -> None:
    found = [inject(PAUSED, seed) for seed in range(8)]
    assert sum(one.writes for one in found) == sum(one.counted for one in found) > 0


def broken(fault: str, seeds: int = 30) -> Finding | None:
    """Return the first finding of a broken promise, or None."""
    found = (inject(fault, seed) for seed in range(seeds))
    return next((one for one in found if one.problem), None)


def test_l5_needs_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PoolDevice, "_admits", lambda *_: True)
    assert broken(PAUSED) is not None


def test_poison_must_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("read", "result"):
        seen: Callable[..., Line] = getattr(PoolDevice, name)
        monkeypatch.setattr(PoolDevice, name, lambda *at, seen=seen: Line(seen(*at).data, False))
    found = broken("poison")
    assert found is not None
    assert "nobody reported" in found.problem or "wrong" in found.problem


def test_losses_must_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PoolDevice, "losses", lambda self: 0)
    assert broken("refused write") is not None


def test_different_calls_are_named_on_the_first_wait() -> None:
    one, other = (shipped(Collective.ALL_GATHER, 3, 1, lines) for lines in (2, 3))
    data = [drawn_inputs(one, 1)]
    data[0][2] = drawn_inputs(other, 1)[2]
    what = r"rank \d calls all_gather\(\d lines\), rank \d calls all_gather\(\d lines\)"
    with pytest.raises(PoolFault, match=what):
        Pool([one], data, others={(0, 2): other}).run(1)
    blind = Pool([one], data, others={(0, 2): other}, rules=Rules(calls=False))
    assert blind.run(1)  # the twin: all end, and nobody knows


def test_a_deadline_names_who_waits_for_what() -> None:
    one = shipped(Collective.BROADCAST, 2, 1, 1)
    pool = Pool([one], [drawn_inputs(one, 1)])
    pool.stopped = frozenset({0})
    with pytest.raises(PoolFault, match=r"deadline: rank 1 in broadcast 0, consume: Wait\(ranks"):
        pool.run(1)
