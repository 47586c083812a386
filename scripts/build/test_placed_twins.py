# SPDX-License-Identifier: Apache-2.0
"""Tests of MyHDL twins as sources of a build: where they are placed, and the build's key."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from models.myhdl import convert
from scripts.build import registry, sources
from scripts.build.sources import collect, write_copy
from scripts.common import process
from scripts.common.errors import NfError
from scripts.common.records import BuildSpec, Dut, Edit, RunSpec
from scripts.plan import testplan
from scripts.plan.discover import discover, select
from scripts.plan.testplan import with_dut
from scripts.run.simulate import rerun_command

RTL = BuildSpec("icarus", "nf_twin_pairs", "verif/twin/nf_twin_pairs.f")
VOTE = "hdl/engine/nf_vote.sv"


def test_in_the_place_of_the_hand_written() -> None:
    plain, placed = collect(RTL), collect(replace(RTL, dut=Dut.MYHDL))
    changed = {name for name, text in plain.texts.items() if placed.texts[name] != text}
    assert {name.rpartition("/")[2] for name in changed} == {f"{n}.sv" for n in convert.names()}
    text = placed.texts[VOTE]
    assert text.count("module myhdl_nf_vote (") == 1
    assert text.count("module nf_vote\n") == 1
    assert "initial if (CNT_W != 8) $fatal" in text
    assert text.count("endmodule") == 2


def test_beside_the_hand_written() -> None:
    plain, both = collect(RTL), collect(replace(RTL, dut=Dut.BOTH))
    assert both.texts[VOTE].endswith(plain.texts[VOTE])
    assert "module myhdl_nf_vote (" in both.texts[VOTE]


def test_a_variant_has_its_twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a build of mutants adds the twin to the text with the mutants."""
    monkeypatch.setattr(sources, "VARIANTS", tmp_path)
    changed = collect(RTL).texts[VOTE].replace("endmodule", "// mutants\nendmodule")
    (tmp_path / "mutants" / VOTE).parent.mkdir(parents=True)
    (tmp_path / "mutants" / VOTE).write_text(changed, encoding="utf-8")
    for dut, own in ((Dut.RTL, 1), (Dut.BOTH, 1), (Dut.MYHDL, 0)):
        text = collect(replace(RTL, dut=dut, variant="mutants")).texts[VOTE]
        assert text.count("// mutants") == own
        assert text.count("module myhdl_nf_vote (") == (dut is not Dut.RTL)


@pytest.mark.parametrize(
    ("simulator", "option"),
    [
        pytest.param(
            "verilator", "-Wno-fatal", marks=pytest.mark.nightly("8 s; Icarus elaborates as much")
        ),
        ("icarus", "-g2012"),
    ],
)
def test_what_looks_into_the_design_finds_it(tmp_path: Path, simulator: str, option: str) -> None:
    """Check that a build with twins elaborates with the modules that are bound into the design.

    These name nets inside modules, so none may be in a module with a twin.
    """
    reader = registry.get(simulator)
    if not reader.available():
        pytest.skip(f"{simulator} is not installed")
    spec = testplan.build_spec(testplan.read(), "small-myhdl", simulator)
    found = collect(spec)
    write_copy(found, tmp_path)
    words, variables = reader.lint_command(spec.top, spec.parameters, found.files, [])
    log = tmp_path / "log"
    words[1:1] = [option]
    ended = process.run_logged(words, log, cwd=tmp_path, env={**os.environ, **variables})
    assert ended.returncode == 0, log.read_text(encoding="utf-8")[-2000:]


def test_the_key() -> None:
    """Check that the key of a build depends on the choice, parameters and text of the twins."""
    edit = Edit("models/myhdl/nf_vote.py", "if net >= least:", "if net > least:")
    narrow = (("CNT_W", 3),)
    specs = [
        *(replace(RTL, dut=dut) for dut in Dut),
        replace(RTL, dut=Dut.MYHDL, edits=(edit,)),
        replace(RTL, dut=Dut.MYHDL, parameters=narrow),
    ]
    keys = [collect(spec).key for spec in specs]
    assert len(set(keys)) == len(keys)
    assert keys[1] == collect(specs[1]).key
    assert "input [1535:0] planes;" in collect(specs[-1]).texts[VOTE]


def test_a_twin_that_is_not_converted() -> None:
    edit = Edit(
        "models/myhdl/nf_vote.py",
        "import Signal, always, block, intbv",
        "import Signal, always, blok, intbv",
    )
    with pytest.raises(NfError, match=r"^models/myhdl/nf_vote\.py is not converted: "):
        collect(replace(RTL, dut=Dut.MYHDL, edits=(edit,)))


def test_an_edit_of_a_twin_that_is_not_there() -> None:
    edit = Edit("models/myhdl/nf_vote.py", "if net >= least:", "if net > least:")
    with pytest.raises(NfError, match="not part of the design"):
        collect(replace(RTL, edits=(edit,)))


def test_names_of_builds() -> None:
    plan = testplan.read()
    assert with_dut("small", Dut.MYHDL) == with_dut("small-myhdl", Dut.MYHDL) == "small-myhdl"
    assert with_dut("small-myhdl", Dut.RTL) == "small"
    assert plan.build("small-myhdl") == replace(plan.build("small"), dut=Dut.MYHDL)
    assert not plan.has_build("small-vhdl")
    assert plan.build("twins").dut is Dut.BOTH


def test_the_option_is_for_every_build() -> None:
    """Check that `--dut myhdl` gives each build of a test once, with twins and a rerun command."""
    plan, tests = testplan.read(), select(discover(), ["test_modes::fp32"])
    options = testplan.Options(sims=("icarus",), seeds=[1], dut=Dut.MYHDL)
    specs = testplan.expand(plan, tests, options)
    assert [spec.build_name for spec in specs] == ["default-myhdl", "small-myhdl"]
    assert {spec.build.dut for spec in specs} == {Dut.MYHDL}
    assert rerun_command(specs[0]).endswith("--build default-myhdl")
    assert RunSpec.from_json(specs[0].to_json()) == specs[0]


def test_lines_that_are_not_of_the_tree_are_not_covered() -> None:
    plan = testplan.read()
    assert testplan.build_spec(plan, "small", "verilator", coverage=True).coverage
    assert not testplan.build_spec(plan, "small-myhdl", "verilator", coverage=True).coverage
