# SPDX-License-Identifier: Apache-2.0
"""Tests of code coverage by place: sums, folded holes, waivers, lcov, Cobertura, ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema

from scripts.common import paths
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.conftest import record
from scripts.coverage import code_coverage, code_waivers, rank
from scripts.coverage.code_coverage import CodeCoverage, Hole, Share
from scripts.coverage.code_waivers import CodeWaiver
from scripts.coverage.conftest import key, run
from scripts.coverage.merged import Merged, merge
from scripts.report import xml_files

FILE = "hdl/common/nf_fifo.sv"
REASON = "the bit is tied to zero in this device"
LINES = (ROOT / FILE).read_text(encoding="utf-8").splitlines()
LINE = next(n for n, text in enumerate(LINES, 1) if "in_data" in text)


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")


@pytest.fixture
def merged(tmp_path: Path) -> Merged:
    """Return merged runs of two builds with points of the same places; the second reaches more."""
    first = [
        (key("line", FILE, 1, "block", "1-3", page="u0"), 2),
        (key("branch", FILE, 5, "if", "5-6,9"), 0),
        (key("branch", FILE, 5, "else", "10"), 7),
        (key("expr", FILE, 8, "(a==1 && b==1) => 1"), 0),
        *((key("toggle", FILE, LINE, f"in_data[{bit}]:0->1"), 0) for bit in range(4)),
        *((key("toggle", FILE, LINE, f"in_data[{bit}]:1->0"), int(bit < 2)) for bit in range(4)),
        (key("toggle", "verif/coverage/bound.sv", 3, "q:0->1"), 0),  # none of the design
        (key("user", FILE, 5, "c"), 0),
    ]
    second = [
        (key("line", FILE, 1, "block", "1-3", page="u1"), 0),
        (key("branch", FILE, 5, "if", "5-6,9"), 1),
        (key("toggle", FILE, LINE, "in_data[0]:0->1"), 3),
    ]
    return merge(
        [
            run(tmp_path / "1", record(seed=1, seconds=2.0), first, {"p": {"x": 1}}),
            run(tmp_path / "2", record(seed=2, seconds=0.5), second),
            run(tmp_path / "3", record(seed=3, seconds=9.0), second, {"p": {"x": 1}}),
        ]
    )


def figures(merged: Merged, *waivers: CodeWaiver) -> CodeCoverage:
    """Return the code coverage of merged runs with waivers."""
    found = code_coverage.figures(code_coverage.count(merged, waivers))
    assert found is not None
    return found


def test_places_are_summed_over_builds(merged: Merged) -> None:
    found = figures(merged)
    (only,) = found.files
    assert (only.line, only.branch) == (Share(7, 7), Share(2, 2))
    assert (only.expr, only.toggle) == (Share(1, 0), Share(8, 3))
    assert found.holes == (
        Hole(FILE, 8, "expr", "(a==1 && b==1) => 1", 1),
        Hole(FILE, LINE, "toggle", "in_data[1] 0->1, in_data[3:2] both", 5),
    )
    assert code_coverage.lines(found) == [
        "code coverage: 7 of 7 lines (100.0 %), 2 of 2 branches (100.0 %), "
        "0 of 1 expression terms (0.0 %), 3 of 8 toggles (37.5 %), over 3 runs"
    ]
    assert code_coverage.count(Merged()) is None
    assert code_coverage.lines(None) == []


def test_what_assertions_alone_look_at_is_no_design(tmp_path: Path) -> None:
    file, names = "hdl/engine/nf_evict.sv", ("same", "again")
    texts = list(enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1))
    at = {name: next(n for n, text in texts if f"assign {name}[" in text) for name in names}
    found = [(key("toggle", file, at[name], f"{name}[0]:0->1"), 0) for name in names]
    counted = code_coverage.count(merge([run(tmp_path / "1", record(), found)]))
    assert counted is not None
    assert [place.name for place in counted.counts] == ["same[0]:0->1"]


def test_waivers_by_source_text_and_bits(merged: Merged) -> None:
    upper = CodeWaiver(FILE, r"input.*in_data", "toggle", REASON, "in_data", "3:2")
    found = figures(merged, upper)
    assert found.files[0].toggle == Share(4, 3, 4)
    assert found.unneeded == ()
    pairs = replace(upper, bits="1", every=2)  # bits 1 and 3, of which 1 fell
    found = figures(merged, pairs)
    assert found.files[0].toggle == Share(5, 3, 3)
    assert [text.partition("/: ")[2] for text in found.unneeded] == [
        f"1 of 4 are reached ({LINE} in_data[1]:1->0)"
    ]
    hit = replace(upper, bits="1:0", edge="1->0")
    nothing = replace(upper, source="no such text")
    elsewhere = replace(upper, file="hdl/nf_core.sv")  # no build has it: it cannot be judged
    found = figures(merged, hit, nothing, elsewhere)
    assert [text.partition("/: ")[2] for text in found.unneeded] == [
        f"2 of 2 are reached ({LINE} in_data[0]:1->0, {LINE} in_data[1]:1->0)",
        "matches nothing",
    ]
    part = replace(merged, runs=tuple(replace(one, build="edge") for one in merged.runs))
    found = figures(part, nothing)
    assert found.unneeded == ()  # a build with fewer regions has fewer points


def test_mistakes_in_waivers(write: Callable[[str, str], Path]) -> None:
    line = f'{{file: {FILE}, source: in_data, kind: toggle, bits: "3", reason: {REASON}}}'
    path = write("waivers.yaml", f"waivers: [{line}, {line}, {line.replace('in_data', 'gone')}]\n")
    waivers = code_waivers.read(path)
    assert waivers[0].bits == "3"
    both = line.replace(f"file: {FILE}", f"file: [{FILE}, hdl/nf_core.sv]")
    more = code_waivers.read(write("more.yaml", f"waivers: [{both}]\n"))
    assert [waiver.file for waiver in more] == [FILE, "hdl/nf_core.sv"]
    first, second = code_waivers.problems(waivers)
    assert first.startswith("coverage waived twice")
    assert second.startswith("coverage waiver of a line that does not exist")
    for bad in (line.replace(REASON, "because"), line.replace("in_data", "'in_data('")):
        with pytest.raises(NfError, match=r"waivers\.yaml"):
            code_waivers.read(write("waivers.yaml", f"waivers: [{bad}]\n"))


def test_the_waivers_of_the_project_fit() -> None:
    assert code_waivers.problems(code_waivers.read()) == []


def test_lcov(merged: Merged) -> None:
    counted = code_coverage.count(merged)
    assert counted is not None
    assert code_coverage.lcov_text(counted).splitlines() == [
        *("TN:nf", f"SF:{FILE}"),
        *("BRDA:5,0,0,7", "BRDA:5,0,1,2", "BRF:2", "BRH:2"),
        *("DA:1,2", "DA:2,2", "DA:3,2", "DA:5,2", "DA:6,2", "DA:9,2", "DA:10,7", "LF:7", "LH:7"),
        "end_of_record",
    ]


def test_cobertura(merged: Merged) -> None:
    counted = code_coverage.count(merged)
    assert counted is not None
    schema = xmlschema.XMLSchema(ROOT / "scripts" / "schema" / "cobertura.xsd")
    schema.validate(text := xml_files.cobertura(counted, 1.5))
    root = ElementTree.fromstring(text)
    figures = ("timestamp", "line-rate", "lines-covered", "branches-valid")
    assert [root.get(name) for name in figures] == ["1500", "1.0000", "7", "2"]
    (only,) = root.iter("class")
    assert (only.get("name"), only.get("filename")) == ("nf_fifo", FILE)
    lines = {line.get("number"): line for line in root.iter("line")}
    assert [lines[number].get("hits") for number in ("1", "5", "10")] == ["2", "2", "7"]
    assert (lines["5"].get("condition-coverage"), lines["1"].get("branch")) == ("100% (2/2)", None)
    for old, new in (('hits="7"', 'hits="-"'), ("<methods />", ""), ("(2/2)", "2/2")):
        with pytest.raises(xmlschema.XMLSchemaException):
            schema.validate(text.replace(old, new))


def test_rank_and_smallest_set(merged: Merged) -> None:
    found = rank.reached(merged)
    ordered = rank.by_second(found)
    assert [(one.run.seed, one.bins, one.code) for one in ordered] == [(2, 0, 2), (1, 1, 4)]
    assert [one.run.seed for one in rank.smallest(found)] == [1, 2]
    lines = {run.seed: lines for run, lines in rank.lines_of_runs(merged)}
    assert lines[1] == {FILE: {1, 2, 3, 10}}
    assert lines[2] == {FILE: {5, 6, 9}}
