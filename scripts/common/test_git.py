# SPDX-License-Identifier: Apache-2.0
"""Tests that git works on the intended checkout, whatever the environment and settings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scripts.cli import test as nf_test
from scripts.common import git
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.conftest import git_by_somebody
from scripts.plan import depends

STRANGER = 12345


def repository(folder: Path, text: str = "mine") -> str:
    """Make a repository with one commit of one file, and return the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.txt").write_text(text, encoding="utf-8")
    git_by_somebody(folder, "init", "-q")
    git_by_somebody(folder, "add", ".")
    git_by_somebody(folder, "commit", "-qm", "one")
    return git_by_somebody(folder, "rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository and set it as the root of this checkout."""
    root = tmp_path / "checkout"
    repository(root)
    for module in (depends, git, nf_test):
        monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(git.text, "__kwdefaults__", {"root": root})
    return root


def state(root: Path) -> dict[str, bytes]:
    """Return the content of every file of a repository by path, the git folder included."""
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def test_no_variable_of_a_hook_reaches_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = git.text("rev-parse", "--local-env-vars").split()
    assert "GIT_DIR" in listed
    for name in listed:
        monkeypatch.setenv(name, "/nowhere")
    assert not git.environment(tmp_path).keys() & set(listed)


HERE = Path(__file__)
ODD = dict(
    line.split("=", 1)
    for line in HERE.with_suffix(".env").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)
CONFIG = HERE.with_suffix(".ini").read_text(encoding="utf-8")


@pytest.mark.parametrize("odd_config", [False, True])
def test_surroundings_choose_no_other_repository(tmp_path: Path, odd_config: bool) -> None:
    """Check that GIT_* variables and user settings do not lead git to another repository.

    A repository is made, written and read inside a victim, which the variables name and which must
    not change.
    """
    victim, home = tmp_path / "victim", tmp_path / "home"
    repository(victim, "yours")
    before = state(victim)
    home.mkdir()
    (home / ".gitconfig").write_text(CONFIG if odd_config else "", encoding="utf-8")
    root = victim / "inside"  # a folder below a foreign repository
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ODD.items():
            patch.setenv(name, value.format(victim=victim, root=root))
        patch.setenv("HOME", str(home))
        commit = repository(root)
        (root / "new \u00e9").touch()
        assert git.text("rev-parse", "--abbrev-ref", "HEAD", root=root).strip()
        assert git.text("rev-parse", "HEAD", root=root).strip() == commit
        assert git.files(root) == [root / "a.txt"]
        others = git.text("ls-files", "--others", "--exclude-standard", "-z", root=root)
        assert others == "new \u00e9\0"
        with pytest.raises(git.GitError, match=r"^git log: fatal: .*nothing"):
            git.text("log", "nothing", root=root)
    after = state(victim)
    assert {name: after[name] for name in before} == before


def test_a_parent_repository_is_not_ours(tmp_path: Path) -> None:
    """Check an archive unpacked below a foreign repository: it has its files and no commit."""
    repository(tmp_path)
    root = tmp_path / "unpacked"
    for name in ("a.py", "scripts/build/b.py", "package/build/c.py", "package/pyproject.toml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / ".hidden").touch()
    for broken in (False, True):  # an empty .git is no repository either
        if broken:
            (root / ".git").mkdir()
        with pytest.raises(git.GitError, match="not a git"):
            git.text("rev-parse", "HEAD", root=root)
    (root / ".git").rmdir()
    found = {path.relative_to(root).as_posix() for path in git.files(root)}
    assert found == {"a.py", "scripts/build/b.py", "package/pyproject.toml"}


def test_a_linked_worktree(tmp_path: Path) -> None:
    commit = repository(tmp_path / "first")
    git_by_somebody(tmp_path / "first", "worktree", "add", "-q", "--detach", str(tmp_path / "two"))
    assert (tmp_path / "two" / ".git").is_file()
    assert git.text("rev-parse", "HEAD", root=tmp_path / "two").strip() == commit
    assert git.files(tmp_path / "two") == [tmp_path / "two" / "a.txt"]


@pytest.mark.skipif(os.getuid() != 0, reason="gives a checkout to another user")
def test_a_checkout_of_another_user(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that git works as root on a checkout of another user, as in a container of CI."""
    monkeypatch.setenv("HOME", str(checkout.parent / "home"))
    for place, folders, names in os.walk(checkout.parent):
        for name in (*folders, *names):
            os.chown(Path(place, name), STRANGER, STRANGER)
    commit = git.text("rev-parse", "HEAD").strip()
    assert git.revision() == commit[:12]
    assert nf_test.drawn_seed() == int(commit[:7], 16)
    (checkout / "a.txt").write_text("changed", encoding="utf-8")
    assert depends.changed_since("HEAD") == {checkout / "a.txt"}
    assert git.files(checkout) == [checkout / "a.txt"]
    assert capsys.readouterr().err == ""


def test_a_sample_without_a_commit(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the seed of the sample of mutants without a commit.

    An archive draws by the date; a repository that git cannot read is an error, never seed 1.
    """
    (checkout / ".git" / "HEAD").write_text("nothing", encoding="utf-8")
    with pytest.raises(NfError, match=r"git describe: fatal: .*--seed"):
        nf_test.drawn_seed()
    (checkout / ".git").rename(tmp_path / "gone")
    assert nf_test.drawn_seed() > 700_000


def test_git_is_run_in_one_place(tmp_path: Path) -> None:
    from scripts.checks import file_rules

    assert file_rules.git_elsewhere(ROOT) == []
    sources = {
        "list.py": 'subprocess.run(["git", "log"])',
        "tuple.py": 'words = (*first, "/usr/bin/git", "log")',
        "argument.py": 'create_subprocess_exec("git", "log")',
        "line.py": 'os.system("git log")',
        "form.py": 'subprocess.run(f"git log {name}", shell=True)',
        "split.py": 'shlex.split("exec git log")',
        "library.py": "import git.repo",
        "from.py": "from pygit2 import Repository",
        "a.sh": "cd x && git log",
        "b.sh": "x=$(git log)",
        "c.yml": "      - run: git log",
        "Makefile": "a:\n\t@git log",
    }
    fine = {
        "error.py": 'raise NfError("git log needs a repository")',
        "word.py": 'x = {"git": 1}["git"]',
        "fine.py": "from scripts.common import git",
        "fine.sh": "apt-get install git make  # git log\nsay 'a git checkout'",
    }
    for name, source in {**sources, **fine}.items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    found = {line.partition(":")[0] for line in file_rules.git_elsewhere(tmp_path)}
    assert found == set(sources)


def test_line_ends_are_lf_in_every_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that all tracked text files have LF, also where the user's git would write CRLF."""
    allowed = ("i/lf w/lf attr/text=auto eol=lf", "i/-text w/-text attr/-text")
    listed = [line.split("\t") for line in git.text("ls-files", "--eol").splitlines()]
    ends = {name: " ".join(how.split()).replace("none", "lf") for how, name in listed}
    odd = [
        name for name, end in ends.items() if end not in allowed and not (ROOT / name).is_symlink()
    ]
    assert odd == []
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\nautocrlf = true\neol = crlf\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    shutil.copy(ROOT / ".gitattributes", tmp_path)
    shutil.copy(ROOT / "scripts/setup.sh", tmp_path)
    repository(tmp_path)
    (tmp_path / "setup.sh").unlink()
    git.text("checkout", "-q", "--", "setup.sh", root=tmp_path)
    assert (tmp_path / "setup.sh").read_bytes() == (ROOT / "scripts/setup.sh").read_bytes()
