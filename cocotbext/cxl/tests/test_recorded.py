# SPDX-License-Identifier: Apache-2.0
"""Seeded exchanges whose transcripts are compared line by line with recorded ones.

A scenario yields all that an exchange shows: flits, events of the tracker, answers, errors, state.
The records are in ``recorded.txt.xz``. After a deliberate change of behaviour, run
``python -m cocotbext.cxl.tests.test_recorded``: it prints the difference and writes them again.
"""

import logging
import lzma
from difflib import unified_diff
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest

from cocotbext.cxl.tests.recorded import (
    fault_scenarios,
    link_scenarios,
    part_scenarios,
    pin_scenarios,
    wire_scenarios,
)
from cocotbext.cxl.tests.recorded.texts import Lines

RECORDS = Path(__file__).with_name("recorded.txt.xz")
SCENARIOS = {
    **wire_scenarios.SCENARIOS,
    **part_scenarios.SCENARIOS,
    **link_scenarios.SCENARIOS,
    **fault_scenarios.SCENARIOS,
    **pin_scenarios.SCENARIOS,
}


def lines(name: str) -> Lines:
    """Yield the lines of a scenario."""
    return (one.rstrip() for text in SCENARIOS[name]() for one in text.split("\n"))


@cache
def records() -> dict[str, list[str]]:
    """Return the recorded lines of each scenario."""
    parts = lzma.decompress(RECORDS.read_bytes()).decode().split("\n== ")[1:]
    return {name: rest for name, *rest in (part.split("\n") for part in parts)}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_exchange_is_as_recorded(name: str) -> None:
    for number, (now, then) in enumerate(zip_longest(lines(name), records()[name]), 1):
        assert now == then, f"{name}, line {number}"


def test_each_record_has_a_scenario() -> None:
    assert list(records()) == list(SCENARIOS)


def main() -> None:
    """Print the difference between scenarios and records, and write the records again."""
    logging.disable()
    found = {name: list(lines(name)) for name in SCENARIOS}
    for name in found if RECORDS.exists() else ():
        before = records().get(name, [])
        print(*unified_diff(before, found[name], name, name, "", "", 0, ""), sep="\n")
    text = "".join(f"\n== {name}\n" + "\n".join(found[name]) for name in found)
    RECORDS.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
