# SPDX-License-Identifier: Apache-2.0
"""The report page, as text and in a real browser: Chromium without window and without network."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.common.paths import ROOT
from scripts.common.records import CaseResult, FailureKind
from scripts.conftest import RECORD, record
from scripts.coverage import functional_coverage
from scripts.coverage.conftest import key, run
from scripts.plan import testplan
from scripts.report import mutation, proofs, test_kept_results, write_report
from scripts.report.page import link
from scripts.report.proofs import ProofRow, Proofs
from scripts.report.test_browser import Page
from scripts.report.test_report import NASTY, RECORDS, RED
from scripts.report.trend import HistoryPoint
from verif.coverage.cover_model import FUNCTIONAL

PHONE = 390
ROWS = "[...document.querySelectorAll('#tests tbody tr')].filter(r => r.getClientRects().length)"
LONG = "test_" + "long" * 40
BINS = sum(len(point.bins) for point in functional_coverage.planned().points.values())
POINT = HistoryPoint("a", "try <it>", "2026-01-01T00:00:00+00:00", 90, 1, 0, 60.0, {})


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a page with something in every section, and names that are too long for a phone."""
    folder = tmp_path_factory.mktemp("page")
    covered = replace(
        RECORD, metrics={FUNCTIONAL: {"memory": {"read": 2}, "new": {LONG: 1}}, LONG: 42}
    )
    wide = [
        replace(
            RECORD,
            id=f"{LONG}{n}",
            name=f"{LONG}::t{n}",
            seed=n,
            sim="verilator",
            cases=(CaseResult(f"t{n}", "passed", n / 7, 1.0),),
            log=f"build/runs/{LONG}/run.log",
        )
        for n in range(1, 12)
    ]
    points = [(key("line", "hdl/nf_core.sv", 1, "block", "1-3"), 0)]
    wide[0] = run(folder / "run", wide[0], points)
    records = [covered, *RECORDS[1:], *wide]
    row = ProofRow(
        "name_of_a_proof/sum_path", LONG, "induction", 20, "bounded", 1234.5, "0123456789ab"
    )
    with pytest.MonkeyPatch.context() as patch:  # what this tree has measured is not looked at
        patch.setattr(proofs, "read", lambda: Proofs("nf prove", (row,)))
        patch.setattr(mutation, "read", lambda: test_kept_results.FOUND)
        write_report.write_all(
            records, "try <it>", folder, seconds=5.0, expected=15, history=[POINT]
        )
    return folder / "index.html"


def test_page_is_offline_and_escaped(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)=\"(?:\w+:|//)", text)  # every link is relative
    assert "http:" not in text
    assert "https:" not in text
    assert NASTY not in text
    assert "got &lt;/script&gt;&lt;script&gt;" in text
    assert text.count("<script>") == 1


def test_the_source_page_is_offline_and_escaped(tmp_path: Path, chromium: Page) -> None:
    points = [
        (key("line", "hdl/nf_core.sv", 1, "block", "1-3"), 0),
        (key("toggle", "hdl/nf_core.sv", 4, f"{NASTY}[3]:0->1"), 0),
        (key("toggle", "hdl/nf_core.sv", 5, "q:1->0"), 2),
    ]
    write_report.write_all([run(tmp_path / "run", RECORD, points)], "try <it>", tmp_path)
    chromium.open(tmp_path / "coverage.html")
    chromium.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    text = chromium.ask("document.body.innerText")
    for words in ("try <it>", "toggle 50.0 % (1/2)", "SPDX-License-Identifier", "[3] 0->1"):
        assert words in text, words
    assert chromium.complaints == []
    assert chromium.requests == [(tmp_path / "coverage.html").as_uri()]


def test_links_are_relative_and_quoted(tmp_path: Path) -> None:
    assert link("build/runs/a b/run.log", ROOT / "build/report") == "../runs/a%20b/run.log"
    assert link(f"{tmp_path}/r/javascript:x", tmp_path / "report") == "../r/javascript%3Ax"


def test_page_without_anything(tmp_path: Path, chromium: Page) -> None:
    write_report.write_all([], "empty", tmp_path, expected=0)
    chromium.open(tmp_path / "index.html")
    assert chromium.ask("document.querySelector('.verdict').innerText") == "✗ nothing was run"
    assert chromium.complaints == []


def test_content_in_a_browser(page: Path, chromium: Page) -> None:
    chromium.open(page)
    summary = chromium.ask("document.querySelector('#coverage summary').innerText")
    assert re.fullmatch(rf"Holes: {BINS} bins of \d+ points", summary)
    assert "write full" not in chromium.ask("document.body.innerText")
    chromium.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    text = chromium.ask("document.body.innerText")
    for words in (
        *("✗ failed", "12 passed", "2 failed", "1 of 15 runs did not finish"),
        *("mismatch", "crash", "signal 11", "nf run test_x::two --seed 7", "SLOTS=4"),
        *(f"0 of {BINS} bins", "write full", "what happens on the device-memory port"),
        *(
            "line 0.0 % (0/3)",
            "hdl/nf_core.sv",
            "1-3",
            "Annotated source",
            "2 invocations of",
            "Slowest tests",
        ),
        *("Measured figures", "42"),
        *("V1", "V2", "V3", "Revision", "verilator 5", "1, 2, 3"),
    ):
        assert words in text, words
    assert NASTY.replace("\x1b", "") in text.replace("\x1b", "")  # as text
    assert chromium.ask("document.title") == "✗ failed – try <it>"
    waves = chromium.ask("document.querySelector('.failure dd a:nth-of-type(2)').href")
    assert waves.endswith("/build/runs/x/waves%201.fst")
    assert chromium.complaints == []
    assert chromium.requests == [page.as_uri()]  # one file, nothing else


def test_filter_and_sort_by_keyboard(page: Path, chromium: Page) -> None:
    chromium.open(page)
    chromium.ask("document.getElementById('words').focus()")
    chromium.type("failed TEST_X")
    assert chromium.ask(f"{ROWS}.length") == 1
    assert chromium.ask("document.getElementById('shown').innerText") == "1 of 15 tests"
    chromium.ask(
        "words.value = ''; outcome.value = 'skipped'; words.dispatchEvent(new Event('input'))"
    )
    assert "test_x::three" in chromium.ask(f"{ROWS}.map(r => r.innerText).join()")
    chromium.ask("outcome.value = ''; outcome.dispatchEvent(new Event('input'))")
    assert chromium.ask(f"{ROWS}.length") == 15

    seconds = f"{ROWS}.map(r => Number(r.cells[5].textContent))"
    chromium.ask("document.querySelector('#tests th:nth-child(5) button').focus()")
    chromium.press("Tab")  # from the seed's button to the next: seconds
    assert chromium.ask("document.activeElement.innerText") == "Seconds"
    for order, reverse in (("ascending", False), ("descending", True)):
        chromium.press("Enter")
        found = chromium.ask(seconds)
        assert found == sorted(found, reverse=reverse)
        assert chromium.ask("document.activeElement.parentNode.ariaSort") == order
    chromium.ask("document.querySelector('#tests th:nth-child(2) button').click()")
    names = chromium.ask(f"{ROWS}.map(r => r.cells[1].textContent)")
    assert names == sorted(names, key=lambda name: name.replace("_", "").lower())
    assert chromium.complaints == []


@pytest.mark.parametrize("script", [True, False])
def test_a_phone_has_no_sideways_scroll(page: Path, chromium: Page, script: bool) -> None:
    chromium.open(page, PHONE, 844, script)
    chromium.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chromium.ask("document.documentElement.scrollWidth") <= PHONE
    beyond = (
        "[...document.querySelectorAll('body *')]"
        f".filter(e => e.getBoundingClientRect().right > {PHONE} + 0.5).map(e => e.outerHTML)"
    )
    assert chromium.ask(beyond) == []


def test_without_javascript_everything_is_there(page: Path, chromium: Page) -> None:
    chromium.open(page, script=False)
    assert chromium.ask(f"{ROWS}.length") == 15
    assert not chromium.ask("document.getElementById('filter').getClientRects().length")
    assert "nf run test_x::two --seed 7" in chromium.ask("document.body.innerText")


def test_policy_stops_a_script_that_slipped_in(page: Path, tmp_path: Path, chromium: Page) -> None:
    broken = tmp_path / "index.html"
    evil = "<script>document.title='owned'</script><img src='http://neuron.example/i.png'>"
    broken.write_text(
        page.read_text(encoding="utf-8").replace("</main>", f"{evil}</main>"), encoding="utf-8"
    )
    chromium.open(broken)
    assert chromium.ask("document.title") != "owned"
    assert sum("Content Security Policy" in line for line in chromium.complaints) == 2


def test_a_time_out_shows_the_end_of_its_log(tmp_path: Path, chromium: Page) -> None:
    """Lines of a test that failed earlier end the log; a log that is gone is reported."""
    lines = ["  1.50ns INFO  cocotb  early", *[f"    12345.00ns INFO  cocotb  <late> {LONG}"] * 20]
    killed = tmp_path / "killed.log"
    killed.write_text("\n".join([*lines, "         no time here"]), encoding="utf-8")
    stuck = tmp_path / "stuck.log"
    stuck.write_text("\n".join([*lines, " 2.00ns WARNING  x.one failed", "***"]), encoding="utf-8")
    empty = tmp_path / "empty.log"
    empty.write_text("-.--ns INFO  starting\n", encoding="utf-8")
    red = {"passed": False, "kind": FailureKind.TIME_OUT, "cause": "too long"}
    failed = (CaseResult("one", "failed", 1.0, 2.0),)
    records = [
        record(**red, id="killed", log=str(killed), cases=()),
        record(**red, id="stuck", log=str(stuck), cases=failed),
        record(**red, id="empty", log=str(empty), cases=()),
        record(**red, id="gone", log=str(tmp_path / "gone.log"), cases=()),
        record(**red | {"kind": FailureKind.CRASH}, id="crash", log=str(killed), cases=()),
    ]
    write_report.write_all(records, "time", tmp_path)
    chromium.open(tmp_path / "index.html", PHONE)
    rights = (
        "[...document.querySelectorAll('.failure dd')].map(e => e.getBoundingClientRect().right)"
    )
    assert max(chromium.ask(rights)) <= PHONE  # the log scrolls inside of its box
    cards = {
        one.id: chromium.ask(f"document.getElementById('run-{one.id}').innerText")
        for one in records
    }
    assert "12,345.00 ns, by the last line that has a time" in cards["killed"]
    assert cards["killed"].count("<late>") == 9
    assert "no time here" in cards["killed"]
    assert "early" not in cards["killed"]
    assert "2.00 ns" in cards["stuck"]
    assert "x.one failed" in cards["stuck"]
    assert "***" not in cards["stuck"]
    assert "unknown: no line of the log has a time" in cards["empty"]
    assert "unknown: the log cannot be read (No such file or directory)" in cards["gone"]
    assert "Simulated" not in cards["crash"]


@pytest.mark.parametrize("selected", [True, False])
def test_a_filtered_run_has_its_results_first(tmp_path: Path, selected: bool) -> None:
    """Every planned test ran, or one of them."""
    names = [*testplan.read().entries][: 1 if selected else None]
    cases = [(name, CaseResult(name.partition("::")[2], "passed", 1.0, 1.0)) for name in names]
    found = write_report.write_all(
        [record(name=n, cases=(case,)) for n, case in cases], "some", tmp_path
    )
    assert found.filtered is selected
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert text.count('id="results"') == 1
    assert (text.index('id="results"') < text.index('id="testplan"')) is selected
    assert (text.index('href="#results"') < text.index('href="#testplan"')) is selected


def test_late_results_come_with_a_button(tmp_path: Path, chromium: Page) -> None:
    write_report.write_all([record(id=f"r{n}", seed=n) for n in range(100)], "many", tmp_path)
    chromium.open(tmp_path / "index.html", script=False)
    assert chromium.ask(f"{ROWS}.length") == 100
    chromium.open(tmp_path / "index.html")
    assert chromium.ask(f"{ROWS}.length") == 40
    assert chromium.ask("more.innerText") == "Show all 100 tests"
    chromium.ask("words.value = '99'; words.dispatchEvent(new Event('input'))")
    assert chromium.ask(f"{ROWS}.length") == 1
    assert not chromium.ask("more.getClientRects().length")
    chromium.ask("words.value = ''; words.dispatchEvent(new Event('input')); more.click()")
    assert chromium.ask(f"{ROWS}.length") == 100
    assert chromium.complaints == []


def test_green_page(tmp_path: Path, chromium: Page) -> None:
    write_report.write_all([record()], "good", tmp_path)
    chromium.open(tmp_path / "index.html")
    assert chromium.ask("document.querySelector('.verdict').innerText") == "✓ passed"
    assert chromium.ask("document.getElementById('failures')") is None
    assert RED.cause not in chromium.ask("document.body.innerText")
