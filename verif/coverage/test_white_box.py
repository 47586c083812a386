# SPDX-License-Identifier: Apache-2.0
"""Tests of the white-box cover points: their indices, the counters of the RTL, and negative twins.

A twin (`white_box_twins.toml`) gives two inputs that differ in one property to the ports of a cover
module under Icarus.
"""

import re
import subprocess
import tomllib
from pathlib import Path
from string import Template
from types import SimpleNamespace

import pytest

from models.register_map import REG_MAP
from scripts.build import icarus
from scripts.build.filelist import read_filelist
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST
from verif.coverage.cover_model import BETWEEN, CoverModel
from verif.coverage.device_coverage import NfCoverage
from verif.coverage.test_twins import Twin
from verif.coverage.white_box import PlannedPoint, WhiteBox, WhiteBoxPoints, ones

HERE = Path(__file__).parent
SOURCES = {
    "u_core.u_engine.u_cover": "nf_engine_cover.sv",
    "u_core.u_engine.u_miss_cover": "nf_miss_cover.sv",
    "u_core.u_engine.u_lookup.u_cover": "nf_lookup_cover.sv",
    "u_core.u_cover": "nf_core_cover.sv",
    "u_regs.u_cover": "nf_regs_cover.sv",
    "u_ram_cover": "nf_ram_cover.sv",
}
_POINT = re.compile(r"^  `NF_POINTS?\((\w+), (\d+)", re.MULTILINE)


def _element(value: int) -> SimpleNamespace:
    return SimpleNamespace(value=value)


def test_an_index_is_the_codes_of_the_axes() -> None:
    codes = [["x", "", "y", "z"], ["0", "1"]]
    plan = PlannedPoint(
        name="c",
        module="u_cover",
        array="c",
        reason="because",
        test="test_x::y",
        axes={"a": "AXIS", "b": codes[1]},
        never=[{"a": "y"}],
    )
    box = WhiteBox(CoverModel(), plan, codes)
    assert [*box.point.bins] == ["x x 0", "x x 1", "z x 0", "z x 1"]
    assert box.values(0b10_1) == ("y", "1")
    hits = [_element(0)] * 8
    hits[0b11_0] = _element(7)
    seen = _element(1 << 0b11_0)
    box.take(SimpleNamespace(u_cover=SimpleNamespace(c_hits=hits, c_seen=seen)))
    assert box.point.bins["z x 0"] == 7
    box.take(SimpleNamespace())  # a simulator or a top without the module
    assert sum(box.point.bins.values()) == 7


@pytest.mark.parametrize("module", SOURCES)
def test_every_counter_is_read_and_has_its_width(module: str) -> None:
    text = (HERE / SOURCES[module]).read_text(encoding="utf-8")
    widths = {name: int(width) for name, width in _POINT.findall(text)}
    boxes = [box for box in WhiteBoxPoints(CoverModel()).boxes if box.plan.module == module]
    assert widths == {
        box.plan.array: sum((len(codes) - 1).bit_length() for codes in box.codes) for box in boxes
    }


def test_the_end_of_a_run_reads_the_counters() -> None:
    boxes = [box for box in WhiteBoxPoints(CoverModel()).boxes if box.plan.module == "u_ram_cover"]
    ram = SimpleNamespace()
    for box in boxes:
        size = 1 << sum((len(codes) - 1).bit_length() for codes in box.codes)
        setattr(ram, f"{box.plan.array}_hits", [_element(3)] * size)
        setattr(ram, f"{box.plan.array}_seen", _element(2))
    for top, times in ((SimpleNamespace(u_ram_cover=ram), 3), (None, 0)):
        model = NfCoverage().finished(top)
        hits = {name: sum(one.bins.values()) for name, one in model.points.items()}
        assert {name: n for name, n in hits.items() if n} == {
            box.plan.name: times for box in boxes if times
        }


def test_axes_of_registers_are_those_of_the_register_map() -> None:
    boxes = {box.plan.name: box for box in WhiteBoxPoints(CoverModel()).boxes}
    sources = [field.name for field in REG_MAP.expand()["IRQ_STATUS"].fields]
    assert boxes["interrupt event"].codes[0] == sources == boxes["interrupt clear"].codes[0]
    # A flit of the retry buffer is read again only on a link with faults (test_link_ram_flips).
    rams = ["" if name == "RETRY" else name for name in REG_MAP.enums["Ram"]]
    assert boxes["RAM error moment"].codes[0] == rams


FILES = read_filelist(ROOT, FILELIST)
BOXES = {box.plan.name: box for box in WhiteBoxPoints(CoverModel()).boxes}
SIZES = {"PINS": 4, "FLIGHT": 16, "CNT_W": 8, "REGIONS": 8, "NUMBER_W": 32, "GEN_W": 3}
_FIRST = {"op_kind_e": "OP_CONTRIBUTE", "fill_kind_e": "FILL_FETCH"}  # an enum takes no number
_PORT = re.compile(r"input wire (?:logic)?(.*?) *(\w+),? *(?://.*)?$", re.MULTILINE)
_NAMED = re.compile(r" *\w")  # a type with a name
_BENCH = """
module bench;
  import nf_pkg::*;
  import nf_core_pkg::*;
  import nf_ram_pkg::*;
  {sizes}
  region_desc_t d;
  {ports}
  {module} {values} dut (.*);
  task tick; begin {desc} #1 clk = 1; #1 clk = 0; end endtask
  initial begin
    {steps}
  end
endmodule
"""


def sampled(module: str, runs: list[list[str]], folder: Path) -> list[dict[str, set[str]]]:
    """Return the bins that each of some runs hits, by name of the point.

    Args:
        module: Path of the cover module in the design.
        runs: For each run, the statements of each clock after a reset.
        folder: Folder for the files.
    """
    text = (HERE / SOURCES[module]).read_text(encoding="utf-8").partition("\nbind ")[0]
    ports = {name: kind for kind, name in _PORT.findall(text)}
    boxes = [box for box in BOXES.values() if box.plan.module == module]
    zero = "'0"
    shows = " ".join(f'$display("%b", dut.{box.plan.array}_seen);' for box in boxes)
    clear = "d = '0; " + " ".join(
        f"{name} = {_FIRST.get(kind.strip(), zero)};" for name, kind in ports.items()
    )
    steps = [
        " ".join([clear, "tick; rst_n = 1;", *(f"{clock} tick;" for clock in run), shows])
        for run in runs
    ]
    used = [name for name in SIZES if f"parameter int {name}" in text]
    bench = _BENCH.format(
        sizes=" ".join(f"localparam int {name} = {value};" for name, value in SIZES.items()),
        ports=" ".join(
            f"{kind if _NAMED.match(kind) else f'logic {kind}'} {name};"
            for name, kind in ports.items()
        ),
        module=SOURCES[module].removesuffix(".sv"),
        values=f"#({', '.join(f'.{name}({name})' for name in used)})" if used else "",
        desc="desc = DESCS_W'(d);" if "desc" in ports else "",
        steps="\n    ".join(steps),
    )
    (folder / "bench.sv").write_text(f"{text}{bench}", encoding="utf-8")
    packages = [str(ROOT / name) for name in FILES.sources if name.endswith("_pkg.sv")]
    words = [icarus.program(), "-g2012", "-s", "bench", "-o", str(folder / "bench.vvp")]
    words += [f"-I{ROOT / name}" for name in (*FILES.includes, "verif/coverage")]
    subprocess.run([*words, *packages, str(folder / "bench.sv")], check=True, capture_output=True)
    command = [icarus.program("vvp"), "-n", str(folder / "bench.vvp")]
    seen = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout.split()
    assert len(seen) == len(runs) * len(boxes)
    out = []
    for number in range(len(runs)):
        rows = zip(boxes, seen[number * len(boxes) :], strict=False)
        bins = {
            box.plan.name: {BETWEEN.join(box.values(at)) for at in ones(int(row, 2))}
            for box, row in rows
        }
        out.append(bins)
    return out


def _twins() -> list[Twin]:
    """Return the twins of `white_box_twins.toml`."""
    file = tomllib.loads((HERE / "white_box_twins.toml").read_text(encoding="utf-8"))

    def clocks(lines: list[str]) -> list[str]:
        return [Template(line).substitute(file["inputs"]) for line in lines]

    return [
        Twin(one["name"], clocks(one["near"]), clocks(one["event"]), *one["bins"])
        for one in file["twins"]
    ]


TWINS = _twins()


@pytest.mark.skipif(icarus.find() is None, reason="Icarus Verilog is not installed")
@pytest.mark.parametrize("module", SOURCES)
def test_event_and_neighbour(module: str, tmp_path: Path) -> None:
    found = {name for name, box in BOXES.items() if box.plan.module == module}
    twins = [twin for twin in TWINS if found & twin.bins.keys()]
    runs = sampled(module, [run for twin in twins for run in (twin.near, twin.event)], tmp_path)
    for twin, near, event in zip(twins, runs[::2], runs[1::2], strict=True):
        for point, (lost, gained) in twin.bins.items():
            assert near[point] | event[point] <= {*BOXES[point].point.bins}, twin.name
            differ = sorted(near[point] - event[point]), sorted(event[point] - near[point])
            assert differ == (lost, gained), twin.name


def test_every_point_has_a_twin() -> None:
    """Check that an input hits each white-box point, next to a neighbour that does not."""
    found = {point for twin in TWINS for point, (_, gained) in twin.bins.items() if gained}
    assert found == set(BOXES)
