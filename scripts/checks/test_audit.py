# SPDX-License-Identifier: Apache-2.0
"""Test of the audit of pins: pip-audit gets every lock file, and the audit fails with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.checks import audit, requirements


@pytest.mark.parametrize("code", [0, 1])
def test_every_pin_is_audited(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert "--strict" in words
        read.extend(Path(one).read_text(encoding="utf-8") for one in words if one.endswith("lock"))
        return subprocess.CompletedProcess(words, code)

    monkeypatch.setattr(subprocess, "run", run)
    assert audit.main() == code
    assert len(read) == len(requirements.LISTS)
    assert "\ntorch==" in "".join(read)
    assert "+cpu" not in "".join(read).replace("whl/cpu", "")
