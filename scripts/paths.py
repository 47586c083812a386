# SPDX-License-Identifier: Apache-2.0
"""Where things are. All paths hang on the repository, never on the caller's directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from scripts.errors import NfError

ROOT = Path(__file__).resolve().parent.parent
# All that is made. NF_BUILD puts it elsewhere: a fast disk, or a checkout that is read only.
BUILD = Path(os.environ.get("NF_BUILD") or ROOT / "build").absolute()
SIM_BUILDS = BUILD / "sim"
RUNS = BUILD / "runs"
REPORT = BUILD / "report"
HISTORY = BUILD / "history.sqlite"
TESTS = ROOT / "verif" / "tests"
TESTPLAN = ROOT / "verif" / "testplan"
SCHEMAS = ROOT / "scripts" / "schema"


def writable(folder: Path) -> None:
    """Raises NfError, before anything is started, when nothing can be written below `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise NfError(f"cannot write to {shown(folder)}: {error.strerror}.") from error


def shown(path: Path) -> str:
    """Path as a user wants to read it: relative to the repository where it lies inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
