# SPDX-License-Identifier: Apache-2.0
"""Test of the example of a pool of processes."""

from __future__ import annotations

import re
import subprocess
import sys


def test_every_rank_has_the_sum() -> None:
    words = [sys.executable, "-m", "examples.pool_of_processes"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert sorted(re.findall("rank ([0-9]): 10", done.stdout)) == list("0123")
