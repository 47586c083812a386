# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.checks.wheels`: check that the packages work outside of the project tree.

Each package is built as a source archive, and from that as a wheel. The files of both are compared
with the tracked ones (a wheel holds no test), and their metadata is validated. The wheel is
installed in a fresh environment in a temporary folder, the tests are copied into the installed
package, and tests and example run there. Dependencies come from the package index by the hashes of
requirements.lock. Tests that `nf test` runs in the tree too are only collected, which imports all
of them. `--all` runs them, and the example once more in an environment that is installed from the
source archive: the rehearsal of a release. `--out FOLDER` keeps the archives of a clean check.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.metadata import Metadata

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.checks import requirements
from scripts.common import git, process
from scripts.common.errors import NfError, run_main
from scripts.common.paths import ROOT

LOCK = "requirements.lock"
BUILT_BY = "setuptools"  # also what is pinned and has no wheel
TESTS = "test"  # the extra that names what the tests of a package need
_IN_METADATA = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")
_METADATA = re.compile(r"\.dist-info/METADATA$|^PKG-INFO$")
_MADE = re.compile(r"\.(?:dist|egg)-info/|^PKG-INFO$|^setup\.cfg$")  # by the build
_LEFT_BY_BUILDS = ("__pycache__", "build", "*.egg-info", "*.pyc")
_TAIL = 30
RETRIES = 2
_WHY = re.compile(r"^ERROR")  # the line of pip that says it
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
    add = parser.add_argument
    add("--all", action="store_true", help="run all tests, and install the source archives too")
    add("--out", type=Path, metavar="FOLDER", help="keep the archives here if all is well")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="nf-wheels-") as folder, ThreadPoolExecutor() as pool:
        places = [Path(folder, package.module) for package in PACKAGES]
        wrong = list(pool.map(check, PACKAGES, places, [args.all] * len(PACKAGES)))
        if args.out and not any(wrong):
            args.out.mkdir(parents=True, exist_ok=True)
            for archive in Path(folder).glob("*/dist/*-*"):
                shutil.copy(archive, args.out)
                say(f"wheels: {args.out / archive.name}")
    return int(any(wrong))


def check(package: Package, folder: Path, every: bool = True) -> bool:
    """Check the archives of a package, print each fault, and return True if there is one.

    Args:
        package: The package.
        folder: New folder for its archives and environments.
        every: Run also the tests that run in the tree, and install the source archive too.
    """
    start = time.monotonic()
    source = ROOT / package.folder
    further = {one.package for one in registry.simulators() if one.package and package.simulates}
    archives = sdist, wheel = build(source, folder)
    wrong = [line for one in archives for line in problems(one, package.module, tracked(source))]
    wanted = [needed(one) for one in archives][1]
    python = install(wheel, wanted | further, folder / "wheel")
    add_tests(package, python)
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", _NAMESPACES]
    tests += [] if every or not package.in_tree else ["--collect-only"]
    example = ("-m", package.example)
    for words in ((*tests, "--pyargs", package.module), example):
        wrong += run(python, words, folder)
    if every:
        python = install(sdist, needed(sdist, "") | further, folder / "sdist")
        wrong += run(python, example, folder)
    verdict = "FAILED" if wrong else "ok"
    wrong.append(f"{wheel.name}: {verdict}, {time.monotonic() - start:.0f} s")
    say(*(f"wheels: {line}" for line in wrong))
    return len(wrong) > 1


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """Build the source archive of a package, and its wheel from that; return their paths.

    A copy in ``folder`` is built, since a build leaves files.
    """
    copy, out = folder / "source", folder / "dist"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*_LEFT_BY_BUILDS))
    uv = [sys.executable, "-m", "uv", "build", "--quiet", "--offline", "--no-build-isolation"]
    code, said = _execute([*uv, "--python", sys.executable, "--out-dir", out, copy])
    if code:
        raise NfError(f"a package could not be built: {' '.join(said)[-600:]}")
    [sdist], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def tracked(source: Path) -> list[str]:
    """Return the names of the tracked files of a package, relative to its folder."""
    inside = (path for path in git.files(ROOT) if path.is_relative_to(source))
    return [path.relative_to(source).as_posix() for path in inside]


def problems(archive: Path, module: str, files: Iterable[str]) -> list[str]:
    """Return an error line for each file that an archive lacks or should not hold.

    A wheel holds every tracked file but tests, a source archive every tracked file.

    Args:
        archive: The wheel or source archive.
        module: Dotted name of the package.
        files: Tracked files of the package, relative to its folder.
    """
    is_wheel = archive.suffix == ".whl"
    root = PurePosixPath(*module.split(".")) if is_wheel else PurePosixPath()
    known = {str(root / name) for name in files}
    tests = {name for name in known if is_wheel and is_test(name)}
    within = {str(root / name) for name in _IN_METADATA} if is_wheel else set()
    names = {name for name in content(archive) if not _MADE.search(name)}
    shipped = [name for name in sorted(names) if is_wheel and is_test(name)]
    return [
        *(f"{archive.name} lacks {name}" for name in sorted(known - tests - within - names)),
        *(f"{archive.name} has {n}, which git does not track" for n in sorted(names - known)),
        *(f"{archive.name} has {name}, which is a test" for name in shipped),
    ]


def content(archive: Path) -> dict[str, bytes]:
    """Return the files of a wheel or source archive by name; names lack the top folder of both."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(archive) as sdist:
        files = ((one.name, sdist.extractfile(one)) for one in sdist)
        return {name.partition("/")[2]: file.read() for name, file in files if file}


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


def install(archive: Path, names: Collection[str], place: Path) -> Path:
    """Make a fresh virtual environment with a package, and return the path of its Python.

    Args:
        archive: Wheel or source archive of the package.
        names: The packages that the environment holds besides.
        place: Folder of the environment.
    """
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    to_it = ["--python", python, "install", "--no-compile", "--no-deps", "--no-build-isolation"]
    for some in ({BUILT_BY}, names):
        listed = place / "requirements.txt"
        listed.write_text(pinned(some), encoding="utf-8")
        pip([*to_it, "--require-hashes", "-r", listed], "given what it depends on")
    pip([*to_it, "--no-index", archive], "installed")
    return python


def needed(archive: Path, extra: str = TESTS) -> set[str]:
    """Return the names of all packages that an archive requires with an extra, also indirectly.

    Indirect requirements are those of the versions installed here.

    Raises:
        NfError: An index would refuse the metadata of the archive.
    """
    [text] = [data for name, data in content(archive).items() if _METADATA.search(name)]
    try:
        wanted = Metadata.from_email(text).requires_dist or []
    except ExceptionGroup as error:
        raise NfError(f"{archive.name}: its metadata is wrong: {error.exceptions[0]}") from None
    here = ["{}.{}".format(*sys.version_info)]
    todo = requirements.names(map(str, wanted), extra, here)
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


def pip(words: Sequence[object], what: str) -> None:
    """Run pip; NfError in one line if it fails. ``what`` ("built") names the step in the error."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    code, said = _execute([*command, "--retries", RETRIES, *words])
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
    run_main("wheels", lambda: main(sys.argv[1:]))
