# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of the runner: a toy design and testbench, to try every way to fail."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from scripts.build import registry
from scripts.common import git
from scripts.common.records import BuildSpec, CaseResult, Edit, RunRecord, RunSpec
from scripts.history.database import History
from scripts.report import json_file, test_browser
from scripts.run import simulate

DESIGN = Path(__file__).with_name("toy.sv").read_text(encoding="utf-8")
BENCH = """
    import json, os, random, sys, time
    import cocotb
    import numpy
    from cocotb.clock import Clock
    from cocotb.triggers import RisingEdge, Timer

    DRAWN = numpy.random.random()  # as it is imported

    async def start(dut):
        dut.rst_n.value = 0
        dut.d.value = 0
        Clock(dut.clk, 10, "ns").start()
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        dut.rst_n.value = 1

    @cocotb.test()
    async def adds_one(dut):
        await start(dut)
        dut.d.value = 4
        await RisingEdge(dut.clk)
        await Timer(1, "ns")
        assert int(dut.q.value) == 5, "q is not d + 1"
        with open(os.environ["NF_METRICS"], "w") as f:
            json.dump({"cycles": 3, "parameters": json.loads(os.environ["NF_PARAMETERS"])}, f)

    @cocotb.test()
    async def shell(dut):
        found = [os.environ[f"NF_{name}"] for name in ("SCALE", "WEIGHTS", "SCENARIO")]
        assert found == ["1", "", ""], found

    @cocotb.test()
    @cocotb.parametrize(n=[1, 2])
    async def many(dut, n):
        await start(dut)

    @cocotb.test()
    async def wrong(dut):
        await start(dut)
        assert int(dut.q.value) == 77, "q is not 77"

    @cocotb.test()
    async def bench_error(dut):
        dut.nothing.value = 1

    @cocotb.test()
    async def not_installed(dut):
        import no_such_package

    async def debugged():
        await Timer(1, "ns")
        breakpoint()
        await Timer(1, "ns")

    @cocotb.test()
    async def debugs(dut):
        await debugged()

    @cocotb.test()
    async def debugs_task(dut):
        await cocotb.start_soon(debugged())

    @cocotb.test()
    async def debugs_by_another_name(dut):
        try:
            await debugged()
        except Exception as error:
            raise AssertionError("something went wrong") from error

    @cocotb.test()
    async def reads(dut):
        input("a name: ")

    @cocotb.test()
    async def exits_task(dut):
        await cocotb.start_soon(left())

    @cocotb.test()
    async def exits(dut):
        cocotb.start_soon(left())
        await Timer(2, "ns")

    async def left():
        sys.exit(0)

    @cocotb.test()
    async def gone(dut):
        os._exit(0)

    @cocotb.test()
    async def checker(dut):
        got = random.randbytes(random.randint(1, 4)).hex(" ")
        raise AssertionError(f"got {got}, expected 00\\ncause key: the toy's checker")

    @cocotb.test()
    async def sva(dut):
        await start(dut)
        dut.d.value = 13
        await Timer(100, "ns")

    @cocotb.test()
    async def hang(dut):
        time.sleep(600)  # longer than any test waits for its end

    @cocotb.test()
    async def rests(dut):
        time.sleep(1.7)

    @cocotb.test()
    async def spins(dut):
        while True:
            pass

    @cocotb.test()
    async def ticks(dut):
        while True:
            await Timer(10, "ns")

    @cocotb.test(timeout_time=50, timeout_unit="ns")
    async def stuck(dut):
        await start(dut)
        await Timer(1, "ms")

    @cocotb.test()
    async def dies(dut):
        os.kill(os.getpid(), 11)

    @cocotb.test()
    async def dice(dut):
        await Timer(1, "ns")
        cocotb.log.info("drew %s %s", random.random(), list({"a", "b", "c", "d", "e"}))
        cocotb.log.info("drew %s %s", numpy.random.random(), DRAWN)
        cocotb.log.info("drew %s %s", dut.unset.value, dut.rolled.value)
        cocotb.log.info("drew %s %s", sorted(cocotb.plusargs), os.getcwd().rpartition("/")[2])

    @cocotb.test()
    @cocotb.parametrize(n=list(range(200)))
    async def empty(dut, n):
        pass

    @cocotb.test()
    async def flaky(dut):
        await start(dut)
        tried = __file__ + ".tried"
        if not os.path.exists(tried):
            open(tried, "w").close()
            assert False, "only the first time"

    @cocotb.test()
    async def late(dut):
        await start(dut)
        await Timer(20, "us")
        dut.d.value = 9
        await Timer(100, "ns")
        assert False, f"late, with {random.random()}"

    @cocotb.test()
    async def no_clock(dut):
        await RisingEdge(dut.clk)

    @cocotb.test()
    async def internals(dut):
        assert dut.inner.value is not None
"""


# Where the simulator does not matter: the one that compiles at once.
QUICK = min(registry.choose(registry.ALL)[0], key=lambda name: registry.get(name).compiles_slowly)


@dataclass(frozen=True)
class Toy:
    """Folder of the toy design and testbench, and methods to build and run it."""

    folder: Path

    def spec(self, sim: str = QUICK, edits: tuple[Edit, ...] = (), **more: object) -> BuildSpec:
        """Return the BuildSpec of the toy; `more` are further fields."""
        base = BuildSpec(sim, "toy", "toy.f", root=self.folder, edits=edits, opt="-O0")
        return replace(base, **more)  # type: ignore[arg-type]

    def run(
        self, build: BuildSpec, *tests: str, module: str = "toy_bench", **more: object
    ) -> RunRecord:
        """Run tests of the toy testbench; `more` are fields of the RunSpec."""
        spec = replace(RunSpec(build, module, tests, timeout_s=300.0), **more)  # type: ignore[arg-type]
        return simulate.run(spec, self.folder / "runs", self.folder / "sim")


def working_in(folder: Path) -> list[str]:
    """Return the command lines of other processes that name a folder or run in it."""
    others = (one.info for one in psutil.process_iter(["cmdline", "cwd"]) if one.pid != os.getpid())
    lines = (" ".join([*(info["cmdline"] or ()), info["cwd"] or ""]) for info in others)
    return [line for line in lines if str(folder) in line]


def left_in(folder: Path, but: str = "\0") -> list[str]:
    """Wait until no process works in a folder, and return those that do after 120 s.

    Processes whose command line has the text `but` do not count.
    """
    late = time.monotonic() + 120
    while found := [line for line in working_in(folder) if but not in line]:
        if time.monotonic() > late:
            break
        time.sleep(0.1)
    return found


def ended(*pids: int) -> bool:
    """Return whether all processes with these numbers end within 120 s."""
    left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(left, timeout=120)
    return not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


def git_by_somebody(root: Path, *words: str) -> str:
    """Run git in the repository of a test, whatever the user's settings are; return stdout."""
    who = ("-c", "user.name=n", "-c", "user.email=n@localhost", "-c", "commit.gpgsign=false")
    if words[0] == "init":
        return git.text(*words, "--template=", root=root).strip()
    return git.text(*who, "-c", "core.hooksPath=/dev/null", *words, root=root).strip()


def _write_design(folder: Path, listed: str, headers: str, place: str) -> None:
    """Write the toy design below a folder, with the file list `listed`.

    Its header is written to the folder `headers`, its source to the prefix `place`.
    """
    (folder / headers).mkdir(exist_ok=True)
    (folder / headers / "toy.svh").write_text("`define STEP 1\n", encoding="utf-8")
    (folder / f"{place}toy.sv").write_text(DESIGN, encoding="utf-8")
    (folder / listed).write_text(
        f"// the toy\n+incdir+{headers}\n{place}toy.sv\n", encoding="utf-8"
    )


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Write the toy design once for all tests of a session, which share its builds."""
    folder = tmp_path_factory.mktemp("toy")
    _write_design(folder, "toy.f", "inc", "")
    (folder / "toy_bench.py").write_text(textwrap.dedent(BENCH), encoding="utf-8")
    return Toy(folder)


PLAN = """\
builds:
  toy: {top: toy, filelist: hdl/toy.f, opt: -O0, reason: the toy as it is}
  broken: {top: toy, filelist: hdl/broken.f, opt: -O0, reason: a source with a mistake}
suites:
  smoke: {tests: ["test_toy::many", "test_toy::adds_one"], seeds: 1, reason: a few short tests}
features:
  - name: toy
    spec: no section
    goal: it fails in every way there is
    tests:
"""


@dataclass(frozen=True)
class Project:
    """A small project with the toy design and a copy of this runner; `nf` runs in a process."""

    folder: Path

    @staticmethod
    def environment() -> dict[str, str]:
        """Return the environment without NF_BUILD, so that tests use builds of the project only."""
        return {name: value for name, value in os.environ.items() if name != "NF_BUILD"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `nf` in a separate process group, as a shell does."""
        return subprocess.Popen(
            [str(self.folder / ".venv/bin/nf"), *words],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )

    def nf(self, *words: str) -> tuple[int, str]:
        """Run `nf` to its end; return exit code and output."""
        process = self.start(*words)
        text, _ = process.communicate(timeout=600)
        return process.returncode, text

    def shell(self, line: str) -> int:
        """Run a shell line in the folder of the project; return its exit code."""
        done = subprocess.run(
            line,
            shell=True,
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            check=False,
            timeout=600,
        )
        return done.returncode

    def records(self) -> list[RunRecord]:
        """Return the records in `build/report/results.json`, those of the last run."""
        return [*json_file.read(self.folder / "build/report/results.json").records]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Make the project with the toy design once for all tests of a session."""
    folder = tmp_path_factory.mktemp("project")
    here = Path(__file__).parent
    for name in ("scripts", "verif", "models", "cocotbext", "neuron_fabric"):
        skip = shutil.ignore_patterns("test_*.py", "testplan", "__pycache__")
        shutil.copytree(here.parent / name, folder / name, ignore=skip)
    for name in ("verif/testplan", "hdl", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    (folder / "verif/tests/test_toy.py").write_text(textwrap.dedent(BENCH), encoding="utf-8")
    names = re.findall(r"async def (\w+)\(dut", BENCH.partition("@cocotb.test")[2])
    plan = PLAN + "".join(
        f'      - {{test: "test_toy::{n}", stage: V1, builds: [toy]}}\n' for n in names
    )
    (folder / "verif/testplan/toy.yaml").write_text(plan, encoding="utf-8")
    _write_design(folder, "hdl/toy.f", "hdl", "hdl/")
    (folder / "hdl/broken.sv").write_text(DESIGN.replace("assign", "asign"), encoding="utf-8")
    (folder / "hdl/broken.f").write_text("+incdir+hdl\nhdl/broken.sv\n", encoding="utf-8")
    nf = folder / ".venv/bin/nf"
    nf.write_text(f'#!/bin/sh\nexec {sys.executable} -m scripts.cli.main "$@"\n', encoding="utf-8")
    nf.chmod(0o755)
    return Project(folder)


@pytest.fixture(autouse=True)
def databases_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that leaves an SQLite database open (Python 3.13 and later warn of this)."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    yield
    for database in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            database.execute("SELECT 1")


@pytest.fixture
def open_history(databases_are_closed: None) -> Iterator[Callable[[Path], History]]:
    """Return a function that opens histories, which are closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(History(path))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that writes a dedented text to a file in the test's folder."""

    def inner(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return inner


RECORD = RunRecord(
    id="test_x.one-icarus-default-s1",
    name="test_x::one",
    sim="icarus",
    seed=1,
    build_name="default",
    parameters=(("SLOTS", 4),),
    passed=True,
    kind=None,
    cause="",
    build_seconds=0.0,
    seconds=1.0,
    sim_time_ns=5.0,
    cases=(CaseResult("one", "passed", 1.0, 5.0),),
    log="build/runs/x/run.log",
    waves=None,
    coverage=None,
    rerun="nf run test_x::one",
)


def record(**fields: Any) -> RunRecord:
    """Return the record of a passed run, with the given fields changed."""
    return replace(RECORD, **fields)


@pytest.fixture(name="record")
def _record() -> Callable[..., RunRecord]:
    """Return the function `record`."""
    return record


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need Chromium if it is not installed."""
    if test_browser.find() is None:
        why = "Chromium is not installed (apt-get install chromium): nobody looked at the page"
        for item in items:
            if "chromium" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(why))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[test_browser.Page]:
    """Open one tab of Chromium for all tests of a session."""
    with test_browser.browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page
