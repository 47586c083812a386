# SPDX-License-Identifier: Apache-2.0
"""Bundles: named by content, and never written outside of their folder."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from scripts.farm import bundle


def tar_of(*entries: tarfile.TarInfo) -> bytes:
    """A bundle as another hand might make it; a file's content is `bad`."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for entry in entries:
            entry.size = 3 if entry.isreg() else 0
            tar.addfile(entry, io.BytesIO(b"bad"))
    return out.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, 0o644
    return made


OUTSIDE = {
    "link to a file": [entry("a", tarfile.SYMTYPE, "../victim"), entry("a")],
    "link to a folder": [entry("a", tarfile.SYMTYPE, ".."), entry("a/victim")],
    "hard link": [entry("a", tarfile.LNKTYPE, "../victim"), entry("a")],
    "link that stays inside": [entry("good"), entry("a", tarfile.SYMTYPE, "good")],
    "parent": [entry("../victim")],
    "parent on the way": [entry("a/../../victim")],
    "absolute": [entry("/HERE/victim")],
    "device": [entry("null", tarfile.CHRTYPE)],
    "pipe": [entry("pipe", tarfile.FIFOTYPE)],
}


@pytest.mark.parametrize("entries", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_nothing_is_written_outside(tmp_path: Path, entries: list[tarfile.TarInfo]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    for one in entries:
        one.name = one.name.replace("/HERE", str(tmp_path))
    with pytest.raises(bundle.BundleError):
        bundle.unpack(tar_of(entry("first"), *entries), tmp_path / "folder")
    assert victim.read_text(encoding="utf-8") == "mine"
    assert list((tmp_path / "folder").iterdir()) == []  # not even what was good


@pytest.mark.parametrize("cut", [0, 20, 60])
def test_a_damaged_bundle(tmp_path: Path, cut: int) -> None:
    with pytest.raises(bundle.BundleError, match="damaged"):
        bundle.unpack(tar_of(entry("first"))[:cut], tmp_path)


def test_a_name_twice(tmp_path: Path) -> None:
    bundle.unpack(tar_of(entry("a/b"), entry("a/b")), tmp_path)
    assert (tmp_path / "a" / "b").read_bytes() == b"bad"


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
