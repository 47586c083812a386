# SPDX-License-Identifier: Apache-2.0
"""Tests of two commands in one tree: separate folders, and nothing removed by `nf clean`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from neuron_fabric.lock import Lock
from scripts.build import build_cache
from scripts.build.build_cache import MADE, STAMP
from scripts.cli import capture, clean
from scripts.common import folder_locks, paths
from scripts.common.errors import NfError
from scripts.conftest import QUICK, Project
from scripts.run.replay_simulators import Simulators

CLAIMS = """
import sys
from pathlib import Path
from scripts.common import folder_locks
print(folder_locks.folder(Path(sys.argv[1])), flush=True)
sys.stdin.read()  # ends with the test, whatever comes of it
"""


def claims(path: Path, build_folder: Path) -> subprocess.Popen[str]:
    """Start another process that claims a folder with `folder_locks`, prints it and waits."""
    return subprocess.Popen(
        [sys.executable, "-c", CLAIMS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "NF_BUILD": str(build_folder)},
    )


@contextmanager
def command(path: Path, build_folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Context of another process that claims a folder; the value is the process and the folder."""
    with claims(path, build_folder) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Set the build folder of this process to one of the test, without locks, and return it."""
    place = tmp_path / "build"
    for module in (paths, clean, build_cache):
        monkeypatch.setattr(module, "BUILD", place, raising=False)
    monkeypatch.setattr(clean, "ROOT", tmp_path)
    monkeypatch.setattr(clean, "SIM_BUILDS", place / "sim")
    monkeypatch.setattr(folder_locks, "_held", {})
    monkeypatch.setattr(folder_locks, "_folders", {})
    yield place
    folder_locks.release()


def clean_words(*words: str) -> int:
    import argparse

    parser = argparse.ArgumentParser()
    clean.add_arguments(parser)
    return clean.run(parser.parse_args(words))


def test_commands_at_work_at_once_have_folders_of_their_own(tree: Path) -> None:
    runs = tree / "runs"
    with command(runs, tree) as (first, one), command(runs, tree) as (_, two):
        assert {one, two} == {str(runs), f"{runs}.2"}
        assert folder_locks.folder(runs) == tree / "runs.3"
        assert folder_locks.folder(runs) == tree / "runs.3"
        first.send_signal(signal.SIGKILL)
        first.wait()
        with command(runs, tree) as (_, again):
            assert again == one


def test_clean_leaves_a_tree_alone_that_is_in_use(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for word in ("--days=1", "--all"):
        with command(tree / "runs", tree) as (process, _):
            (tree / "kept").touch()
            with pytest.raises(NfError, match=rf"in use by `-c` \(process {process.pid}\)"):
                clean_words(word)
            assert (tree / "kept").exists()
        assert clean_words(word) == 0
    assert not tree.exists()
    assert "removed build/" in capsys.readouterr().out


def test_who_waits_for_clean_finds_a_tree(tree: Path) -> None:
    tree.mkdir()
    lock = folder_locks.alone()
    with claims(tree / "runs", tree) as process:
        assert process.stdout is not None
        clean._all(lock.path)
        lock.release()
        assert process.stdout.readline().strip() == str(tree / "runs")
        process.kill()


def test_clean_of_a_link_says_that_it_does_nothing(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "kept").touch()
    tree.symlink_to(tmp_path / "disk")
    with pytest.raises(NfError, match=r"build/ is a link: remove what is in .*disk yourself"):
        clean_words("--all")
    assert (tree / "kept").exists()


def test_clean_removes_what_builds_have_made_and_nothing_else(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sim = tree / "sim"
    names = {"old-a": STAMP, "half-b": MADE, "thesis-final": "text", "new-c": STAMP}
    for name, file in names.items():
        (sim / name).mkdir(parents=True)
        (sim / name / file).touch()
    os.utime(sim / "old-a" / STAMP, (0, 0))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / MADE).touch()
    (sim / "link-d").symlink_to(tmp_path / "elsewhere")
    assert clean_words() == 0
    assert sorted(path.name for path in sim.iterdir()) == ["link-d", "new-c", "thesis-final"]
    assert (tmp_path / "elsewhere" / MADE).exists()
    assert "removed 2 builds" in capsys.readouterr().out


def test_a_build_takes_the_place_of_nothing_else(tree: Path, tmp_path: Path) -> None:
    folder = tree / "sim" / "verilator-x"
    folder.mkdir(parents=True)
    (folder / "mine").touch()
    with pytest.raises(NfError, match="holds something else than a build"):
        build_cache.once(folder, lambda _: {})
    assert (folder / "mine").exists()
    link = tree / "sim" / "verilator-y"
    link.symlink_to(tmp_path)
    with pytest.raises(NfError, match="is a link, and a build would go there"):
        build_cache.once(link, lambda _: {})
    assert build_cache.once(tree / "sim" / "z", lambda _: {}).cached is False


def test_what_a_command_fills_is_its_own(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that replays and captures at the same time get different folders."""
    files, captures = tree / "replay", tree / "captures"
    monkeypatch.setattr(capture, "CAPTURES", captures)
    for folder in (files, captures):
        folder.mkdir(parents=True)
    with Lock(files / "x"), Lock(captures / "train"):
        assert Simulators(files=files).workspace("x") == files / "x.2"
        assert capture._free_folder("train") == captures / "train-2"
    assert Simulators(files=files).workspace("y" * 300).is_dir()


def test_who_builds_holds_the_tree(tree: Path) -> None:
    build_cache.once(tree / "sim" / "x", lambda _: {})
    with pytest.raises(NfError, match="in use by"):
        folder_locks.alone()


def test_a_run_beside_another_command(project: Project) -> None:
    """Check that `nf run` leaves the folders of another command alone, and passes with a report."""
    runs = project.folder / "build" / "runs"
    with command(runs, runs.parent) as (_, other):
        kept = Path(other) / "test_toy.adds_one" / "kept"
        kept.parent.mkdir(parents=True)
        kept.touch()
        code, text = project.nf("run", "test_toy::adds_one", "--sim", str(QUICK), "--seeds", "3")
    assert code == 0, text
    assert kept.exists()
    records = project.records()
    assert len(records) == 3
    assert {Path(record.log).parents[1].name for record in records} == {"runs.2"}


def test_a_full_disk_under_a_build_is_named(tree: Path) -> None:
    def full(_: Path) -> dict[str, str]:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=rf"No space left on device: '{tree}/sim/x'"):
        build_cache.once(tree / "sim" / "x", full)
