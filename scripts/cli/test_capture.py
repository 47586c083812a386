# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf capture`: wrong words, failing workers, and (with torch) captures of trainings."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from neuron_fabric.capture import Capture, ModuleSpec, write_capture
from neuron_fabric.errors import CaptureError
from neuron_fabric.lock import Lock
from scripts.cli.conftest import Nf
from scripts.common.paths import ROOT
from scripts.common.tool_versions import package_version
from scripts.conftest import ended
from scripts.ranks import launch

needs_torch = pytest.mark.skipif(
    package_version("torch") is None, reason="torch is not installed: see requirements-torch.txt"
)

TRAIN = """
import os, sys, signal, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from neuron_fabric import attach
from neuron_fabric.capture.safetensors_io import TensorFileWriter

def train():
    torch.manual_seed(1)
    rank = dist.get_rank()
    net = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Linear(6, 2))
    model = DistributedDataParallel(net)
    attach(model)
    for step in range(6):
        if sys.argv[1:] == ["die"] and step == 3 and rank == 1:
            whole = TensorFileWriter.write
            def die(self, name, data):
                whole(self, name, data)
                # The launcher ends the other rank, too, which may still write its step 2.
                other = os.environ["NF_CAPTURE_DIR"] + "/step-000002/worker-000.safetensors"
                for _ in range(3000):
                    if os.path.exists(other):
                        break
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            TensorFileWriter.write = die
        model.zero_grad()
        model(torch.full((2, 8), float(rank + step))).square().sum().backward()

torch.set_num_threads(1)
dist.init_process_group("gloo")
train()
dist.destroy_process_group()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAIN, encoding="utf-8")
    # A folder of the script's own that has the name of one of the project's.
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").touch()
    return path


@needs_torch
def test_chosen_steps_ranks_and_layers(script: Path, tmp_path: Path, nf: Nf) -> None:
    out = tmp_path / "c"
    words = ("--steps", "1,3-9:2", "--ranks", "1", "--layers", "1.*", "--workers", 2)
    text = nf("capture", *words, "--out", out, "--", script)
    found = Capture.open(out)
    assert (found.steps, found.world_size) == ((1, 3, 5), 1)
    assert [spec.name for spec in found.tensors] == ["1.weight", "1.bias"]
    assert "ranks 1 of 2" in found.note
    assert "Sequential, 1 workers, 3 steps (1, 3, 5)" in text
    assert f"nf replay {out}" in text


@needs_torch
def test_kill_9_of_a_worker(script: Path, tmp_path: Path, nf: Nf) -> None:
    """Check the capture after a worker was killed between two tensors of step 3.

    Steps 0 to 2 are complete and can be read; step 3 is refused.
    """
    out = tmp_path / "c"
    shown = nf("capture", "--out", out, "--workers", 2, script, "die", code=1)
    assert "worker 1 was ended by signal 9" in shown
    assert "not whole, left out: step 3" in shown
    assert [path.suffix for path in (out / "step-000003").glob("worker-001.*")] == [".part"]
    found = Capture.open(out)
    assert found.steps == (0, 1, 2)
    weight = found.load(2)["1.weight"]
    assert (weight[0] != weight[1]).any()  # each worker's own, not the mean
    with pytest.raises(CaptureError, match="step 3 is not whole"):
        found.load(3)
    text = nf("capture", "check", out)
    assert "not whole, left out: step 3" in text
    assert "nf capture: whole: 408 values read, 0 of them NaN or infinite" in text


@needs_torch
def test_a_script_that_does_not_capture(tmp_path: Path, nf: Nf) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("print('trained')", encoding="utf-8")
    words = ("capture", "--out", tmp_path / "c", "--workers", 1, plain)
    assert "has captured nothing: it calls attach(model)" in nf(*words, code=2)
    plain.write_text("raise SystemExit(3)", encoding="utf-8")
    assert "worker 0 ended with code 3" in nf(*words, code=1)
    write_capture(tmp_path / "c", "old", {0: {"w": np.ones((1, 4), np.float32)}})
    assert "c holds a capture already (1 steps): choose another --out" in nf(*words, code=2)


@needs_torch
def test_a_script_is_no_option_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nf: Nf
) -> None:
    """Check that a script named "-c" is run as a file.

    `python -c WORD` would run its first argument as a program.
    """
    monkeypatch.chdir(tmp_path)
    Path("-c").write_text("import sys; open('argument', 'w').write(sys.argv[1])", encoding="utf-8")
    word = "open('program', 'w')  # $$ ${local_rank}"
    words = ("capture", "--out", tmp_path / "c", "--workers", 1, "--", "-c", word)
    assert "-c has captured nothing" in nf(*words, code=2)
    assert Path("argument").read_text(encoding="utf-8") == word
    assert not Path("program").exists()


def test_a_folder_that_another_command_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nf: Nf
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: object())
    monkeypatch.setattr("scripts.cli.capture.run_workers", lambda *_: pytest.fail("started"))
    with Lock(tmp_path / "c"):
        (line,) = nf("capture", "--out", tmp_path / "c", "train", code=2).splitlines()
    assert f"{tmp_path / 'c'} is in use by `" in line
    assert line.endswith("choose another --out.")


def test_without_torch(monkeypatch: pytest.MonkeyPatch, nf: Nf) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    assert "torch is not installed: `make torch`" in nf("capture", "train", code=2)


def test_check_counts_what_is_not_finite(tmp_path: Path, nf: Nf) -> None:
    write_capture(tmp_path / "c", "m", {1: {"a": np.array([[1.0, np.nan], [np.inf, 2.0]])}})
    text = nf("capture", "check", tmp_path / "c")
    assert "whole: 4 values read, 2 of them NaN or infinite" in text
    file = Capture.open(tmp_path / "c").worker_path(1, 1)
    file.write_bytes(file.read_bytes()[:-1])
    assert "truncated" in nf("capture", "check", tmp_path / "c", code=2)


def test_check_tells_the_head_ties_and_zeros(tmp_path: Path, nf: Nf) -> None:
    values = {"wte.weight": np.ones((2, 3, 2)), "a.weight": np.array([[[1.0]], [[0.0]]])}
    modules = [
        ModuleSpec("wte", "Embedding", ("wte.weight",)),
        ModuleSpec("a", "Linear", ("a.weight",)),
        ModuleSpec("lm_head", "Linear", ("wte.weight",), head=True),
    ]
    write_capture(tmp_path / "c", "m", {4: values}, modules=modules)
    text = nf("capture", "check", tmp_path / "c")
    assert "modules of the head: lm_head\n  tied: wte.weight\n" in text
    assert "warning: tensor 'a.weight' is zero everywhere in step 4 of worker 1: unused" in text
    write_capture(tmp_path / "d", "m", {4: {**values, "ln_f.weight": np.ones((2, 3))}})
    assert "warning: the capture does not name its head" in nf("capture", "check", tmp_path / "d")


def test_a_manifest_forges_no_line(tmp_path: Path, nf: Nf) -> None:
    forged = "x\nFORGED\x1b[2J"
    write_capture(tmp_path / "c", forged, {1: {"a": np.ones((1, 2))}}, note=forged)
    text = nf("capture", "check", tmp_path / "c")
    assert text.count("x\\nFORGED\\x1b[2J") == 2
    assert "\nFORGED" not in text


def python(code: str) -> Sequence[str]:
    return [sys.executable, "-c", code]


def test_one_failure_ends_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Check that a failed worker ends the others, even ones that ignore SIGTERM.

    Their children end, too.
    """
    monkeypatch.setattr("neuron_fabric.launcher.GRACE_SECONDS", 1)
    pids = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        f"    open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "    time.sleep(600)\n"
        f"while not os.path.exists({str(pids)!r}) or not open({str(pids)!r}).read():\n"
        "    time.sleep(0.01)\n"
        "sys.exit(7)"
    )
    assert launch.run_workers(python(code), 2) == "worker 1 ended with code 7"
    assert ended(*map(int, pids.read_text(encoding="utf-8").split()))


LAUNCH = """
import signal, sys
from scripts.conftest import ended
from scripts.ranks import launch
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under nohup
launch.run_workers([sys.executable, *sys.argv[1:]], 2)
"""

WORK = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
for pid in (os.getpid(), child.pid):
    open(os.path.join(sys.argv[1], str(pid)), "w")
time.sleep(600)
"""


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGHUP, marks=pytest.mark.nightly("7 s; handled as SIGTERM is")),
        signal.SIGKILL,
    ],
)
def test_the_launcher_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Check that workers that ignore SIGTERM, and their children, end with their launcher."""
    lead = subprocess.Popen([*python(LAUNCH), "-c", WORK, str(tmp_path)], cwd=ROOT)
    until = time.monotonic() + 120
    while len(list(tmp_path.iterdir())) < 4:
        assert time.monotonic() < until
        time.sleep(0.01)
    lead.send_signal(number)
    assert lead.wait(120) == (-number if number is signal.SIGKILL else 128 + number)
    assert ended(*(int(path.name) for path in tmp_path.iterdir()))


def test_an_out_that_cannot_be_written_starts_no_worker(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nf: Nf,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: object())
    monkeypatch.setattr("scripts.cli.capture.run_workers", lambda *_: pytest.fail("started"))
    (tmp_path / "file").touch()
    error = nf("capture", "--out", tmp_path / "file", "--", script, code=2)
    assert "cannot write to" in error
    assert len(error.splitlines()) == 1
