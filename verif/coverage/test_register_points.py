# SPDX-License-Identifier: Apache-2.0
"""Tests of the bins of counters and status fields, and of the tests that must show them change."""

from types import SimpleNamespace

import pytest

from models.access_decode import Kind
from models.register_map import REG_MAP
from verif.coverage import register_points
from verif.coverage.device_coverage import NfCoverage
from verif.coverage.register_points import SHOWN_BY
from verif.regs.generate import ROOT


def test_every_counter_and_status_field_has_a_test() -> None:
    tests = register_points.fields()
    assert set(REG_MAP.counters()) <= tests.keys()
    assert {"STATUS.LINK_UP", "REGION.STATUS.DONE", "IRQ_STATUS.POISON"} <= tests.keys()
    assert {"CAP_WINDOW", "REGION.CONFIG.MODE"} <= tests.keys()
    assert not {"CTRL.CLEAR_COUNTERS", "PARAMS0.SLOTS"} & tests.keys()
    assert all(tests.values()), [name for name, test in tests.items() if not test]


@pytest.mark.parametrize("test", SHOWN_BY)
def test_the_test_looks_for_what_it_shows(test: str) -> None:
    module = ROOT / "verif" / "tests" / f"{test.partition('::')[0]}.py"
    text = module.read_text(encoding="utf-8")
    assert f'shows="{test}"' in text.replace(" ", "")


def test_a_counter_that_never_counts_fails_the_test_that_shows_it() -> None:
    coverage, test = NfCoverage(), "test_events::early_reads"
    name, certain = "EARLY_READ", {"VALUE": -1}
    coverage.register_read(name, 0, certain)
    coverage.register(name, 7, write=True)
    coverage.register_read(name, 5, {})  # another value was possible, too
    assert coverage.fields.shown(test) == ["EARLY_READ"]
    (line,) = coverage.fields.unseen(test)
    assert line == (
        "COVERAGE EARLY_READ was never read as not 0 where it had to be; "
        "test_events::early_reads is meant to show it"
    )
    coverage.register_read(name, 1, certain)
    assert not coverage.fields.unseen(test)
    assert not coverage.fields.unseen("")


def test_a_field_of_a_region_is_not_one_of_the_device() -> None:
    coverage, points = NfCoverage(), NfCoverage().fields.points
    coverage.register_read("REGION[2].STATUS", 1, {"COMMITTED": -1, "DONE": -1})
    hits = coverage.model.hits()  # COMMITTED, where STATUS has LINK_UP
    shown = hits["changes in test_status::flags_of_every_region"]
    assert set(shown) == {"REGION.STATUS.COMMITTED x not 0", "REGION.STATUS.DONE x 0"}
    assert "changes in test_link_errors::link_abort_and_reset" not in hits
    assert hits["flag of region"] == {"COMMITTED x 2 x 1": 1, "DONE x 2 x 0": 1}
    bins = points["test_link_errors::link_abort_and_reset"].bins
    assert {"STATUS.LINK_UP x 0", "STATUS.LINK_UP x not 0", "PHY_REINIT x not 0"} <= bins.keys()


def test_a_register_counts_in_the_activity_that_is_under_way() -> None:
    coverage = NfCoverage()
    fields, certain = coverage.fields, {"VALUE": -1}
    fields.regions = 2
    coverage.register_read("DONE", 0, certain)  # nothing is under way
    fields.meanwhile = "move"
    coverage.register_read("FALLBACK", 2, {"VALUE": 2})  # that of region 0 is open
    coverage.register_read("DONE", 2, certain)
    coverage.register_read("CAP_WINDOW", 1, certain)  # software alone changes it
    hits = coverage.model.hits()
    assert hits["read meanwhile"] == {"move x DONE": 1}
    bit = "bit of {} x {} x {}".format
    done = {bit("DONE", 0, 0): 2, bit("DONE", 1, 0): 1, bit("DONE", 1, 1): 1}
    assert hits["flag of region"] == {bit("FALLBACK", 1, 1): 1, **done}
    assert "DONE" not in fields.missing()
    assert {"FALLBACK", "REGION.STATUS", "selector 1", "selector 6"} <= set(fields.missing())
    for read, kind, selector, missing in (
        (False, Kind.INFO, 1, True),
        (True, Kind.RESULT, 1, True),
        (True, Kind.INFO, 1, False),
        (True, Kind.STATUS, 6, False),
    ):
        access = SimpleNamespace(kind=kind, selector=selector)
        fields.view(SimpleNamespace(read=read, access=access))  # type: ignore[arg-type]
        assert (f"selector {selector}" in fields.missing()) is missing
    lines = fields.unseen("test_status::sweep")
    assert "COVERAGE read meanwhile: move x FALLBACK was never compared" in lines


def test_a_name_of_no_field_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHOWN_BY, "test_regs::read_write", ("ID",))
    with pytest.raises(ValueError, match="ID, which cannot change"):
        register_points.fields()
