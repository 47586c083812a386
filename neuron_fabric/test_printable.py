# SPDX-License-Identifier: Apache-2.0
"""Tests that foreign text stays on one line and moves no cursor."""

from __future__ import annotations

import time

import pytest

from neuron_fabric.errors import MAX_LINE, CaptureError, LineError, say, telling
from neuron_fabric.printable import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv1.weight", "conv1.weight"),
        ("Größe ×2", "Größe ×2"),
        ("a\nnf replay: 0 mismatches", "a\\nnf replay: 0 mismatches"),
        ("\x1b[2J\r\x9b", "\\x1b[2J\\r\\x9b"),
        ("\u202eright to left\u2028", "\\u202eright to left\\u2028"),
        ("half \ud800", "half \\ud800"),
        (3, "3"),
    ],
)
def test_what_does_not_print_is_escaped(text: object, shown: str) -> None:
    assert one_line(text) == shown
    assert one_line(text).isprintable()


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\n" * 1_000_000, "\x1b" * 199])
def test_what_is_long_is_cut(text: str) -> None:
    assert len(one_line(text)) == 200
    assert one_line(text).endswith("...")
    assert one_line(text).isprintable()


def test_what_has_no_text_is_named() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert one_line(10**5000) == "(int that cannot be shown)"
    assert one_line(nested) == "(list that cannot be shown)"


def test_a_text_is_a_line_of_output(capsys: pytest.CaptureFixture[str]) -> None:
    say("one", "two\nforged", "y" * 10_000)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["one", "two\\nforged"]
    assert len(lines[2]) == MAX_LINE


def test_an_error_is_one_line_whatever_it_is_given() -> None:
    for error in (LineError("a\nb" * 9_000), CaptureError("w\x1b", "x\n" * 9_000, "y\r")):
        assert str(error).isprintable()
        assert len(str(error)) <= MAX_LINE


def test_what_takes_long_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with telling("reading", after_s=60):
        pass
    assert capsys.readouterr().err == ""
    told, late = "", time.monotonic() + 60
    with telling("reading", after_s=0):
        while not told and time.monotonic() < late:
            time.sleep(0.01)
            told += capsys.readouterr().err
    assert told + capsys.readouterr().err == "reading ...\n"
