# SPDX-License-Identifier: Apache-2.0
"""Tests of runs that are forks of a waiting simulator: equal to direct runs, and isolated."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.build import registry
from scripts.common.records import FailureKind, RunRecord, Waves
from scripts.conftest import Toy
from scripts.run import fork_client, fork_server

SIMS = pytest.mark.parametrize("sim", registry.names())
DICE = ("toy.unset", "toy.rolled")


@pytest.fixture(autouse=True)
def no_server_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close all fork servers before and after every test, and allow a server a late start."""
    monkeypatch.setattr(fork_client, "_START_S", 300.0)
    fork_client.close_all()
    yield
    fork_client.close_all()


def servers() -> list[int]:
    """Return the process numbers of the idle fork servers."""
    return [server.pid for server in fork_client._idle]


def rolls(record: RunRecord) -> list[str]:
    """Return the log lines with the random values that testbench and design have drawn."""
    return re.findall(r"drew .*", Path(record.log).read_text(encoding="utf-8"))


@SIMS
def test_same_as_a_start_of_its_own(toy: Toy, sim: str) -> None:
    build = toy.spec(sim, public=DICE)
    silent = (("NF_CHECKERS_OFF", "assertions"),)  # becomes a plusarg
    seen = []
    for seed in (1, 2):
        drawn = []
        for direct in (False, True):
            record = toy.run(build, "dice", seed=seed, direct=direct, env=silent)
            assert record.passed, record.cause
            drawn.append((record.sim_time_ns, rolls(record)))
        assert drawn[0] == drawn[1]
        assert len(drawn[0][1]) == 4
        assert "noassert" in drawn[0][1][3]
        seen.append(drawn[0][1])
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]  # by numpy
    if sim == "verilator":  # registers without reset depend on the seed
        assert seen[0][2] != seen[1][2]
    # The seed of reset values is part of Verilator's command line, so it has a server a seed.
    assert len(servers()) == (2 if sim == "verilator" else 1)


@SIMS
def test_a_crash_and_a_hang_hurt_one_run_alone(toy: Toy, sim: str) -> None:
    build = toy.spec(sim)
    assert toy.run(build, "adds_one").passed
    (server,) = servers()
    assert toy.run(build, "dies").kind is FailureKind.CRASH
    assert toy.run(build, "spins", timeout_s=1.0).kind is FailureKind.TIME_OUT
    assert toy.run(build, "adds_one").passed
    assert servers() == [server]


def test_dead_server_costs_nothing_but_time(toy: Toy) -> None:
    assert toy.run(toy.spec(), "adds_one").passed
    os.kill(servers()[0], signal.SIGKILL)
    assert toy.run(toy.spec(), "adds_one").passed


def test_server_that_does_not_come_up(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_client, "_USERS", ("no.such.module:serve",))
    monkeypatch.setattr(fork_client, "_refused", set())
    assert toy.run(toy.spec(), "adds_one").passed
    assert len(fork_client._refused) == 1
    assert servers() == []


def test_servers_end_with_the_runner(toy: Toy) -> None:
    assert toy.run(toy.spec(), "adds_one").passed
    (server,) = servers()
    fork_client.close_all()
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


@pytest.mark.parametrize(
    "sim",
    [
        pytest.param("verilator", marks=pytest.mark.nightly("30 s of compiler")),
        "icarus",
    ],
)
def test_waves_and_coverage_start_directly(toy: Toy, sim: str) -> None:
    # The build of test_simulate::test_waves_and_coverage, which need not be compiled twice.
    coverage = registry.get(sim).coverage_file is not None
    build = toy.spec(sim, waves=Waves.FST, coverage=coverage)
    assert toy.run(build, "adds_one").waves
    assert servers() == []


def test_processor_time_is_not_the_wall_clock() -> None:
    server = fork_client.fork(lambda request: time.sleep(request["s"]))
    try:
        ended = server.run({"s": 0.5})
    finally:
        server.close()
    assert ended.returncode == 0
    assert ended.seconds > 0.5
    assert ended.used is not None
    assert ended.used < 0.4


def test_a_child_whose_parent_has_gone_already_ends() -> None:
    """Check that a child exits with code 1 if its parent ended before the kernel was asked.

    The kernel reports only a death after the request (prctl).
    """
    pid = os.fork()
    if pid == 0:
        fork_server.end_with_parent(os.getppid() + 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
