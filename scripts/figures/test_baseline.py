# SPDX-License-Identifier: Apache-2.0
"""Tests of the baseline: a figure worse by more than 5 % is reported; the shipped values fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.cli.main import make_parser
from scripts.common.errors import OptionError
from scripts.figures import baseline, figures_command, traffic_figure
from scripts.figures.figures_command import FIGURES
from scripts.figures.result_file import FigureResult

ACCEPTED = {"area: LUTs": 1000.0, "clock: MHz": 60.0}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"area: LUTs": 1000.0, "clock: MHz": 60.0}, []),
        ({"area: LUTs": 1050.0, "clock: MHz": 57.0}, []),
        ({"area: LUTs": 1051.0}, ["area: LUTs: 1051, accepted 1000"]),
        ({"area: LUTs": 500.0, "clock: MHz": 90.0}, []),  # better
        ({"clock: MHz": 56.9}, ["clock: MHz: 56.9, accepted 60"]),
        ({"new: LUTs": 1.0}, ["new: LUTs: 1, no value was accepted yet (--accept)"]),
    ],
)
def test_slips(found: dict[str, float], told: list[str]) -> None:
    assert baseline.slipped(found, ACCEPTED) == told


def test_what_was_not_measured_is_told_of_a_whole_run() -> None:
    assert baseline.slipped({"area: LUTs": 1000.0}, ACCEPTED, whole=True) == [
        "clock: MHz: not measured"
    ]


def test_accepting_keeps_what_was_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "FILE", tmp_path / "baseline.json")
    for figure, followed in (
        ("synth", ACCEPTED),
        ("synth", {"area: LUTs": 900.0}),
        ("timing", {"clocks": 3.5}),
    ):
        found = FigureResult(
            set_up=(),
            tables=(),
            followed=followed,
            figure=figure,
            command="nf",
            revision="abc",
            started="2026-11-27T10:00:00+00:00",
            seconds=0.0,
        )
        baseline.accept(found)
    assert baseline.read()["synth"] == {"area: LUTs": 900.0, "clock: MHz": 60.0}
    text = baseline.FILE.read_text(encoding="utf-8")
    assert '"area: LUTs": 900,' in text  # a count stays one, whatever is accepted after it
    assert '"clocks": 3.5' in text
    measured = {"commit": "abc", "date": "2026-11-27"}
    assert baseline.origin() == {"synth": measured, "timing": measured}


def test_values_that_mean_another_thing_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that figures with another `--workers` are neither compared nor accepted as baseline.

    More workers cost more, which is no slip.
    """
    monkeypatch.setattr(baseline, "FILE", tmp_path / "baseline.json")
    baseline.FILE.write_text('{"traffic": {"DistilBERT: %": 1}}', encoding="utf-8")
    words = ["measure", "figures", "traffic", "--network", "distilbert", "--workers", "16"]

    def measured(*more: str) -> int:
        args = make_parser("measure figures").parse_args([*words, *more])
        return figures_command.run_one("traffic", FIGURES["traffic"], args, folder=tmp_path)

    assert measured() == 0
    assert "not compared, the baseline is of another --workers" in capsys.readouterr().out
    assert [path.name for path in tmp_path.glob("traffic*")] == ["traffic-part.json"]
    with pytest.raises(OptionError, match="--accept with --workers"):
        measured("--accept")
    words[-1] = "8"
    assert measured() == 1  # no value was accepted yet
    assert baseline.read() == {"traffic": {"DistilBERT: %": 1}}


def test_the_shipped_baseline_of_traffic() -> None:
    """Check that the counted traffic equals the shipped baseline within 5 %.

    Traffic is counted, not measured, so it is compared here; other figures are at night.
    """
    args = make_parser("measure figures").parse_args(["measure", "figures", "traffic"])
    followed = traffic_figure.run(args).followed
    assert not baseline.slipped(followed, baseline.read()["traffic"], whole=True)
