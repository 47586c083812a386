# SPDX-License-Identifier: Apache-2.0
"""Tests that credentials on a command line or in variables are in no history, record or report."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.cli.main import main
from scripts.common import paths, secret_values
from scripts.common.records import BuildSpec, RunSpec
from scripts.conftest import RECORD
from scripts.history.database import History
from scripts.report import invocation
from scripts.run import simulate

SECRET = "hunter2"
SPEC = RunSpec(
    BuildSpec("icarus", "toy", "toy.f"),
    "verif.tests.test_x",
    ("a",),
    env=(("HF_TOKEN", SECRET), ("NF_SCALE", "2"), ("EMPTY_KEY", "")),
    rerun=f".venv/bin/nf replay captures/x --user-Password {SECRET} --route '*.key.*=FP32'",
)

STEMS = st.sampled_from(["token", "api_key", "Secret", "PASSWD", "password", "wandb-api-key"])


@given(STEMS, st.sampled_from(["--{}={}", "--{} {}", "-{} {}", "{}={}", "+{}={}", "x.{}={}"]))
def test_each_form_is_masked(stem: str, form: str) -> None:
    words = ["run", *form.format(stem, SECRET).split(), "--sim", "icarus", "x"]
    hidden = secret_values.masked(words)
    assert len(hidden) == len(words)
    assert SECRET not in " ".join(hidden)
    assert secret_values.MASK in " ".join(hidden)
    assert secret_values.masked(hidden) == hidden


@pytest.mark.parametrize(
    "word",
    [
        "--env=API_KEY={}",
        "env API_KEY={} python train.py",
        "X-Auth-Token: {}",
        "https://user:{}@host/x",
        "--index-url=https://user:{}@host/x",
        "git+ssh://token:{}@host",
    ],
)
def test_a_secret_inside_a_word_is_masked(word: str) -> None:
    line = shlex.join(["calibrate", "--", word.format(SECRET)])
    hidden = secret_values.masked_line(line)
    assert shlex.split(hidden)[-1] == word.format("***")
    assert secret_values.masked_line(hidden) == hidden


def test_a_line_that_is_no_shell_line_is_masked_too() -> None:
    assert SECRET not in secret_values.masked_line(f"it's TOKEN={SECRET}")


@pytest.mark.parametrize(
    "line",
    [
        "run 'test_keys::*' --seed 3",
        "replay x --route '*.key.weight=G_BINARY' --route token_embedding=FP32",
        "run test_tokens::a --token --sim icarus",  # an option, not a value
        "run a --weights '{\"key\": {}}'",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    words = shlex.split(line)
    assert secret_values.masked(words) == words


def test_the_command_is_recorded_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["nf", "run", "x", "--api-key", SECRET])
    assert invocation.describe("t", [], 0.0).command == "nf run x --api-key '***'"


def test_neither_history_nor_record_hold_it(
    tmp_path: Path, open_history: Callable[[Path], History]
) -> None:
    history = open_history(tmp_path / "history.sqlite")
    record = replace(RECORD, rerun=simulate.rerun_command(SPEC))
    number = history.add(history.begin("t", 1), SPEC, record)
    kept = history.run(number)
    assert kept.spec.env == (("HF_TOKEN", "***"), ("NF_SCALE", "2"), ("EMPTY_KEY", ""))
    assert "--user-Password '***' --route '*.key.*=FP32'" in kept.spec.rerun
    assert SECRET not in json.dumps(kept.spec.to_json()) + json.dumps(kept.record.to_json())


def test_a_rerun_without_it_is_refused(
    tmp_path: Path,
    open_history: Callable[[Path], History],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    history = open_history(tmp_path / "history.sqlite")
    number = history.add(history.begin("t", 1), SPEC, RECORD)
    assert secret_values.masked_spec(SPEC) == history.run(number).spec
    monkeypatch.setattr(paths, "HISTORY", tmp_path / "history.sqlite")
    assert main(["rerun", str(number)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "nf: the value of HF_TOKEN is not recorded (***): run the command itself again."
