# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf train monitor`, `nf analyse` and `nf measure capacity`: pages, injected faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from neuron_fabric.monitor import bench
from neuron_fabric.monitor.signals import Reason
from scripts.cli.conftest import Nf
from scripts.common.paths import ROOT
from scripts.report.test_browser import Page

TRAININGS = ROOT / "captures" / "trainings"
ALONE = {
    "flipped_of_8": Reason.AGREEMENT,
    "scale_x16": Reason.NORM,
    "nonfinite": Reason.NONFINITE,
    "lost": Reason.REDUCER,
    "fast_link": Reason.CAPACITY,
}
"""Faults that one signal alone finds."""


def test_one_worker_of_eight() -> None:
    """Check that one worker with flipped signs of eight is found by the signal AGREEMENT only.

    The loss still decreases, so no other signal sees it.
    """
    found = bench.found(bench.trained(1, "flipped_of_8", steps=300))
    assert found is not None
    assert (found.decision.signal, found.decision.worker) == (Reason.AGREEMENT, 0)
    assert found.after <= bench.FAULTS["flipped_of_8"].within
    assert bench.found(bench.trained(1, "flipped_of_8", [Reason.AGREEMENT])) is None


def test_a_loss_that_creeps_up() -> None:
    """Check that a slowly rising loss is found by LOSS_SLOPE in time, and later by LOSS_DRIFT.

    No other signal sees it, and no test of the losses could detect it before `soonest`.
    """
    off: list[Reason] = []
    after = []
    for signal in (Reason.LOSS_SLOPE, Reason.LOSS_DRIFT):
        found = bench.found(bench.trained(1, "divergence", off))
        assert found is not None
        assert found.decision.signal == signal
        after.append(found.after)
        off.append(signal)
    assert bench.soonest(0.03) < after[0] <= bench.FAULTS["divergence"].within < after[1]
    assert bench.found(bench.trained(1, "divergence", off)) is None
    # 25 steps were asked for: with noise of 5 % and more that is not in the losses.
    assert bench.soonest(0.03) < bench.soonest(0.045) < 25 <= bench.soonest(0.05) < after[1]


@pytest.mark.nightly("8 s: every recorded training; test_monitor_laws has drawn ones")
def test_no_false_alarm_in_real_trainings(nf: Nf) -> None:
    """Check that the monitor gives no false alarm in recorded healthy trainings.

    They once gave false alarms that synthetic runs did not: by a sample of one line, and by
    gradients that shrank between two samples.
    """
    out = nf("train", "monitor", "bench", "--recorded", str(TRAININGS))
    assert re.search(
        r"^  (2[0-9]|[3-9][0-9]) healthy runs, [0-9,]+ steps: 0 false alarms$", out, re.M
    )
    spikes = re.findall(r"loss_spike +(\d+) +(\d+)", out)
    assert len(spikes) > 15
    assert all(int(most) <= 25 for _, most in spikes)


@pytest.mark.nightly("60 trainings of 500 steps")
def test_the_bench() -> None:
    """Check that every injected fault is found in time, with hardly any false alarm.

    At most one false alarm is allowed in 10,000 steps of 20 healthy runs. A fault that one signal
    alone finds must not be found without it, and a loss that jumps is found later without its.
    """
    lines, good = bench.bench_lines(1, 20)
    assert good, "\n".join(lines)
    for fault, signal in ALONE.items():
        assert bench.found(bench.trained(1, fault, [signal])) is None, (fault, signal)
    soon, late = (
        bench.found(bench.trained(1, "loss_spike", off)) for off in ([], [Reason.LOSS_SPIKE])
    )
    assert soon is not None
    assert late is not None
    assert soon.after < late.after


def test_the_page_in_a_browser(tmp_path: Path, chromium: Page, nf: Nf) -> None:
    bench.trained(3, "flipped_vote", [Reason.AGREEMENT], steps=330, folder=tmp_path)
    out = tmp_path / "page.html"
    nf("train", "monitor", str(tmp_path), "--html", str(out))
    chromium.open(out)
    text = chromium.ask("document.body.innerText")
    for words in ("LOWBIT", "PARTIAL", "LOW → DEMOTED", "G_BINARY", "Sampled cosines", "Agreement"):
        assert words in text, words
    tall = "[...document.querySelectorAll('figure svg')].every(s => s.clientHeight > 80)"
    assert chromium.ask(tall)
    assert chromium.complaints == []
    assert chromium.requests == [out.as_uri()]
    chromium.open(out, 390, 844)
    assert chromium.ask("document.documentElement.scrollWidth") <= 390


def test_the_page_of_an_analysis_in_a_browser(tmp_path: Path, chromium: Page, nf: Nf) -> None:
    """Check that the page of a real capture shows warnings, a coloured map, and every bar."""
    nf("analyse", str(ROOT / "captures" / "gpt2-fused-qkv"), str(tmp_path))
    out = tmp_path / "index.html"
    chromium.open(out)
    text = chromium.ask("document.body.innerText")
    for words in ("a fused layer", "G_BINARY by column", "0.685", "norm ratio"):
        assert words in text, words
    colours = "new Set([...document.querySelectorAll('.heat')].map(c => getComputedStyle(c)"
    assert chromium.ask(f"{colours}.backgroundColor)).size") > 20
    assert chromium.ask(
        "[...document.querySelectorAll('svg.bars')].every(s => s.clientHeight > 10)"
    )
    assert chromium.complaints == []
    assert chromium.requests == [out.as_uri()]
    chromium.open(out, 390, 844)
    assert chromium.ask("document.documentElement.scrollWidth") <= 390
