# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.checks.audit`: look for known vulnerabilities of the pinned packages.

pip-audit asks PyPI about each pin of the lock files that this Python installs. With `--strict`, a
pin that PyPI does not know is red too: a mirror without advisories answers so.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.checks import requirements
from scripts.common.errors import run_main
from scripts.common.paths import ROOT

# PyPI lists the advisories of torch 2.13.0, not those of its build 2.13.0+cpu.
_LOCAL = re.compile(r"(?<===)([\w.]+)\+\w+")


def main() -> int:
    """Print each known vulnerability; return 1 if the audit is not clean or cannot be made."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--strict"]
    with tempfile.TemporaryDirectory() as folder:
        for lock in requirements.LISTS.values():
            text = (ROOT / lock).read_text(encoding="utf-8")
            Path(folder, lock).write_text(_LOCAL.sub(r"\1", text), encoding="utf-8")
            command += ["--requirement", str(Path(folder, lock))]
        return int(subprocess.run([*command, "--progress-spinner=off"], check=False).returncode > 0)


if __name__ == "__main__":
    run_main("audit", main)
