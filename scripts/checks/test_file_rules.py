# SPDX-License-Identifier: Apache-2.0
"""Test that text without an encoding is found, in every way to write it."""

from __future__ import annotations

import pytest

from scripts.checks import file_rules


@pytest.mark.parametrize(
    "source",
    [
        "open(p)",
        "open(p, 'w')",
        "open(p, mode='r')",
        "with p.open() as f: pass",
        "p.open('a')",
        "p.read_text()",
        "p.read_text(errors='replace')",
        "p.write_text(t)",
        "run(c, text=True)",
        "Popen(c, universal_newlines=True)",
        "os.fdopen(1, 'w')",
    ],
)
def test_the_locale_would_decide(source: str) -> None:
    assert len(file_rules.lines_without_encoding(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "open(p, 'rb')",
        "open(p, encoding='utf-8')",
        "p.open('wb')",
        "p.read_text(encoding='utf-8')",
        "p.write_text(t, 'utf-8')",
        "run(c, encoding='utf-8')",
        "run(c, text=False)",
        "os.open(p, os.O_RDONLY)",
        "tarfile.open(p, 'r')",
        "model.open(folder, 3)",
        "gate.open()",
    ],
)
def test_it_would_not(source: str) -> None:
    assert file_rules.lines_without_encoding(source) == []
