# SPDX-License-Identifier: Apache-2.0
"""Tests that uses of a DDP model which torch's own hook (PowerSGD) allows also work with ours.

Each is tried with a capture, a profile, and both; plus exits of scripts and lost ranks.
"""

from __future__ import annotations

import copy
import gc
import io
import os
import re
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from torch import distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from neuron_fabric import attach
from neuron_fabric.calibration.calibration_job import CALIBRATE, Job, read_rows, write_job
from neuron_fabric.capture import Capture
from neuron_fabric.capture.layout import TensorSpec
from neuron_fabric.capture.writer import CaptureFolder
from neuron_fabric.errors import AttachError
from neuron_fabric.hook.lost_ranks import is_lost
from neuron_fabric.tests.ddp.attach_cases import text_of
from neuron_fabric.tests.ddp.law_testbench import Net
from neuron_fabric.tests.python_process import run_python

Attached = Callable[[Any], Any]
"""Registers a hook on a model; what it gives is kept."""


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    torch.set_num_threads(1)
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def network() -> Any:
    torch.manual_seed(1)
    return DistributedDataParallel(Net())


def backward(model: Any, steps: int = 4) -> None:
    """Run forward and backward ``steps`` times; after the default of 4, votes have been sent."""
    for _ in range(steps):
        model(torch.randn(4, 128)).square().mean().backward()


HOOKS = ("capture", "profile", "both")


def hooked(hook: str, folder: Path) -> Attached:
    """Return a function that registers the hook of this name on a model.

    It returns what the registration returns: a session, or None.

    Args:
        hook: One of `HOOKS`.
        folder: Folder for the profile, and for one capture folder (``c0``, ``c1``, ...) per model.
    """

    def do(model: Any) -> Any:
        place = folder / f"c{len(list(folder.glob('c*')))}"
        env = {} if hook == "profile" else {"NF_CAPTURE_DIR": str(place)}
        if hook == "capture":
            return attach(model, env=env)
        path = folder / "p.toml"
        path.write_text(text_of(model.module), encoding="utf-8")
        return attach(model, path, scaler=False, env=env)

    return do


def saved(model: Any) -> Any:
    """Save the model with torch.save and return the loaded copy.

    Check also that the file names no module of the hook, which another machine may lack.
    """
    file = io.BytesIO()
    torch.save(model, file)
    assert b"neuron_fabric.hook" not in file.getvalue()
    file.seek(0)
    return torch.load(file, weights_only=False)


def averaged(model: Any) -> Any:
    found = AveragedModel(model)
    found.update_parameters(model)
    return found.module


def rewrapped(model: Any) -> Any:
    return DistributedDataParallel(model.module)


def accumulates(model: Any) -> None:
    with model.no_sync():
        backward(model, 2)
    backward(model, 1)


def evaluates(model: Any) -> None:
    model.eval()
    with torch.no_grad():
        model(torch.randn(2, 128))
    model.train()
    backward(model, 1)


def joins(model: Any) -> None:
    with model.join():
        backward(model, 2)
    with Join([model]):
        backward(model, 1)


def restores(model: Any) -> None:
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    backward(model, 1)


def loads(model: Any) -> None:
    """Train with batches of a DataLoader whose worker process is forked after `attach`."""
    data = torch.utils.data.TensorDataset(torch.randn(6, 128))
    words = {"num_workers": 1, "multiprocessing_context": "fork", "timeout": 60}
    for (x,) in torch.utils.data.DataLoader(data, 2, **words):
        model(x).square().mean().backward()


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "torch.save": saved,
    "AveragedModel": averaged,
    "re-wrap": rewrapped,
}


def test_a_loss_is_a_number(tmp_path: Path) -> None:
    runtime = hooked("profile", tmp_path)(network())
    for loss in (None, "much", 10**400, torch.ones(2)):
        with pytest.raises(AttachError, match=r"observe: the loss (is a|has 2 elements)"):
            runtime.observe(loss)
    runtime.observe(np.float32(1))
    runtime.close()


USES: dict[str, Callable[[Any], object]] = {
    "no_sync": accumulates,
    "eval": evaluates,
    "join": joins,
    "state_dict": restores,
    "DataLoader": loads,
    "share_memory": lambda model: model.share_memory(),
    "zero_grad": lambda model: model.zero_grad(),
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_a_plain_model(tmp_path: Path, way: str, hook: str) -> None:
    """Check that a copy of a hooked model trains and takes a hook, while the original trains on."""
    model, attached = network(), hooked(hook, tmp_path)
    kept = attached(model)
    backward(model)
    twin = COPIES[way](model)
    backward(twin, 1)
    twice = attached(twin)
    backward(twin)
    backward(model, 1)
    if hook in ("capture", "both"):
        assert Capture.open(tmp_path / "c0").steps == (0, 1, 2, 3, 4)
        assert Capture.open(tmp_path / "c1").steps == (0, 1, 2, 3)
    for one in (kept, twice):
        assert copy.deepcopy(one) is None  # one that a model holds is copied with it
        if hook in ("profile", "both"):
            one.close()


def _told(folder: Path) -> Attached:
    """Return a function that attaches a profile with a condition on the batch size.

    The first forward pass is to show whether it holds.
    """

    def do(model: Any) -> Any:
        valid = "[valid_for]\nbatch_per_worker = [4, 4]\n[phases.warmup]"
        text = text_of(model.module).replace("[phases.warmup]", valid)
        (folder / "p.toml").write_text(text, encoding="utf-8")
        return attach(model, folder / "p.toml", scaler=False, env={})

    return do


def _calibration(folder: Path) -> Attached:
    write_job(folder, Job(every=1))
    return lambda model: attach(model, env={CALIBRATE: str(folder)})


@pytest.mark.parametrize("hook", [_told, _calibration])
@pytest.mark.parametrize("way", ["deepcopy", "torch.save", "in the bare model"])
def test_a_copy_before_the_first_forward_is_one(
    tmp_path: Path, way: str, hook: Callable[[Path], Attached], capfd: pytest.CaptureFixture[str]
) -> None:
    """Check that the first forward pass of a copy is not taken for that of the original.

    Only a pass of the original warns about its batch, or starts its calibration.
    """
    model = network()
    kept = hook(tmp_path)(model)
    twin = copy.deepcopy(model.module) if way == "in the bare model" else COPIES[way](model)
    capfd.readouterr()
    twin(torch.randn(9, 128)).square().mean().backward()
    assert capfd.readouterr().err == ""
    model(torch.randn(9, 128)).square().mean().backward()
    kept.close()
    said = capfd.readouterr().err
    if hook is _told:
        assert said.count("batch_per_worker is 9, calibrated for 4") == 1
    else:
        about, *_ = read_rows(tmp_path)
        head = [one.name for one in about.parameters if one.kind == "head"]
        assert head == ["head.weight", "head.bias"]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("way", USES)
def test_it_is_used_as_any_model(tmp_path: Path, way: str, hook: str) -> None:
    model = network()
    kept = hooked(hook, tmp_path)(model)
    USES[way](model)
    backward(model)
    if hook in ("profile", "both"):
        kept.close()


@pytest.mark.parametrize("hook", HOOKS)
def test_nothing_is_left_of_a_model(tmp_path: Path, hook: str) -> None:
    """Check that a dropped model ends its threads and closes its capture.

    The next capture may then replace the folder.
    """
    before = set(threading.enumerate())
    for _ in range(2):
        model = network()
        hooked(hook, tmp_path)(model)
        backward(model)
        del model
    until = time.monotonic() + 60
    while set(threading.enumerate()) - before:  # the last step may be under way there
        assert time.monotonic() < until
        time.sleep(0.01)
        gc.collect()
    gc.collect()
    for folder in tmp_path.glob("c*"):
        CaptureFolder(folder, "m", 1, [TensorSpec("a", (1,))]).create(replace=True)


@pytest.mark.parametrize("hook", ["profile", "both"])
def test_a_closed_training_is_no_garbage(tmp_path: Path, hook: str) -> None:
    """Check that a closed session is freed with its last reference, without the garbage
    collector.
    """
    gc.collect()
    gc.disable()
    try:
        model = network()
        kept = hooked(hook, tmp_path)(model)
        backward(model)
        kept.close()
        seen = weakref.ref(kept)
        del model, kept
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("hook", HOOKS)
def test_a_forked_process_frees_what_it_has_got(tmp_path: Path, hook: str) -> None:
    """Check that a forked child can free hooked models, and does not hang.

    The threads of the parent, which a destructor could wait for, do not exist in the child.
    """
    for _ in range(2):
        model = network()
        held = [model, hooked(hook, tmp_path)(model)]  # the first one becomes garbage
        backward(model)
        held.append(held)
    pid = os.fork()
    if pid == 0:
        del model, held
        gc.collect()
        os._exit(0)
    until = time.monotonic() + 30
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert ended == (pid, 0)


EXITS = """
import atexit, os, signal, sys, tempfile
from pathlib import Path
import torch, torch.distributed as dist
import torch._dynamo
from neuron_fabric.capture import Capture
from neuron_fabric.capture.safetensors_io import TensorFileWriter
from neuron_fabric.tests.ddp.attach_cases import started

def train(way, folder):
    model, runtime = started(folder, NF_CAPTURE_DIR=f"{folder}/c")
    for _ in range(4):
        model(torch.randn(4, 128)).square().mean().backward()
    if way == "SIGTERM in a step":
        TensorFileWriter.close = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
        model(torch.randn(4, 128)).square().mean().backward()
    if way == "os._exit":
        os._exit(0)
    if way in ("destroyed", "closed after it"):
        dist.destroy_process_group()
    if way == "closed after it":
        runtime.state_dict()
        runtime.close()
    if way == "forked":
        if os.fork() == 0:
            atexit._run_exitfuncs()
            os._exit(0)  # what sys.exit does then hangs, now and then, with plain DDP too
        os.wait()
    if way == "interrupted":
        raise KeyboardInterrupt

for way in sys.argv[2:]:
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        train(way, tempfile.mkdtemp(dir=sys.argv[1], prefix=way.replace(" ", "-") + "-"))
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    (folder,) = Path(sys.argv[1]).glob(way.replace(" ", "-") + "-*")
    print(way, code, Capture.open(folder / "c").steps)
"""


@pytest.mark.nightly("seven trainings of their own; the copies and uses above are the quick part")
def test_a_script_may_end_in_any_order(tmp_path: Path) -> None:
    """Check that no captured step is lost however a script ends.

    That is without close, with destroy_process_group before or after it, by os._exit, in a fork, by
    SIGTERM in a step, and by KeyboardInterrupt.
    """
    ways = ("plain", "destroyed", "closed after it", "os._exit", "forked")
    last = ("SIGTERM in a step", "interrupted")
    done = run_python("-c", EXITS, tmp_path, *ways, *last)
    wanted = [f"{way} 0 (0, 1, 2, 3)" for way in ways]
    wanted += [f"{last[0]} {-signal.SIGTERM} (0, 1, 2, 3)"]
    assert done.stdout.splitlines()[:-1] == wanted, done.stderr[-3000:]
    assert re.match(r"interrupted (1|130|-2) \(0, 1, 2, 3\)", done.stdout.splitlines()[-1])


# A rank that is killed or stopped: one line first, with step, bucket, route and rank.

TRAIN = """
import os, signal, sys, time
import torch
import torch._dynamo
from neuron_fabric.hook import lost_ranks
from neuron_fabric.tests.ddp.attach_cases import started

warn = lost_ranks.warn
lost_ranks.warn = lambda line: (time.sleep(0.5), warn(line))  # the other ranks must wait for it

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


def test_which_errors_are_of_a_lost_rank() -> None:
    """Check which exceptions mean a lost rank: closed connections and time-outs of gloo only."""
    closed = RuntimeError("[gloo/transport/pair.cc:547] Connection closed by peer [10.0.0.2]:42")
    timed = RuntimeError("[gloo/unbound_buffer.cc:81] Timed out waiting 3000ms for recv operation")
    assert is_lost(closed)
    assert is_lost(timed)
    assert not is_lost(ValueError("gloo"))
    assert not is_lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
