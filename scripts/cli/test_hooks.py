# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure hooks`: its table from made-up results, wrong words, and short real runs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts.cli import hooks
from scripts.cli.conftest import Nf
from scripts.cli.hooks import DDP, HOOKS
from scripts.ranks import node_network
from scripts.ranks.node_network import LOOPBACK

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

SCRIPT = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh()))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.randn(4, 64)).square().mean().backward()
    optimizer.step()
"""
STEPS = "4"
ENOUGH = 14
"""Steps of a script for STEPS measured ones, `hook_launcher.SETTLE` before them."""


def _one(wall: float, cpu: float, sent: float, loss: float, **more: float) -> dict[str, float]:
    return {"wall": wall, "cpu": cpu, "bytes": sent, "loss": loss, **more}


FOUND: dict[tuple[str, str], list[Mapping[str, float]]] = {
    (DDP, LOOPBACK): [_one(0.1, 0.033, 1000, 2.0), _one(0.1, 0.043, 1000, 2.2)],
    (DDP, "30mbit"): [_one(2.8, 0, 0, 0)] * 2,
    ("bf16", LOOPBACK): [_one(0.12, 0.034, 500, 2.2), _one(0.12, 0.046, 500, 2.4)],
    ("bf16", "30mbit"): [_one(1.4, 0, 0, 0)] * 2,
    ("G_INT8", LOOPBACK): [
        _one(0.2, 0.050, 400, 2.01, pack=0.003, agree=0.001),
        _one(0.2, 0.062, 400, 2.21, pack=0.005, agree=0.001),
    ],
    ("G_INT8", "30mbit"): [_one(1.5, 0, 0, 0)] * 2,
}


def test_the_table() -> None:
    """Check shares, medians, least processor times, and losses less DDP's, seed by seed."""
    head, _, *rows = hooks.table(FOUND)
    assert head.endswith("| ms/step, loopback | ms/step, 30mbit |")
    assert rows == [
        "| DDP | 100.0 | 33.0 | +0.0 | 2.100 | +0.000 | 100 | 2,800 |",
        "| bf16 | 50.0 | 34.0 | +1.0 | 2.300 | +0.200 | 120 | 1,400 |",
        "| G_INT8 | 40.0 | 50.0 | +17.0 | 2.110 | +0.010 | 200 | 1,500 |",
    ]
    assert hooks.parts(FOUND) == ["G_INT8, ms/step in: pack 4.0, agree 1.0"]


def test_a_higher_loss_does_not_win() -> None:
    """Check that a hook wins only with a loss like DDP's; the twin has an equal loss and wins."""
    assert hooks.winners(FOUND) == [
        "loopback: DDP is fastest with a loss within 2% of DDP's",
        "30mbit: G_INT8 is fastest with a loss within 2% of DDP's; "
        "bf16 is faster with a higher loss",
    ]
    twin = {**FOUND}
    twin["bf16", LOOPBACK] = [_one(0.12, 0.034, 500, 2.1)] * 2
    assert hooks.winners(twin)[1] == "30mbit: bf16 is fastest with a loss within 2% of DDP's"


def test_enough_seeds_have_an_interval() -> None:
    """Check half the interval of three differences of 0, 0.1 and 0.2; the twin has two seeds."""
    plain = [_one(0.1, 0.03, 1000, 2.0, rows=0.5)] * 3
    own = [_one(0.1, 0.03, 30, 2.0 + n / 10) for n in range(3)]
    found = {(DDP, LOOPBACK): plain, ("FP32 rank 6", LOOPBACK): own}
    row = hooks.table(found)[-1]
    assert row.startswith("| FP32 rank 6 | 3.0 |")
    assert "| +0.100 ± 0.248 |" in row
    assert hooks.rows(found) == ["rows of embeddings with a gradient: 50.0%"]
    twin = {key: every[:2] for key, every in found.items()}
    assert "±" not in hooks.table(twin)[-1]


def test_the_drawing_names_hooks_and_networks() -> None:
    text = hooks.drawing(FOUND, "made up")
    assert text.startswith("<svg")
    for word in ("G_INT8", "30mbit", "made up"):
        assert word in text


def test_wrong_words(nf: Nf) -> None:
    assert hooks.hooks_of("G_INT8, bf*") == (DDP, "bf16", "G_INT8")
    assert hooks.hooks_of("DDP every*,* rank 6") == (DDP, "FP32 rank 6", "DDP every 3 steps")
    assert hooks.rates_of("none") == ()
    with pytest.raises(argparse.ArgumentTypeError, match="no hook 'G_FP8'; there are: DDP, bf16"):
        hooks.hooks_of("G_FP8")
    words = ("--rates", "1gbit,fast", "train")
    assert "'fast' is no rate" in nf("measure", "hooks", *words, code=2)
    assert "no script no_such_script" in nf("measure", "hooks", "no_such_script", code=2)
    words = ("--svg", "/proc/hooks.svg", "train")
    assert "choose another --svg" in nf("measure", "hooks", *words, code=2)


def test_a_profile_of_every_route() -> None:
    """Check that votes leave head and embedding in FP32, and codes nothing."""
    launcher = pytest.importorskip("scripts.ranks.hook_launcher")
    net = torch.nn.ModuleDict({"tokens": torch.nn.Embedding(64, 64), "up": torch.nn.Linear(64, 64)})
    low = {}
    for hook in HOOKS[HOOKS.index("G_BINARY vote") :]:
        profile = launcher.profile_of(net, launcher.route_of(hook.split()))
        low[hook] = {str(one.kind) for one in profile.regions if one.low_bit}
    assert low["G_BINARY vote"] == low["G_TERNARY"] == {"linear", "bias"}
    assert low["G_INT8"] == {"linear", "bias", "embedding"}
    votes, factors = (launcher.route_of(words.split()) for words in ("G_BINARY", "FP32 rank 4"))
    split = launcher.profile_of(net, votes, factors)
    assert {str(one.kind) for one in split.regions if one.phases["steady"].low_rank} == {
        "embedding"
    }


def _words(tmp_path: Path, steps: int, *words: str) -> list[object]:
    """Write a script of so many steps and return the words that measure it."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(steps=steps), encoding="utf-8")
    out = ("--svg", tmp_path / "hooks.svg", "--workers", "2", "--steps", STEPS)
    return ["measure", "hooks", *out, *words, "--", script]


@pytest.mark.nightly("10 s: three trainings; the laws of the hook count its bytes in every change")
def test_a_short_run(tmp_path: Path, nf: Nf) -> None:
    """Measure votes on two ranks: DDP of two ranks sends its 66,560 bytes of gradients once."""
    out = nf(*_words(tmp_path, ENOUGH, "--rates", "none", "--hooks", "G_BINARY vote"))
    found = re.search(r"seed 1 loopback DDP +[\d.]+ ms/step, CPU +[\d.]+ ms, +([\d,]+) bytes", out)
    assert found is not None
    assert int(found[1].replace(",", "")) == pytest.approx(66_560, rel=0.02)
    share = re.search(r"^\| G_BINARY vote \| ([\d.]+) \|", out, re.M)
    assert share is not None
    assert 3.1 < float(share[1]) < 20
    assert "G_BINARY vote, ms/step in: " in out
    assert (tmp_path / "hooks.svg").is_file()


@pytest.mark.nightly("twenty trainings of two ranks, each of which imports torch")
def test_every_hook(tmp_path: Path, nf: Nf) -> None:
    """Measure every hook, on links too if there may be any; and refuse a script that is short."""
    out = nf(*_words(tmp_path, ENOUGH, "--rates", "1gbit"))
    for hook in HOOKS:
        assert f"\n| {hook} | " in out
    assert ("ms/step, 1gbit" in out) == (not node_network.why_not())
    error = nf(*_words(tmp_path, ENOUGH - 1, "--rates", "none"), code=2)
    assert "the script ended after 13 steps, 14 are needed" in error
