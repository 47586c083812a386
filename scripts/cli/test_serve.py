# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf serve`: its options and messages; the server is tested in `verif/serve`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from neuron_fabric.errors import telling
from scripts.build import bulk_build, registry
from scripts.cli.main import main as nf
from scripts.cli.serve import MODEL, served, status
from scripts.common.errors import BuildError, NfError
from scripts.run import replay_simulators


def test_who_builds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that the line about a long build names the typed command, `nf serve`."""

    def build(*_: object, **__: object) -> None:
        time.sleep(0.01)
        raise BuildError("no compiler")

    monkeypatch.setattr(bulk_build, "build", build)
    monkeypatch.setattr(replay_simulators, "telling", lambda what: telling(what, after_s=0.0))
    assert nf(["serve", "--workers", "2", "--socket", str(tmp_path / "s")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("nf serve: building the design for ")
    assert "nf: the RTL does not compile: no compiler." in said


def test_a_server_of_its_own() -> None:
    """Check that `served` runs a server within the block, and raises its message on failure."""
    with served(MODEL, registry.names()[0], 2) as path:
        assert status(path)[1] == "no job"
    assert not path.exists()
    with (
        pytest.raises(NfError, match="'65' is not a number from 1 to 64"),
        served(MODEL, registry.names()[0], 65),
    ):
        pass
