# SPDX-License-Identifier: Apache-2.0
"""Helper that runs examples as a user does: in a separate process in the top folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def example(name: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m examples.NAME WORDS`` and return the finished process with its output.

    ``variables`` are added to the environment; OMP_NUM_THREADS is 1.
    """
    return subprocess.run(
        [sys.executable, "-m", f"examples.{name}", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=1800,  # against a hang: the machine may be busy
        check=False,
    )
