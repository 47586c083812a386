# SPDX-License-Identifier: Apache-2.0
"""Options of `nf measure bench` that would measure nothing: one line, exit code 2."""

from __future__ import annotations

import pytest

from scripts.cli.main import main

WRONG = {
    "no row": (("misses", "--only", "no such row"), "--only 'no such row': no row's name has that"),
    "few lines": (("misses", "--lines", "255"), "'255' is not a number from 256 to 16384"),
    "latency of jobs": (
        ("replay", "--jobs", "2", "--memory-latency", "300"),
        "--memory-latency: --jobs measures one step",
    ),
    "simulator of jobs": (("replay", "--jobs", "2", "--sim", "icarus"), "--sim: --jobs measures"),
    "a part of nothing": (("replay", "--part", "3"), "--part: it is a part of what --jobs"),
    "no rate": (("hook", "--rate", "fast"), "'fast' is no rate, as 100mbit or 1gbit"),
    "one job": (("replay", "--jobs", "1"), "'1' is not a number from 2 to 1024"),
}


@pytest.mark.parametrize(("words", "text"), WRONG.values(), ids=WRONG.keys())
def test_options_that_measure_nothing(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    try:
        code: object = main(["measure", "bench", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2
    said = capsys.readouterr()
    assert text in said.err
    assert len(said.err.splitlines()) == 1
    assert not said.out
