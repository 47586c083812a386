# SPDX-License-Identifier: Apache-2.0
"""Tests of the C engine of the codec: built once in the user's cache, else numpy is used."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from neuron_fabric import codec
from neuron_fabric.codec import native, numpy_engine
from neuron_fabric.codec.engine import choose, using

HAS_COMPILER = any(shutil.which(name) for name in native.COMPILERS)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return environment variables with a separate cache folder and the installed compilers."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}


def test_numpy_where_it_is_asked_for(env: dict[str, str]) -> None:
    choice = choose({**env, "NF_NATIVE": "0"})
    assert choice == (numpy_engine, "numpy: NF_NATIVE is 0")
    assert not Path(env["XDG_CACHE_HOME"]).exists()


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler is here")
def test_built_once(env: dict[str, str]) -> None:
    choice = choose(env)
    assert choice.why.startswith("native: "), choice.why
    library = native.library(env)
    built = library.stat().st_mtime_ns
    assert native.library({**env, "PATH": ""}) == library  # no compiler any more
    assert library.stat().st_mtime_ns == built
    assert [path.name for path in library.parent.iterdir()] == [library.name]
    assert stat.S_IMODE(library.parent.stat().st_mode) == 0o700
    x = np.random.default_rng(3).standard_normal(70_001).astype(np.float32)
    for route in (codec.Route.G_BINARY, codec.Route.G_TERNARY):
        packed = []
        for loops in (choice.engine, numpy_engine):
            with using(loops):
                packed.append(codec.pack(x, route))
        assert np.array_equal(packed[0].lines, packed[1].lines)
        assert packed[0].scale == packed[1].scale


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("", "there is no C compiler"),
        ("echo 'cc: out of paper' >&2; exit 1", "cc: cc: out of paper"),
        ("exec /bin/sleep 20", "cc takes over 2 s"),
        # `-o` is the name before the last one.
        ('while [ "$1" != -o ]; do shift; done; echo nonsense > "$2"', "pack.so: "),
    ],
    ids=["none", "fails", "hangs", "makes no library"],
)
def test_a_compiler_that_makes_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr(native, "_BUILD_SECONDS", 2)
    if script:
        (tmp_path / "cc").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / "cc").chmod(0o755)
    choice = choose({"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)})
    assert choice.engine is numpy_engine
    assert choice.why.startswith("numpy: ")
    assert why in choice.why
    assert not list((tmp_path / "cache" / "neuron-fabric").iterdir())


def test_a_cache_that_others_may_write_to_holds_no_code(env: dict[str, str]) -> None:
    folder = Path(env["XDG_CACHE_HOME"], "neuron-fabric")
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert choose(env) == (numpy_engine, f"numpy: {folder}: others may write to it")


def test_no_parent_of_the_cache_may_be_open_to_others(env: dict[str, str]) -> None:
    """Check that no library is used below a folder to which others may write, unless it is sticky.

    Such a user could replace the cache folder.
    """
    home = Path(env["XDG_CACHE_HOME"])
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    why = f"numpy: {home}/neuron-fabric: others may write to {home}"
    assert choose(env) == (numpy_engine, why)
    home.chmod(0o1777)  # sticky, as /tmp: nobody else can rename what is ours
    assert native.cache_folder(env) == home / "neuron-fabric"


TRAINING = """
import numpy as np
from neuron_fabric import codec
from neuron_fabric.codec.engine import chosen
codec.pack(np.ones(5000, np.float32), codec.Route.G_BINARY)
print(chosen().why)
"""


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler is here")
def test_a_damaged_library_is_built_again(env: dict[str, str]) -> None:
    """Check that a damaged library is not loaded, and is built again.

    One that was cut off ended each training by SIGBUS until it was deleted by hand; an empty one
    meant numpy for ever.
    """
    place = native.library(env)
    whole = place.read_bytes()
    assert hashlib.sha256(whole[:-32]).digest() == whole[-32:]
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    nowhere = {**env, "PATH": "", "CC": ""}  # without a compiler: what is damaged is not loaded

    def put(content: bytes) -> None:
        place.unlink()  # not cut off where it lies: this process has it mapped
        place.write_bytes(content)
        place.chmod(0o600)

    for wrong in (b"", whole[:31], whole[:-1], bytes(flipped), whole + b"x"):
        put(wrong)
        assert choose(nowhere) == (numpy_engine, "numpy: there is no C compiler")
    put(whole)
    assert choose(nowhere).why == f"native: {place}"
    place.chmod(0o666)
    assert choose(nowhere).engine is numpy_engine
    place.unlink()
    os.mkfifo(place)
    assert choose(nowhere).engine is numpy_engine
    put(whole[:4096])
    done = subprocess.run(
        [sys.executable, "-c", TRAINING],
        env={**os.environ, **env},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"native: {place}\n"), done.stderr
    assert len(place.read_bytes()) == len(whole)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler is here")
def test_no_home_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the cache is in the folder for temporary files if there is no home directory.

    A container may run as a user without an entry, and without HOME.
    """
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home directory")))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    why = choose({"PATH": os.environ["PATH"]}).why
    assert why.startswith(f"native: {tmp_path}/neuron-fabric-{os.getuid()}/pack-")


def test_no_room_for_a_cache(env: dict[str, str]) -> None:
    Path(env["XDG_CACHE_HOME"]).touch()
    choice = choose(env)
    assert choice.engine is numpy_engine
    assert "Not a directory" in choice.why or "File exists" in choice.why
