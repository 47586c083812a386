# SPDX-License-Identifier: Apache-2.0
"""Bundles: named by content, never written outside of their folder."""

from __future__ import annotations

import errno
import gzip
import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.common import git
from scripts.common.paths import ROOT
from scripts.conftest import git_by_somebody
from scripts.farm import bundle


def tar_of(*entries: tarfile.TarInfo) -> bytes:
    """Return a bundle as an attacker might make it; the content of files is `bad`."""
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
    """Make a checkout with untracked files of all kinds, and links."""
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
    code = ("scripts/record/cause_key.py", "conftest.py")
    tree_of(root, *TRACKED, *SOURCES, *PRIVATE, *code, "build/x.py", "hdl/a.pyc")
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    found = sent(bundle.of_sources(root), tmp_path / "there")
    assert found == {"hdl/a.sv", *SOURCES, *code}
    assert capsys.readouterr().err == ""


def test_all_code_of_the_project_goes_along_without_git() -> None:
    """The names of the rule must be those of the tree."""
    names = [path.relative_to(ROOT) for path in git.files()]
    code = [name for name in names if name.parts[0] in bundle._FOLDERS]
    wanted = {".py", ".sv", ".svh", ".f", ".vlt", ".yaml", ".cpp", ".h", ".c", ".toml", ".j2"}
    lost = [n for n in code if n.suffix in wanted and not bundle._is_source(n, False)]
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
TEXT = gzip.decompress(WHOLE)


def unpack_or_refuse(data: bytes) -> bool:
    """Unpack into a new folder; return whether it worked. Check that all files are there or none,
    and none outside."""
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


@given(st.integers(0, len(TEXT) // 512))
def test_a_tar_that_is_cut_short(blocks: int) -> None:
    """Python accepts a tar that ends after a file."""
    taken = unpack_or_refuse(gzip.compress(TEXT[: 512 * blocks], 1))
    assert not taken or not TEXT[512 * blocks :].strip(b"\0")


Flips = st.lists(st.tuples(st.integers(0, len(TEXT) - 1), st.integers(1, 255)), max_size=4)


@given(Flips)
def test_flipped_bytes_of_a_bundle(flips: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, change in flips:
        data[place % len(WHOLE)] ^= change
    with_bytes = bytes(data)
    if unpack_or_refuse(with_bytes):  # only what the checksum leaves out, as the time
        assert gzip.decompress(with_bytes) == TEXT


def check_flips(flips: list[tuple[int, int]]) -> None:
    """Set bytes in the tar and correct the checksums of its headers."""
    text = bytearray(TEXT)
    for place, value in flips:
        text[place] = value
    for start in range(0, len(text), 512):
        if text[start + 257 : start + 262] == b"ustar":
            text[start + 148 : start + 156] = b" " * 8
            total = sum(text[start : start + 512])
            text[start + 148 : start + 156] = b"%06o\0 " % (total % (1 << 18))
    unpack_or_refuse(gzip.compress(bytes(text), 1))


@given(Flips)
def test_odd_headers(flips: list[tuple[int, int]]) -> None:
    check_flips(flips)


@pytest.mark.nightly("the same, with 3,000 draws")
@settings(max_examples=3_000, deadline=None)
@given(Flips)
def test_many_odd_headers(flips: list[tuple[int, int]]) -> None:
    check_flips(flips)


def sized(size: int, name: str = "a", kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return a bundle whose header claims a size, without data."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024), 1)


@pytest.mark.parametrize("size", [1 << 60, -512, -(1 << 40), 1 << 30])
@pytest.mark.parametrize("kind", [b"0", b"x", b"L", b"S", b"g"])
def test_sizes_that_are_none(size: int, kind: bytes) -> None:
    assert not unpack_or_refuse(sized(size, kind=kind))


def test_bombs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Too many bytes in total, in one file, or too many files are refused by packer and
    unpacker."""
    tree_of(tmp_path / "many", *(f"f{number}" for number in range(9)))
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "f").write_bytes(bytes(50_000))
    many, large = (list((tmp_path / name).iterdir()) for name in ("many", "large"))
    packed = [bundle.pack(one[0].parent, one).data for one in (many, large)]
    for limit, value in (("MAX_FILES", 8), ("MAX_BYTES", 20_000), ("MAX_FILE_BYTES", 20_000)):
        files, data = (many, packed[0]) if limit == "MAX_FILES" else (large, packed[1])
        with monkeypatch.context() as patch:
            patch.setattr(bundle, limit, value)
            with pytest.raises(bundle.BundleError, match="takes"):
                bundle.pack(files[0].parent, files)
            assert not unpack_or_refuse(data)
        assert unpack_or_refuse(data)


def test_a_bomb_is_refused_before_it_fills_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(bundle, "MAX_BYTES", 1 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bomb = gzip.compress(gzip.compress(bytes(1 << 24)), 1)
    part = gzip.compress(bytes(1 << 24))
    for data in (bomb, part, part * 8):
        assert not unpack_or_refuse(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 17  # KiB


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
    assert not unpack_or_refuse(tar_of(*map(entry, names)))
