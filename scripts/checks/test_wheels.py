# SPDX-License-Identifier: Apache-2.0
"""Tests of the check of wheels: it finds missing and foreign files, and failing tests."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from scripts.checks import wheels
from scripts.common.errors import NfError
from scripts.common.paths import ROOT

SOURCE = ROOT / "neuron_fabric"


def test_a_wheel_holds_the_tracked_files_and_nothing_else(tmp_path: Path) -> None:
    """Check the errors for a wheel with an untracked file, a missing tracked file, and a test."""
    copy = tmp_path / "neuron_fabric"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    settings = copy / "pyproject.toml"
    text = settings.read_text(encoding="utf-8")
    assert '  "neuron_fabric.capture",\n' in text
    settings.write_text(text.replace('  "neuron_fabric.capture",\n', ""), encoding="utf-8")
    (copy / "scratch.py").touch()
    (copy / "capacity" / "tests.py").touch()
    (copy / "capacity" / "test_it.py").touch()
    sdist, wheel = wheels.build(copy, tmp_path)
    tracked = wheels.tracked(SOURCE)
    *lacks, first, second = wheels.problems(wheel, "neuron_fabric", tracked)
    assert f"{wheel.name} lacks neuron_fabric/capture/reader.py" in lacks
    assert not [line for line in lacks if "test" in line]
    assert first.endswith("has neuron_fabric/capacity/tests.py, which git does not track")
    assert second.endswith("has neuron_fabric/scratch.py, which git does not track")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("neuron_fabric/tests/ddp/law_run.py", "")
    shipped = wheels.problems(wheel, "neuron_fabric", tracked)[-1]
    assert shipped.endswith("has neuron_fabric/tests/ddp/law_run.py, which is a test")
    assert not (copy / "build").exists()
    (foreign, *more) = wheels.problems(sdist, "neuron_fabric", [*tracked, "lost.md"])
    assert foreign == f"{sdist.name} lacks lost.md"
    assert [line.split()[2] for line in more] == [
        *("capacity/test_it.py,", "capacity/tests.py,", "scratch.py,")
    ]
    needed = wheels.needed(wheel)
    assert needed >= {"numpy", "safetensors", "pytest", "pluggy"}
    assert "torch" not in needed


def test_metadata_that_an_index_would_refuse_is_one_line(tmp_path: Path) -> None:
    wheel = tmp_path / "mine-1.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mine-1.dist-info/METADATA", "Metadata-Version: 2.4\nName: mine\n")
    with pytest.raises(NfError, match=r"^mine-1.whl: its metadata is wrong: .*version"):
        wheels.needed(wheel)


def test_dependencies_are_installed_by_hash() -> None:
    (line,) = wheels.pinned({"numpy"}).splitlines()
    assert line.startswith("numpy==")
    assert " --hash=sha256:" in line
    with pytest.raises(NfError, match="has no pin of left-pad, which a package depends on"):
        wheels.pinned({"numpy", "left-pad"})


def test_what_fails_outside_of_the_tree_is_shown(tmp_path: Path) -> None:
    assert wheels.run(Path(sys.executable), ["-c", "print('well')"], tmp_path) == []
    lines = wheels.run(Path(sys.executable), ["-c", "raise SystemExit('no such file')"], tmp_path)
    assert lines[0] == "no such file"
    assert lines[-1].endswith("ended with code 1 outside of the tree")


@pytest.mark.parametrize(("words", "every"), [((), False), (("--all",), True)])
def test_what_runs_in_the_tree_is_collected(
    words: tuple[str, ...], every: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that `--all` alone runs tests that `nf test` runs too, and installs source archives."""
    ran: list[str] = []
    installed: list[str] = []

    def run(_: Path, words: Iterable[str], __: Path) -> list[str]:
        ran.extend(words)
        return []

    archives = (tmp_path / "it.tar.gz", tmp_path / "it.whl")
    monkeypatch.setattr(wheels, "build", lambda *_: archives)
    monkeypatch.setattr(wheels, "problems", lambda *_: [])
    monkeypatch.setattr(wheels, "needed", lambda *_: set())
    monkeypatch.setattr(wheels, "add_tests", lambda *_: None)
    monkeypatch.setattr(wheels, "install", lambda one, *_: installed.append(one.name))
    monkeypatch.setattr(wheels, "run", run)
    assert wheels.main(words) == 0
    assert ran.count("--collect-only") == (not every)
    assert sorted(installed) == ["it.tar.gz"] * 2 * every + ["it.whl"] * 2


@pytest.mark.parametrize("wrong", [False, True])
def test_archives_of_a_clean_check_are_kept(
    wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(package: wheels.Package, folder: Path, _: bool) -> bool:
        (folder / "dist").mkdir(parents=True)
        (folder / "dist" / f"{package.module}-1.whl").touch()
        return wrong and package is wheels.PACKAGES[0]

    monkeypatch.setattr(wheels, "check", check)
    assert wheels.main(["--out", str(tmp_path / "dist")]) == int(wrong)
    kept = [] if wrong else ["cocotbext.cxl-1.whl", "neuron_fabric-1.whl"]
    assert sorted(path.name for path in tmp_path.glob("dist/*")) == kept


def test_no_index_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setattr(wheels, "RETRIES", 0)
    with pytest.raises(NfError, match="is the package index reachable") as caught:
        wheels.install(tmp_path / "none.whl", {"numpy"}, tmp_path / "venv")
    assert len(str(caught.value).splitlines()) == 1


def test_the_suite_itself_is_no_package(tmp_path: Path) -> None:
    """Check that no wheel of the whole project can be built: it would have no RTL and no tree."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with pytest.raises(NfError, match=r"could not be built: .*make setup"):
        wheels.build(tmp_path, tmp_path / "out")
