# SPDX-License-Identifier: Apache-2.0
"""Long time-outs for tests of the farm: schedulers and workers start slowly on a busy machine."""

from __future__ import annotations

import pytest

from scripts.farm import cluster


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set long time-outs for schedulers and workers; tests of the time-outs set their own."""
    monkeypatch.setattr(cluster, "_CONNECT_S", 120)
    monkeypatch.setattr(cluster, "_WORKERS_S", 300)
