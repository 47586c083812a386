# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf train scale --replay` and `--hook` with a tiny model (see `neuron_fabric/hook`)."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from scripts.cli.conftest import Nf  # noqa: E402
from scripts.cli.scale import MOST_MEMORY, told_of_hook  # noqa: E402

MODEL = f"{__name__}:tiny"


def tiny() -> Any:
    """Return a net with two layers large enough for votes, and a rest that stays in FP32."""
    return torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 32)
    )


@pytest.mark.parametrize("simulator", ["icarus"])
def test_a_step_through_the_rtl(simulator: str, nf: Nf) -> None:
    """Check the numbers of lines and contributions of a replayed step.

    4,096 and 2,048 elements are 8 and 4 lines of votes; of the other 224 elements, two are driven.
    """
    words = ["train", "scale", MODEL, "--workers", "2", "--replay", "--sim", simulator, "-j", "1"]
    out = nf(*words, "--memory-latency", "3")
    assert re.search(r"G_BINARY +12 lines a worker", out)
    assert re.search(r"FP32 +1 lines a worker", out)
    assert "26 contributions, 0 mismatches" in out
    assert "the step through the RTL" not in out


def test_nothing_to_replay(nf: Nf) -> None:
    error = nf("train", "scale", MODEL, "--gbs", "99999", "--replay", code=2)
    assert error == "nf: no bucket is low-bit, so there is nothing to replay.\n"


@pytest.mark.nightly("20 s: four ranks; the laws of the hook train as many in every change")
def test_a_step_of_the_hook(nf: Nf) -> None:
    """Check the printed results of a step of the hook on real ranks.

    6,144 elements are 12 lines, whose counts a rank sends to three others.
    """
    out = nf("train", "scale", MODEL, "--hook")
    assert "left out: the step through the RTL\n" in out
    assert re.search(
        r"^hook: 1 buckets by 4 gloo ranks, \d+\.\d s; [1-3] regions low-bit$", out, re.M
    )
    assert re.search(
        r"^  sent by each: FP32 0\.0 MiB, G_BINARY 0\.0 MiB; [1-9] decisions$", out, re.M
    )
    assert "  gradients and decisions equal on all ranks (blake2b " in out


LEFT = {
    "seconds": 1.0,
    "buckets": 2,
    "low": 3,
    "sent": {"FP32": 2 << 20},
    "decisions": [[2, "", "LOWBIT"]],
    "digest": "0123456789abcdef",
    "memory": 500 << 20,
}


@pytest.mark.parametrize(
    ("other", "good"),
    [
        ({}, True),
        ({"digest": "f"}, False),
        ({"decisions": []}, False),
        ({"sent": {}}, False),
        ({"memory": MOST_MEMORY + 1}, False),
    ],
)
def test_ranks_that_differ(other: dict[str, Any], good: bool) -> None:
    lines, told = told_of_hook([LEFT, {**LEFT, **other}])
    assert told is good
    differ = bool(other) and "memory" not in other
    assert ("DIFFER between" in lines[2]) is differ
    assert not told_of_hook([{**LEFT, "low": 0}])[1]
