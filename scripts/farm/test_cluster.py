# SPDX-License-Identifier: Apache-2.0
"""Tests of runs on a real Dask scheduler with local worker processes that have no checkout."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from neuron_fabric.data import read_object
from scripts.common.errors import NfError
from scripts.common.records import FailureKind, RunRecord, RunSpec, Verdict
from scripts.conftest import QUICK, Toy, left_in
from scripts.farm import cluster
from scripts.run import schedule

RUNS = 30
ON_DASK = [
    pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None,
        reason="Dask is not installed: `make cluster`",
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
pytestmark = ON_DASK


class Loopback:
    """A Dask scheduler and workers on this machine, each a process in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        self.workers: list[subprocess.Popen[str]] = []
        scheduler = self._start("scheduler", "--port", "0", "--dashboard-address", ":0")
        self.address = self._address(folder / "scheduler.log", scheduler)

    def _start(self, kind: str, *words: str) -> subprocess.Popen[str]:
        name = kind if kind == "scheduler" else f"{kind}{len(self.workers)}"
        home = self.folder / name
        home.mkdir()
        with (self.folder / f"{name}.log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + kind, *words],
                cwd=home,
                env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
            )
        self.processes.append(process)
        return process

    @staticmethod
    def _address(log: Path, process: subprocess.Popen[str]) -> str:
        late = time.monotonic() + 300
        while time.monotonic() < late and process.poll() is None:
            found = re.search(r"Scheduler at:\s+(tcp://\S+)", log.read_text(encoding="utf-8"))
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(log.read_text(encoding="utf-8"))

    def add_worker(self) -> None:
        """Add a worker with one thread."""
        words = ("--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        home = ("--local-directory", str(self.folder / f"worker{len(self.workers)}"))
        self.workers.append(self._start("worker", self.address, *words, *home))

    def close(self) -> None:
        """Kill all processes."""
        for process in self.processes:
            process.kill()  # an orderly end would take its time
            process.wait()


@contextlib.contextmanager
def workers(folder: Path, count: int) -> Iterator[Loopback]:
    """Context of a scheduler with `count` workers."""
    made = Loopback(folder)
    try:
        for _ in range(count):
            made.add_worker()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """Run a scheduler with three workers for all tests: one dies in a test, one is kept busy."""
    with workers(tmp_path_factory.mktemp("farm"), 3) as made:
        yield made


@pytest.fixture
def farm(loopback: Loopback, toy: Toy) -> Iterator[cluster.Farm]:
    """Connect to the scheduler; results are stored in the toy's folder."""
    with cluster.connect(loopback.address) as made:
        made.runs, made.builds = toy.folder / "runs", toy.folder / "sim"
        yield made


def test_every_kind_of_result_comes_back(farm: cluster.Farm, toy: Toy) -> None:
    build = toy.spec(waves=None)
    good = farm.run(RunSpec(build, "toy_bench", ("adds_one",), timeout_s=300))
    assert good.passed, good.cause
    assert good.metrics["cycles"] == 3
    assert "adds_one" in Path(good.log).read_text(encoding="utf-8")
    wrong = farm.run(RunSpec(build, "toy_bench", ("wrong",), timeout_s=300))
    assert wrong.kind is FailureKind.MISMATCH
    place = "AssertionError: q is not 77; assert 0 == 77 (toy_bench.py:"  # no worker's place
    assert wrong.cause.startswith(place)
    assert wrong.rerun.endswith(f"toy_bench::wrong --sim {QUICK} --seed 1 --build default")
    broken = replace(build, defines=(("STEP", "1 +"),), top="nothing")
    assert farm.run(RunSpec(broken, "toy_bench", ("wrong",))).kind is FailureKind.BUILD


READS = """
    import os
    from pathlib import Path
    import cocotb

    @cocotb.test()
    async def reads(dut):
        path = Path(os.environ["NF_SCENARIO"])
        assert False, f"{path.read_text(encoding='utf-8')} in {path}"
"""


@pytest.mark.nightly("12 s: two runs; every kind of result comes back in every change")
def test_a_file_that_a_variable_names_goes_along(
    farm: cluster.Farm, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that an input file named by a variable reaches the worker as text.

    The record has the local name of the file. A missing file is an infrastructure failure.
    """
    (toy.folder / "reads_bench.py").write_text(textwrap.dedent(READS), encoding="utf-8")
    given = tmp_path / "given here.json"
    given.write_text("seven", encoding="utf-8")
    spec = RunSpec(toy.spec(waves=None), "reads_bench", ("reads",), timeout_s=300)
    real = farm._submit

    def elsewhere(request: dict[str, Any], work: bytes) -> tuple[str, bytes]:
        given.unlink()  # the workers of the test are on this machine
        return real(request, work)

    monkeypatch.setattr(farm, "_submit", elsewhere)
    record = farm.run(replace(spec, env=(("NF_SCENARIO", str(given)),)))
    assert f"AssertionError: seven in {given}" in record.cause
    assert record.rerun.endswith(f"--scenario '{given}'")
    kept = read_object(Path(record.log).with_name("record.json"))
    assert (kept["rerun"], kept["log"]) == (record.rerun, record.log)
    lost = farm.run(replace(spec, env=(("NF_SCENARIO", str(tmp_path / "none.json")),)))
    assert lost.kind is FailureKind.INFRASTRUCTURE
    assert lost.cause == (
        f"NF_SCENARIO: {tmp_path / 'none.json'}: No such file or directory; "
        "it cannot go to a worker."
    )


def test_an_odd_answer_of_a_worker_is_one_line(
    farm: cluster.Farm, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = RunSpec(toy.spec(waves=None), "toy_bench", ("adds_one",), timeout_s=300)
    monkeypatch.setattr(farm, "_ship", lambda what, make: "")
    text = json.dumps(RunRecord.of(spec, Verdict(True)).to_json())
    for answer in ((text, b"PK"), (text, b""), ("{", b""), ("[]", b""), ('{"id": 1}', b"")):
        monkeypatch.setattr(farm, "_submit", lambda request, work, answer=answer: answer)
        record = farm.run(spec)
        assert record.kind is FailureKind.INFRASTRUCTURE
        assert record.cause.startswith("the answer of a worker is refused: ")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NF_LINK_TRACE", r"do not write to NF_LINK_TRACE=a\.out; unset it"),
        ("NF_ICARUS", "use their own simulators; unset NF_ICARUS"),
    ],
)
def test_what_a_worker_cannot_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.setenv(name, "a.out")
    refused = pytest.raises(NfError, match=why)
    with refused, cluster.connect("tcp://127.0.0.1:8"):
        pass


@pytest.mark.nightly("8 s: a cluster is killed; every kind of result comes back in every change")
def test_a_worker_that_dies_half_way(farm: cluster.Farm, loopback: Loopback, toy: Toy) -> None:
    specs = [
        RunSpec(toy.spec(), "toy_bench", ("adds_one",), seed=seed, timeout_s=300)
        for seed in range(1, RUNS + 1)
    ]
    victim = loopback.workers[0]
    seen: list[RunRecord] = []

    def came(record: RunRecord) -> None:
        seen.append(record)
        if len(seen) == RUNS // 2:
            victim.send_signal(signal.SIGKILL)

    records = schedule.run_all(specs, farm.slots, came, runner=farm.run, end=farm.end)
    assert victim.wait(timeout=120) == -signal.SIGKILL
    assert Counter(record.seed for record in records) == dict.fromkeys(range(1, RUNS + 1), 1)
    assert [record.cause for record in records if not record.passed] == []
    assert seen == records
    for record in records:
        assert Path(record.log).is_file()
    _all_gone(loopback.folder / "worker0")


@pytest.mark.nightly("9 s: it starts another cluster; test_interrupt has the local pool")
def test_an_interrupt_reaches_the_workers(loopback: Loopback, toy: Toy) -> None:
    specs = [RunSpec(toy.spec(), "toy_bench", (test,)) for test in ("adds_one", "hang")]
    stop = threading.Event()
    with cluster.connect(loopback.address) as farm:
        farm.runs, farm.builds = toy.folder / "runs", toy.folder / "sim"
        records = schedule.run_all(
            specs,
            farm.slots,
            lambda record: stop.set(),
            runner=farm.run,
            end=farm.end,
            interrupted=stop,
        )
        assert [record.name for record in records] == ["toy_bench::adds_one"]
        farm.resume()  # as the next round of --watch does
        _all_gone(loopback.folder)
        assert farm.run(specs[0]).passed
    _all_gone(loopback.folder)


def _all_gone(folder: Path) -> None:
    """Check that no server and no simulator stays below `folder`; Dask's own processes may."""
    assert left_in(folder, but="dask_") == []


@pytest.mark.parametrize("spoken", [b"", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_peer_that_is_no_scheduler(monkeypatch: pytest.MonkeyPatch, spoken: bytes) -> None:
    """Check the error for an address where a peer stays silent or speaks another protocol.

    The command must not hang.
    """
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = threading.Thread(target=_speak, args=(server, spoken), daemon=True)
        peer.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        start = time.monotonic()
        with (
            pytest.raises(NfError, match="no Dask scheduler answers there"),
            cluster.connect(address),
        ):
            pass
        assert time.monotonic() - start < 100  # it would wait for ever
        server.shutdown(socket.SHUT_RDWR)  # ends the wait for the next connection
        peer.join()


def _speak(server: socket.socket, spoken: bytes) -> None:
    with contextlib.ExitStack() as kept, contextlib.suppress(OSError):
        while True:  # a connection that is closed would be an answer
            kept.enter_context(server.accept()[0]).sendall(spoken)


def test_an_open_scheduler_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.2)
    for _ in range(2):
        refused = pytest.raises(NfError, match="no Dask scheduler answers")
        with refused, cluster.connect("tcp://127.0.0.1:8"):
            pass
    assert capsys.readouterr().err.count("without TLS") == 1


def test_tls_needs_certificates() -> None:
    with (
        pytest.raises(NfError, match="names no key"),
        cluster.connect("tls://127.0.0.1:8"),
    ):
        pass


# Stands for a batch system: starts the script at once, in the background.
SUBMIT = """\
    #!/bin/sh
    cd {folder} && cat "$@" > job.$$
    setsid bash job.$$ > /dev/null 2>&1 < /dev/null &
    echo "{says}" | sed "s/{{}}/$!/"
"""
CANCEL = """\
    #!/bin/sh
    for job in "$@"; do kill -TERM -- "-$job"; done
"""
SYSTEMS = {
    "slurm": ("sbatch", "scancel", "Submitted batch job {}"),
    "lsf": ("bsub", "bkill", "Job <{}> is submitted to default queue."),
    "pbs": ("qsub", "qdel", "{}.server"),
}


AGAIN = pytest.mark.nightly("10 to 27 s: another scheduler; lsf has the same code by day")


@pytest.mark.parametrize(
    "system", [pytest.param(one, marks=[AGAIN] * (one != "lsf")) for one in SYSTEMS]
)
def test_batch_systems(
    tmp_path: Path, toy: Toy, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check `connect` to batch systems: dask-jobqueue's own code, with fake submit commands."""
    submit, cancel, says = SYSTEMS[system]
    for name, text in ((submit, SUBMIT), (cancel, CANCEL)):
        path = tmp_path / name
        text = textwrap.dedent(text)
        path.write_text(text.format(folder=tmp_path, says=says), encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(cluster, "BUILD", tmp_path)
    ours = signal.getsignal(signal.SIGINT)
    with cluster.connect(system, 1) as farm:
        assert signal.getsignal(signal.SIGINT) is ours  # dask-jobqueue takes it when it is imported
        farm.runs, farm.builds = tmp_path / "runs", toy.folder / "sim"
        _nothing_is_open(tmp_path)
        if system == next(iter(SYSTEMS)):  # a worker is a worker: one of the three does a run
            record = farm.run(RunSpec(toy.spec(), "toy_bench", ("adds_one",), timeout_s=300))
            assert record.passed, record.cause
    assert list((tmp_path / "cluster").iterdir()) == []  # no key is left


def _nothing_is_open(jobs: Path) -> None:
    """Check that each port reachable from other machines requires a certificate."""
    workers = [one for one in psutil.process_iter() if _in(one, jobs)]
    ports = {
        found.laddr
        for process in (psutil.Process(), *workers)
        for found in _connections(process)
        if found.status == psutil.CONN_LISTEN and not found.laddr.ip.startswith(("127.", "::1"))
    }
    assert len(ports) >= 2  # the scheduler's and the worker's
    for ip, port in ports:
        here = "127.0.0.1" if ip in ("0.0.0.0", "::") else ip
        with socket.create_connection((here, port), timeout=60) as peer:
            peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert peer.recv(1) in (b"", b"\x15")  # an alert of TLS, or an end
    assert (jobs / "cluster").stat().st_mode & 0o077 == 0


def _connections(process: psutil.Process) -> list[Any]:
    """Return the TCP connections of a process; [] if it has ended."""
    with contextlib.suppress(psutil.Error):
        return list(process.net_connections("tcp"))
    return []


def _in(process: psutil.Process, folder: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return Path(process.cwd()).is_relative_to(folder)
    return False


def test_batch_system_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    with pytest.raises(NfError, match="sbatch"), cluster.connect("slurm", 1):
        pass
