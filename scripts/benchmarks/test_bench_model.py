# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench model`: the message without a history, and the comparison of two models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.line_packing import Mode
from scripts.benchmarks import bench_model as bench
from scripts.common.errors import NfError
from verif.host.c_interface import Block


def test_a_checkout_without_history_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    with pytest.raises(NfError, match=r"commit 5293eb9, which .*does not hold"):
        bench.commit_name(bench.BASELINE)


def test_a_checkout_without_git_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NfError, match="git does not start"):
        bench.commit_name("HEAD")


def test_both_models_take_turns_and_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    before, now = Path("before"), Path("now")
    order: list[Path] = []
    answers = {before: 1, now: 1}

    def run_once(library: Path, blocks: list[Block]) -> tuple[int, float]:
        order.append(library)
        for block in blocks:
            block.got[:] = np.uint8(answers[library])
        return 1000, 0.5 if library == before else 0.25

    monkeypatch.setattr(bench, "run_once", run_once)
    speeds = bench.compare((before, now), Mode.G_BINARY, lines=2, runs=3)
    assert order == [before, now] * 3
    assert [speed.rate for speed in speeds] == [2000, 4000]
    answers[now] = 2
    with pytest.raises(AssertionError, match="return different lines"):
        bench.compare((before, now), Mode.G_BINARY, lines=2, runs=1)
