# SPDX-License-Identifier: Apache-2.0
"""Picture of the report: it shows the votes and bytes of the result files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from neuron_fabric.capture import Capture
from neuron_fabric.capture.safetensors_io import open_tensors, write_tensors
from scripts.common.paths import CAPTURE
from scripts.conftest import record
from scripts.report import picture, write_report
from scripts.report.test_browser import Page

STEP = 60
KILO = {"bytes_to_device": "30000", "bytes_from_device": "10000"}
FP32 = {"fp32_bytes_to_device": "150000", "fp32_bytes_from_device": "50000"}


def result(folder: Path, wrong: Callable[[np.ndarray], np.ndarray]) -> Path:
    """Write a result file with the signs of the true means, those that `wrong` selects turned."""
    tensors = {}
    for name, values in Capture.open(CAPTURE).load(STEP).items():
        mean = values.mean(axis=0, dtype=np.float64)
        sign = np.where(mean < 0, -1, 1)
        tensors[f"{name}.vote"] = np.where(wrong(mean), -sign, sign).astype(np.int8)
        tensors[f"{name}.plus"] = np.zeros(mean.shape, np.uint8)
    path = folder / "binary.safetensors"
    write_tensors(path, tensors, {"step": str(STEP), **KILO, **FP32})
    return path


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda mean: np.zeros(mean.shape, bool), "100.0 % of"),
        (lambda mean: np.ones(mean.shape, bool), "0.0 % of"),
    ],
)
def test_agreement_is_measured(
    tmp_path: Path, wrong: Callable[[np.ndarray], np.ndarray], says: str
) -> None:
    """Votes with the signs of the means, and with none of them."""
    mean, vote = picture.votes(Capture.open(CAPTURE), [open_tensors(result(tmp_path, wrong))])
    assert len(mean) == len(vote) == sum(spec.elements for spec in Capture.open(CAPTURE).tensors)
    assert picture._agreement("binary", mean, vote).startswith(says)


def test_a_report_opens_with_it(tmp_path: Path, chromium: Page) -> None:
    """The policy of the page lets all of it through: no complaint, and text in the page."""
    path = result(tmp_path, lambda mean: np.abs(mean) < np.median(np.abs(mean)))
    records = [record(name="replay::binary"), record(id="red", name="replay::x", passed=False)]
    write_report.write_all(records, "nf regress", tmp_path, replayed={"binary": [path]})
    for width in (1280, 390):
        chromium.open(tmp_path / "index.html", width)
        assert chromium.complaints == []
        assert chromium.ask("document.documentElement.scrollWidth") <= width
        assert chromium.ask("document.querySelector('main').firstElementChild.id") == "picture"
        titles = "[...document.querySelectorAll('#picture h2')].map(h => h.innerText)"
        assert chromium.ask(titles) == [
            "Votes against the true mean",
            "Bytes by route",
            "What was run",
        ]
        text = chromium.ask("document.getElementById('picture').textContent")
        for words in ("20.0 %", "from the device", "1/2", "stage V3", "8 workers", "on icarus"):
            assert words in text, words
        marks = "[...document.querySelectorAll('#picture path')].map(p => getComputedStyle(p).fill)"
        assert "rgb(76, 120, 168)" in chromium.ask(marks)  # the styles are in force


def test_a_missing_picture_has_a_reason(tmp_path: Path) -> None:
    empty = tmp_path / "empty.safetensors"
    write_tensors(empty, {"x.sum": np.zeros(1, np.float32)}, {"step": str(STEP), **KILO, **FP32})
    for files, reason in (
        ({}, "no replay was green"),
        ({"binary": [empty]}, "has no votes"),
        ({"binary": [tmp_path / "gone.safetensors"]}, "gone.safetensors"),
    ):
        write_report.write_all([record()], "x", tmp_path, replayed=files)
        text = (tmp_path / "index.html").read_text(encoding="utf-8")
        note = text.partition("No picture of the replays: ")[2].partition("</p>")[0]
        assert reason in note
    write_report.write_all([record()], "x", tmp_path)
    assert "<figure" not in (tmp_path / "index.html").read_text(encoding="utf-8")
