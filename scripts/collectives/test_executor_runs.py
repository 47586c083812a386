# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf collectives run --bulk, --processes, --digest`: digests, and a wrong output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from models.line_packing import U8
from models.pool_oracle import digest, drawn_inputs, expected
from neuron_fabric import collectives
from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import Adder, Collective, Schedule
from scripts.cli.main import main
from scripts.collectives import executor_runs
from scripts.collectives.executor_runs import LINES, CollectiveKind, kinds_of
from scripts.run import simulate

SHAPE = ["--hosts", "3", "--devices", "2"]
SIM = ["--sim", "verilator"]


def digest_by_oracle(kind: CollectiveKind, lines: int = LINES) -> str:
    plan = kind.schedule(3, 5, lines)  # other devices: digests do not depend on them
    return digest(expected(plan, drawn_inputs(plan, 1)))


def test_digests_in_bulk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collectives", "run", "reduce", "--bulk", *SHAPE, *SIM]) == 0
    lines, kinds = capsys.readouterr().out.splitlines(), kinds_of(Collective.REDUCE)
    assert len(lines) == len(kinds) == 10
    for kind, line in zip(kinds, lines, strict=True):
        start = f"verilator, seed 1: digest of {kind.name}: {digest_by_oracle(kind)}, "
        assert re.fullmatch(re.escape(start) + r"[\d,]+ clocks in \d+ phases", line)


@pytest.mark.parametrize(
    "which",
    ["all_reduce", pytest.param("all", marks=pytest.mark.nightly("half a minute of processes"))],
)
def test_digests_of_processes(capsys: pytest.CaptureFixture[str], which: str) -> None:
    assert main(["collectives", "run", which, "--processes", *SHAPE]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"processes, seed 1: digest of {kind.name}: {digest_by_oracle(kind)}"
        for kind in (kind for name in Collective for kind in kinds_of(name))
        if kind.adder is not Adder.DEVICE and which in ("all", kind.collective)
    ]


def test_processes_and_bulk(capsys: pytest.CaptureFixture[str]) -> None:
    """Check that both executors run if both are asked for, with one digest."""
    words = ["collectives", "run", "gather", "--processes", "--bulk", *SHAPE, *SIM]
    assert main(words) == 0
    wanted = f"seed 1: digest of gather: {digest_by_oracle(CollectiveKind(Collective.GATHER))}"
    processes, bulk = capsys.readouterr().out.splitlines()
    assert processes == f"processes, {wanted}"
    assert bulk.startswith(f"verilator, {wanted}, ")


@pytest.mark.parametrize(
    "wrong",
    [pytest.param(False, marks=pytest.mark.nightly("the rows of the other are checked too")), True],
)
def test_one_digest_by_all_executors(
    wrong: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the rows of a reduce, for a run at signal level that has right and wrong digests."""
    kinds = kinds_of(Collective.REDUCE)
    figures = {f"x-idle.digest of {kind.name}": digest_by_oracle(kind, 4) for kind in kinds}
    figures |= {f"x-idle.digest of {kinds[-1].name}": "0"} if wrong else {"x-idle.cycles": "9"}
    record = SimpleNamespace(passed=True, metrics=figures)
    monkeypatch.setattr(simulate, "run", lambda spec: record)
    words = ["collectives", "run", "reduce", "--digest", *SHAPE, *SIM, "--lines", "4"]
    assert main(words) == 2 * wrong
    out, error = capsys.readouterr()
    rows = out.splitlines()[1:]
    assert len(rows) == len(kinds) - wrong
    for kind, row in zip(kinds, rows, strict=False):
        processes = ", processes" * (kind.adder is Adder.PASSIVE)
        by = f"numpy, pyuvm (verilator), bulk (verilator){processes}"
        assert row == f"  {kind.name:32} {digest_by_oracle(kind, 4)}  {by}"
    assert ("pyuvm (verilator) gives 0, numpy" in error) is wrong


@pytest.mark.parametrize("executor", ["--bulk", "--processes"])
def test_a_wrong_output(
    executor: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Negative twin: an oracle with one wrong bit, and the message about it."""

    def wrong(plan: Schedule, inputs: Sequence[U8]) -> list[U8]:
        out = expected(plan, inputs)
        out[1] = out[1].copy()
        out[1][7, 3] ^= 1
        return out

    monkeypatch.setattr(executor_runs, "expected", wrong)
    words = ["collectives", "run", "all_gather", executor, "--hosts", "2", "--devices", "1", *SIM]
    assert main(words) == 2
    assert "seed 1: 1 wrong lines of rank 1, first 7; nf coll" in capsys.readouterr().err
    kind = CollectiveKind(Collective.REDUCE, Adder.DEVICE, Route.FP32)
    assert kind.name == "reduce device FP32"


def test_schedules_that_a_pool_cannot_run(tmp_path: Path) -> None:
    passive, device = kinds_of(Collective.BROADCAST)[0], kinds_of(Collective.REDUCE)[-1]
    with collectives.open(tmp_path / "pool", 0, 1, room=1 << 16) as pool:
        for plan, what in (
            (device.schedule(1, 1, 4), "needs devices that add"),
            (passive.schedule(2, 1, 4), "2 ranks and 4,096 bytes; the pool has 1, 65,536"),
        ):
            with pytest.raises(collectives.PoolError, match=what):
                pool.run_schedule(plan, drawn_inputs(plan, 1)[0])
