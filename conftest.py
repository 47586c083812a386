# SPDX-License-Identifier: Apache-2.0
"""Tests that need a simulator which is not installed here are skipped, by name; a test that is left
to the night says why; Ctrl-C is not ignored."""

from __future__ import annotations

import signal

import pytest

from scripts.build import registry


def pytest_configure() -> None:
    """Ctrl-C reaches what tests start. A shell lets what it starts in the background ignore SIGINT,
    and that is inherited: tests that press Ctrl-C would wait for ever."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip each test that has a missing simulator among its parameters; refuse a `nightly` mark
    without a reason."""
    missing = [sim for sim in registry.names() if not registry.get(sim).available()]
    for item in items:
        night = item.get_closest_marker("nightly")
        if night and not night.args:
            raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.nightly gives no reason")
        spec = getattr(item, "callspec", None)
        for sim in missing:
            if spec is not None and sim in spec.params.values():
                item.add_marker(pytest.mark.skip(f"{sim} is not installed"))
