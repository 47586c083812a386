# SPDX-License-Identifier: Apache-2.0
"""Metrics of a test, written to the file that the runner reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from verif.coverage.cover_model import FUNCTIONAL, CoverModel


def wanted() -> bool:
    """Return whether a runner waits for metrics."""
    return bool(os.environ.get("NF_METRICS"))


def leave(model: CoverModel | None, figures: Mapping[str, object]) -> None:
    """Add the hits of a test to those of earlier tests in the same process, and store its figures.

    Of those named `cycles` the sum is kept: a test with parameters leaves one name several times.
    """
    if not wanted():
        return
    path = Path(os.environ["NF_METRICS"])
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if model is not None:
        model.add(old.get(FUNCTIONAL, {}))
        old[FUNCTIONAL] = model.hits()
    for name, value in figures.items():
        counts = isinstance(value, int) and name.rpartition(".")[2] == "cycles"
        old[name] = old.get(name, 0) + value if counts else value
    path.write_text(json.dumps(old, indent=1), encoding="utf-8")
