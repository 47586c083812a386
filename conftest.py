# SPDX-License-Identifier: Apache-2.0
"""Tests that need a simulator which is not installed here are skipped, by name; a test that is left
to the night says why; Ctrl-C is not ignored; the caller's environment chooses no repository and no
tests."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from scripts.build import registry

# A hook's GIT_DIR leads git in a test to the caller's repository; the rest changes what a test or
# a simulation that it starts does.
_STRAY = ("GIT_", "COCOTB_", "GPI_", "PYGPI_", "SIM_CMD_", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")


def pytest_configure() -> None:
    """Drop variables of the caller that reach into tests, and refuse a Python without assertions.

    Ctrl-C reaches what tests start. A shell lets what it starts in the background ignore SIGINT,
    and that is inherited: tests that press Ctrl-C would wait for ever."""
    if sys.flags.optimize:
        raise pytest.UsageError("PYTHONOPTIMIZE (python -O) removes assertions: unset it")
    for name in [name for name in os.environ if name.startswith(_STRAY)]:
        del os.environ[name]
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
