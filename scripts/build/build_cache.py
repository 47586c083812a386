# SPDX-License-Identifier: Apache-2.0
"""Build cache: a design is compiled once per content; parallel runs and later calls share it."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from neuron_fabric.data import DataError, read_json
from neuron_fabric.errors import say
from neuron_fabric.lock import Lock
from neuron_fabric.output import naming
from neuron_fabric.typed import typed
from scripts.build import registry
from scripts.build.sources import Sources, collect, write_copy
from scripts.common import data, folder_locks, process
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, SIM_BUILDS, VARIANTS, shown
from scripts.common.records import BuildSpec

_waiting: dict[int, tuple[BuildSpec, float]] = {}  # by thread
STAMP = "build.json"  # the build is whole
MADE = ".nf-build"  # it has begun: what `nf clean` may remove


@dataclass(frozen=True)
class Built:
    """A finished build.

    Attributes:
        directory: Its folder.
        seconds: Time that this call spent on it, compiling or waiting; 0 if it was found at once.
        cached: Whether it was compiled by another call or process.
    """

    directory: Path
    seconds: float
    cached: bool


def build_directory(spec: BuildSpec, base: Path = SIM_BUILDS) -> tuple[Path, Sources]:
    """Return the folder of the build of a spec, named by a hash of its sources; and these."""
    sources = collect(spec)
    return base / f"{spec.sim}-{spec.top}-{sources.key}", sources


def build(spec: BuildSpec, base: Path = SIM_BUILDS, make_jobs: int | None = None) -> Built:
    """Compile a design, unless a build of the same content exists.

    Args:
        spec: Design to compile.
        base: Folder of all builds.
        make_jobs: Parallel jobs of make; by default all cores.

    Raises:
        BuildError: The design does not compile; the first error line.
        NfError: A source or the folder cannot be used.
    """
    directory, sources = build_directory(spec, base)

    simulator = registry.get(spec.sim)

    def compile_design(target: Path) -> None:
        root = spec.root
        if spec.copied:
            root = target / "src"
            if spec.variant:  # also its files that the design has not
                shutil.copytree(VARIANTS / spec.variant, root)
            write_copy(sources, root)
        job = simulator(target / "build.log", {})
        job.compile_design(spec, root, sources.files, target, make_jobs or process.cores())

    _waiting[threading.get_ident()] = spec, time.monotonic()
    try:
        return once(directory, compile_design, simulator.products(spec.top))
    finally:
        del _waiting[threading.get_ident()]


def under_way() -> list[tuple[BuildSpec, float]]:
    """Return the builds that threads of this process are compiling or waiting for.

    Each comes with its start on the monotonic clock.
    """
    return list(_waiting.values())


@dataclass(frozen=True)
class Stamp:
    """Content of `build.json`, which marks a finished build.

    Attributes:
        seconds: Duration of the build.
        products: Files that a run loads; the value is size and SHA-256.
    """

    seconds: float
    products: dict[str, str] = field(default_factory=dict)


def read_stamp(directory: Path) -> Stamp:
    """Read the stamp of a build; OSError when there is none, DataError when it is damaged."""
    return typed(Stamp, read_json(directory / STAMP))


def earlier_seconds(spec: BuildSpec, base: Path = SIM_BUILDS) -> float | None:
    """Return the duration of the build of this top under this simulator that was used last; None
    if there is none."""
    with suppress(OSError, DataError):  # the cache may be cleaned meanwhile
        used = base.glob(f"{spec.sim}-{spec.top}-*/{STAMP}")
        last = max(used, key=lambda path: path.stat().st_mtime, default=None)
        return read_stamp(last.parent).seconds if last else None
    return None


def _lack(directory: Path, products: Sequence[str]) -> str | None:
    """Return why a build cannot be used: "" if it can, None if there is none.

    Its stamp and its products must be as they were written.
    """
    try:
        stamp = read_stamp(directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{STAMP} {error.strerror}"
    except DataError as error:
        return f"{STAMP} is damaged ({error})"
    for name in products:
        try:
            if _fingerprint(directory / name) != stamp.products.get(name):
                return f"{name} is not as it was made"
        except OSError as error:
            return f"{name}: {error.strerror}"
    return ""


def _fingerprint(path: Path) -> str:
    found = path.stat()
    return _hashed(path, found.st_size, found.st_mtime_ns)


@functools.cache  # a suite asks for the same build before every run
def _hashed(path: Path, size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return f"{size} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def once(directory: Path, make: Callable[[Path], object], products: Sequence[str] = ()) -> Built:
    """Fill ``directory`` by ``make``, unless that was done before.

    A build whose product is missing or modified is made again, and a line is printed. Remains of an
    interrupted build are removed first. Other processes that want the same directory wait.

    Args:
        directory: Folder of the build.
        make: Builds into the given folder.
        products: Files in the folder that a run loads.

    Raises:
        NfError: The directory cannot be written or holds something else; also whatever ``make``
            raises.
    """
    stamp = directory / STAMP
    if directory.is_relative_to(BUILD):
        folder_locks.tree()
    if _lack(directory, products) == "":
        os.utime(stamp)  # last use, for `nf clean`
        return Built(directory, 0.0, cached=True)
    start = time.monotonic()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NfError(f"cannot write to {directory}: {error.strerror}.") from error
    if directory.is_symlink():
        raise NfError(f"{shown(directory)} is a link, and a build would go there: remove it.")
    with Lock(directory).acquire(wait=process.check_stopping):
        lack = _lack(directory, products)
        if lack == "":  # somebody else built it while we waited
            return Built(directory, time.monotonic() - start, cached=True)
        if lack:
            say(f"nf: the build {shown(directory)} is made again: {lack}.", file=sys.stderr)
        _empty(directory)
        with naming(directory):
            make(directory)
            prints = {name: _fingerprint(directory / name) for name in products}
        data.keep(stamp, Stamp(round(time.monotonic() - start, 2), prints))
    return Built(directory, time.monotonic() - start, cached=False)


def _empty(directory: Path) -> None:
    """Remove the remains of an interrupted build from its folder, and mark the folder as a build.

    Raises:
        NfError: The folder has files that no build created.
    """
    found = list(directory.iterdir())
    if found and not is_build(directory):
        raise NfError(f"{shown(directory)} holds something else than a build: move it away.")
    (directory / MADE).touch()  # first: a kill may come at any moment
    for old in found:
        if old.name == MADE:
            continue
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()


def is_build(directory: Path) -> bool:
    """Return whether a folder was created by a build, finished or interrupted."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    return (directory / MADE).is_file() or (directory / STAMP).is_file()
