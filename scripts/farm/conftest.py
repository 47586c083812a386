# SPDX-License-Identifier: Apache-2.0
"""Schedulers and workers of the tests take their time to come up where much else runs."""

from __future__ import annotations

import pytest

from scripts.farm import cluster


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A farm that is there is waited for; a test of one that is not sets its own time."""
    monkeypatch.setattr(cluster, "_CONNECT_S", 120)
    monkeypatch.setattr(cluster, "_WORKERS_S", 300)
