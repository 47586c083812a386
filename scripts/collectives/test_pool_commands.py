# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf collectives faults` and `nf collectives litmus`: output, exit codes, bad input."""

import argparse

import pytest

from models.pool_faults import FAULTS, Finding
from scripts.collectives import inject_faults, litmus_tests
from scripts.common.errors import OptionError


def faults(*words: str) -> int:
    parser = argparse.ArgumentParser()
    inject_faults.add_arguments(parser)
    return inject_faults.run(parser.parse_args(words))


def test_faults_prints_a_row_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert faults("--seeds", "8") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in FAULTS)
    assert "8 runs, 0 broke a promise" in shown


def test_a_broken_promise_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(fault: str, seed: int) -> Finding:
        return Finding(fault, seed, problem="nobody reported the fault")

    monkeypatch.setattr(inject_faults, "inject", broken)
    assert faults("--only", "poison", "--first", "4", "--seeds", "1") == 1
    assert "seed 4, poison: nobody reported the fault" in capsys.readouterr().out


def test_an_unknown_fault_is_one_line() -> None:
    with pytest.raises(OptionError, match="--only: no fault has 'x' in its name; use one of dead"):
        faults("--only", "x")


def test_litmus_fails_on_an_unexpected_outcome(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(litmus_tests, "visit", lambda *_: (0, 2, 38))
    assert litmus_tests.run(argparse.Namespace()) == 1
    assert "16 unexpected outcomes" in capsys.readouterr().out
