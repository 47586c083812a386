# SPDX-License-Identifier: Apache-2.0
"""Tests that versions agree, and that a release is one commit with its tag or changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.checks import release
from scripts.common import git
from scripts.common.errors import NfError, run_main
from scripts.common.paths import ROOT
from scripts.conftest import git_by_somebody

DATE = "2026-12-01"
CHANGES = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A mode.\n"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout with the files of a release at version 0.1.0, none of them released."""
    for name, pattern in release.PLACES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub("\ndate-released: .*", "", pattern.sub("0.1.0", text))
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / release.CHANGELOG).write_text(CHANGES, encoding="utf-8")
    git_by_somebody(tmp_path, "init", "-q")
    for key in ("user.name", "user.email"):
        git_by_somebody(tmp_path, "config", key, "somebody")
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    git_by_somebody(root, "add", ".")
    git_by_somebody(root, "commit", "-qm", "change")


def test_a_release_is_one_commit_with_its_tag(root: Path) -> None:
    """Check the first release with the version that the files have, and one after it."""
    assert release.release("0.1.0", root, DATE) == "v0.1.0"
    edit(root / release.CHANGELOG, "[Unreleased]\n", "[Unreleased]\n\n- Another.\n")
    commit(root)
    assert release.release("0.2.0rc1", root, "2026-12-24") == "v0.2.0rc1"
    assert git_by_somebody(root, "describe", "--dirty") == "v0.2.0rc1"
    assert git_by_somebody(root, "rev-list", "--count", "HEAD") == "4"
    assert release.problems(root) == []
    text = (root / release.CHANGELOG).read_text(encoding="utf-8")
    assert re.findall("^(?:##|-) .*", text, re.M) == [
        *("## [Unreleased]", "## [0.2.0rc1] - 2026-12-24", "- Another."),
        *("## [0.1.0] - 2026-12-01", "- A mode."),
    ]
    cited = (root / release.CITATION).read_text(encoding="utf-8")
    assert "\nversion: 0.2.0rc1\ndate-released: 2026-12-24\n" in cited
    assert cited.count("date-released") == 1


REFUSED = {
    "a dirty tree": ("0.2.0", "files differ from the last commit"),
    "no changes": ("0.2.0", "the section Unreleased is empty"),
    "a tag": ("0.2.0", "has the tag v0.2.0 already"),
    "versions differ": ("0.2.0", "version 0.1.1, neuron_fabric/version.py has 0.1.0"),
    "a smaller version": ("0.0.9", "0.0.9: is not greater than 0.1.0"),
    "the released version": ("0.1.0", "0.1.0: is not greater than 0.1.0"),
    "another form": ("v0.2.0", "v0.2.0: is no version in its normal form; write 0.2.0"),
    "no version": ("next", "next: is no version in its normal form; write X.Y.Z"),
    "no commit": ("0.2.0", "git commit: "),
    "no tag": ("0.2.0", "git tag: no"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_changes_nothing(
    what: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, why = REFUSED[what]
    match what:
        case "a dirty tree":
            (root / "scratch.txt").touch()
        case "no changes":
            edit(root / release.CHANGELOG, "- A mode.", "")
        case "a tag":
            git_by_somebody(root, "tag", "v0.2.0")
        case "versions differ":
            edit(root / "CITATION.cff", "0.1.0", "0.1.1")
        case "the released version":
            edit(root / release.CHANGELOG, "### Added", f"- One.\n\n## [0.1.0] - {DATE}")
        case "no commit":
            git_by_somebody(root, "config", "user.useConfigOnly", "true")
            git_by_somebody(root, "config", "--unset", "user.email")
            monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        case "no tag":
            real = git.text
            fails = git.GitError("git tag: no")

            def text(*words: str, root: Path) -> str:
                if words[:2] == ("tag", "--annotate"):
                    raise fails
                return real(*words, root=root)

            monkeypatch.setattr(git, "text", text)
    if what != "a dirty tree":
        git_by_somebody(root, "add", ".")
        git_by_somebody(root, "commit", "-q", "--allow-empty", "-m", "change")
    head, status = (git_by_somebody(root, *w) for w in (("rev-parse", "HEAD"), ("status", "-s")))
    with pytest.raises(NfError, match=re.escape(why)):
        release.release(version, root, DATE)
    assert git_by_somebody(root, "rev-parse", "HEAD") == head
    assert git_by_somebody(root, "status", "-s") == status


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("CITATION.cff", "version: 0.1.0", "", "version missing, neuron_fabric"),
        ("cocotbext/cxl/__init__.py", '"0.1.0"', '"0.1.1"', "version 0.1.1, neuron_fabric"),
        ("neuron_fabric/version.py", "VERSION", "NUMBER", "version missing, neuron_fabric"),
        ("CHANGELOG.md", "## [Unr", f"## [0.1.0] - {DATE}\n## [Unr", "its first section is not"),
        ("CHANGELOG.md", "### Added", "## [0.1.0]", "0.1.0: give the date"),
        ("CHANGELOG.md", "### Added", f"## [0.2.0] - {DATE}", "CHANGELOG.md: version 0.2.0,"),
    ],
)
def test_versions_that_differ_are_found(
    name: str, old: str, new: str, why: str, root: Path
) -> None:
    assert release.problems(root) == []
    edit(root / name, old, new)
    assert why in " ".join(release.problems(root))


def test_an_error_of_a_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise NfError("no tag")

    with pytest.raises(SystemExit, match="2"):
        run_main("release", fails)
    assert capsys.readouterr().err == "release: no tag\n"


def test_bad_words_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        release.main([])
    assert "required: VERSION" in capsys.readouterr().err
