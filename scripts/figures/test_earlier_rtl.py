# SPDX-License-Identifier: Apache-2.0
"""Tests of the RTL of an earlier commit: its own files and file list; a clone may lack it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.build.filelist import read_filelist
from scripts.conftest import git_by_somebody as git
from scripts.figures import synth_figure


def test_files_are_those_of_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the unpacked RTL is that of the commit: removed sources exist, changes do not.

    A missing commit, or no git, raises NotHere.
    """
    root = tmp_path / "a project"
    (root / "hdl/common").mkdir(parents=True)
    (root / "hdl/nf_controller.f").write_text("+incdir+hdl/common\nhdl/a.sv\n", encoding="utf-8")
    (root / "hdl/a.sv").write_text("old", encoding="utf-8")
    (root / "hdl/common/a.svh").write_text("", encoding="utf-8")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "a")
    commit = git(root, "rev-parse", "--short", "HEAD")
    (root / "hdl/a.sv").unlink()
    (root / "hdl/nf_controller.f").write_text("hdl/b.sv\n", encoding="utf-8")
    monkeypatch.setattr(synth_figure, "ROOT", root)
    monkeypatch.setattr(synth_figure, "FOLDER", root / "build/synth")
    monkeypatch.setattr(synth_figure, "shown", lambda path: str(path.relative_to(root)))
    for _ in range(2):
        files = read_filelist(root, synth_figure.filelist_at(commit))
        assert files.sources == (f"build/synth/at-{commit}/hdl/a.sv",)
        assert files.includes == (f"build/synth/at-{commit}/hdl/common",)
        assert (root / files.sources[0]).read_text(encoding="utf-8") == "old"
    with pytest.raises(synth_figure.NotHere, match=r"commit 1234567 is not in .*: fatal: "):
        synth_figure.filelist_at("1234567")
    synth_figure.unpack(
        commit, root / "build/synth" / f"at-{commit}", "hdl"
    )  # by another command meanwhile
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(synth_figure.NotHere, match="git does not start"):
        synth_figure.filelist_at("1234567")
    assert [one.name for one in (root / "build/synth").iterdir()] == [f"at-{commit}"]
