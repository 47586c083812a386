# SPDX-License-Identifier: Apache-2.0
"""Test of the notebook `analyse_capture.ipynb`: its cells run, one after the other, and draw."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

from scripts.common.paths import ROOT


def test_every_cell_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Execute the notebook as Jupyter would, without a screen, and look at what it has drawn."""
    monkeypatch.chdir(ROOT)
    mpl.use("Agg")
    cells = json.loads(Path(__file__).with_name("analyse_capture.ipynb").read_text("utf-8"))[
        "cells"
    ]
    space: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), space)
    said = capsys.readouterr().out
    assert "c_attn.weight: G_BINARY with one scale has a cosine of 0.3" in said
    drawn, margins = map(plt.figure, plt.get_fignums())
    assert drawn.axes[0].images[0].get_size() == (10, 8)
    assert len(margins.axes[0].lines) == 5
    plt.close("all")
