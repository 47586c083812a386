# SPDX-License-Identifier: Apache-2.0
"""Tests of the white-box cover points: their indices, the counters of the RTL, and negative twins.

A twin gives two inputs that differ in one property to the ports of a cover module under Icarus, as
SystemVerilog statements for one clock each; ports that they do not name are 0, and keep what an
earlier clock gave them.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
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
SIZES = {"SLOTS": 4, "FLIGHT": 16, "CNT_W": 8, "REGIONS": 8, "NUMBER_W": 32, "GEN_W": 3}
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


OP = "issue_valid = 1; issue.act = ACT_OP; issue.op.kind = OP_VOTE; "
S2 = "s2_valid = 1; s2.act = ACT_OP; s2.op.kind = OP_VOTE; d.mode = MODE_G_BINARY; "
W2 = "s2_valid = 1; s2.act = ACT_OP; s2.op.kind = OP_CONTRIBUTE; d.mode = MODE_G_BINARY; "
LK = "d.mode = MODE_G_BINARY; d.workers = 5; looked_up.kind = OP_VOTE; "
# fmt: off
TWINS = [
    Twin("a line in S1", [OP + "s1_valid = 1; s1.slot = 1;"], [OP + "s1_valid = 1; s1.slot = 0;"],
         "stages ahead: vote x {none > S1}"),
    Twin("a line in S2 and S3", [OP + "s2_valid = 1; s3_valid = 0;"],
         [OP + "s2_valid = 1; s3_valid = 1;"], "stages ahead: vote x {S2 > S2 S3}"),
    Twin("INFO that is issued", [OP], [OP + "issue.op.kind = OP_INFO;"],
         "stages ahead: vote x none >"),
    Twin("a fill that is issued", [OP], [OP + "issue.act = ACT_FILL;"],
         "stages ahead: vote x none >"),
    Twin("the distance of two actions", [OP, "issue.slot = 1;"], [OP, ""],
         "distance: > vote x vote x 1"),
    Twin("a distance of two clocks", [OP, "issue_valid = 0;", ""],
         [OP, "issue_valid = 0;", "issue_valid = 1;"], "distance: > vote x vote x 2"),
    Twin("held back in the same clock",
         [OP + "op_valid = 1; lk_hit = 1; op_ready = 1; op.kind = OP_PLANE;"],
         [OP + "op_valid = 1; lk_hit = 1; op.kind = OP_PLANE;"], "distance: > vote x plane x 0"),
    Twin("a state that is forwarded", [S2], [S2 + "forward = 1;"],
         "state source: vote x {RAM > forwarded book}"),
    Twin("no record of a line", [S2 + "s2.acts = 1;"], [S2 + "s2.acts = 1; s2.act = ACT_MISS;"],
         "state source: vote x {RAM > no record}"),
    Twin("a hit", [LK], [LK + "do_exec = 1;"], "lookup: > G_BINARY x hit x read x 2^k+1"),
    Twin("a miss with a dirty victim", [LK + "do_miss = 1; used = 4'hf;"],
         [LK + "do_miss = 1; used = 4'hf; victim_dirty = 1;"],
         "lookup: G_BINARY x {miss, clean victim > miss, dirty victim} x read x 2^k+1"),
    Twin("a miss with a free slot", [LK + "do_miss = 1; used = 4'hf;"],
         [LK + "do_miss = 1; used = 4'h7;"],
         "lookup: G_BINARY x {miss, clean victim > miss, free slot} x read x 2^k+1"),
    Twin("a miss without a record", [LK + "do_miss = 1;"], [LK + "do_miss = 1; empty = 1;"],
         "lookup: G_BINARY x {miss, free slot > no record, free slot} x read x 2^k+1"),
    Twin("parked with a line that is filled", ["d.mode = MODE_FP32; d.workers = 64; do_wait = 1;"],
         ["d.mode = MODE_FP32; d.workers = 64; do_wait = 1; ready = 1;"],
         "lookup: FP32 x {parked: filling > parked: others wait} x write x 64"),
    Twin("parked without room",
         ["d.mode = MODE_FP32; d.workers = 63; do_wait = 1; ready = 1; lk_open = 1;"],
         ["d.mode = MODE_FP32; d.workers = 63; do_wait = 1; ready = 1; lk_open = 1; op_settled = "
         "1;"],
         "lookup: FP32 x {parked: stores or sums under way > parked: no room at its exit} x write "
         "x 63"),
    Twin("17 workers", [LK + "do_exec = 1; d.workers = 18;"], [LK + "do_exec = 1; d.workers = 17;"],
         "lookup: G_BINARY x hit x read x {even > 2^k+1}"),
    Twin("a write that is looked up", [LK + "do_exec = 1;"],
         [LK + "do_exec = 1; looked_up.kind = OP_CONTRIBUTE;"],
         "lookup: G_BINARY x hit x {read > write} x 2^k+1"),
    Twin("an early read", [S2], [S2 + "early2 = 1;"],
         "line read: G_BINARY x result x {complete > early} x lax x clean x RAM"),
    Twin("a read of a lost line", [S2 + "book2.poison = 1;"],
         [S2 + "book2.poison = 1; book2.lost = 1;"],
         "line read: G_BINARY x result x complete x lax x {poisoned > lost} x RAM"),
    Twin("a strict read of a part", [S2 + "s2.op.kind = OP_PLANE;"],
         [S2 + "s2.op.kind = OP_PLANE; d.strict = 1;"],
         "line read: G_BINARY x part x complete x {lax > STRICT} x clean x RAM"),
    Twin("a write is no read", [S2], [W2],
         "line write: > G_BINARY x arrives x new x good x clean x RAM"),
    Twin("a write of a seen worker", [W2], [W2 + "seen2 = 1;"],
         "line write: G_BINARY x arrives x {new > seen} x good x clean x RAM"),
    Twin("a poisoned write", [W2 + "s2.stored_err = 1;"], [W2 + "s2.op.poison = 1;"],
         "line write: G_BINARY x arrives x new x {good > bad} x clean x RAM"),
    Twin("a store that memory refuses",
         ["s2_valid = 1; s2.act = ACT_STORED; s2.op.kind = OP_FP_STORE; d.mode = MODE_FP32; "
         "s2.op.poison = 1;"],
         ["s2_valid = 1; s2.act = ACT_STORED; s2.op.kind = OP_FP_STORE; d.mode = MODE_FP32; "
         "s2.stored_err = 1;"],
         "line write: FP32 x stored x new x {good > bad} x clean x RAM"),
    Twin("a carry into plane 1", [W2 + "adds2 = 1; s2.op.data = ~512'd1; planes2 = 2;"],
         [W2 + "adds2 = 1; s2.op.data = ~512'd1; planes2 = 1;"], "carry: > G_BINARY x 1 x some"),
    Twin("a carry of all lanes", [W2 + "adds2 = 1; planes2 = {512{1'b1}} >> 1;"],
         [W2 + "adds2 = 1; planes2 = {512{1'b1}};"], "carry: G_BINARY x 1 x {some > all}"),
    Twin("a write that adds nothing", [W2 + "adds2 = 1; planes2 = 1;"], [W2 + "planes2 = 1;"],
         "carry: G_BINARY x 1 x some >"),
    Twin("a ternary carry",
         ["s2_valid = 1; d.mode = MODE_G_TERNARY; adds2 = 1; s2.op.data = 1; planes2 = 1;"],
         ["s2_valid = 1; d.mode = MODE_G_TERNARY; adds2 = 1; s2.op.data = 2; planes2 = 1;"],
         "carry: > G_TERNARY x 1 x some"),
    Twin("a beat that is held", ["valid = 1; ready = 1;"], ["valid = 1;", "ready = 1;"],
         "memory channel: AW x record x {0 > 1}"),
    Twin("a beat that is held for two clocks", ["valid = 8;", "ready = 8;"],
         ["valid = 8;", "", "ready = 8;"], "memory channel: AR x record x {1 > 2..7}"),
    Twin("a beat of another channel", ["valid = 1; ready = 1;"], ["valid = 2; ready = 2;"],
         "memory channel: {AW > W} x record x 0"),
    Twin("a beat of another client", ["valid = 1; ready = 1;"],
         ["valid = 1; ready = 1; id = 10'd2;"], "memory channel: AW x {record > FP32} x 0"),
    Twin("a record that is interrupted", ["valid = 16; ready = 16; r_last = 1;", "id[4] = 1;"],
         ["valid = 16; ready = 16;", "id[4] = 1;"], "record interrupted: > plain memory"),
    Twin("a commit that meets a fill", ["commit_begins = 1; commit_epoch = 1;"],
         ["commit_begins = 1; commit_epoch = 1; filling = 1;"],
         "commit meets: {nothing > fills} x IDENTITY"),
    Twin("a move that meets a fill", ["commit_begins = 1; commit_epoch = 1; filling = 1;"],
         ["commit_begins = 1; filling = 1;"], "commit meets: fills x IDENTITY >"),
    Twin("the initialiser of another region",
         ["commit_begins = 1; commit_epoch = 1; init_busy = 1; init_active = 1; init_region = 1;"],
         ["commit_begins = 1; commit_epoch = 1; init_busy = 1; init_active = 1;"],
         "commit meets: > initialiser of this region x IDENTITY"),
    Twin("the window moves", ["moves = 1; is_on = 1; was_on = 1;"],
         ["moves = 1; is_on = 1; was_on = 1; moves_away = 1;"],
         "control window move: somewhere x {the same place > elsewhere} x quiet"),
    Twin("the window moves under traffic", ["commit_begins = 1;", "commit_begins = 0; moves = 1;"],
         ["commit_begins = 1; plain = 1;", "commit_begins = 0; moves = 1;"],
         "control window move: nowhere x nowhere x {quiet > under traffic}"),
    Twin("a write begins", ["ctrl_takes = 1;"], ["ctrl_takes = 1; ctrl_writes = 1;"],
         "register bus turn: > a write begins"),
    Twin("a write waits for a write", ["ctrl_waits = 1; ctrl_writes = 1;"],
         ["ctrl_waits = 1; ctrl_writes = 1; ctrl_busy = 1;"],
         "register bus turn: a write waits for AXI4-Lite > a write waits for a write"),
    Twin("AXI4-Lite waits for a write", ["bus.lock = 1; bus_free = 1;"], ["bus.lock = 1;"],
         "register bus turn: > AXI4-Lite waits for a write"),
    Twin("a write asks for a commit", ["bus.lock = 1;"], ["bus.lock = 1; committing = 1;"],
         "register bus turn: > a write asks for a commit"),
    Twin("a read during a commit", ["bus.read = 1; bus_free = 1;"],
         ["bus.read = 1; bus_free = 1; committing = 1;"],
         "register bus turn: > a read during a commit by AXI4-Lite"),
    Twin("a fill before the initialiser", ["fill_asks = 1;"], ["fill_asks = 1; fill_waits = 1;"],
         "record initialiser: > fill waits for a group"),
    Twin("an eviction before the initialiser", ["evict_waits = 1;"],
         ["evict_asks = 1; evict_waits = 1;"], "record initialiser: > eviction waits for a group"),
    Twin("a group that was marked first", [], ["init_skips = 1;"],
         "record initialiser: > passes a marked group"),
    Twin("a group that an eviction overwrites", [], ["evict_first = 1;"],
         "record initialiser: > eviction overwrites its group first"),
    Twin("the initialiser is claimed anew", ["init_start = 1;"],
         ["init_start = 1; init_restart = 1;"], "record initialiser: > claimed anew"),
    Twin("the initialiser is held", ["init_hold = 1;"], ["init_hold = 1; init_active = 1;"],
         "record initialiser: > held by a commit"),
    Twin("a generation wraps", ["apply = 2; gen[1] = 6;"], ["apply = 2; gen[1] = 7;"],
         "record initialiser: > generation wraps"),
    Twin("another generation wraps", ["apply = 2; gen[2] = 7;"], ["apply = 2; gen[1] = 7;"],
         "record initialiser: > generation wraps"),
    Twin("an interrupt", ["pending = 2;"], ["raised = 2;"],
         "interrupt event: > FALLBACK x masked x raised"),
    Twin("an enabled interrupt", ["raised = 2;"], ["raised = 2; enabled = 2;"],
         "interrupt event: FALLBACK x {masked > enabled} x raised"),
    Twin("an interrupt again", ["raised = 2;"], ["raised = 2; pending = 2;"],
         "interrupt event: FALLBACK x masked x {raised > raised again}"),
    Twin("an interrupt in the clock of the clear", ["pending = 2; cleared = 2;"],
         ["pending = 2; cleared = 2; raised = 2;"],
         "interrupt event: FALLBACK x masked x {cleared > raised and cleared}"),
    Twin("a clear of two sources", ["pending = 3; cleared = 2;"], ["pending = 3; cleared = 3;"],
         "interrupt clear: DONE x {left pending > with others} | FALLBACK x {alone > with others}"),
    Twin("a clear of a source that is not pending", ["pending = 1; cleared = 1;"],
         ["pending = 1; cleared = 2;"], "interrupt clear: DONE x alone > FALLBACK x not pending"),
    Twin("a hit while one is parked", ["do_exec = 1;"], ["do_exec = 1; parked_count = 1;"],
         "waiting queue: hit x {0 > 1}"),
    Twin("a miss while two are parked", ["do_exec = 1; parked_count = 2;"],
         ["do_miss = 1; parked_count = 2;"], "waiting queue: {hit > miss} x 2..7"),
    Twin("eight are parked", ["do_wait = 1; parked_count = 7;"], ["do_wait = 1; parked_count = 8;"],
         "waiting queue: parked x {2..7 > 8..15}"),
    Twin("a list that begins", ["park_push = 1; push_slot = 1; waited = 2;"],
         ["park_push = 1; push_slot = 1; waited = 1;"],
         "parked list: joins x none > begins x some"),
    Twin("a list that ends", ["park_pop = 1; pop_more = 1; waited = 15;"],
         ["park_pop = 1; waited = 15;"], "parked list: {leaves others > ends} x all"),
    Twin("all have a list", ["park_pop = 1; waited = 7;"], ["park_pop = 1; waited = 14;"],
         "parked list: ends x {some > all}"),
    Twin("an operation is taken", ["do_defer = 1; deferred_count = 1;"],
         ["take_deferred = 1; deferred_count = 1;"], "deferred operations: {deferred > taken} x 1"),
    Twin("16 are deferred", ["do_defer = 1; deferred_count = 15;"],
         ["do_defer = 1; deferred_count = 16;"], "deferred operations: deferred x {8..15 > 16..}"),
    Twin("a deferred operation of another line", ["do_defer = 1; behind = 1; deferred_count = 1;"],
         ["do_defer = 1; behind = 1; deferred_count = 1; lk_line = 1;"],
         "behind a deferred operation: its own > another"),
    Twin("two are deferred already", ["do_defer = 1; behind = 1; deferred_count = 1;"],
         ["do_defer = 1; behind = 1; deferred_count = 2;"],
         "behind a deferred operation: its own >"),
    Twin("no room for a store", ["do_wait = 1; lk_open = 1; looked_up.kind = OP_FP_STORE;"],
         ["do_wait = 1; lk_open = 1; op_settled = 1; looked_up.kind = OP_FP_STORE;"],
         "engine stall: > no room for a store"),
    Twin("no room for a sum",
         ["do_wait = 1; lk_open = 1; op_settled = 1; looked_up.kind = OP_FP_STORE;"],
         ["do_wait = 1; lk_open = 1; op_settled = 1; looked_up.kind = OP_FP_SUM;"],
         "engine stall: no room for a store > no room for a sum"),
    Twin("every slot is pinned", ["do_defer = 1; victim_ok = 1; fill_room = 1;"],
         ["do_defer = 1; fill_room = 1;"],
         "engine stall: others were deferred first > every slot pinned"),
    Twin("no room for an eviction",
         ["do_defer = 1; victim_ok = 1; victim_dirty = 1; evict_room = 1;"],
         ["do_defer = 1; victim_ok = 1; victim_dirty = 1;"],
         "engine stall: no room for a fill > no room for an eviction"),
    Twin("behind another", ["do_defer = 1;"], ["do_defer = 1; behind = 1;"],
         "engine stall: every slot pinned > behind a deferred one"),
    Twin("a new operation gives way", ["do_defer = 1;"], ["do_defer = 1; gives_way = 1;"],
         "engine stall: every slot pinned >"),
    Twin("a line that is not filled", ["waited = 2; ready = 2; can_go = 2;"],
         ["waited = 2; ready = 1; can_go = 2;"], "waiting head: > line not filled"),
    Twin("stores under way",
         ["waited = 2; ready = 2; can_go = 2; store_room = 1; gather_room = 1;"],
         ["waited = 2; ready = 2; store_room = 1; gather_room = 1;"],
         "waiting head: > stores or sums under way"),
    Twin("a store without room", ["waited = 2; ready = 2; stores_fp = 1;"],
         ["waited = 2; ready = 2; stores_fp = 2;"], "waiting head: > no room for a store"),
    Twin("a sum without room", ["waited = 2; ready = 2; reads_fp = 2; gather_room = 1;"],
         ["waited = 2; ready = 2; reads_fp = 2;"], "waiting head: > no room for a sum"),
    Twin("a fill with a full window", ["fill_valid = 1; fill_may_ask = 1; fill_fetches = 1;"],
         ["fill_valid = 1; fill_fetches = 1;"], "fill stall: memory not ready > window full"),
    Twin("a fill of a line on its way out", ["fill_valid = 1;"],
         ["fill_valid = 1; fill_evicting = 1;"],
         "fill stall: window full > line being written back"),
    Twin("a fill that goes on", ["fill_valid = 1; fill_may_ask = 1; fill_fetches = 1;"],
         ["fill_valid = 1; fill_may_ask = 1; fill_fetches = 1; fill_ar_ready = 1;"],
         "fill stall: memory not ready >"),
    Twin("pushed and answered", ["evict_push = 1; evict_unsent = 2;"],
         ["evict_push = 1; evict_answer = 1; evict_unsent = 2;"],
         "eviction buffer: {pushed > pushed and answered} x 2"),
    Twin("an eviction waits for the initialiser",
         ["fill_valid = 1; fill_evicting = 1; evict_unsent = 1;"],
         ["evict_waits = 1; evict_unsent = 1;"],
         "eviction buffer: {fill waits for it > waits for the initialiser} x 1"),
    Twin("MISS_DEPTH evictions", ["evict_flight = 15; evict_answer = 0;"], ["evict_flight = 16;"],
         "eviction buffer: > as many as MISS_DEPTH under way x 0"),
    Twin("eight write-backs", ["evict_push = 1; evict_flight = 7;"],
         ["evict_push = 1; evict_flight = 8;"], "write-backs under way: pushed x {2..7 > 8..}"),
    Twin("a write-back that is sent", ["evict_push = 1; evict_flight = 1;"],
         ["evict_sent = 1; evict_flight = 1;"], "write-backs under way: {pushed > sent} x 1"),
    Twin("a line that is not sent", ["fill_valid = 1; same = 2;"],
         ["evict_push = 1; push_entry = 1;", "evict_push = 0; fill_valid = 1; same = 2;"],
         "line on its way out: fetched: not answered > fetched: not sent"),
    Twin("a line that has been sent",
         ["evict_push = 1; push_entry = 1;", "evict_push = 0;", "fill_valid = 1; same = 2;"],
         ["evict_push = 1; push_entry = 1;", "evict_push = 0; evict_sent = 1; sent_entry = 1;",
         "evict_sent = 0; fill_valid = 1; same = 2;"],
         "line on its way out: fetched: not sent > fetched: not answered"),
    Twin("a line in S1 that is missed", ["do_miss = 1; lookup_s2 = 1;"],
         ["do_miss = 1; lookup_s1 = 1;"],
         "line on its way out: looked up: in S2 > looked up: in S1"),
    Twin("a dirty victim among awaited slots", ["do_miss = 1; used = 15; ready = 15; waited = 1;"],
         ["do_miss = 1; used = 15; ready = 15; waited = 1; victim_dirty = 1;"],
         "eviction beside: awaited x {clean > dirty}"),
    Twin("a free slot", ["do_miss = 1; used = 15; ready = 15; writing = 1;"],
         ["do_miss = 1; used = 7; ready = 15; writing = 1;"],
         "eviction beside: stored to x clean >"),
    Twin("a slot that is filled", ["do_miss = 1; used = 15; ready = 15; reading = 1;"],
         ["do_miss = 1; used = 15; ready = 7; reading = 1;"], "eviction beside: > filling x clean"),
    Twin("a record that comes", ["fill_take = 1; fill_flight = 1; fill_window = 8;"],
         ["fill_take = 1; fill_pop = 1; fill_flight = 1; fill_window = 8;"],
         "fills under way: {asked > asked and came} x 1"),
    Twin("the whole window", ["fill_pop = 1; fill_flight = 7; fill_window = 8;"],
         ["fill_pop = 1; fill_flight = 8; fill_window = 8;"],
         "fills under way: came x {some > the window}"),
    Twin("the window grows", ["fill_calm = 1; fill_window = 9;"],
         ["fill_grows = 1; fill_window = 9;"], "fill window: shrinks > grows"),
    Twin("the window is at its start", ["fill_calm = 1; fill_window = 9;"],
         ["fill_calm = 1; fill_window = 8;"], "fill window: shrinks > is at its start"),
    Twin("the window is at MISS_DEPTH", ["fill_wants = 1; fill_window = 15;"],
         ["fill_wants = 1; fill_window = 16;"], "fill window: > is at MISS_DEPTH"),
    Twin("a line on its way out is alone", ["fill_back = 1;"], ["fill_back = 1; fill_alone = 1;"],
         "fill window: a line on its way out goes behind others > a line on its way out is alone"),
    Twin("an older record", ["fill_pop = 1; d.mode = MODE_FP32; fill_ours = 1;"],
         ["fill_pop = 1; d.mode = MODE_FP32;"], "fill: FP32 x {this epoch > older}"),
    Twin("a bad record", ["fill_pop = 1; d.mode = MODE_FP32; fill_ours = 1;"],
         ["fill_pop = 1; d.mode = MODE_FP32; fill_ours = 1; fill_bad = 1;"],
         "fill: FP32 x {this epoch > bad}"),
    Twin("an untrusted record", ["fill_pop = 1; d.mode = MODE_FP32; fill_ours = 1;"],
         ["fill_pop = 1; d.mode = MODE_FP32; fill_kind = FILL_LOST;"],
         "fill: FP32 x {this epoch > untrusted}"),
    Twin("a store that stays", ["do_fill = 1; head_kind = OP_FP_STORE; fill_acts = 1;"],
         ["do_fill = 1; head_kind = OP_FP_STORE;"],
         "fill and its operation: store x {goes along > stays: no room}"),
    Twin("a store that went early",
         ["do_fill = 1; head_kind = OP_FP_STORE; fill_early = 1; fill_landed = 1;"],
         ["do_fill = 1; head_kind = OP_FP_STORE; fill_early = 1;"],
         "fill and its operation: store x {stored early: in memory > stored early: not yet}"),
    Twin("a mark that is asked", ["do_miss = 1; mark_used = 1;"],
         ["do_miss = 1; mark_used = 1; maybe = 1;"], "written marks: asked: no mark > asked: mark"),
    Twin("more planes are marked", ["mark = 1; marked_used = 1; older = 2; newer = 2;"],
         ["mark = 1; marked_used = 1; older = 2; newer = 3;"],
         "written marks: marked: as many planes > marked: more planes"),
    Twin("marks that are forgotten", ["forgets = 1;"], ["forgets = 1; forgets_some = 1;"],
         "written marks: commit without marks > forgotten by a commit"),
    Twin("a sum that is kept", ["do_fill = 1; do_keep = 0;"], ["do_keep = 1;"], "kept sum: > kept"),
    Twin("a kept sum that is fetched", ["do_fill = 1;"], ["do_fill = 1; fill_kept = 1;"],
         "kept sum: > fetched"),
    Twin("a kept sum that is read", ["issue_op.kind = OP_FP_SUM; do_exec = 1;"],
         ["issue_op.kind = OP_FP_SUM; do_exec = 1; lk_kept = 1;"], "kept sum: > read at once"),
    Twin("a part of a line ends a kept sum",
         ["executes_store = 1; slot_kept = 1; issue_op.be = '1;"],
         ["executes_store = 1; slot_kept = 1; issue_op.be = 1;"],
         "kept sum: ended by a whole store > ended by a part of a line"),
    Twin("a poisoned store ends a kept sum", ["executes_store = 1; slot_kept = 1;"],
         ["executes_store = 1; slot_kept = 1; issue_op.poison = 1;"],
         "kept sum: ended by a part of a line > ended by a poisoned store"),
    Twin("a kept sum that is written back", ["do_miss = 1; victim_kept = 1;"],
         ["do_miss = 1; victim_kept = 1; victim_dirty = 1;"],
         "kept sum: dropped: memory has it > written back"),
    Twin("a store that goes early", ["fetch = 1; op.kind = OP_FP_SUM; miss_early = 1;"],
         ["fetch = 1; op.kind = OP_FP_STORE; miss_early = 1;"],
         "first store: > goes to memory at once"),
    Twin("a poisoned first store", ["fetch = 1; op.kind = OP_FP_STORE; op.be = '1;"],
         ["fetch = 1; op.kind = OP_FP_STORE; op.be = '1; op.poison = 1;"],
         "first store: waits: no room > waits: poisoned"),
    Twin("memory refuses the first store", ["lands = 1;"], ["lands = 1; stored_err = 1;"],
         "first store: memory answers before the record comes > memory refuses it before the "
         "record comes"),
    Twin("the record comes first", ["do_fill = 1; fill_early = 1; fill_landed = 1;"],
         ["do_fill = 1; fill_early = 1;"], "first store: > the record comes before memory answers"),
    Twin("a deferred hit", ["again = 1;"], ["again = 1; do_exec = 1;"],
         "deferred operation: misses: no record > hits its line by now"),
    Twin("a deferred fetch", ["again = 1;"], ["again = 1; fetch = 1;"],
         "deferred operation: misses: no record > misses: record fetched"),
    Twin("another operation's hit", ["again = 1; do_exec = 1;"],
         ["deferred_valid = 1; take_deferred = 1; do_exec = 1;"],
         "deferred operation: hits its line by now >"),
    Twin("a deferred operation waits for a slot", ["deferred_valid = 1; victim_ok = 1;"],
         ["deferred_valid = 1;"],
         "deferred operation: waits for room for its fill > waits for a slot"),
    Twin("a deferred operation waits for its turn",
         ["deferred_valid = 1; victim_ok = 1; fill_room = 1;"],
         ["deferred_valid = 1; victim_ok = 1; fill_room = 1; deferred_room = 1;"],
         "deferred operation: waits for room at its exit > waits for its turn"),
    Twin("no deferred operation", ["deferred_valid = 1; gives_way = 1;"], ["gives_way = 1;"],
         "deferred operation: waits long: an FP32 operation gives way >"),
    Twin("a second damaged word", ["faults[2*RAM_FAULT_W-1] = 1;"],
         ["faults[2*RAM_FAULT_W-1] = 1; captured = 1;"],
         "RAM error moment: BOOK x {first > behind another}"),
    Twin("a damaged word during a commit", ["faults[2*RAM_FAULT_W-1] = 1;"],
         ["faults[2*RAM_FAULT_W-1] = 1; commits = 1;"],
         "RAM error moment: BOOK x {first > while a commit waits}"),
    Twin("a corrected word", ["faults[2*RAM_FAULT_W-1] = 1;"], ["faults[2*RAM_FAULT_W-2] = 1;"],
         "RAM error moment: BOOK x {first > corrected}"),
    Twin("planes of a victim", ["faults[RAM_FAULT_W-1] = 1;"],
         ["faults[RAM_FAULT_W-1] = 1; victim2 = 1;"],
         "RAM error place: PLANES: of an operation > PLANES: of a victim"),
    Twin("a line that leaves as a lost one", ["faults[3*RAM_FAULT_W-1] = 1;"],
         ["faults[3*RAM_FAULT_W-1] = 1; lost = 1;"],
         "RAM error place: EVICT: in its burst > EVICT: before its burst"),
    Twin("a deferred write", ["faults[5*RAM_FAULT_W-1] = 1; deferred = OP_VOTE;"],
         ["faults[5*RAM_FAULT_W-1] = 1; deferred = OP_FP_STORE;"],
         "RAM error place: DEFERRED: a read > DEFERRED: a write"),
]
# fmt: on


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
