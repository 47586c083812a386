# SPDX-License-Identifier: Apache-2.0
"""Tests of NF_BUILD: code is built and run there, so no other user may be able to change it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common import process
from scripts.common.paths import ROOT


@pytest.mark.parametrize(("mode", "below"), [(0o777, ""), (0o777, "build"), (0o1777, "")])
def test_a_build_folder_of_others_is_refused(tmp_path: Path, mode: int, below: str) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    build = folder / below
    done = _nf(build)
    what = f"others may write to {folder if below else 'it'}; choose a folder of your own."
    assert done.stderr == f"nf: NF_BUILD={build}: {what}\n"
    assert done.returncode == 2
    assert not list(folder.iterdir())
    folder.chmod(0o1777 if below else 0o700)
    assert _nf(build).returncode == 0


def _nf(build: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "NF_BUILD": str(build), "PYTHONPATH": str(ROOT)}
    return process.captured([sys.executable, "-c", "import scripts.common.paths"], env=env)
