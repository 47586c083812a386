# SPDX-License-Identifier: Apache-2.0
"""Tests of NF_VERILATOR and NF_ICARUS: what they name is used and recorded, or refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.build import icarus, registry, verilator
from scripts.cli import main
from scripts.common.errors import NfError
from scripts.common.records import BuildSpec, RunSpec
from scripts.conftest import Toy
from scripts.run import simulate


def program(folder: Path, name: str, says: str) -> Path:
    """Write a shell script as a program in `bin` of a folder, and return its path."""
    path = folder / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a program that is Verilator 5.99, by a link, and return its path."""
    path = program(tmp_path / "newer", "verilator", "echo Verilator 5.99 2030-01-01 rev v5.99")
    (tmp_path / "link").symlink_to(path)
    monkeypatch.setenv("NF_VERILATOR", str(tmp_path / "link"))
    return path


def test_version_and_path_are_in_the_key_and_at_the_doctor(
    newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = registry.get("verilator")
    assert (verilator.find(), verilator.environment()) == (str(newer), {})
    (finding,) = own.findings()
    assert (finding.version, finding.found) == ("5.99 (NF_VERILATOR)", str(newer))
    assert f"verilator 5.99 size=0 {newer} " in (key := own.identity())
    monkeypatch.delenv("NF_VERILATOR")
    assert "5.99" not in own.version()
    assert key != own.identity()


@pytest.mark.usefixtures("newer")
def test_a_run_is_recorded_and_repeated_with_it(tmp_path: Path) -> None:
    spec = RunSpec(BuildSpec("verilator", "toy", "toy.f"), "toy_bench", ("one",))
    made = simulate.infrastructure(spec, "no disk", tmp_path)
    link = str(tmp_path / "link")
    assert made.sim_version == "5.99"
    assert ("NF_VERILATOR", link) in made.environment
    assert made.rerun.startswith(f"NF_VERILATOR={link} .venv/bin/nf run toy_bench::one ")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("verilator", "is no path from / on"),
        ("/nowhere/verilator", "is no program"),
        ("/usr", "is no program"),
        ("/bin/ls", "is no Verilator"),
        ("{}/a b/bin/verilator", "whose name make and g\\+\\+ do not take"),
    ],
)
def test_what_is_no_verilator_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    value: str,
    why: str,
) -> None:
    program(tmp_path / "a b", "verilator", "echo Verilator 5.99")
    monkeypatch.setenv("NF_VERILATOR", value.format(tmp_path))
    assert main.main(["doctor"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("nf: NF_VERILATOR=")
    with pytest.raises(NfError, match=why):
        verilator.find()


@pytest.mark.usefixtures("newer")
def test_coverage_of_another_verilator_is_refused() -> None:
    spec = BuildSpec("verilator", "toy", "toy.f")
    own = registry.get("verilator")
    assert own.as_it_builds(spec) == spec
    with pytest.raises(NfError, match="count other points of code coverage: unset NF_VERILATOR"):
        own.as_it_builds(replace(spec, coverage=True))


def test_an_icarus_has_its_own_vvp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path, "iverilog-12", "echo Icarus Verilog version 12.0")
    monkeypatch.setenv("NF_ICARUS", str(path))
    with pytest.raises(NfError, match="has no vvp-12 next to it, and others do not fit"):
        registry.get("icarus").available()
    vvp = program(tmp_path, "vvp-12", "")
    assert (icarus.program("vvp"), registry.get("icarus").version()) == (str(vvp), "12.0")
    monkeypatch.setenv("NF_ICARUS", str(vvp))
    with pytest.raises(NfError, match="is no Icarus Verilog"):
        icarus.find()


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")
def test_build_and_run_use_it(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("iverilog", "vvp"):
        program(tmp_path, name, f'echo {name} >>{tmp_path}/used; {shutil.which(name)} "$@"')
    monkeypatch.setenv("NF_ICARUS", str(tmp_path / "bin" / "iverilog"))
    made = toy.run(toy.spec("icarus"), "adds_one")
    assert made.passed, made.cause
    assert {"iverilog", "vvp"} <= set((tmp_path / "used").read_text(encoding="utf-8").split())
