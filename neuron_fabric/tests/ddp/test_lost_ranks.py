# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed or stopped: one line first, with step, bucket, route and rank."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.hook import lost_ranks
from neuron_fabric.hook.lost_ranks import Peers, is_lost
from neuron_fabric.tests.python_process import run_python

TRAIN = """
import os, signal, sys
import torch
import torch._dynamo
from neuron_fabric.tests.ddp.attach_cases import started

def train(rank, folder, number, step):
    model, session = started(folder, rank, 3, wait_s=3)
    for n in range(6):
        if rank == 1 and n == step:
            os.kill(os.getpid(), number)
        model(torch.randn(4, 128)).square().mean().backward()

if __name__ == "__main__":
    folder, number, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ranks = []
    for rank in range(3):
        pid = os.fork()
        if pid == 0:
            try:
                train(rank, folder, number, step)
            except Exception as error:
                sys.excepthook(*sys.exc_info())
                sys.stderr.flush()
            os._exit(0)
        ranks.append(pid)
    for rank in (0, 2):
        os.waitpid(ranks[rank], 0)
    os.kill(ranks[1], signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("number", "step", "place", "state"),
    [
        (signal.SIGKILL, 4, r"step 4, bucket 0 \(FP32, G_BINARY, G_TERNARY\)", "has ended"),
        pytest.param(
            *(signal.SIGSTOP, 1, "after step 0", "is stopped"),  # where DDP makes its buckets anew
            marks=pytest.mark.nightly("waits for a time-out"),
        ),
    ],
)
def test_one_line_comes_first(
    tmp_path: Path, number: signal.Signals, step: int, place: str, state: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN, encoding="utf-8")
    done = run_python(script, tmp_path, int(number), step)
    line = rf"nf runtime: {place}: rank 1 \(process \d+\) {state}; the training ends\n"
    assert len(re.findall(line, done.stderr)) == 1, done.stderr[-3000:]
    assert re.search(line, done.stderr).start() < done.stderr.index("Traceback")  # type: ignore[union-attr]


def test_what_can_be_told_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gloo names an address; a time-out names nothing; other exceptions are none of this."""
    monkeypatch.setattr(lost_ranks, "_LOOK_S", 0.02)
    peers: Any = SimpleNamespace(_rank=0, _machine="a", _gone=list)
    peers._every = [("a", 1, "", []), ("b", 1, "", ["10.0.0.2"]), ("b", 2, "", ["10.0.0.2"])]
    closed = RuntimeError("[gloo/transport/pair.cc:547] Connection closed by peer [10.0.0.2]:42")
    timed = RuntimeError("[gloo/unbound_buffer.cc:81] Timed out waiting 3000ms for recv operation")
    assert Peers.who(peers, closed) == "one of ranks 1, 2 has ended or is out of reach"
    assert Peers.who(peers, timed) == "a rank has ended, is stopped or is out of reach"
    assert is_lost(closed)
    assert is_lost(timed)
    assert not is_lost(ValueError("gloo"))
    assert not is_lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
