# SPDX-License-Identifier: Apache-2.0
"""Tests of the command `nf train exact`: its result over real processes, output and refusals."""

from __future__ import annotations

import argparse

import pytest

from neuron_fabric.errors import AttachError
from neuron_fabric.hook import exact_command


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    exact_command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.nightly("7 s: three ranks; the laws compare gradients in every change")
def test_no_gradient_differs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
    assert exact_command.run(parsed("--workers", "3", "--steps", "3")) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["3", "workers,", "profile", "44,412", "0"],
        ["3", "workers,", "capture", "44,412", "0"],
    ]


def test_one_that_differs_on_one_rank_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = [{"2 workers, profile": [100, 0]}, {"2 workers, profile": [100, 3]}]
    assert exact_command._told(found) == 1
    assert capsys.readouterr().out.split()[-1] == "3"


def test_what_cannot_be_tried() -> None:
    with pytest.raises(AttachError, match="0 steps; ask for one"):
        exact_command.run(parsed("--steps", "0"))
    with pytest.raises(SystemExit):
        parsed("--workers", "2,x")
