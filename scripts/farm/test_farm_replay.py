# SPDX-License-Identifier: Apache-2.0
"""Test of a bulk replay on Dask workers, one of which dies: the files are the same."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from neuron_fabric.capture import write_capture
from scripts.common.errors import NfError
from scripts.farm import cluster
from scripts.farm.test_cluster import ON_DASK, Loopback, workers
from scripts.run.replay_simulators import Simulators
from verif.conftest import nf_replay
from verif.replay.conftest import check_file

BULK = ("--transport", "bulk", "--sim", "icarus", "--route", "a=G_BINARY", "*=FP32")
PIECES = 6
pytestmark = ON_DASK


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """Run a scheduler with three workers."""
    with workers(tmp_path_factory.mktemp("farm"), 3) as made:
        yield made


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a capture of two workers; its replay has PIECES pieces of an epoch of two lines."""
    monkeypatch.setattr("verif.replay.options.SLOW_LINES_LOG2", 1)
    monkeypatch.setattr("verif.replay.job.PIECE_EPOCHS", 1)
    rng = np.random.default_rng(3)
    values = {
        "a": rng.standard_normal((2, 2 * PIECES, 512)).astype(np.float32),
        "f": rng.standard_normal((2, 7)).astype(np.float32),
    }
    write_capture(tmp_path / "capture", "farm", {0: values})
    return tmp_path / "capture"


@pytest.mark.nightly(
    "starts the whole controller under Icarus eight times; forks stand for workers"
)
def test_a_worker_that_dies_costs_its_pieces_a_second_run(
    three: Loopback,
    capture: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    simulators = Simulators(files=tmp_path / "files")
    here, away = tmp_path / "here.safetensors", tmp_path / "away.safetensors"
    assert nf_replay(simulators, capture, *BULK, "--out", here) == 0
    was = capsys.readouterr().out.splitlines()[-1]
    sent = counted(monkeypatch)
    killer = threading.Thread(target=lambda: kill_one(three, sent))
    killer.start()
    words = ("--cluster", three.address, "--out", away)
    code = nf_replay(simulators, capture, *BULK, *words)
    killer.join()
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert three.workers[0].wait(timeout=120) != 0
    assert here.read_bytes() == away.read_bytes()
    check_file(away, capture, 0)
    last = shown.out.splitlines()[-1]
    assert f" {PIECES} shards of at most " in last
    assert last.split(", ")[:3] == was.split(", ")[:3]
    assert len(set(sent)) == PIECES


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that will hold the ids of the runs that are handed to the farm."""
    sent: list[str] = []
    real: Callable[..., object] = cluster.Farm.send

    def send(self: cluster.Farm, spec: object, *rest: object) -> object:
        sent.append(str(getattr(spec, "id", "")))
        return real(self, spec, *rest)

    monkeypatch.setattr(cluster.Farm, "send", send)
    return sent


def kill_one(three: Loopback, sent: list[str]) -> None:
    """Kill worker 0 as soon as it drives a piece."""
    late = time.monotonic() + 300
    received = three.folder / "worker0"
    while time.monotonic() < late:
        if sent and any(received.rglob("work-*")):
            os.kill(three.workers[0].pid, 9)
            return
        time.sleep(0.01)


def test_a_scheduler_that_is_not_there(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulators = Simulators(files=tmp_path / "files")
    with pytest.raises(NfError, match="write tcp://HOST:PORT"):
        nf_replay(simulators, capture, *BULK, "--cluster", "nowhere")
