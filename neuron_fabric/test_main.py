# SPDX-License-Identifier: Apache-2.0
"""Tests of the command `python -m neuron_fabric`: exit codes and messages of errors."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from typing import Any

import pytest

from neuron_fabric import __main__
from neuron_fabric.capacity import capacity_command
from neuron_fabric.monitor import monitor_command
from neuron_fabric.profile import profile_command


def test_a_full_disk_is_one_line() -> None:
    words = [sys.executable, "-m", "neuron_fabric", "capacity", "fits", "1"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"neuron_fabric: No space left on device\n"


@pytest.mark.parametrize("verb", list(__main__.VERBS))
def test_examples_of_the_help_can_be_typed(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that each example of a help parses, and that the help names this command alone."""
    with pytest.raises(SystemExit):
        __main__.main([verb, "--help"])
    shown = capsys.readouterr().out.partition("examples:\n")[2].splitlines()
    typed = [re.split(r"  +", line.strip())[0].split() for line in shown]
    assert typed
    for words in typed:
        assert words[:3] == ["python", "-m", "neuron_fabric"], words
        __main__.make_parser().parse_args(words[3:])


def test_ctrl_c_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(capacity_command, "run", interrupted)
    assert __main__.main(["capacity", "fits", "1"]) == 130
    assert capsys.readouterr().err == "neuron_fabric: interrupted\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("check p.toml --workers 2 -- train.py", {"workers": 2, "script": ["train.py"]}),
        ("check --workers 2 p.toml -- train.py", {"workers": 2, "script": ["train.py"]}),
        (
            "check p.toml --batch 4 -- a.py --batch 5",
            {"batch": 4, "script": ["a.py", "--batch", "5"]},
        ),
        ("check p.toml --strict", {"strict": True, "script": []}),
        ("replay --set drop=0.4 x", {"what": "replay", "of": ["x"], "set": [("drop", 0.4)]}),
        ("record --out o x y", {"what": "record", "of": ["x", "y"], "out": "o"}),
        ("x --html y", {"what": "x", "of": [], "html": "y"}),
    ],
)
def test_options_stand_anywhere(
    monkeypatch: pytest.MonkeyPatch, words: str, found: dict[str, Any]
) -> None:
    """Check that options are accepted before, between and after positional arguments."""
    seen: list[argparse.Namespace] = []

    def run(args: argparse.Namespace) -> int:
        seen.append(args)
        return 0

    for module in (profile_command, monitor_command):
        monkeypatch.setattr(module, "run", run)
    verb = "profile" if words.startswith("check") else "monitor"
    assert __main__.main([verb, *words.split()]) == 0
    plain = {key: _plain(getattr(seen[0], key)) for key in found}
    assert plain == found


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [one if isinstance(one, tuple) else str(one) for one in value]
    return value if isinstance(value, bool | int) else str(value)


def test_a_wrong_option_between_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        __main__.main(["profile", "check", "p.toml", "--wrong", "--", "train.py"])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "unrecognized arguments: --wrong" in said
    assert said.count("\n") == 1
