# SPDX-License-Identifier: Apache-2.0
"""Records to report on, and a browser to look at the result with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from scripts.common.records import CaseResult, FailureKind, RunRecord
from scripts.record.report import browser

RECORD = RunRecord(
    id="test_x.one-icarus-default-s1",
    name="test_x::one",
    sim="icarus",
    seed=1,
    build_name="default",
    parameters=(("SLOTS", 4),),
    passed=True,
    kind=None,
    cause="",
    build_seconds=0.0,
    seconds=1.0,
    sim_time_ns=5.0,
    cases=(CaseResult("one", "passed", 1.0, 5.0),),
    log="build/runs/x/run.log",
    waves=None,
    coverage=None,
    rerun="nf run test_x::one",
)
# Bad luck in one line: HTML, a quote, a character that XML cannot hold.
NASTY = "got </script><script>document.title='owned'</script> \"&\x1b want 2"
RED = replace(
    RECORD,
    id="test_x.two-icarus-default-s7",
    name="test_x::two",
    seed=7,
    passed=False,
    kind=FailureKind.MISMATCH,
    cause=NASTY,
    cases=(CaseResult("two", "failed", 2.5, 5.0, NASTY), CaseResult("three", "skipped", 0.0, 0.0)),
    waves="build/runs/x/waves 1.fst",
    rerun="nf run test_x::two --seed 7",
)
CRASHED = replace(
    RECORD,
    id="test_y.all-verilator-default-s1",
    name="test_y::*",
    sim="verilator",
    passed=False,
    kind=FailureKind.CRASH,
    cause="signal 11",
    cases=(),
)
RECORDS = [RECORD, RED, CRASHED]


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    """Makes a green record with some fields changed."""
    return lambda **fields: replace(RECORD, **fields)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without Chromium the tests that need it are skipped, in one line a file."""
    if browser.find() is None:
        why = "Chromium is not installed (apt-get install chromium): nobody looked at the page"
        for item in items:
            if "chromium" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(why))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    """One tab for all tests of a session."""
    with browser.browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page
