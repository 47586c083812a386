# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf replay` at signal level on the RTL: a new capture, and broken RTL that must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.build import registry
from scripts.common.records import Dut
from scripts.plan import listed_mutants
from scripts.run.replay_simulators import Simulators
from verif.conftest import nf_replay
from verif.replay.conftest import MIX, check_files


def test_both_simulators_return_the_same(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.safetensors"
    simulators = Simulators(files=tmp_path / "files")
    code = nf_replay(simulators, capture, "--sim", "both", "--route", *MIX, "--out", out)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    names = "verilator,icarus" if registry.get("icarus").available() else "verilator"
    for found in check_files(out, capture):
        assert found["simulator"] == names
        assert len(set(found["cycles"].split(","))) == 1


@pytest.mark.parametrize("name", ["element-order"])
def test_broken_rtl_is_red(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    edits = next(mutant.edits for mutant in listed_mutants.read() if mutant.id == name)
    simulators = Simulators(edits, tmp_path / "files")
    sim = "icarus" if registry.get("icarus").available() else "verilator"
    out = tmp_path / "out.safetensors"
    words = ("--sim", sim, "--steps", "3", "--route", *MIX, "--out", out)
    assert nf_replay(simulators, capture, *words) == 1
    assert not out.exists()
    shown = capsys.readouterr()
    assert f"{sim}: step 3 tensor a.weight G_BINARY line 0 element " in shown.err
    assert "FAILED" in shown.out.splitlines()[-1]


@pytest.mark.nightly("two builds of the controller, and the twins are slow")
def test_the_twins_return_the_same_file(capture: Path, tmp_path: Path) -> None:
    """Check that the controller with MyHDL twins gives the same result file, including cycles."""
    files = {}
    for dut in (Dut.RTL, Dut.MYHDL):
        simulators = Simulators(files=tmp_path / f"files-{dut}", dut=dut)
        out = tmp_path / f"{dut}.safetensors"
        words = ("--dut", dut, "--sim", registry.quick().name, "--steps", "60", "--out", out)
        assert nf_replay(simulators, capture, *words, "--route", *MIX) == 0
        files[dut] = out.read_bytes()
    assert files[Dut.RTL] == files[Dut.MYHDL]
