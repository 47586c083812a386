# SPDX-License-Identifier: Apache-2.0
"""`nf scale --replay`: a step by its shapes through the RTL; else see `neuron_fabric/runtime`."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from scripts.cli.main import main as nf  # noqa: E402

MODEL = f"{__name__}:tiny"


def tiny() -> Any:
    """Two layers that are large enough for votes, and what stays in FP32 beside them."""
    return torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 32)
    )


@pytest.mark.parametrize("simulator", ["icarus"])
def test_a_step_through_the_rtl(simulator: str, capsys: pytest.CaptureFixture[str]) -> None:
    """4,096 and 2,048 elements are 8 and 4 lines of votes; of the other 224, two are driven."""
    words = ["scale", MODEL, "--workers", "2", "--replay", "--sim", simulator, "-j", "1"]
    assert nf([*words, "--memory-latency", "3"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"G_BINARY +12 lines a worker", out)
    assert re.search(r"FP32 +1 lines a worker", out)
    assert "26 contributions, 0 mismatches" in out
    assert "the step through the RTL" not in out


def test_nothing_to_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert nf(["scale", MODEL, "--gbs", "99999", "--replay"]) == 2
    assert capsys.readouterr().err == ("nf: no bucket is low-bit, so there is nothing to replay.\n")
