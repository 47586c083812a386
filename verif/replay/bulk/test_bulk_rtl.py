# SPDX-License-Identifier: Apache-2.0
"""Tests of replays on the RTL: reference tensors, faults that are found and reproduced, a kill."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from models.line_packing import U8, lines_to_codes
from models.modes import Mode
from models.parameters import DeviceParams
from scripts.build import registry
from scripts.common.paths import ROOT
from scripts.common.records import Dut, Edit
from scripts.plan import listed_mutants
from scripts.run.replay_simulators import Simulators
from verif.replay.bulk.bulk_transport import arrival
from verif.replay.bulk.epoch_block import EpochBlock
from verif.replay.conftest import BULK, MIX, SHIPPED, Command, check_files
from verif.replay.epoch import EpochLines
from verif.replay.gradient_source import SyntheticSource, resnet18
from verif.replay.line_check import Mismatch
from verif.replay.options import EPOCH_LINES_LOG2
from verif.replay.plan import plan_step
from verif.replay.tensor_lines import TERNARY_RATIO

SIMS = [sim for sim in registry.names() if registry.get(sim).available()]
SLOW = pytest.mark.nightly("a build of a minute; Icarus is the quick part")
QUICK_SIMS = [
    pytest.param(sim, marks=SLOW) if sim == "verilator" and "icarus" in SIMS else sim
    for sim in SIMS
]


@pytest.fixture
def rtl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command[Simulators]:
    """Return the command with the RTL of this checkout, without a capture."""
    return Command(Simulators(files=tmp_path / "files"), None, tmp_path, capsys)


@pytest.mark.parametrize("sim", QUICK_SIMS)
def test_a_mix_of_routes(rtl: Command[Simulators], capture: Path, sim: str) -> None:
    rtl.of(capture).passes(*BULK, "--sim", sim, "--route", *MIX, "--out", rtl.out)
    check_files(rtl.out, capture)


@pytest.mark.parametrize("route", ["G_BINARY", "G_TERNARY", "FP32"])
def test_the_shipped_capture(rtl: Command[Simulators], route: str) -> None:
    rtl.of(SHIPPED).passes(*BULK, "--route", f"*={route}", "--out", rtl.out)
    check_files(rtl.out, SHIPPED)


ACCUMULATE = "hdl/engine/nf_accumulate.sv"
LANE = 137
"""G_TERNARY: the carry of this lane is lost, which is the minus count of element 68."""
BROKEN = (
    Edit(ACCUMULATE, "& carry;\n", f"& carry & ~(512'(ternary) << {LANE});\n"),
    # FP32: an assertion that holds until the first sum leaves.
    Edit(
        "hdl/fp32/nf_fp32_gather.sv",
        "`NF_ASSERT_KEEPS(OutStable_A, drs_valid && !drs_ready, {drs_valid, drs})",
        "`NF_ASSERT(OutStable_A, !drs_valid)",
    ),
)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Simulators:
    """Return simulators with broken RTL: a fault in G_TERNARY and one in FP32."""
    return Simulators(BROKEN, tmp_path_factory.mktemp("broken"))


@pytest.mark.nightly(
    "compiles the broken controller; test_rtl_device finds broken RTL in bulk under Icarus"
)
def test_a_lost_carry_of_one_lane(rtl: Command[Simulators], broken: Simulators) -> None:
    """Check that a lost carry is reported with line and worker.

    The stimulus fails at signal level on the broken RTL, and passes on the right one.
    """
    wrong = replace(rtl, device=broken)
    words = ("--synthetic", "resnet18", "--route", "*=G_TERNARY")
    error = wrong.fails(*BULK, *words).err
    line, worker = first_lost_carry()
    assert f"tensor conv1.weight G_TERNARY line {line} element {LANE // 2} " in error
    place = f"worker {worker}, line {line} of region 0, element {LANE // 2}: after its contribution"
    assert f"; {place}" in error
    again = ("--stimulus", next(broken.files.rglob("stimulus.json")), "--sim", SIMS[-1])
    shown = wrong.run(*again, "--waves")
    assert shown.code == 1
    assert "the reducers say" in shown.err or "expected" in shown.err
    assert "waves in " in shown.out
    rtl.passes(*again)


def first_lost_carry() -> tuple[int, int]:
    """Return line and worker of the first contribution that the broken G_TERNARY lane counts
    wrongly.

    It is the second -1 at the element of the broken lane in a line: the lane gives 0 for 1 + 1.
    """
    tensors = resnet18()
    routes = {spec.name: Mode.G_TERNARY for spec in tensors}
    source = SyntheticSource("resnet18", tensors, 8, routes, TERNARY_RATIO, seed=1)
    plan = plan_step(tensors, routes, 8, DeviceParams(), epoch_lines_log2=EPOCH_LINES_LOG2)
    work = EpochLines.read(source, plan, (0, 0), 1)
    block, sent = EpochBlock.of(work, seed=1), work.sent[0]
    for line in range(sent.shape[1]):
        order = arrival(Mismatch(work, 0, line, ""), block)
        voters = [w for w in order if is_minus(sent[w, line])]
        if len(voters) > 1:
            return line, voters[1]
    raise AssertionError("no line has two")


def is_minus(line: U8) -> bool:
    """Return whether the element of a line in the broken lane is -1."""
    return int(lines_to_codes(line.reshape(1, -1))[LANE // 2]) == 3


@pytest.mark.nightly(
    "compiles the broken controller; a fault of a replay is told in test_bulk_replay"
)
def test_an_assertion_is_named(rtl: Command[Simulators], broken: Simulators, capture: Path) -> None:
    """Check that a failing assertion of the RTL ends a replay with its name, and not the
    process.
    """
    words = ("--sim", "verilator", "--steps", 3, "--route", "*=FP32")
    error = replace(rtl, device=broken).of(capture).fails(*BULK, *words).err
    assert "OutStable_A" in error
    assert "nf_fp32_gather.sv" in error


@pytest.mark.nightly("three replays of 174,776 lines; test_bulk_replay resumes small ones")
def test_kill_and_resume(rtl: Command[Simulators]) -> None:
    """Check that --resume after SIGKILL gives the same tensors as an uninterrupted replay."""
    words = ["--synthetic", "resnet18", "--route", "*=G_BINARY", *BULK, "--out"]
    whole, out = rtl.folder / "whole.safetensors", rtl.out
    rtl.passes(*words, whole)
    command = [sys.executable, "-m", "scripts.cli.main", "replay", *words, str(out)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    journal = rtl.folder / "out.safetensors.verilator.journal"
    give_up = time.monotonic() + 600
    while not (journal.is_file() and journal.stat().st_size > 3_000_000):
        assert process.poll() is None
        assert time.monotonic() < give_up
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    assert "to go" in rtl.passes(*words, out, "--resume").out
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.nightly("more than a million contributions")
def test_memory_does_not_grow_with_the_lines() -> None:
    """Check that peak memory grows by less than 24 MiB from one step to six (1,048,656
    contributions).
    """
    peaks = []
    for steps in ("0", "0-5"):
        words = ["--synthetic", "resnet18", "--steps", steps, "--route", "*=G_BINARY", *BULK]
        command = [sys.executable, "-m", "scripts.cli.main", "replay", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
        last = done.stdout.splitlines()[-1]
        peaks.append(int(re.findall(r"peak memory ([\d,]+) MiB", last)[0].replace(",", "")))
    assert "1,048,656 contributions, 0 mismatches" in last
    assert peaks[1] < 1024
    assert peaks[1] - peaks[0] < 24, peaks


@pytest.mark.nightly("two builds; the steps replay of nf test take each simulator")
def test_both_simulators_return_the_same(rtl: Command[Simulators], capture: Path) -> None:
    rtl.of(capture).passes("--sim", "both", "--route", *MIX, "--out", rtl.out)
    for found in check_files(rtl.out, capture):
        assert found["simulator"] == ",".join(SIMS)
        assert len(set(found["cycles"].split(","))) == 1


@pytest.mark.parametrize("name", ["element-order"])
def test_broken_rtl_is_red(rtl: Command[Simulators], capture: Path, name: str) -> None:
    rtl.device.edits = next(one.edits for one in listed_mutants.read() if one.id == name)
    sim = SIMS[-1]  # Icarus builds faster
    words = ("--sim", sim, "--steps", "3", "--route", *MIX, "--out", rtl.out)
    error = rtl.of(capture).fails(*words).err
    assert f"{sim}: step 3 tensor a.weight G_BINARY line 0 element " in error


@pytest.mark.nightly("two builds of the controller, and the twins are slow")
def test_the_twins_return_the_same_file(rtl: Command[Simulators], capture: Path) -> None:
    """Check that the controller with MyHDL twins gives the same result file, including cycles."""
    files = []
    for dut in (Dut.RTL, Dut.MYHDL):
        twin = replace(rtl, device=Simulators(files=rtl.folder / f"files-{dut}", dut=dut))
        words = ("--dut", dut, "--sim", registry.quick().name, "--steps", "60", "--out", rtl.out)
        twin.of(capture).passes(*words, "--route", *MIX)
        files.append(rtl.out.read_bytes())
    assert files[0] == files[1]
