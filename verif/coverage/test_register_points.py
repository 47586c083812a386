# SPDX-License-Identifier: Apache-2.0
"""Tests of the bins of counters and status fields, and of the tests that must show them change."""

from __future__ import annotations

import pytest

from models.register_map import REG_MAP
from verif.coverage import register_points
from verif.coverage.device_coverage import NfCoverage
from verif.coverage.register_points import SHOWN_BY
from verif.regs.generate import ROOT


def test_every_counter_and_status_field_has_a_test() -> None:
    tests = register_points.fields()
    assert set(REG_MAP.counters()) <= tests.keys()
    assert {"STATUS.LINK_UP", "REGION.STATUS.DONE", "IRQ_STATUS.POISON"} <= tests.keys()
    assert not {"CTRL.CLEAR_COUNTERS", "PARAMS0.SLOTS", "CAP_WINDOW"} & tests.keys()
    assert all(tests.values()), [name for name, test in tests.items() if not test]


@pytest.mark.parametrize("test", SHOWN_BY)
def test_the_test_looks_for_what_it_shows(test: str) -> None:
    module = ROOT / "verif" / "tests" / f"{test.partition('::')[0]}.py"
    text = module.read_text(encoding="utf-8")
    assert f'shows="{test}"' in text.replace(" ", "")


def test_a_counter_that_never_counts_fails_the_test_that_shows_it() -> None:
    coverage, test = NfCoverage(), "test_eviction::eviction"
    for name in ("SLOT_HIT", "SLOT_MISS", "EVICTION"):
        coverage.register(name, 5)
    coverage.register("FILL", 0)
    coverage.register("FILL", 7, write=True)
    (line,) = coverage.fields.unseen(test)
    assert line == (
        "COVERAGE FILL was never read as another value than 0; "
        "test_eviction::eviction is meant to show it"
    )
    coverage.register("FILL", 1)
    assert not coverage.fields.unseen(test)
    assert not coverage.fields.unseen("")


def test_a_field_of_a_region_is_not_one_of_the_device() -> None:
    coverage, points = NfCoverage(), NfCoverage().fields.points
    coverage.register("REGION[2].STATUS", 1)  # COMMITTED, where STATUS has LINK_UP
    hits = coverage.model.hits()
    assert hits["changes in test_status::flags_of_every_region"]["REGION.STATUS.COMMITTED x not 0"]
    assert "changes in test_link_errors::link_abort_and_reset" not in hits
    bins = points["test_link_errors::link_abort_and_reset"].bins
    assert {"STATUS.LINK_UP x 0", "STATUS.LINK_UP x not 0", "PHY_REINIT x not 0"} <= bins.keys()


def test_a_name_of_no_field_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHOWN_BY, "test_regs::read_write", ("CAP_WINDOW",))
    with pytest.raises(ValueError, match="CAP_WINDOW, which the hardware does not change"):
        register_points.fields()
