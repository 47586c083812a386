# SPDX-License-Identifier: Apache-2.0
"""HTML page of an analysis: one file, no script, no network access.

A heat map for each route shows the cosine by tensor and step; a table has all figures of the last
step. The template escapes every text of the capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from neuron_fabric.analysis.capture_analysis import FLOOR
from neuron_fabric.analysis.tensor_figures import TensorFigures
from neuron_fabric.monitor.page import STYLE, rendered

TEMPLATE = Path(__file__).with_name("analysis.html.j2")


def page(title: str, figures: Sequence[TensorFigures], warnings: Sequence[str]) -> str:
    """Return the HTML text of an analysis.

    Args:
        title: Name of the capture.
        figures: Figures of `capture_analysis.analyse`.
        warnings: Warnings of `capture_analysis.warnings_of`.
    """
    steps = sorted({one.step for one in figures})
    return rendered(
        TEMPLATE,
        title=title,
        css=STYLE.read_text(encoding="utf-8"),
        floor=FLOOR,
        warnings=warnings,
        steps=steps,
        routes=list(dict.fromkeys(one.route for one in figures)),
        tensors=list(dict.fromkeys(one.tensor for one in figures)),
        cells={(one.route, one.tensor, one.step): one for one in figures},
        last=[one for one in figures if one.step == steps[-1]],
    )
