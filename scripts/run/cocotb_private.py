# SPDX-License-Identifier: Apache-2.0
"""Private parts of cocotb that the runner and its fork server use; no other module uses any.

`test_cocotb_private.py` shows which of them have changed when cocotb is upgraded. The module is
imported inside the simulator before cocotb, so it imports nothing of cocotb at its head.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import zlib
from typing import Any

# What cocotb starts inside a simulator (the default of PYGPI_USERS in pygpi/entry.py).
USERS = (
    "cocotb_tools._coverage:start_cocotb_library_coverage",
    "cocotb.logging:_configure",
    "cocotb._init:init_package_from_simulation",
    "cocotb.regression:_run_regression",
)
# The same with `prepare`, once cocotb knows its seed and before it imports the tests.
ENTRY_POINTS = (*USERS[:-1], f"{__name__}:prepare", USERS[-1])
REGISTERED = "NF_REGISTERED"
"""Names the file for the tests that cocotb has registered, a JSON list of names."""
DEBUG = "NF_DEBUG"
"""If set, pdb opens at the exception of a test."""
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
    }
)


def rewrite_assertions() -> None:
    """Set up pytest's assertion rewriting now, and make cocotb's later call of it do nothing.

    A server calls it once before it forks: it takes longer than the rest of the start-up.
    """
    from cocotb.regression import RegressionManager

    manager: Any = RegressionManager
    manager.setup_pytest_assertion_rewriting()
    manager.setup_pytest_assertion_rewriting = staticmethod(lambda: None)


def tests_are_over() -> bool:
    """Return whether cocotb has run its last test and is ending the simulation."""
    manager = getattr(sys.modules.get("cocotb.regression"), "_manager_inst", None)
    return bool(getattr(manager, "_tearing_down", False))


def prepare() -> None:
    """Patch cocotb's regression manager, before it imports the tests.

    It then writes the names of the registered tests to the file of `REGISTERED`, and before each
    test seeds the generators that cocotb does not know: that of numpy, and that of torch if it is
    loaded.
    """
    import cocotb
    from cocotb.regression import RegressionManager

    manager: Any = RegressionManager
    start, begin = manager.start_regression, manager._schedule_next_test

    def listed(self: Any) -> None:
        with open(os.environ[REGISTERED], "w", encoding="utf-8") as file:
            json.dump([test.name for test in self._test_queue], file)
        start(self)

    def seeded(self: Any) -> None:
        _seed(f"{self._test.fullname} {cocotb.RANDOM_SEED}")
        begin(self)

    def ended(number: int, frame: object) -> None:
        cocotb.log.error("ended by a time limit")  # the line begins with the simulated time
        os.kill(os.getpid(), signal.SIGKILL)

    manager.start_regression, manager._schedule_next_test = listed, seeded
    if os.environ.get(DEBUG):
        _debug_exceptions()
    signal.signal(signal.SIGUSR1, ended)
    _seed(str(cocotb.RANDOM_SEED))  # for what the modules of tests draw as they are imported


def _debug_exceptions() -> None:
    """Have pdb open at the exception of a test, but not at the end of a simulation.

    COCOTB_PDB_ON_EXCEPTION would also open pdb after `quit`, which ends the simulation.
    """
    import pdb

    from cocotb._test_manager import TestManager

    manager: Any = TestManager
    abort = manager._abort

    def debugged(self: Any, error: BaseException | None = None) -> None:
        if error is not None and error.__traceback__ and not self._finishing:
            sys.stdout.write(f"{type(error).__name__}: {error}\n")
            pdb.post_mortem(error.__traceback__)
        abort(self, error)

    manager._abort = debugged


def _seed(text: str) -> None:
    import numpy

    seed = zlib.crc32(text.encode())
    numpy.random.seed(seed)
    if "torch" in sys.modules:  # no bench imports it later
        sys.modules["torch"].manual_seed(seed)
