# SPDX-License-Identifier: Apache-2.0
"""Tests of other versions of a simulator: one that cannot be installed is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.checks import simulator_versions
from scripts.common import paths
from scripts.common.errors import NfError


def test_what_cannot_be_installed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "SIM_BUILDS", tmp_path / "sim")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    first, *_ = simulator_versions.VERSIONS
    with pytest.raises(NfError, match=f"could not be installed: ERROR: .*{first}") as found:
        simulator_versions.main([first])
    assert "\n" not in str(found.value)
    with pytest.raises(NfError, match=rf"no version '1\.2'; there are: {first}, "):
        simulator_versions.main(["1.2"])
