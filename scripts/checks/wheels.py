# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.checks.wheels`: check that the packages work outside of the project tree.

Each package is built as a wheel, whose files are compared with the tracked ones; it holds no test.
The wheel is installed in a fresh environment in a temporary folder, the tests are copied into the
installed package, and tests and example run there. Dependencies come from the package index by the
hashes of requirements.lock. Tests that `nf test` runs in the tree too are only collected, which
imports all of them; `--all` runs them.
"""

from __future__ import annotations

import argparse
import email
import importlib.metadata
import os
import re
import shutil
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.checks import requirements
from scripts.common import git, process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT

LOCK = "requirements.lock"
BUILT_BY = "setuptools"  # also what is pinned and has no wheel
TESTS = "test"  # the extra that names what the tests of a package need
_IN_METADATA = ("LICENSE", "README.md", "pyproject.toml", "setup.py")
_LEFT_BY_BUILDS = ("__pycache__", "build", "*.egg-info", "*.pyc")
_TAIL = 30
RETRIES = 2
_WHY = re.compile(r"^ERROR|invalid requirement")  # the line of pip that says it
_NAMESPACES = "consider_namespace_packages=true"  # cocotbext is shared with cocotbext-axi


@dataclass(frozen=True)
class Package:
    """A Python package of the project that is published as a wheel.

    Attributes:
        folder: Its folder, from the root.
        module: Dotted name of the package.
        example: Module of its example.
        simulates: Whether its tests run simulators.
        in_tree: Whether `nf test` also runs its tests in the tree.
    """

    folder: str
    module: str
    example: str
    simulates: bool = False
    in_tree: bool = False


PACKAGES = [
    Package("neuron_fabric", "neuron_fabric", "neuron_fabric.example", in_tree=True),
    Package("cocotbext/cxl", "cocotbext.cxl", "cocotbext.cxl.example.run", simulates=True),
]


def main(words: Sequence[str]) -> int:
    """Check every package, in parallel, and print each fault; return 1 if there is one, else 0."""
    parser = argparse.ArgumentParser("wheels", description="Packages outside of the tree.")
    parser.add_argument(
        "--all", action="store_true", help="run the tests of each, not only collect"
    )
    every = parser.parse_args(words).all
    with ThreadPoolExecutor() as pool:
        wrong = list(pool.map(lambda one: check(one, every or not one.in_tree), PACKAGES))
    return int(any(wrong))


def check(package: Package, tests_run: bool = True) -> bool:
    """Check the wheel of a package, print each fault, and return True if there is one.

    Its tests are run, or with `tests_run` False only collected.
    """
    start = time.monotonic()
    source = ROOT / package.folder
    further = {one.package for one in registry.simulators() if one.package and package.simulates}
    with tempfile.TemporaryDirectory(prefix="nf-wheel-") as folder:
        wheel = build(source, Path(folder))
        wrong = problems(wheel, package.module, tracked(source))
        python = install(wheel, Path(folder), further)
        add_tests(package, python)
        tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", _NAMESPACES]
        tests += ["--pyargs"] if tests_run else ["--collect-only", "--pyargs"]
        for words in ((*tests, package.module), ("-m", package.example)):
            wrong += run(python, words, Path(folder))
    verdict = "FAILED" if wrong else "ok"
    wrong.append(f"{wheel.name}: {verdict}, {time.monotonic() - start:.0f} s")
    say(*(f"wheels: {line}" for line in wrong))
    return len(wrong) > 1


def build(source: Path, folder: Path) -> Path:
    """Build the wheel of a package and return its path.

    A copy in ``folder`` is built, since a build leaves files.
    """
    copy = folder / "source"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*_LEFT_BY_BUILDS))
    _pip(["wheel", "--no-deps", "--no-build-isolation", "-w", folder / "wheel", copy], "built")
    [wheel] = (folder / "wheel").iterdir()
    return wheel


def tracked(source: Path) -> list[str]:
    """Return the names of the tracked files of a package, relative to its folder."""
    inside = (path for path in git.files(ROOT) if path.is_relative_to(source))
    return [path.relative_to(source).as_posix() for path in inside]


def problems(wheel: Path, module: str, files: Iterable[str]) -> list[str]:
    """Return an error line for each file that is missing from a wheel, untracked, or a test.

    Args:
        wheel: The wheel.
        module: Dotted name of the package.
        files: Tracked files of the package, relative to its folder.
    """
    root = PurePosixPath(*module.split("."))
    known = {str(root / name) for name in files}
    tests = {name for name in known if is_test(name)}
    wanted = known - tests - {str(root / name) for name in _IN_METADATA}
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    lacks = [f"{wheel.name} lacks {name}" for name in sorted(wanted - set(names))]
    foreign = [name for name in sorted(names) if name not in known]
    shipped = [name for name in sorted(names) if is_test(name)]
    return [
        *lacks,
        *(f"{wheel.name} has {name}, which git does not track" for name in foreign),
        *(f"{wheel.name} has {name}, which is a test" for name in shipped),
    ]


def is_test(name: str) -> bool:
    """Return whether a file of a package is a test or supports tests."""
    path = PurePosixPath(name)
    return path.name.startswith(("test_", "conftest")) or "tests" in path.parts[:-1]


def add_tests(package: Package, python: Path) -> None:
    """Copy the tests of a package, which its wheel leaves out, into the installed package."""
    lib = f"python{sys.version_info.major}.{sys.version_info.minor}"
    installed = python.parents[1] / "lib" / lib / "site-packages" / Path(*package.module.split("."))
    for name in filter(is_test, tracked(ROOT / package.folder)):
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / package.folder / name, installed / name)


def install(wheel: Path, folder: Path, further: Collection[str] = ()) -> Path:
    """Make a fresh virtual environment with a wheel, and return the path of its Python.

    It also holds the dependencies of the wheel and its tests, and the `further` packages.
    """
    place = folder / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    to_it = ["--python", python, "install", "--no-compile", "--no-deps", "--no-build-isolation"]
    for names in ({BUILT_BY}, needed(wheel).union(further)):
        listed = folder / "requirements.txt"
        listed.write_text(pinned(names), encoding="utf-8")
        _pip([*to_it, "--require-hashes", "-r", listed], "given what it depends on")
    _pip([*to_it, "--no-index", wheel], "installed")
    return python


def needed(wheel: Path) -> set[str]:
    """Return the names of all packages that a wheel and its tests require, also indirectly.

    Indirect requirements are those of the versions installed here.
    """
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = email.message_from_string(archive.read(name).decode("utf-8"))
    wanted = [str(value) for value in metadata.get_all("Requires-Dist", [])]
    here = ["{}.{}".format(*sys.version_info)]
    todo = requirements.names(wanted, TESTS, here)
    found: set[str] = set()
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= requirements.names(importlib.metadata.requires(name) or (), "", here) - found
    return found


def pinned(names: Collection[str]) -> str:
    """Return the lines of a pip requirements file with the pins and hashes of packages.

    Raises:
        NfError: A package has no pin.
    """
    locked = requirements.read(ROOT / LOCK)[0]
    if missing := sorted(set(names) - locked.keys()):
        raise NfError(f"{LOCK} has no pin of {missing[0]}, which a package depends on.")
    return "".join(
        " ".join([f"{pin.name}=={pin.version}", *(f"--hash=sha256:{one}" for one in pin.hashes)])
        + "\n"
        for pin in (locked[name] for name in sorted(names))
    )


def run(python: Path, words: Sequence[str], folder: Path) -> list[str]:
    """Run the Python of an environment in an empty folder, outside of the tree.

    Returns:
        [] on exit code 0, else the last lines of its output and the exit code.
    """
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    paths = [str(python.parent), os.environ["PATH"], str(Path(sys.executable).parent)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    code, lines = _execute([python, *words], cwd=empty, env={**env, "PATH": ":".join(paths)})
    command = f"python {' '.join(words)}"
    if code == 0:
        say(f"wheels: {command}: {lines[-1]}")
        return []
    return [*lines[-_TAIL:], f"{command} ended with code {code} outside of the tree"]


def _pip(words: Sequence[object], what: str) -> None:
    """Run pip; NfError in one line if it fails. ``what`` ("built") names the step in the error."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    code, said = _execute([*pip, "--retries", RETRIES, *words])
    if code:
        index = "; is the package index reachable?" if "--require-hashes" in words else "."
        why = next((line.strip() for line in said if _WHY.search(line)), said[-1])
        raise NfError(f"a package could not be {what}: {why}{index}")


def _execute(command: Sequence[object], **how: Any) -> tuple[int, list[str]]:
    """Run a command; return its exit code and its output lines, at least one."""
    done = process.captured([str(word) for word in command], **how)
    lines = (done.stderr + done.stdout).splitlines()
    return done.returncode, [line for line in lines if line.strip()] or ["no message"]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NfError as error:
        sys.exit(f"wheels: {error}")
