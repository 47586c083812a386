# SPDX-License-Identifier: Apache-2.0
"""Leaves what a test has measured where the runner looks for the metrics of its run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from verif.coverage.cover_model import FUNCTIONAL, CoverModel


def wanted() -> bool:
    """Whether a runner waits for metrics."""
    return bool(os.environ.get("NF_METRICS"))


def leave(model: CoverModel | None, figures: Mapping[str, object]) -> None:
    """Adds the hits of a test to those of the tests before it in the same process, and figures."""
    if not wanted():
        return
    path = Path(os.environ["NF_METRICS"])
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if model is not None:
        model.add(old.get(FUNCTIONAL, {}))
        old[FUNCTIONAL] = model.hits()
    path.write_text(json.dumps(old | dict(figures), indent=1), encoding="utf-8")
