# SPDX-License-Identifier: Apache-2.0
"""Tests of the audit of pins: green only where PyPI has answered on every pin."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from scripts.checks import audit
from scripts.common import process
from scripts.common.errors import NfError

CLEAN = {"name": "numpy", "version": "2.4.6", "vulns": []}
LEAKY = {
    "name": "jinja2",
    "version": "3.1.4",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.5"]}, {"id": "PYSEC-2", "fix_versions": []}],
}
UNKNOWN = {"name": "torch", "skip_reason": "Dependency not found on PyPI"}


def answer(monkeypatch: pytest.MonkeyPatch, stdout: str, stderr: str = "") -> list[str]:
    """Let pip-audit print this; return a list that gets the texts of its lock files."""
    read: list[str] = []

    def captured(words: list[str]) -> CompletedProcess[str]:
        read.extend(Path(one).read_text(encoding="utf-8") for one in words if one.endswith("lock"))
        return CompletedProcess(words, 1, stdout, stderr)

    monkeypatch.setattr(process, "captured", captured)
    return read


@pytest.mark.parametrize(
    ("pins", "code", "lines"),
    [
        ([CLEAN], 0, ["audit: 1 pins, 0 known vulnerabilities, 0 not audited"]),
        (
            [CLEAN, LEAKY],
            1,
            [
                "audit: jinja2 3.1.4: PYSEC-1, fixed in 3.1.5",
                "audit: jinja2 3.1.4: PYSEC-2, fixed in no version",
                "audit: 2 pins, 2 known vulnerabilities, 0 not audited",
            ],
        ),
        (
            [CLEAN, UNKNOWN],
            1,
            [
                "audit: PyPI has no answer on 1 pins (torch, ...): is pypi.org a mirror here?",
                "audit: 2 pins, 0 known vulnerabilities, 1 not audited",
            ],
        ),
        ([], 1, ["audit: 0 pins, 0 known vulnerabilities, 0 not audited"]),
    ],
)
def test_only_an_answer_on_every_pin_is_green(
    pins: list[dict[str, Any]],
    code: int,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    read = answer(monkeypatch, json.dumps({"dependencies": pins, "fixes": []}))
    assert audit.main() == code
    assert capsys.readouterr().out.splitlines() == lines
    locks = "".join(read)
    assert "\ntorch==" in locks
    assert "+cpu" not in locks.replace("whl/cpu", "")


def test_no_advisory_service_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "", "Traceback:\n  ...\nConnectionError: cannot resolve\n")
    with pytest.raises(
        NfError, match=r"got no advisories \(ConnectionError: cannot resolve\); run"
    ):
        audit.main()
