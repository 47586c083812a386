# SPDX-License-Identifier: Apache-2.0
"""Tests that mapped netlists behave as the RTL: one that has lost gates is small and fast.

Both are simulated side by side, with the cells as yosys describes them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.build import yosys
from scripts.build.filelist import read_filelist, read_source
from scripts.build.sources import apply_edits
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST
from scripts.figures.synth_figure import DESIGNS, SLICE, SLICED

CELLS = "+/lattice/cells_sim_ecp5.v"
CLOCKS = 1500
BENCH = Path(__file__).with_name("netlist_bench.sv")
NARROW = f"low-bit datapath, {SLICE} columns"
PORTABLE = (
    *("nf_tern5_pkg", "nf_accumulate", "nf_line_codes", "nf_vote_steps", "nf_vote", "nf_sum"),
    *("CCU2C", "nf_ecp5_chain", "nf_ecp5_accumulate", "nf_ecp5_vote", "nf_tern5_decode"),
)
"""Sources of the datapath; its carry cells are not elaborated."""


def simulated(folder: Path, mapped: yosys.Mapped, planes: int, sums: int) -> str:
    """Simulate the portable RTL and the netlist of a slice side by side; return the output."""
    verilog, package = folder / "mapped.v", folder / "nf_pkg.sv"
    commands = [
        *(
            f"read_json {mapped.netlist}",
            "delete =$paramod*",
            f"rename {mapped.top} nf_mapped",
            "hierarchy -top nf_mapped",
        ),
        *(f"read_verilog -nowb -overwrite {CELLS}", "hierarchy -top nf_mapped", "proc", "flatten"),
        *("opt_clean", f"write_verilog -noattr {verilog}", "stat"),
    ]
    subprocess.run([*yosys.native_program(), *commands], check=True, cwd=ROOT, capture_output=True)
    numbers = {"W": SLICE, "CNT_W": planes, "SUMS": sums, "CLOCKS": CLOCKS}
    files = read_filelist(ROOT, FILELIST)
    source = {SLICED.file: read_source(ROOT / SLICED.file, SLICED.file)}
    package.write_text(apply_edits(source, (SLICED,))[SLICED.file], encoding="utf-8")
    names = [name for name in files.sources if Path(name).stem in PORTABLE]
    sources = [package, *(ROOT / name for name in (*names, *DESIGNS[NARROW].more)), verilog, BENCH]
    words = ["iverilog", "-g2012", "-DSYNTHESIS", "-s", "bench", "-o", str(folder / "bench")]
    words += [f"-I{ROOT / name}" for name in files.includes]
    words += [f"-Pbench.{name}={value}" for name, value in numbers.items()]
    subprocess.run([*words, *map(str, sources)], check=True, capture_output=True)
    command = ["vvp", "-n", str(folder / "bench")]
    ran = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return ran.stdout.strip()


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")
@pytest.mark.skipif(yosys.native_version() is None, reason="no native yosys")
@pytest.mark.parametrize(
    ("planes", "sums", "ecp5"),
    [
        pytest.param(8, 0, 1, marks=pytest.mark.nightly("23 s; four planes are mapped alike")),
        pytest.param(4, 0, 1, marks=pytest.mark.nightly("17 s; proofs cover the carry cells")),
        pytest.param(8, 1, 1, marks=pytest.mark.nightly("36 s; the sums are portable")),
        pytest.param(8, 0, 0, marks=pytest.mark.nightly("20 s; portable")),
    ],
)
def test_the_netlist_is_that_of_the_rtl(tmp_path: Path, planes: int, sums: int, ecp5: int) -> None:
    """Check that the mapped netlist of a datapath slice gives the results of the RTL.

    abc9 once lost the carry of a cell without a LUT, and with it all votes of four planes.
    """
    design = DESIGNS[NARROW]
    mapped = yosys.synthesize(
        *(design.top, FILELIST, "ecp5"),
        name=f"test-netlist-{planes}-{sums}-{ecp5}",
        parameters=(("CNT_W", planes), ("SUMS", sums), ("ECP5", ecp5)),
        more=design.more,
        netlist=True,
        edits=(SLICED,),
    )
    says = simulated(tmp_path, mapped, planes, sums)
    words = says.split()
    assert says.endswith("saturated"), says
    lines, ones, lost = int(words[0]), int(words[2]), int(words[-2])
    assert lines > CLOCKS // 6
    assert lines / 10 < ones < lines * 9 / 10
    assert (lost > 0) == (planes < 7)
