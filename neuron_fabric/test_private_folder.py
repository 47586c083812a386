# SPDX-License-Identifier: Apache-2.0
"""Tests of private folders: those that another user can change are found."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from neuron_fabric.private_folder import make_private, private_temporary, who_else


def test_a_path_is_as_safe_as_its_weakest_part(tmp_path: Path) -> None:
    inner = make_private(tmp_path / "a" / "b")
    assert who_else(inner) == ""
    assert who_else(inner / "not" / "there") == ""
    inner.chmod(0o702)
    assert who_else(inner) == "others may write to it"
    assert who_else(inner / "c") == f"others may write to {inner}"
    inner.chmod(0o1777)
    assert who_else(inner) == "others may write to it"  # they can add names
    assert who_else(inner / "c") == ""
    (tmp_path / "link").symlink_to(inner)
    assert who_else(tmp_path / "link") == "others may write to it"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert who_else(tmp_path / "loop") == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_the_owner_of_a_parent_counts(tmp_path: Path) -> None:
    inner = make_private(tmp_path / "a" / "b")
    os.chown(inner.parent, 4711, -1)
    assert who_else(inner) == f"{inner.parent} belongs to user 4711"
    assert who_else(inner, trusted=4711) == ""
    with pytest.raises(PermissionError, match="belongs to user 4711"):
        make_private(inner)


def test_the_group_of_all_users_counts(tmp_path: Path) -> None:
    folder = make_private(tmp_path / "a")
    os.chown(folder, -1, os.getgroups()[0] if os.getuid() else 4711)
    folder.chmod(0o770)
    if os.getuid() == 0 or os.getgroups()[0] != os.getgid():
        assert who_else(folder) == "others may write to it"


def test_a_temporary_folder_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = private_temporary()
    assert folder == tmp_path / f"neuron-fabric-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_temporary() == folder
    folder.chmod(0o750)
    with pytest.raises(PermissionError, match="only this user can enter; remove it, or set TMPDIR"):
        private_temporary()
    folder.rmdir()
    folder.symlink_to(make_private(tmp_path / "elsewhere"))
    with pytest.raises(PermissionError, match="is not a folder"):
        private_temporary()
