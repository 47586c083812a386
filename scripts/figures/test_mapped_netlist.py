# SPDX-License-Identifier: Apache-2.0
"""Mapped netlists behave as the RTL: a netlist that has lost gates is small and
fast. Both are simulated side by side, cells as yosys describes them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.build import native_yosys, yosys
from scripts.build.filelist import read_filelist, read_source
from scripts.build.sources import apply_edits
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST
from scripts.figures.synth_figure import DESIGNS, SLICE, SLICED

CELLS = "+/lattice/cells_sim_ecp5.v"
CLOCKS = 1500
NARROW = f"low-bit datapath, {SLICE} columns"
PORTABLE = (
    *("nf_tern5_pkg", "nf_accumulate", "nf_line_codes", "nf_vote_steps", "nf_vote", "nf_sum"),
    *("CCU2C", "nf_ecp5_chain", "nf_ecp5_accumulate", "nf_ecp5_vote", "nf_tern5_decode"),
)
"""Sources of the datapath; its carry cells are not elaborated."""
# Phases of 12 clocks add, or read: a line is read within the last six of a phase that reads. `vote`
# is of any count, `threshold` of what some nets reach.
BENCH = """
module bench;
  localparam int W = %(line)d, CNT_W = %(planes)d;
  logic clk = 0;
  logic adds, ternary, ones, vote, sum, wide, codes_signed, bytes, tie_minus, reads;
  logic [2:0] plane;
  logic [6:0] contributions;
  logic [7:0] threshold;
  logic [W-1:0] data, line, mapped_line;
  logic [CNT_W*W-1:0] planes, counted, mapped_counted;
  logic [8:0] illegal_count, mapped_count;
  logic saturated, mapped_saturated, illegal, mapped_illegal;
  int lines = 0, ones_seen = 0, lost = 0;

  nf_low_bit_path #(.CNT_W(CNT_W), .SUMS(%(sums)d)) rtl (
    .clk, .rst_n (1'b1), .adds, .ternary, .ones, .vote, .sum, .wide, .codes_signed, .bytes, .plane,
    .contributions, .tie_minus, .threshold, .data, .planes, .planes_q (counted), .line_q (line),
    .saturated_q (saturated), .illegal_q (illegal), .count_q (illegal_count));
  nf_mapped mapped (
    .clk, .rst_n (1'b1), .adds, .ternary, .ones, .vote, .sum, .wide, .codes_signed, .bytes, .plane,
    .contributions, .tie_minus, .threshold, .data, .planes, .planes_q (mapped_counted),
    .line_q (mapped_line), .saturated_q (mapped_saturated), .illegal_q (mapped_illegal),
    .count_q (mapped_count));

  initial begin
    for (int k = 0; k < %(clocks)d; k++) begin
      adds = (k / 12) %% 2 == 0;
      {vote, tie_minus, ternary, codes_signed, bytes} = $urandom;
      wide = !bytes && $urandom;
      ones = !ternary && $urandom;
      sum  = !adds && ($urandom %% 3 == 0);
      plane = $urandom %% (CNT_W < 7 ? CNT_W : 7);
      contributions = $urandom %% 65;
      threshold = 1 + $urandom %% (2 << ($urandom %% CNT_W));
      for (int i = 0; i < W; i++) data[i] = $urandom;
      planes = '0;
      for (int i = 0; i < (CNT_W < 7 ? CNT_W : 7) * W; i++) planes[i] = $urandom %% 8 > k %% 9;
      #1 clk = 1;
      #1 clk = 0;
      if (k > 12) begin
        if (counted !== mapped_counted) begin $display("counts differ"); $finish; end
        if (saturated !== mapped_saturated) begin $display("saturated differs"); $finish; end
        if (illegal !== mapped_illegal) begin $display("illegal codes differ"); $finish; end
        if (illegal_count !== mapped_count) begin $display("counts of them differ"); $finish; end
        if (k %% 24 > 18 && line !== mapped_line) begin $display("lines differ"); $finish; end
        if (k %% 24 > 18) begin lines++; ones_seen += line[0]; end
        lost += saturated;
      end
    end
    $display("%%0d lines, %%0d with a one in front, %%0d saturated", lines, ones_seen, lost);
  end
endmodule
"""


def simulated(folder: Path, mapped: yosys.Mapped, planes: int, sums: int) -> str:
    """Return the output of a bench for the portable RTL and for a netlist of a slice."""
    verilog, bench, package = folder / "mapped.v", folder / "bench.sv", folder / "nf_pkg.sv"
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
    subprocess.run([*native_yosys.program(), *commands], check=True, cwd=ROOT, capture_output=True)
    numbers = {"line": SLICE, "planes": planes, "sums": sums, "clocks": CLOCKS}
    bench.write_text(BENCH % numbers, encoding="utf-8")
    files = read_filelist(ROOT, FILELIST)
    source = {SLICED.file: read_source(ROOT / SLICED.file, SLICED.file)}
    package.write_text(apply_edits(source, (SLICED,))[SLICED.file], encoding="utf-8")
    names = [name for name in files.sources if Path(name).stem in PORTABLE]
    sources = [package, *(ROOT / name for name in (*names, *DESIGNS[NARROW].more)), verilog, bench]
    words = ["iverilog", "-g2012", "-DSYNTHESIS", "-s", "bench", "-o", str(folder / "bench")]
    words += [f"-I{ROOT / name}" for name in files.includes]
    subprocess.run([*words, *map(str, sources)], check=True, capture_output=True)
    command = ["vvp", "-n", str(folder / "bench")]
    ran = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return ran.stdout.strip()


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")
@pytest.mark.skipif(native_yosys.version() is None, reason="no native yosys")
@pytest.mark.parametrize(
    ("planes", "sums", "ecp5"),
    [
        pytest.param(8, 0, 1, marks=pytest.mark.nightly("23 s; four planes are mapped alike")),
        (4, 0, 1),
        pytest.param(8, 1, 1, marks=pytest.mark.nightly("36 s; the sums are portable")),
        pytest.param(8, 0, 0, marks=pytest.mark.nightly("20 s; portable")),
    ],
)
def test_the_netlist_is_that_of_the_rtl(tmp_path: Path, planes: int, sums: int, ecp5: int) -> None:
    """abc9 lost the carry of a cell without a LUT, and with it all that four planes vote."""
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
