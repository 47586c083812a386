# SPDX-License-Identifier: Apache-2.0
"""Helper of tests that run Python in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_python(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with ``words``, with this package in its path and one thread a process.

    ``variables`` are added to the environment.
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=env,
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
