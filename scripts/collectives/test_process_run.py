# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf collectives run --processes`: digests of all collectives, and a wrong output."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.pool_oracle import digest, drawn_inputs, expected
from neuron_fabric import collectives
from neuron_fabric.collectives.schedule import Adder, Collective
from scripts.cli.main import main
from scripts.collectives import process_run
from scripts.collectives.bulk_run import LINES, kinds_of


def test_digests(capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the digest of each collective is that of the oracle."""
    words = ["all", "--processes", "--hosts", "3", "--devices", "2"]
    assert main(["collectives", "run", *words]) == 0
    wanted = []
    for kind in (kind for name in Collective for kind in kinds_of(name)):
        if kind.adder is not Adder.DEVICE:
            plan = kind.schedule(3, 5, LINES, 16)
            want = digest(expected(plan, drawn_inputs(plan, 1)))
            wanted.append(f"processes, seed 1: digest of {kind.name}: {want}")
    assert capsys.readouterr().out.splitlines() == wanted


def test_a_wrong_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Negative twin: an oracle with one wrong bit, and the message about it."""

    def wrong(plan, inputs):  # type: ignore[no-untyped-def]
        out = expected(plan, inputs)
        out[1] = out[1].copy()
        out[1][7, 3] ^= 1
        return out

    monkeypatch.setattr(process_run, "expected", wrong)
    assert main(["collectives", "run", "broadcast", "--processes", "--hosts", "2"]) != 0
    assert "1 wrong lines of rank 1, first 7" in capsys.readouterr().err


def test_schedules_that_a_pool_cannot_run(tmp_path: Path) -> None:
    passive, device = kinds_of(Collective.BROADCAST)[0], kinds_of(Collective.REDUCE)[-1]
    with collectives.open(tmp_path / "pool", 0, 1, room=1 << 16) as pool:
        for plan, what in (
            (device.schedule(1, 1, 4, 16), "needs devices that add"),
            (passive.schedule(2, 1, 4, 16), "2 ranks and 4,096 bytes; the pool has 1, 65,536"),
        ):
            with pytest.raises(collectives.PoolError, match=what):
                pool.run_schedule(plan, drawn_inputs(plan, 1)[0])
