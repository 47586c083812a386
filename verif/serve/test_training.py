# SPDX-License-Identifier: Apache-2.0
"""Training of four gloo ranks with a reducer server: the weights equal those with torch.

Law L13 with real processes: after kills and stops at random moments it continues with equal weights
on all ranks, and no bucket has two outcomes.
"""

import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from neuron_fabric.monitor import log
from neuron_fabric.monitor.consensus import COUNT_BIT
from neuron_fabric.reducers.server_wire import ServerError
from neuron_fabric.tests.python_process import run_python
from scripts.cli import serve
from scripts.run.replay_simulators import Simulators
from verif.replay.options import ReplayOptions
from verif.serve.conftest import serving
from verif.serve.device_pool import DevicePool
from verif.serve.rtl_device import FallbackLimit, RtlDevice
from verif.serve.served_bucket import Counts, ServedBucket
from verif.serve.served_device import ModelDevice, ServedDevice

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
pytest.importorskip("sklearn", reason="scikit-learn is not installed: see requirements-torch.txt")

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "examples.train_on_device"]
PLACE: dict[str, Any] = {"cwd": ROOT, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}


def trained(device: ServedDevice, *words: str) -> tuple[int, str]:
    """Return exit code and output of `examples.train_on_device` with a server of this device.

    The example trains with the device and, unless `words` contain `--alone`, with torch's reducer.
    """
    with serving(4, device, timeout_s=300.0) as served:
        command, both = [*COMMAND, "--socket", str(served.path), *words], subprocess.STDOUT
        how = {"encoding": "utf-8", "timeout": 900, "check": False, **PLACE}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=both, **how)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("simulator", "words"),
    [
        pytest.param(
            "",
            ("--fp32", "ordered"),  # the FP32 part goes through the device as well
            marks=pytest.mark.nightly("10 s; test_server_law sums FP32 by a server by day"),
        ),
        pytest.param(
            "verilator",
            (),
            marks=pytest.mark.nightly("10 s; the RTL trains on narrow codes in every change"),
        ),
        ("verilator", ("--low", "G_INT4")),
        pytest.param(
            "",
            ("--low", "G_INT8", "--fp32", "ordered"),
            marks=pytest.mark.nightly("12 s; the RTL trains on narrow codes in every change"),
        ),
    ],
)
def test_weights_are_those_of_torch(tmp_path: Path, simulator: str, words: tuple[str, ...]) -> None:
    """Check the weights of a training on the models, or on two devices of RTL."""
    device: ServedDevice = ModelDevice()
    if simulator:
        model = Simulators().bulk(simulator, {})
        device = DevicePool([RtlDevice(model, tmp_path, simulator, 4) for _ in range(2)])
    code, out = trained(device, "--steps", "16", *words)
    assert code == 0, out
    assert re.search(r"buckets: \d\d+ done, 0 lost", out)
    assert (words[1] if "--low" in words else "G_BINARY") in out
    assert "against torch: 0 of 5,154 weights differ" in out


def digest_by_torchrun(folder: Path, backend: str, reducer: str, steps: int) -> str:
    """Train `examples.train` by four ranks of torchrun; return the digest of the weights.

    The profile votes after three steps, without a trial against FP32.
    """
    profile, text = folder / "profile.toml", (ROOT / "examples/digits.toml").read_text("utf-8")
    text = text.replace("verified = false", "verified = true")
    profile.write_text(text.replace("steps = 0.10  # of all", "steps = 3"), "utf-8")
    words = ("--nproc-per-node", "4", "-m", "examples.train", "--steps", steps)
    variables = {"NF_PROFILE": str(profile), "NF_REDUCER": reducer}
    run = ("-m", "torch.distributed.run", "--standalone", *words, "--backend", backend)
    done = run_python(*run, "--fp32", "ordered", **variables)
    assert done.returncode == 0, done.stderr
    assert ", G_BINARY " in done.stdout
    _, _, digest = done.stdout.rpartition("digest of the weights: ")
    assert re.fullmatch("[0-9a-f]{16}\n", digest), done.stdout  # one, of all ranks
    return digest


@pytest.mark.nightly("a minute: two trainings of 200 steps; test_pool_backend has 30 steps")
def test_weights_by_the_backend_pool(tmp_path: Path) -> None:
    """Check 200 steps with backend and reducer "pool" against gloo with ordered sums."""
    pool = digest_by_torchrun(tmp_path, "pool", f"pool:{tmp_path}/pool", 200)
    assert pool == digest_by_torchrun(tmp_path, "gloo", "torch", 200)


@pytest.mark.nightly(
    "20 s: two trainings; test_weights_are_those_of_torch has one with two devices"
)
def test_weights_by_the_backend_pool_and_two_devices(tmp_path: Path) -> None:
    """Check three steps of FP32 and three of votes through `nf serve --devices 2 --device rtl`."""
    words = (*device("verilator"), "--devices", "2", "--timeout", "300")
    with closing(Keeper(tmp_path / "s", *words)) as keeper:
        keeper.status()
        by_devices = digest_by_torchrun(tmp_path, "pool", f"unix:{tmp_path}/s", 6)
        status = "\n".join(keeper.status())
        assert "jobs that have ended: 6 buckets done, 0 lost, " in status
        assert keeper.starts == 1
    assert by_devices == digest_by_torchrun(tmp_path, "gloo", "torch", 6)


@pytest.mark.parametrize("simulator", ["verilator"])
def test_fallback_of_the_device_and_the_return(tmp_path: Path, simulator: str) -> None:
    """Check that FALLBACK of the device at each bucket moves the region to FP32 and back.

    Each return takes twice as long as the last one, and the monitor's log shows it.
    """
    model, check = Simulators().bulk(simulator, {}), FallbackLimit(1, 6)
    fell_and_returned(RtlDevice(model, tmp_path, simulator, 4, capacity=check), tmp_path)


@pytest.mark.nightly("a training on Icarus: over a minute")
@pytest.mark.parametrize("simulator", ["icarus"])
def test_a_starved_device_falls_back(tmp_path: Path, simulator: str) -> None:
    """Check that a device with too few slots makes the training fall back to FP32.

    Eight slots, and workers apart by 9 and 18 lines: no line is in its slot when the next worker
    sends it. `test_slots_that_are_too_few` has the opposite cases.
    """
    few, check = {"SLOTS": 8}, FallbackLimit(8, 16)
    model, options = Simulators().bulk(simulator, few), ReplayOptions(parameters=few)
    device = RtlDevice(model, tmp_path, simulator, 4, options, check, apart=True)
    fell_and_returned(device, tmp_path, "G_INT4")


def fell_and_returned(device: ServedDevice, folder: Path, low: str = "G_BINARY") -> None:
    """Run a training whose device raises FALLBACK, and check the decisions in the monitor's log."""
    words = ["--steps", "24", "--alone", "--out", str(folder), "--low", low]
    code, out = trained(device, *words)
    assert code == 0, out
    assert ", 0 lost" in out
    [run], _ = log.read(folder / "monitor.jsonl")
    found = [(one.step, one.target) for one in run.decisions if one.region == "conv"]
    words = [target for _, target in found if target in ("rejected", "admitted")]
    assert words[:4] == ["rejected", "admitted"] * 2
    at = [step for step, target in found if target in ("rejected", "admitted")]
    assert at[1] - at[0] == 4
    assert at[3] - at[2] == 8
    used = [one.bytes.get(low, (0, 0))[0] > 0 for one in run.steps]
    assert used[at[0]]
    assert sum(used[at[0] + 1 : at[1] + 1]) == 2  # samples, in every second step
    assert used[at[1] + 1]


class Lossy(ModelDevice):
    """Negative twin: device with wrong bits in a count plane of one line."""

    def reduce(self, bucket: ServedBucket) -> Counts:
        counts = super().reduce(bucket)
        bucket.got[1, bucket.stretches[0].lines[0]] ^= 1
        return counts


@pytest.mark.nightly("9 s: a training; test_rtl_device refuses wrong counts in every change")
def test_a_wrong_count_is_seen() -> None:
    code, out = trained(Lossy(), "--steps", "16")
    assert code == 1
    assert re.search(r"against torch: [1-9]\d* of 5,154|against torch: [1-9],\d+ of", out), out


TIMEOUT_S = 4.0
UNTIL = "enough"
START_S = 900  # of a process, against a hang: the machine may be busy
HANG_S = 60  # of a step: the time-outs of its buckets, on a busy machine
BAND = 0.02  # of the loss above FP32's


class NoServer:
    """Shared memory of the ranks in place of a server, with the interface of `Keeper`."""

    def __init__(self, folder: Path) -> None:
        self.log, self.process = folder / log.NAME, psutil.Process()
        self.path = folder / "pool"
        self.words, self.starts = ("--pool", str(self.path)), 1

    def status(self) -> list[str]:
        """Return a line with the number of steps in the log of the monitor."""
        steps = self.log.read_bytes().count(b"\n") if self.log.exists() else 0
        return [f"buckets: {steps} done" if steps else "no job"]

    def simulators(self) -> list[int]:
        return []

    def close(self) -> None:
        """Check that nothing is left of the memory."""
        assert not self.path.exists()


class Keeper:
    """`nf serve` for four workers as a process that is started again whenever it ends."""

    def __init__(self, path: Path, *words: str) -> None:
        self.path, self.starts, self._ending = path, 0, False
        self._command = [sys.executable, "-m", "scripts.cli.main", "serve", "--workers", "4"]
        self._command += ["--socket", str(path), "--timeout", str(TIMEOUT_S), *words]
        self.words = ("--socket", str(path))
        self.log = path.with_name("server.log").open("wb")
        self._start()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            self._command, cwd=ROOT, stdout=self.log, stderr=subprocess.STDOUT
        )
        self.starts += 1

    def _keep(self) -> None:
        while not self._ending:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
                if not self._ending:
                    self._start()

    def status(self) -> list[str]:
        """Return the lines of the server's status; wait until it runs."""
        end = time.monotonic() + START_S
        while True:
            try:
                return serve.status(self.path)
            except ServerError:
                assert time.monotonic() < end
                time.sleep(0.1)

    def simulators(self) -> list[int]:
        with suppress(psutil.Error):
            children = psutil.Process(self.process.pid).children(recursive=True)
            return [one.pid for one in children if one.name() == "vvp"]
        return []

    def close(self) -> None:
        self._ending = True
        self._thread.join()
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


Server = Keeper | NoServer


@contextmanager
def training(keeper: Server, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Start a training that ends when the file `UNTIL` exists in `folder`, for a `with` block.

    Yield its process once the server has its job; at the end kill it and its ranks if it still
    runs. `more` are further options of the training.
    """
    keeper.status()  # the server runs
    words = [*keeper.words, "--alone", "--steps", "100000"]
    words += ["--until", str(folder / UNTIL), "--timeout", str(TIMEOUT_S), "--out", str(folder)]
    words += more
    outputs: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen([*COMMAND, *words], encoding="utf-8", **outputs, **PLACE)
    end = time.monotonic() + START_S
    try:
        while "no job" in keeper.status() and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.1)
        yield process
    finally:
        if process.poll() is None:
            for one in [*psutil.Process(process.pid).children(), process]:
                one.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def done(keeper: Server) -> int:
    """Return the number of buckets done in the server's present job."""
    found = re.search(r"buckets: (\d+) done", "\n".join(keeper.status()))
    return int(found[1]) if found else 0


def device(simulator: str) -> tuple[str, ...]:
    """Return options of `nf serve`: the RTL in this simulator, built now, or the models for ""."""
    if not simulator:
        return ("--device", "model")
    Simulators().bulk(simulator, {})
    return ("--device", "rtl", "--sim", simulator)


def signalled(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def harm(kind: str, keeper: Server, ranks: list[int], draw: random.Random) -> None:
    """Kill or stop a process.

    Args:
        kind: "kill", "stop" or "long-stop", a space, and "server", "simulator" or "rank"; a stop
            lasts up to half the time-out, a long one up to twice the time-out and 8 s more. "slow":
            stop it for half of the time, 50 times.
        keeper: Server.
        ranks: Process numbers of the ranks.
        draw: Source of random choices.
    """
    name, _, of = kind.partition(" ")
    found = {"server": [keeper.process.pid], "simulator": keeper.simulators(), "rank": ranks}[of]
    if not found:
        return
    pid = draw.choice(found)
    if name == "slow":
        for number in [signal.SIGSTOP, signal.SIGCONT] * 50:
            signalled(pid, number)
            time.sleep(draw.random() * 0.04)
        return
    if name == "kill":
        signalled(pid, signal.SIGKILL)
        return
    signalled(pid, signal.SIGSTOP)
    time.sleep(draw.random() * (2 * TIMEOUT_S + 8 if name == "long-stop" else TIMEOUT_S / 2))
    signalled(pid, signal.SIGCONT)


def lost_as_one(folder: Path) -> int:
    """Return the number of training steps that lost a bucket; check the monitor's decisions.

    Each of them, if low-bit was in use, must be answered by one decision for FALLBACK with the
    signal of the reducer: at once, or, after a recent transition, at the next permitted step. There
    must be no other such decision.
    """
    [run], _ = log.read(folder / "monitor.jsonl")
    at, hold = run.run.fields.index("lost"), run.run.plan.limits.hold
    modes = {one.step + 1: one.mode for one in run.steps}  # that a step began in
    lost = [one.step for one in run.steps if one.vector[at] % (1 << COUNT_BIT)]
    answers = [one.step for one in run.decisions if one.signal == "reducer"]
    assert answers == sorted(set(answers))
    for step in lost:
        idle = modes.get(step, "FP32_WARMUP") in ("FP32_WARMUP", "FALLBACK")
        assert idle or any(0 <= one - step <= hold + 1 for one in answers), (step, answers)
    for one in answers:
        assert any(0 <= one - step <= hold + 2 for step in lost), (one, lost)
    return len(lost)


def at_work(keeper: Server, process: subprocess.Popen[str]) -> None:
    """Wait until the server completes a bucket, also after it was harmed."""
    count, end = done(keeper), time.monotonic() + START_S
    while (now := done(keeper)) <= count and process.poll() is None:
        assert time.monotonic() < end, keeper.status()
        count = min(count, now)  # of a server that has come since
        time.sleep(0.2)


def trial(
    tmp_path: Path,
    kinds: list[str],
    seed: int,
    *words: str,
    settled: bool = False,
    more: Sequence[str] = (),
    pool: bool = False,
) -> tuple[str, Any]:
    """Run a training on a server, and harm a process at random moments; see `harm`.

    Args:
        tmp_path: Folder.
        kinds: Kinds of harm, in order.
        seed: Seed of moments and choices.
        words: Options of `nf serve`.
        settled: Wait before each harm until the server completes buckets.
        more: Options of the training.
        pool: Let the ranks share memory, without a server.

    Returns:
        The text that the training printed, and the keeper of the server.
    """
    draw = random.Random(seed)
    with (
        closing(NoServer(tmp_path) if pool else Keeper(tmp_path / "s", *words)) as keeper,
        training(keeper, tmp_path, *more) as process,
    ):
        ranks = [one.pid for one in psutil.Process(process.pid).children()]
        for kind in kinds:
            if settled:
                at_work(keeper, process)
            time.sleep(draw.random())
            assert process.poll() is None, process.communicate()[0]
            harm(kind, keeper, ranks, draw)
        at_work(keeper, process)
        (tmp_path / UNTIL).touch()
        out, _ = process.communicate(timeout=START_S)
        assert process.returncode == 0, out
        keeper.status()  # it is there, or comes again
    assert "weights of the ranks: the same" in out
    return out, keeper


@pytest.mark.nightly("14 s: four moments; a rank is killed in every change")
def test_the_server_is_killed_and_stopped(tmp_path: Path) -> None:
    kinds = ["kill server", "stop server", "stop rank", "kill server"]
    out, keeper = trial(tmp_path, kinds, 1, "--device", "model")
    assert keeper.starts >= 2
    assert ", 0 lost" not in out
    assert lost_as_one(tmp_path) > 0
    assert "the reducer is lost (" in out


@pytest.mark.nightly("half a minute; a rank is killed in every change")
@pytest.mark.parametrize("simulator", ["icarus"])
def test_the_simulator_is_killed(tmp_path: Path, simulator: str) -> None:
    """Check that the server opens another simulator, and that no rank has to join again."""
    words = device(simulator)
    _, keeper = trial(tmp_path, ["kill simulator"] * 3, 1, *words)
    assert keeper.starts == 1


def ending(process: subprocess.Popen[str]) -> str:
    """Return the line that a training prints when it ends; wait for `HANG_S` seconds."""
    assert process.stdout is not None
    lines = (one for one in process.stdout if one.endswith("the training ends\n"))
    return ThreadPoolExecutor(1).submit(next, lines, "no line").result(HANG_S)


BY_POOL = pytest.mark.nightly(
    "12 s: a training; in every change test_rounds stops and kills ranks of a pool, "
    "test_pool_backend ends a training with a lost one, and a server closes rounds of a training"
)
POOL = pytest.mark.parametrize(
    "pool", [False, pytest.param(True, marks=BY_POOL)], ids=["unix", "pool"]
)
CLOSING = ("--fp32", "ordered", "--close-after", "0.05", "--min-workers", "2")


def closed_as_logged(folder: Path, out: str) -> int:
    """Return the number of closed rounds; check that the log has each, and each late gradient."""
    [run], _ = log.read(folder / "monitor.jsonl")
    late = Counter(rank for one in run.closed for rank in one.late)
    words = " ".join(str(late[rank]) for rank in range(4))
    assert f"rounds closed: {len(run.closed)}; late by rank: {words}\n" in out
    assert len({(one.step, one.bucket) for one in run.closed}) == len(run.closed)
    if (server := folder / "server.log").exists():
        said = server.read_text(encoding="utf-8")
        assert len(re.findall("closed without rank", said)) == len(run.closed)
    return len(run.closed)


@pytest.mark.nightly("half a minute; a rank is killed, and rounds are closed, in every change")
@POOL
def test_ranks_are_stopped_and_slowed(tmp_path: Path, pool: bool) -> None:
    """Check that rounds are closed without ranks that are stopped or slow; no bucket is lost."""
    kinds = ["stop rank", "slow rank", "stop rank"]
    out, _ = trial(tmp_path, kinds, 1, "--device", "model", more=CLOSING, pool=pool)
    assert ", 0 lost" in out
    assert closed_as_logged(tmp_path, out) > 0


@pytest.mark.nightly("50 moments of a long training; test_ranks_are_stopped_and_slowed has three")
@POOL
def test_ranks_are_stopped_and_slowed_fifty_times(tmp_path: Path, pool: bool) -> None:
    draw = random.Random(3)
    kinds = [draw.choice(["stop rank", "slow rank"]) for _ in range(50)]
    out, _ = trial(tmp_path, kinds, 3, "--device", "model", settled=True, more=CLOSING, pool=pool)
    assert ", 0 lost" in out
    assert closed_as_logged(tmp_path, out) >= 50


@pytest.mark.parametrize(
    ("words", "pool"),
    [
        pytest.param(
            (), False, marks=pytest.mark.nightly("two trainings; those below close rounds too")
        ),
        (CLOSING, False),
        pytest.param(CLOSING, True, marks=BY_POOL),
    ],
    ids=["all", "closing", "closing-pool"],
)
def test_a_rank_is_killed(tmp_path: Path, words: tuple[str, ...], pool: bool) -> None:
    """Check that the training of a killed rank ends, and that the next one can start.

    One line names the rank. The launcher, which would end the other ranks at
    once, is stopped until then.
    """
    server: Server = NoServer(tmp_path) if pool else Keeper(tmp_path / "s", "--device", "model")
    with closing(server) as keeper:
        with training(keeper, tmp_path, *words) as process:
            ranks = [one.pid for one in psutil.Process(process.pid).children()]
            at_work(keeper, process)
            signalled(process.pid, signal.SIGSTOP)
            signalled(ranks[2], signal.SIGKILL)
            assert f"rank 2 (process {ranks[2]}) has ended" in ending(process)
            signalled(process.pid, signal.SIGCONT)
            out, _ = process.communicate(timeout=START_S)
            assert process.returncode != 0, out
            assert "the training ends" not in out
        (tmp_path / UNTIL).touch()
        with training(keeper, tmp_path) as again:
            out, _ = again.communicate(timeout=START_S)
            assert again.returncode == 0, out
        assert keeper.starts == 1


KINDS = ["kill server", "kill simulator", "stop server", "stop simulator", "stop rank"]


@pytest.mark.nightly("50 moments of a long training; test_the_server_is_killed has four")
@pytest.mark.parametrize("simulator", ["", "icarus"])
def test_fifty_moments(tmp_path: Path, simulator: str) -> None:
    """Check a long training with 50 kills and stops, with the models and with the RTL.

    Each killed process loses a bucket, no step takes longer than its time-outs, and the loss is
    that of FP32.
    """
    draw = random.Random(7)
    kinds = [draw.choice(KINDS) for _ in range(48)] + ["long-stop server", "long-stop simulator"]
    draw.shuffle(kinds)
    _, keeper = trial(tmp_path, kinds, 7, *device(simulator), settled=True)
    fatal = ["kill server", "kill simulator"] if simulator else ["kill server"]
    killed = [one for one in kinds if one in fatal]
    assert keeper.starts > kinds.count("kill server")
    assert lost_as_one(tmp_path) >= len(killed)
    [run], _ = log.read(tmp_path / "monitor.jsonl")
    assert max(one.seconds["reduce"] for one in run.steps) < HANG_S
    steps = min(len(run.steps), 400)
    ends = [statistics.fmean(fp32_losses(seed, steps)[-20:]) for seed in (1, 2, 3)]
    assert statistics.fmean(one.loss or 0.0 for one in run.steps[-20:]) <= max(ends) + BAND


def fp32_losses(seed: int, steps: int) -> list[float]:
    """Return the loss of each step of the same FP32 training in one process, without a server.

    A step uses the images of all four ranks.
    """
    from torch import set_num_threads
    from torch.nn import functional
    from torch.optim import SGD
    from torch.random import manual_seed

    from examples.workloads import Digits, DigitsResNet

    set_num_threads(1)
    manual_seed(seed)
    data, net, losses = Digits(), DigitsResNet(), []
    optimizer = SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        images, labels = data.batch(seed, step, 0, 1, 64)
        loss = functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
