# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf collectives run --bulk`: digests of all collectives, and a wrong output."""

from __future__ import annotations

import re

import pytest

from models.pool_oracle import digest, drawn_inputs, expected
from neuron_fabric.codec import Route
from neuron_fabric.collectives.schedule import Adder, Collective
from scripts.cli.main import main
from scripts.collectives import bulk_run
from scripts.collectives.bulk_run import LINES, CollectiveKind, kinds_of, run_bulk
from scripts.common.errors import NfError


def test_digests(capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the digest of each kind is that of the oracle, and does not depend on devices."""
    words = ["reduce", "--bulk", "--hosts", "3", "--devices", "2", "--sim", "verilator"]
    assert main(["collectives", "run", *words]) == 0
    lines, kinds = capsys.readouterr().out.splitlines(), kinds_of(Collective.REDUCE)
    assert len(lines) == len(kinds) == 10
    for kind, line in zip(kinds, lines, strict=True):
        plan = kind.schedule(3, 5, LINES, 16)
        want = digest(expected(plan, drawn_inputs(plan, 1)))
        start = f"verilator, seed 1: digest of {kind.name}: {want}, "
        assert re.fullmatch(re.escape(start) + r"[\d,]+ clocks in \d+ phases", line)


def test_a_wrong_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: an oracle with one wrong bit, and the message about it."""

    def wrong(plan, inputs):  # type: ignore[no-untyped-def]
        out = expected(plan, inputs)
        out[1] = out[1].copy()
        out[1][7, 3] ^= 1
        return out

    monkeypatch.setattr(bulk_run, "expected", wrong)
    with pytest.raises(NfError, match="all_gather of 2 ranks on 1 devices, seed 1: 1 wrong lines"):
        list(run_bulk(Collective.ALL_GATHER, 2, 1, LINES, 1, "verilator"))
    kind = CollectiveKind(Collective.REDUCE, Adder.DEVICE, Route.FP32)
    assert kind.name == "reduce device FP32"
