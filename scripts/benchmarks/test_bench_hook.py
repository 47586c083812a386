# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure bench hook`: goals computed from the seconds of its ranks."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.benchmarks.bench_hook import at_home, by_links, hidden, shown
from scripts.cli.main import main
from scripts.ranks import node_network

MIB = 1 << 20
FOUND: dict[str, Any] = {
    "bucket": {"plain": [0.5, 0.3, 9.0], "low": [0.2, 0.2, 0.1], "alone": [0.1, 0.1, 0.1]},
    "step": {
        "plain": [1.0, 1.0, 1.0],
        "fp32": [1.02, 1.02, 9.0],
        "low": [0.4, 0.4, 0.4],
        "alone": [0.2, 0.2, 0.2],
    },
    "fine": {"low": [0.4, 0.4, 0.4], "alone": [0.2, 0.2, 0.2]},
    "long": {"low": [1.05, 1.05, 1.05], "alone": [1.0, 1.0, 1.0]},
    "memory": {"plain": 500 * MIB, "low": 510 * MIB},
    "gradients": 100 * MIB,
}


def test_backward_is_left_out_of_a_bucket() -> None:
    """Check the goals of made-up times, from which the time of backward is subtracted.

    0.4 s of plain DDP's 0.5 s are communication, and 0.1 s of the hook's 0.2 s.
    """
    home = {one.name: one.value for one in at_home(FOUND)}
    assert home["bucket, votes / plain"] == pytest.approx(0.25)
    assert home["step, all FP32 / plain"] == pytest.approx(1.02)
    assert home["memory / gradients"] == pytest.approx(0.10)
    assert all(one.good for one in at_home(FOUND))
    links = [one.value for one in by_links("1gbit", FOUND)]
    assert links == pytest.approx([0.25, 0.4])
    [share] = hidden("1gbit", FOUND)
    assert share.value == pytest.approx(0.75)
    assert share.good
    assert shown("x", FOUND)[0] == (
        "x         bucket plain    500.0 ms  low    200.0 ms  alone    100.0 ms  "
    )


def test_goals_are_missed() -> None:
    """Check that goals are missed for too much memory, too little hiding, and a slower bucket.

    The ratio is 1 if plain DDP has no communication time.
    """
    slow = {**FOUND, "long": {"low": [1.1], "alone": [1.0]}}
    slow |= {"bucket": {"plain": [0.2], "low": [0.3], "alone": [0.2]}}
    slow |= {"memory": {"plain": 0, "low": 16 * MIB}}
    assert [one.good for one in at_home(slow)] == [True, False, False]
    assert not hidden("x", slow)[0].good


@pytest.mark.nightly("eight processes import torch and train for a minute")
def test_it_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_network, "why_not", lambda: "no root here")
    assert main(["measure", "bench", "hook", "--runs", "1"]) in (0, 1)
    out = capsys.readouterr().out
    assert "1gbit: left out (no root here)" in out
    assert "hidden, buckets of a layer, backward 4 x, loopback" in out
