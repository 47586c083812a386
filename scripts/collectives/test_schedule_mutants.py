# SPDX-License-Identifier: Apache-2.0
"""Tests of mutants of schedules: the checker refuses all, and a survivor has a reason."""

import pytest

from neuron_fabric.collectives.schedule import Collective
from neuron_fabric.collectives.shipped import shipped
from scripts.cli.main import main
from scripts.collectives import check_schedules
from scripts.collectives.schedule_mutants import ScheduleMutant, drawn_mutants


def test_all_drawn_mutants_are_refused() -> None:
    """Check that the checker refuses 200 mutants of drawn shapes."""
    assert [one.name for one in drawn_mutants(200, 3) if not one.refusal] == []


@pytest.mark.parametrize(("moves", "why"), [(True, "nobody reads"), (False, "other signals")])
def test_a_survivor_is_printed_with_its_reason(
    moves: bool, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the line of a mutant that is a right schedule, and the exit code."""
    survivor = ScheduleMutant("a fault", shipped(Collective.GATHER, 2, 1, 1), moves)
    monkeypatch.setattr(check_schedules, "drawn_mutants", lambda *_: iter([survivor]))
    assert main(["collectives", "check", "--mutants", "1"]) == 1
    assert "passed the checks: a fault: " in (said := capsys.readouterr().out)
    assert why in said
