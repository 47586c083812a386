# SPDX-License-Identifier: Apache-2.0
"""Tests of the example of a pool of processes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from examples import pool_of_processes
from neuron_fabric import collectives


def test_every_rank_has_the_sum() -> None:
    words = [sys.executable, "-m", "examples.pool_of_processes"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert sorted(re.findall("rank ([0-9]): 10", done.stdout)) == list("0123")


def test_a_rank_that_fails_gives_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the exit code if one process fails; it does so before it opens the pool."""

    def opened(path: str, rank: int, world: int) -> None:
        if rank == 2:
            raise OSError(28, "No space left on device")
        sys.exit(0)

    monkeypatch.setattr(collectives, "open", opened)
    assert pool_of_processes.main() == 1
