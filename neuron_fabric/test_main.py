# SPDX-License-Identifier: Apache-2.0
"""`python -m neuron_fabric`: how it ends where it cannot go on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from neuron_fabric import __main__
from neuron_fabric.runtime import capacity_command


def test_a_full_disk_is_one_line() -> None:
    words = [sys.executable, "-m", "neuron_fabric", "capacity", "fits", "1"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"neuron_fabric: No space left on device\n"


def test_ctrl_c_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(capacity_command, "run", interrupted)
    assert __main__.main(["capacity", "fits", "1"]) == 130
    assert capsys.readouterr().err == "neuron_fabric: interrupted\n"
