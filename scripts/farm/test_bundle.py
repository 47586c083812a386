# SPDX-License-Identifier: Apache-2.0
"""Tests of bundles: named by content, never unpacked outside of their folder."""

from __future__ import annotations

import errno
import io
import os
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.common import git
from scripts.common.paths import ROOT
from scripts.conftest import git_by_somebody
from scripts.farm import bundle


def bundle_of(*names: str, attributes: int = 0o644 << 16) -> bytes:
    """Return a zip with these names; each file contains the text `../victim`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = attributes
            archive.writestr(entry, "../victim")
    return out.getvalue()


@pytest.mark.parametrize("name", ["../victim", "a/../../victim", "/HERE/victim"])
def test_nothing_is_written_outside(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    bundle.unpack(bundle_of("first", name.replace("/HERE", str(tmp_path))), tmp_path / "folder")
    assert victim.read_text(encoding="utf-8") == "mine"
    assert len([path for path in (tmp_path / "folder").rglob("*") if path.is_file()]) == 2


def test_a_link_or_a_device_becomes_a_plain_file(tmp_path: Path) -> None:
    for number, kind in enumerate((0o120777, 0o020666, 0o010666)):
        bundle.unpack(bundle_of("a", attributes=kind << 16), tmp_path / str(number))
        made = tmp_path / str(number) / "a"
        assert made.is_file()
        assert not made.is_symlink()


def test_links_of_a_run_stay_at_home(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "run.log").write_text("log", encoding="utf-8")
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (folder / "link").symlink_to(tmp_path / "secret")
    bundle.unpack(bundle.of_results(folder), tmp_path / "back")
    assert [p.name for p in (tmp_path / "back").rglob("*")] == ["deep", "run.log"]
    bundle.unpack(bundle.of_results(tmp_path / "never"), tmp_path / "empty")


def test_bundles_are_named_by_content(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("model", "x.o", "build.json"):
            (tmp_path / folder / name).write_text(name, encoding="utf-8")
    one, two = (bundle.of_build(tmp_path / folder) for folder in ("a", "b"))
    assert one == two
    bundle.unpack(one.data, tmp_path / "c")
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["build.json", "model"]
    (tmp_path / "b" / "model").write_text("another", encoding="utf-8")
    assert bundle.of_build(tmp_path / "b").digest != one.digest


# -- what is sent -------------------------------------------------------------------------------
TRACKED = ("hdl/a.sv", "README.md", ".ci/run")
SOURCES = ("hdl/new.sv", "verif/tests/test_new.py", "scripts/build/tool.py", "verif/plan/new.yaml")
PRIVATE = (
    *(".env", "id_rsa", "server.pem", "notes.txt", "hdl/.env", "verif/.hidden.py", "other/x.py"),
    *("verif/id_rsa", "verif/id_rsa.py", "scripts/api_token.yaml", "scripts/secrets.py"),
    *("verif/credentials.json", "models/my-key.yaml", "verif/passwords.toml", "hdl/private/x.sv"),
    *("verif/dump.npz", "verif/build.log", "scripts/.cache/x.py", "verif/auth.json"),
)


def tree_of(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")


def checkout(root: Path) -> Path:
    """Make a git checkout with tracked files, untracked files of all kinds, and links."""
    tree_of(root, *TRACKED)
    (root / "LICENSE").symlink_to("README.md")
    (root / "out").symlink_to("/etc/passwd")
    git_by_somebody(root, "init")
    git_by_somebody(root, "add", ".")
    tree_of(root, *SOURCES, *PRIVATE)
    (root / "hdl" / "link.sv").symlink_to(root.parent / "outside.sv")
    (root / "hdl" / "hidden.sv").symlink_to("../.env")
    (root / "verif" / "git.yaml").symlink_to("../.git/config")
    return root


def sent(made: bundle.Bundle, place: Path) -> set[str]:
    bundle.unpack(made.data, place)
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}


def test_untracked_files_go_along_by_name_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "outside.sv").write_text("mine", encoding="utf-8")
    root = checkout(tmp_path / "tree")
    found = sent(bundle.of_sources(root), tmp_path / "there")
    assert found == {*TRACKED, *SOURCES, "LICENSE"}
    said = capsys.readouterr().err
    assert said == (
        "nf: 4 untracked source files go to the cluster workers, too; "
        f"{len(PRIVATE) + 3} untracked files stay here (git add what a run needs): "
        f"{', '.join(sorted(SOURCES))}\n"
    )


def test_a_folder_on_the_way_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    tree_of(root, "hdl/a.sv", "verif/b.py")
    git_by_somebody(root, "init")
    git_by_somebody(root, "add", ".")
    (root / "hdl").rename(tmp_path / "elsewhere")
    (root / "hdl").symlink_to(tmp_path / "elsewhere")
    assert sent(bundle.of_sources(root), tmp_path / "there") == {"verif/b.py"}


def test_sources_without_git(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "tree"
    code = ("scripts/common/cause_key.py",)
    tree_of(root, *TRACKED, *SOURCES, *PRIVATE, *code, "build/x.py", "hdl/a.pyc")
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    found = sent(bundle.of_sources(root), tmp_path / "there")
    assert found == {"hdl/a.sv", *SOURCES, *code}
    assert capsys.readouterr().err == ""


def test_all_code_of_the_project_goes_along_without_git() -> None:
    """Check that `_is_source` accepts all code files of this project."""
    names = [path.relative_to(ROOT) for path in git.files()]
    code = [name for name in names if name.parts[0] in bundle._FOLDERS]
    wanted = {".py", ".sv", ".svh", ".f", ".vlt", ".yaml", ".cpp", ".h", ".c", ".toml", ".j2"}
    lost = [n for n in code if n.suffix in wanted and not bundle._is_source(n)]
    assert lost == []


def test_a_link_of_a_build_stays_at_home(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine", encoding="utf-8")
    tree_of(tmp_path / "build", "model")
    (tmp_path / "build" / "link").symlink_to(tmp_path / "secret")
    assert sent(bundle.of_build(tmp_path / "build"), tmp_path / "there") == {"model"}


# -- damage and limits --------------------------------------------------------------------------
def whole() -> bytes:
    """Return a bundle with a few files and folders, one with a long name."""
    with tempfile.TemporaryDirectory() as folder:
        tree_of(Path(folder), "a", "b/c", "b/d", f"{'long' * 40}/ü")
        return bundle.pack(Path(folder), (p for p in Path(folder).rglob("*") if p.is_file())).data


WHOLE = whole()


def unpack_or_refuse(data: bytes) -> bool:
    """Unpack into a new folder; return whether it worked.

    It checks that all files exist or none, and none outside the folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "new")
        try:
            bundle.unpack(data, place)
        except bundle.BundleError as error:
            said = str(error)
        else:
            said = ""
        assert "\n" not in said
        assert not said or not any(place.iterdir())
        assert [path.name for path in Path(folder).iterdir()] == ["new"]
        return not said


@given(st.integers(0, len(WHOLE) - 1))
def test_a_bundle_that_is_cut_short(end: int) -> None:
    assert not unpack_or_refuse(WHOLE[:end])


Flips = st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)), max_size=4)


@settings(max_examples=300, deadline=None)
@given(Flips)
def test_flipped_bytes_of_a_bundle(flips: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, change in flips:
        data[place] ^= change
    unpack_or_refuse(bytes(data))


def test_a_size_that_is_too_small_is_no_bomb() -> None:
    """Check that a zip whose header claims fewer bytes than its data have is refused."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(1 << 20))
    size = (1 << 20).to_bytes(4, "little")
    assert not unpack_or_refuse(out.getvalue().replace(size, (9).to_bytes(4, "little")))


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "chmod", full)  # of the first file
    with pytest.raises(bundle.BundleError, match=r"unpacked to .*: No space left on device"):
        bundle.unpack(WHOLE, tmp_path / "new")
    assert not any((tmp_path / "new").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("names", [("a", "a/b"), (".", "b"), ("x" * 300,)])
def test_names_that_a_disk_does_not_take(names: tuple[str, ...]) -> None:
    assert not unpack_or_refuse(bundle_of(*names))
