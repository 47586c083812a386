# SPDX-License-Identifier: Apache-2.0
"""Tests of locks between processes: holder, name, and release by the holder's death."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_fabric import lock
from neuron_fabric.lock import Busy, Lock

HOLDER = """
import sys
from pathlib import Path
from neuron_fabric.lock import Lock
with Lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()  # ends with the test, whatever comes of it
"""


def test_the_holder_is_named_and_its_death_frees(tmp_path: Path) -> None:
    target = tmp_path / "out"
    command = [sys.executable, "-c", HOLDER, str(target)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(Busy, match=rf"in use by `-c` \(process {process.pid}\)"):
            Lock(target).acquire()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert list(tmp_path.iterdir())  # the file is left, and blocks nobody
    with Lock(target) as own:
        assert own.held
        assert Lock(target).holder().endswith(f"(process {os.getpid()})")
    assert list(tmp_path.iterdir()) == []


def test_shared_holders_and_an_exclusive_one(tmp_path: Path) -> None:
    target = tmp_path / "tree"
    with Lock(target, shared=True), Lock(target, shared=True), pytest.raises(Busy):
        Lock(target).acquire()
    with Lock(target), pytest.raises(Busy):
        Lock(target, shared=True).acquire()


def test_who_waits_gets_the_lock_of_the_name(tmp_path: Path) -> None:
    """Check that a waiting process locks the present file of the name, not one that was removed."""
    first, waited = Lock(tmp_path / "x").acquire(), []

    def wait() -> None:
        waited.append(1)
        first.release()

    second = Lock(tmp_path / "x").acquire(wait=wait)
    assert waited == [1]
    with pytest.raises(Busy):
        Lock(tmp_path / "x").acquire()
    second.release()


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    Lock(tmp_path / "x").path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        Lock(tmp_path / "x").acquire()
    assert victim.read_text(encoding="utf-8") == "mine"


def test_a_file_system_without_locks_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    monkeypatch.setattr(lock, "_told", set())
    for name in ("x", "y"):
        with Lock(tmp_path / name) as one:
            assert not one.held
    error = capsys.readouterr().err
    assert error == f"{tmp_path}: {lock.NO_LOCKS}\n"


def test_a_lock_file_holds_the_program_and_its_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/bin/nf", "capture", "--hf-token", "hf_abc"])
    with Lock(tmp_path / "x") as one:
        assert one.path.read_text(encoding="utf-8") == f"{os.getpid()}\tnf"
        assert one.holder() == f"in use by `nf` (process {os.getpid()})"


def test_a_holder_that_is_no_process_of_this_machine(tmp_path: Path) -> None:
    with Lock(tmp_path / "x") as one:
        one.path.write_text("4194305\tnf", encoding="utf-8")  # Linux has no such process
        assert one.holder() == "in use by another process, here or on another machine"
