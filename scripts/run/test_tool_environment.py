# SPDX-License-Identifier: Apache-2.0
"""Tests of the environment of tools: an allow-list, so that the shell decides no verdict.

Each record lists the variables that reached its run.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.build import registry
from scripts.cli import run as nf_run
from scripts.cli import steps
from scripts.common import process, tool_environment
from scripts.common.paths import ROOT
from scripts.common.records import RunRecord
from scripts.conftest import Toy

# Variables of a caller's shell that would change what a tool does.
_LINES = Path(__file__).with_suffix(".env").read_text(encoding="utf-8").splitlines()
STRAY = dict(line.split("=", 1) for line in _LINES if not line.startswith("#"))
BENCH = """
    import json, os
    import cocotb
    from cocotb.triggers import Timer

    @cocotb.test()
    async def reads_x(dut):
        with open(os.environ["NF_METRICS"], "w") as f:
            json.dump({"environment": dict(os.environ), "plusargs": sorted(cocotb.plusargs)}, f)
        await Timer(10, "ns")
        int(dut.unset.value)
"""


@pytest.mark.skipif(not registry.get("icarus").available(), reason="icarus has X")
@pytest.mark.parametrize("direct", [True, False], ids=["afresh", "forked"])
def test_the_shell_does_not_decide_a_verdict(
    toy: Toy, direct: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (toy.folder / "shell_bench.py").write_text(textwrap.dedent(BENCH), encoding="utf-8")
    for name, value in {**STRAY, "COCOTB_LOG_LEVEL": "INFO"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "cocotb.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    record = toy.run(toy.spec("icarus"), "reads_x", module="shell_bench", direct=direct)
    assert not record.passed
    assert "non-0/1 values" in record.cause
    reached = record.metrics["environment"]
    assert [name for name, value in STRAY.items() if reached.get(name) == value] == []
    assert str(tmp_path) not in reached["PYTHONPATH"].split(os.pathsep)
    assert "nothing" not in record.metrics["plusargs"]
    assert ("COCOTB_LOG_LEVEL", "INFO") in record.environment
    assert {name: reached[name] for name, _ in record.environment if name != "PATH"} == {
        name: value for name, value in record.environment if name != "PATH"
    }
    assert RunRecord.from_json(record.to_json()) == record


NAMES = st.sampled_from(sorted(STRAY)) | st.from_regex(r"[A-Z_]{1,20}", fullmatch=True)


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(NAMES, st.text("abc/=", max_size=9), max_size=5))
def test_what_is_not_listed_reaches_no_tool(variables: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        given_out = tool_environment.tools({"MORE": "1"})
        assert dict(tool_environment.passed()) == {
            k: v for k, v in given_out.items() if k != "MORE"
        }
    for name in given_out.keys() - {"MORE"}:
        assert name in tool_environment.ALLOWED


def test_no_room_that_starts_tools_gives_its_whole_environment() -> None:
    whole = re.compile(r"\*\*os\.environ|dict\(os\.environ\)|=os\.environ\b")
    rooms = ("scripts/build", "scripts/prove", "scripts/figures", "scripts/mutation", "verif/host")
    files = [path for room in rooms for path in (ROOT / room).glob("*.py")]
    product = [path for path in files if not path.name.startswith("test_")]
    assert [path for path in product if whole.search(path.read_text(encoding="utf-8"))] == []


def test_a_variable_that_is_kept_out_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("VERILATOR_ROOT", "VERILATOR_BIN"):  # libraries set them in this process
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COCOTB_LOG_LEVEL", "INFO")
    assert tool_environment.kept_out() == []
    monkeypatch.setenv("COCOTB_RESOLVE_X", "ZEROS")
    monkeypatch.setenv("WAVES", "1")
    monkeypatch.setattr(nf_run, "Recorder", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        nf_run.execute([], 1, "nothing")
    assert "simulations do not get COCOTB_RESOLVE_X, WAVES (docs/" in capsys.readouterr().err


def test_the_list_is_documented() -> None:
    text = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert [name for name in sorted(tool_environment.ALLOWED) if f"`{name}`" not in text] == []


def test_the_shell_does_not_choose_among_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "FORCE_COLOR", "PY_COLORS"}
    names |= {"PYTEST_PLUGINS", "PYTHONPATH", "PYTHONOPTIMIZE"}
    for name in names:
        monkeypatch.setenv(name, "2")
    program = f"import os; assert not {names} & set(os.environ)"
    assert steps.run("step", [sys.executable, "-c", f"{program}; assert False"]).returncode == 1
    assert steps.run("step", [sys.executable, "-c", program]).returncode == 0


def test_a_python_without_assertions_is_refused() -> None:
    words = [sys.executable, "-O", "-m", "scripts.cli.main", "list"]
    done = process.captured(words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nf: PYTHONOPTIMIZE (python -O) removes assertions; unset it.\n"
