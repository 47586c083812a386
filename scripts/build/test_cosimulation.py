# SPDX-License-Identifier: Apache-2.0
"""Hand-written modules in Icarus and their twins in MyHDL's simulator: co-simulation by MyHDL's VPI
module, compared every clock."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from models.myhdl import convert
from models.myhdl.convert import Twin
from models.myhdl.stepper import Stepper
from models.myhdl.stimulus import STIMULI
from scripts.build import cosimulation, registry, sources
from scripts.common.paths import ROOT
from scripts.common.records import BuildSpec, Dut
from scripts.plan import mutants
from scripts.plan.mutants import Mutant

pytestmark = pytest.mark.skipif(
    not registry.get("icarus").available(), reason="Icarus is not installed"
)
CLOCKS = 20
LONG = 20_000


def check(twin: Twin, clocks: int, seed: int = 1) -> None:
    """Compare both implementations clock by clock; AssertionError at the first difference."""
    stimulus = STIMULI[twin.name](random.Random(seed), {})
    with Stepper([twin], cosimulation.command(Twin(twin.name))) as stepper:
        if "rst_n" in twin.ports.inputs:
            stepper.inputs(twin.name, {"enable": 1})  # rst_n is 0 at the start
        for clock in range(clocks):
            inputs = stimulus.draw()
            got = stepper.inputs(twin.name, inputs)
            want = stepper.beside()
            if stimulus.meant(inputs):
                told = stimulus.told(inputs, want)
                assert {name: got[name] for name in told} == told, f"{twin.name}, clock {clock}"
                stimulus.answered(want)
            stepper.clock()


@pytest.mark.parametrize("name", convert.names())
def test_beside_the_rtl(name: str) -> None:
    check(Twin(name), 10 * CLOCKS if name in ("nf_fp32_add", "nf_link_tx_pack") else CLOCKS)


def test_ndrs_that_wait_for_a_credit() -> None:
    """Three NDRs and credits for two: more than two wait, so no headers of three lines go along."""
    twin = Twin("nf_link_tx_pack")
    ready = dict.fromkeys(("rst_n", "enable", "multi_header", "room_drs", "room_multi"), 1)
    with Stepper([twin], cosimulation.command(twin)) as stepper:
        stepper.inputs(twin.name, {"enable": 1})
        stepper.inputs(twin.name, {**ready, "drs_valid": 1})
        for _ in range(3):
            stepper.clock()
        waiting = {"drs_valid": 0, "ndr_count": 3, "ndr_credits": 2}
        got = stepper.inputs(twin.name, {**waiting, "drs_credits": 9, "flit_ready": 1})
        assert got == stepper.beside()
        assert (got["drs_sent"], got["ndr_pop"]) == (1, 1)


@pytest.mark.nightly("20,000 clocks of each twin; element by element they take minutes")
@pytest.mark.parametrize("name", convert.names())
def test_long_beside_the_rtl(name: str) -> None:
    check(Twin(name), LONG, seed=2)


def faults() -> list[Mutant]:
    """Return the mutants of twins that are compared with the RTL, not put in its place."""
    listed = mutants.read(mutants.FOLDER / "twins.yaml")
    return [mutant for mutant in listed if not mutant.build.endswith(Dut.MYHDL)]


@pytest.mark.parametrize("mutant", faults(), ids=lambda mutant: str(mutant.id))
def test_a_fault_is_seen(mutant: Mutant, tmp_path: Path) -> None:
    (edit,) = mutant.edits
    texts = sources.apply_edits({edit.file: (ROOT / edit.file).read_text("utf-8")}, mutant.edits)
    (tmp_path / Path(edit.file).name).write_text(texts[edit.file], encoding="utf-8")
    with pytest.raises(AssertionError, match="clock"):
        check(Twin(Path(edit.file).stem, folder=tmp_path), 40 * CLOCKS)


def test_the_bench_has_every_port() -> None:
    text = cosimulation.bench(Twin("nf_vote", {"CNT_W": 4}))
    assert "  reg [2047:0] planes;" in text
    assert "nf_vote #(.CNT_W(4)) dut (" in text
    assert "$to_myhdl(line);" in text
    assert BuildSpec("icarus", "x", "y").dut is Dut.RTL
