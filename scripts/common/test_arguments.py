# SPDX-License-Identifier: Apache-2.0
"""Tests of arguments that several verbs share: their defaults, and what they refuse."""

from __future__ import annotations

import argparse
import os

import pytest

from scripts.common.arguments import add_jobs, given, up_to


def test_jobs_are_the_cores_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the default of `--jobs` is the number of cores that this process may use.

    A batch job may have only a few cores of its machine.
    """
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 7})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    parser = argparse.ArgumentParser()
    add_jobs(parser)
    assert parser.parse_args([]).jobs == 3


@pytest.mark.parametrize("text", ["", "-1", "3", "10", "4.0", "9" * 5000])
def test_a_number_that_is_not_between_both(text: str) -> None:
    assert up_to(9, first=4)("4") == 4
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number from 4 to 9"):
        up_to(9, first=4)(text)


def test_options_that_are_given() -> None:
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--lines", default=3, type=int)
        parser.add_argument("--waves", action="store_true")

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert given(parser.parse_args([]), add_arguments) == set()
    assert given(parser.parse_args(["--lines", "3"]), add_arguments) == set()
    assert given(parser.parse_args(["--lines", "4", "--waves"]), add_arguments) == {
        "lines",
        "waves",
    }
