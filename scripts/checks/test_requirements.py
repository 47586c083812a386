# SPDX-License-Identifier: Apache-2.0
"""Tests that installed packages are pinned and hashed, and lists agree with lock files."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from pathlib import Path

import pytest

from scripts.checks import requirements, tracked_files
from scripts.common import process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, WORKFLOW

TORCH = "requirements-torch.lock"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with copies of the lists and the lock files."""
    for name in (*requirements.LISTS, *requirements.LISTS.values()):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.search(old, text, re.MULTILINE)
    path.write_text(re.sub(old, new, text, count=1, flags=re.MULTILINE), encoding="utf-8")


CHANGES = {
    "another version": ("requirements.txt", r"^numpy==[\d.]+", "numpy==1.0", "numpy 1.0"),
    "a new pin": ("requirements.txt", r"\Z", "left-pad==1.0  # why\n", "has left-pad"),
    "a pin that went": (
        "requirements.txt",
        r"^numpy==.*\n",
        "",
        "has numpy nothing",
    ),
    "a marker": (
        "requirements.txt",
        r"^numpy==\S+",
        r"\g<0> ; python_version < '3'",
        "< '3', ",
    ),
    "no hash": ("requirements.lock", r"^(numpy==\S+) (\\\n +--hash\S+ ?)+", r"\1", "no hash of"),
    "a pin of two lists": (
        "requirements-torch.lock",
        r"^cloudpickle==\S+",
        "cloudpickle==1.0",
        "requirements-torch.lock has cloudpickle 1.0, another lock file",
    ),
    "torch": ("requirements-torch.txt", r"^torch==\S+", "torch==1.0+cpu", "has torch 1.0+cpu"),
}


@pytest.mark.parametrize(("name", "old", "new", "text"), CHANGES.values(), ids=CHANGES.keys())
def test_a_list_that_its_lock_file_does_not_have(
    root: Path, name: str, old: str, new: str, text: str
) -> None:
    edit(root / name, old, new)
    (line,) = requirements.problems(root)
    assert text in line
    assert line.endswith("run `python -m scripts.checks.requirements`")


def test_what_is_no_pin_is_refused(root: Path) -> None:
    edit(root / "requirements.txt", r"^numpy==", "numpy>=")
    with pytest.raises(NfError, match=r"requirements\.txt: `numpy>=\S+` is no pin"):
        requirements.problems(root)


USES = {
    "used": ("", "", ""),
    "not used": (r"^numpy", "pip==1.0  # why\nnumpy", "nothing imports pip: remove it, or write"),
    "excused": (r"^numpy", "pip==1.0  # not imported: a program\nnumpy", ""),
    "needless excuse": (r"^(numpy\S+ +#)", r"\1 not imported: ", "numpy is imported"),
}


@pytest.mark.parametrize(("old", "new", "text"), USES.values(), ids=USES.keys())
def test_a_pin_that_nothing_uses(root: Path, old: str, new: str, text: str) -> None:
    if old:
        edit(root / "requirements.txt", old, new)
    lines = requirements.unused(root, tracked_files.files(ROOT, ".py"))
    assert [text in line for line in lines] == ([True] if text else [])


def test_torch_is_the_cpu_build(root: Path) -> None:
    torch = requirements.read(ROOT / TORCH)[0]["torch"]
    assert torch.version.endswith("+cpu")
    assert requirements.has("torch", root) is torch.applies(
        "{}.{}".format(*sys.version_info), platform.machine()
    )
    assert not requirements.has("nothing", root)


def test_nothing_is_installed_without_a_pin() -> None:
    """Check that the installed packages have all that they require (`pip check`).

    Set-up installs the lock file without dependencies, so it must be complete.
    """
    done = process.captured([sys.executable, "-m", "pip", "check", "--disable-pip-version-check"])
    assert done.returncode == 0, done.stdout


def test_set_up_installs_by_hash_alone() -> None:
    text = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert installs
    for option in ("--require-hashes", "--no-deps", "--no-build-isolation"):
        assert [line for line in installs if option not in line.split()] == []


def test_actions_are_named_by_commit() -> None:
    text = (ROOT / WORKFLOW).read_text(encoding="utf-8")
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    uses = re.findall(r"uses: (\S+)", text + release)
    assert len(uses) > release.count("uses:") > 0
    assert [name for name in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
    assert [
        f"{python}" for python in requirements.PYTHONS if f'python: "{python}"' not in text
    ] == []


def test_nobody_is_told_to_install_a_name_that_we_have_not_registered() -> None:
    """Check that no text tells a user to install our packages by name from an index.

    Somebody else may register the name: before a release, packages are installed from folders.
    """
    own = re.compile(
        r"\b(?:pip3?|pipx|uv) (?:install|add)\b[^\n`|]*?"
        r"(?<![\w/.-])(neuron[-_]fabric|cocotbext[-_.]cxl)\b(?!/)",
        re.IGNORECASE,
    )
    told = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in tracked_files.files(ROOT, ".md", ".py", ".toml", ".sh", ".yml", ".yaml", ".txt")
        if not tracked_files.is_test(path)
        for found in own.finditer(path.read_text(encoding="utf-8"))
    ]
    assert told == []
