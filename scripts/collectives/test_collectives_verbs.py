# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf collectives check` and `nf collectives show`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.cli.main import main


def test_a_printed_schedule_passes_and_an_edited_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that `show --json` prints what `check` reads, and that a fault gives one line."""
    path = tmp_path / "one.json"
    assert main(["collectives", "show", "gather", "--world", "2", "--lines", "9", "--json"]) == 0
    text = capsys.readouterr().out
    path.write_text(text, "utf-8")
    assert main(["collectives", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: gather, 5 operations, no fault found\n"
    path.write_text(text.replace('"number": 1', '"number": 2', 1), "utf-8")
    assert main(["collectives", "check", str(path)]) == 2
    refusal = capsys.readouterr().err
    assert "never gives signal 2" in refusal
    assert refusal.startswith(f"nf: {path}: ")
    assert refusal.count("\n") == 1


def test_check_names_shipped_schedules_and_refuses_other_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Check the summary of one collective, of mutants, and an unknown word."""
    assert main(["collectives", "check", "barrier"]) == 0
    assert "25 schedules, no fault found" in capsys.readouterr().out
    assert main(["collectives", "check", "--mutants", "20", "--seed", "4"]) == 0
    assert "20 of 20 mutants refused (100.0%), seed 4" in capsys.readouterr().out
    assert main(["collectives", "check", "all_scatter"]) == 2
    assert (
        "'all_scatter' is no collective or JSON file; use all, all_gather"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("collective", ["all_reduce", "barrier"])
def test_show_draws_a_lane_for_each_stream(
    collective: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the drawing: well-formed, with the title and the ranks."""
    path = tmp_path / "one.svg"
    words = ["collectives", "show", collective, "--world", "3", "--devices", "2"]
    assert main([*words, "--out", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    texts = [one.text for one in ElementTree.parse(path).iter() if one.text]
    assert f"{collective}, 3 ranks, 2 devices" in "".join(texts)
    assert "rank 2 publish" in texts
    assert main([*words, "--out", str(tmp_path / "none" / "one.svg")]) == 2
