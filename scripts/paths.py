# SPDX-License-Identifier: Apache-2.0
"""Where things are. All paths hang on the repository, never on the caller's directory."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SIM_BUILDS = BUILD / "sim"
RUNS = BUILD / "runs"
REPORT = BUILD / "report"
TESTS = ROOT / "verif" / "tests"
TESTPLAN = ROOT / "verif" / "testplan"
SCHEMAS = ROOT / "scripts" / "schema"


def shown(path: Path) -> str:
    """Path as a user wants to read it: relative to the repository where it lies inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
