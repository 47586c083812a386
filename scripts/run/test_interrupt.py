# SPDX-License-Identifier: Apache-2.0
"""Tests of Ctrl-C, a full disk and a killed runner: finished runs stay, no simulator does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time

import pytest

from neuron_fabric import output
from scripts.build import registry
from scripts.common import interrupt, process
from scripts.common.records import FailureKind, RunRecord
from scripts.conftest import QUICK, Project, Toy, left_in, working_in
from scripts.run import simulate

RECORD = "runs/*/record.json"


def wait_for(project: Project, pattern: str, number: int = 1) -> None:
    """Wait until `number` files of the build folder match the pattern."""
    until = time.monotonic() + 300  # a build comes first
    while len(list((project.folder / "build").glob(pattern))) < number:
        assert time.monotonic() < until, f"fewer than {number} files match {pattern}"
        time.sleep(0.02)


def test_nohup_is_heeded() -> None:
    seen: list[int] = []
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        for _ in range(2):
            with interrupt.handling(seen.append, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), signal.SIGHUP)
                os.kill(os.getpid(), signal.SIGTERM)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, old)
    # Ignored in the first round alone.
    assert seen == [signal.SIGTERM, signal.SIGHUP, signal.SIGTERM]


ENDINGS = [(sim, 0, signal.SIGINT) for sim in registry.names()]
ENDINGS += [(QUICK, 2, signal.SIGINT)]
AGAIN = pytest.mark.nightly("10 s; SIGTERM is handled as SIGINT, which comes in every change")


@pytest.mark.parametrize(
    ("sim", "finished", "number"),
    [*ENDINGS, pytest.param(QUICK, 2, signal.SIGTERM, marks=AGAIN)],
)
def test_an_interrupt_keeps_finished_runs(
    project: Project, sim: str, finished: int, number: signal.Signals
) -> None:
    project.nf("clean", "--all")
    words = ("test_toy::adds_one", "test_toy::hang", "--seeds", "3", "--sim", str(sim))
    process = project.start("run", *words, "--jobs", "4")  # what hangs may come first
    if finished:
        wait_for(project, RECORD, finished)
    else:
        wait_for(project, "sim/*/build.log")  # it compiles
    assert working_in(project.folder)  # the search finds processes
    process.send_signal(number)
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 130, text
    assert "interrupted: " in text
    records = project.records()
    if finished:
        assert f"{6 - len(records)} of 6 runs missing" in project.nf("history")[1]
    assert len(records) >= finished
    assert all(record.passed for record in records)
    assert "did not finish" in text
    assert left_in(project.folder) == []


def test_killed_runner_leaves_no_simulator_and_whole_records(project: Project) -> None:
    project.nf("clean", "--all")
    words = ("test_toy::adds_one", "test_toy::hang", "--sim", str(QUICK), "--jobs", "4")
    process = project.start("run", *words, "--seeds", "2")
    assert process.stdout is not None
    assert any(line.startswith("PASS") for line in process.stdout)  # it is in the history by now
    process.kill()
    process.communicate(timeout=120)
    assert left_in(project.folder) == []
    for path in (project.folder / "build/runs").glob("*/record.json"):
        assert RunRecord.from_json(json.loads(path.read_text(encoding="utf-8"))).passed
    assert "killed" in project.nf("history")[1]
    last = project.nf("report")[1].splitlines()[-1]
    assert last.startswith(("===== 1 passed, 0 failed", "===== 2 passed, 0 failed"))


def test_full_disk_loses_no_finished_record(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    first = toy.run(toy.spec(), "adds_one")
    kept = toy.folder / "runs" / first.id / "record.json"
    before = kept.read_text(encoding="utf-8")

    def full(file: int, data: bytes, offset: int) -> None:
        os.pwrite(file, data[: len(data) // 2], offset)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(output, "write_all", full)
        second = toy.run(toy.spec(), "many/n=1")
        again = simulate.save(first, kept.parent)
    assert second.passed  # the result is known, only its file is not
    assert not (toy.folder / "runs" / second.id / "record.json").exists()
    assert again == first
    assert kept.read_text(encoding="utf-8") == before
    assert RunRecord.from_json(json.loads(kept.read_text(encoding="utf-8"))) == first


def test_failure_on_a_full_disk_is_not_the_design(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(toy.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=4096))
    record = toy.run(toy.spec(), "wrong")
    assert record.kind is FailureKind.INFRASTRUCTURE
    assert "no space left" in record.cause
    assert toy.run(toy.spec(), "adds_one").passed


def test_log_that_cannot_be_written(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(process, "run_logged", full)
    record = toy.run(toy.spec(), "adds_one", direct=True)
    assert record.kind is FailureKind.INFRASTRUCTURE
    assert "No space left" in record.cause
