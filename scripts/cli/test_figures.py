# SPDX-License-Identifier: Apache-2.0
"""`nf figures`: how it is called."""

from __future__ import annotations

import argparse

from scripts.cli import figures


def test_the_page_has_a_place() -> None:
    """`nf figures all --html`, as people type it, was refused without a file."""
    parser = argparse.ArgumentParser()
    figures.add_arguments(parser)
    there = str(figures.PAGE)
    assert parser.parse_args(["all"]).html == there
    assert parser.parse_args(["all", "--html"]).html == there
    assert parser.parse_args(["all", "--html", "a.html"]).html == "a.html"
