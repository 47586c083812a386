# SPDX-License-Identifier: Apache-2.0
"""Helper of tests that run Python in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_python(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the arguments ``words`` and return the completed process.

    Any exit code is accepted. This package is on its path, and torch and numpy use one thread. The
    time-out is 900 seconds.

    Args:
        *words: Arguments of the interpreter.
        **variables: Added to the environment.
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
