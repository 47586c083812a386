# SPDX-License-Identifier: Apache-2.0
"""The private parts of cocotb that the fork server stands on, and nothing else does.

`test_cocotb_private.py` says which of them has moved when cocotb is changed for another version.
Imported inside the simulator before cocotb is, so it imports nothing of cocotb at its head.
"""

from __future__ import annotations

import importlib
import sys

# What cocotb starts inside a simulator (the default of PYGPI_USERS in pygpi/entry.py).
USERS = (
    "cocotb_tools._coverage:start_cocotb_library_coverage",
    "cocotb.logging:_configure",
    "cocotb._init:init_package_from_simulation",
    "cocotb.regression:_run_regression",
)
# Modules of cocotb that every run imports, private ones among them.
PRELOAD = ("cocotb_tools._coverage", "cocotb._init", "cocotb.clock")
# Variables that cocotb reads once it runs tests, so after a fork.
PER_RUN = frozenset(
    {
        "COCOTB_RANDOM_SEED",
        "COCOTB_TEST_FILTER",
        "COCOTB_TEST_MODULES",
        "COCOTB_RESULTS_FILE",
        "COCOTB_RESULTS_ATTACHMENTS",
        "PYTEST_CURRENT_TEST",
    }
)


def rewrite_assertions() -> None:
    """Set up pytest's assertions here, once: it takes longer than all the rest of a start."""
    manager = importlib.import_module("cocotb.regression").RegressionManager
    manager.setup_pytest_assertion_rewriting()
    manager.setup_pytest_assertion_rewriting = staticmethod(lambda: None)


def tests_are_over() -> bool:
    """Whether cocotb has run its last test and ends the simulation."""
    manager = getattr(sys.modules.get("cocotb.regression"), "_manager_inst", None)
    return bool(getattr(manager, "_tearing_down", False))
