# SPDX-License-Identifier: Apache-2.0
"""Tests of the place of a checkout: which tree `nf` works on, and names that tools split."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from scripts.build import registry, verilator
from scripts.common import plain_names, process, tool_versions
from scripts.common.paths import ROOT
from scripts.common.records import RunSpec
from scripts.conftest import Toy
from scripts.run.simulate import run

ODD = "a b#c:d$e'é"
STUB = """
    from neuron_fabric.errors import say
    from scripts.common.paths import ROOT
    from scripts.common.plain_names import named
    EXAMPLES = ""
    def add_arguments(parser): pass
    def run(args):
        say(named(ROOT))
        return 0
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a checkout with a .venv as set-up leaves it; its `nf list` prints its root."""
    root = tmp_path / "first"
    shutil.copytree(ROOT / "neuron_fabric", root / "neuron_fabric")
    skip = shutil.ignore_patterns("test_*", "__pycache__")
    shutil.copytree(ROOT / "scripts", root / "scripts", ignore=skip)
    (root / "scripts/cli/list.py").write_text(textwrap.dedent(STUB), encoding="utf-8")
    site = root / f".venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    site.mkdir(parents=True)
    (site / "neuron_fabric.pth").write_text("../../../..\n", encoding="utf-8")
    (root / ".venv" / "bin").mkdir()
    shutil.copy(ROOT / "scripts" / "nf.sh", root / ".venv/bin/nf")
    (root / ".venv/bin/nf").chmod(0o755)
    (root / ".venv/bin/python").symlink_to(Path(sys.executable).resolve())
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", root / ".venv")
    return root


def nf(program: Path, cwd: Path, **env: str) -> tuple[int, str, str]:
    """Run `nf list` by the given program; return exit code, stdout and stderr."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NF_", "PYTHON"))}
    done = process.captured([program, "list"], cwd=cwd, env={**environment, **env})
    return done.returncode, done.stdout, done.stderr


def works_on(program: Path, cwd: Path, root: Path, **env: str) -> None:
    code, out, said = nf(program, cwd, **env)
    assert (code, out, said) == (0, f"{root}\n", "")


@pytest.mark.parametrize("name", ["second", ODD])
def test_a_copy_and_a_moved_checkout(tree: Path, tmp_path: Path, name: str) -> None:
    """Check that `nf` of a copied or moved checkout works on this one, never on the original.

    Otherwise changes would pass untested.
    """
    other = tmp_path / name
    shutil.copytree(tree, other, symlinks=True)
    for cwd in (other, other / "scripts", tmp_path):
        works_on(other / ".venv/bin/nf", cwd, other)
    tree.rename(tmp_path / "third")
    works_on(tmp_path / "third/.venv/bin/nf", tmp_path, tmp_path / "third")


def test_a_lock_names_the_command(tree: Path, tmp_path: Path) -> None:
    """Check that the holder of a lock is reported as `nf`, not as `-c`, which the wrapper runs."""
    stub = tree / "scripts/cli/list.py"
    named = "Lock(ROOT / 'x').acquire().holder()"
    text = stub.read_text(encoding="utf-8").replace("named(ROOT)", named)
    stub.write_text(f"from neuron_fabric.lock import Lock\n{text}", encoding="utf-8")
    code, out, said = nf(tree / ".venv/bin/nf", tmp_path)
    assert (code, said) == (0, "")
    assert out.startswith("in use by `nf` (process ")


def test_links(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").symlink_to(tree)
    (tmp_path / "nf").symlink_to(tree / ".venv/bin/nf")
    works_on(tmp_path / "tree/.venv/bin/nf", tmp_path / "tree", tree)
    works_on(tmp_path / "nf", tmp_path, tree)


def test_the_nf_of_another_checkout_is_refused(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "second"
    shutil.copytree(tree, other, symlinks=True)
    for path in (other, other / "scripts"):
        code, out, said = nf(tree / ".venv/bin/nf", path)
        assert (code, out) == (2, "")
        assert said.startswith(
            f"nf: this `nf` tests checkout {tree}, but the current directory belongs"
        )
    works_on(other / ".venv/bin/nf", tmp_path, other, PYTHONPATH=str(tree))  # its own comes first


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream(tree: Path, closed: str) -> None:
    number = ("stdin", "stdout", "stderr").index(closed)
    line = f"exec .venv/bin/nf list {number}{'<' if number == 0 else '>'}&-"
    done = subprocess.run(line, shell=True, cwd=tree, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert bool(done.stdout) is (closed != "stdout")


def test_a_full_disk_for_output_is_one_line(tree: Path) -> None:
    line = "exec .venv/bin/nf list >/dev/full"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}  # nothing at its end
    done = subprocess.run(line, shell=True, cwd=tree, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"nf: No space left on device\n")


@pytest.mark.parametrize("name", ["TMPDIR", "TMP"])
def test_no_folder_for_temporary_files(tree: Path, name: str) -> None:
    code, _, said = nf(tree / ".venv/bin/nf", tree, **{name: "/nowhere/at/all"})
    assert (code, said.count("\n")) == (2, 1)
    assert f"{name}=/nowhere/at/all" in said


def test_the_locale_does_not_matter(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "é"
    tree.rename(other)
    for name in ("POSIX", "C", "C.UTF-8"):
        code, out, said = nf(other / ".venv/bin/nf", other, LC_ALL=name)
        assert (code, said) == (0, "")
        assert out.startswith(str(tmp_path))
    # A letter that the terminal's encoding lacks: Python makes UTF-8 of the locales above.
    code, out, said = nf(other / ".venv/bin/nf", other, PYTHONIOENCODING="ascii")
    assert (code, out, said) == (0, f"{tmp_path}/\\xe9\n", "")


def test_a_link_is_ours_and_leads_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = tmp_path / ODD, tmp_path / "other"
    taken, home = tmp_path / "taken", tmp_path / "home"
    taken.mkdir(mode=0o777)
    taken.chmod(0o777)  # whoever comes could point a link elsewhere
    monkeypatch.setattr(plain_names, "_homes", lambda: iter([taken, home]))
    link = plain_names.plain(folder)
    assert (link.parent, link.resolve()) == (home, folder)
    assert folder.is_dir()  # made: what is below a link that leads nowhere cannot be
    assert plain_names.named(link / "build" / "x") == folder / "build" / "x"
    link.unlink()
    link.symlink_to(other)
    assert plain_names.plain(folder).resolve() == folder  # a link that leads elsewhere is put right
    monkeypatch.setattr(plain_names, "_homes", lambda: iter([taken]))
    with pytest.raises(plain_names.PlaceError, match="another user can write there"):
        plain_names.plain(folder)


@pytest.mark.nightly("20 s of compiler; names are tested above without a build")
@pytest.mark.parametrize("sim", registry.names())
def test_builds_in_an_odd_folder(toy: Toy, tmp_path: Path, sim: str) -> None:
    """Check source, build and run in a folder whose name make and the shell do not accept."""
    root = plain_names.plain(tmp_path / ODD)
    shutil.copytree(toy.folder, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("sim"))
    spec = RunSpec(toy.spec(sim, root=root), "toy_bench", ("adds_one",), timeout_s=300)
    record = run(spec, root / "runs", root / "sim")
    assert record.passed, record.cause


def test_verilator_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that `verilator` in a folder seen by a link reports the link as VERILATOR_ROOT.

    Its script would otherwise resolve the link, and write that name into the makefile.
    """
    found = verilator.find()
    assert found is not None
    link = tmp_path / "link"
    link.symlink_to(Path(found).parents[1])
    monkeypatch.setattr(verilator, "find", lambda: str(link / "bin" / "verilator"))
    env = verilator.environment()
    words = [str(link / "bin" / "verilator"), "--getenv", "VERILATOR_ROOT"]
    assert tool_versions.first_line(words, env) == str(link)


@pytest.mark.parametrize(("mode", "below"), [(0o777, ""), (0o777, "build"), (0o1777, "")])
def test_a_build_folder_of_others_is_refused(tmp_path: Path, mode: int, below: str) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    build = folder / below
    done = _nf(build)
    what = f"others may write to {folder if below else 'it'}; choose a folder of your own."
    assert done.stderr == f"nf: NF_BUILD={build}: {what}\n"
    assert done.returncode == 2
    assert not list(folder.iterdir())
    folder.chmod(0o1777 if below else 0o700)
    assert _nf(build).returncode == 0


def _nf(build: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "NF_BUILD": str(build), "PYTHONPATH": str(ROOT)}
    return process.captured([sys.executable, "-c", "import scripts.common.paths"], env=env)
