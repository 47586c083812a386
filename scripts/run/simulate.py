# SPDX-License-Identifier: Apache-2.0
"""Build of a design and run of cocotb tests on it: the one entry point for runs of any kind.

`run(RunSpec)` never raises for a failing test: every outcome becomes a RunRecord.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuron_fabric import output
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import say
from scripts.build import registry, twins
from scripts.build.build_cache import Built, build_directory
from scripts.build.build_cache import build as build_design
from scripts.build.simulator import Simulator
from scripts.common import data, folder_locks, tool_environment, tool_versions
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import RUNS, SIM_BUILDS, shown
from scripts.common.process import Finished
from scripts.common.records import (
    CaseResult,
    Dut,
    FailureKind,
    RunRecord,
    RunSpec,
    Verdict,
)
from scripts.common.secret_values import masked_line
from scripts.coverage import run_counts
from scripts.plan import discover
from scripts.run import cocotb_private, fork_client, run_folders
from scripts.run.verdict import as_registered, judge, read_log, read_results, with_keys
from scripts.waves import fst_file, messages

_RESULTS = "results.xml"
_METRICS = "metrics.json"
_REGISTERED = "registered.json"
_FULL_BYTES = 1 << 20


def run(
    spec: RunSpec,
    runs: Path | None = None,
    builds: Path = SIM_BUILDS,
    launch: Callable[..., Finished] | None = None,
) -> RunRecord:
    """Build (or find) the design, run the tests, and return the record, also of a failure.

    The record is also written to `record.json` in the folder of the run.

    Args:
        spec: The run.
        runs: Parent of the run folder; by default the folder that this command has claimed.
        builds: Folder of all builds.
        launch: Runs the simulator command in place of a fork server or `process.run_logged`.
    """
    try:
        folder = (runs or folder_locks.folder(RUNS)) / spec.id
        spec = run_folders.detached(spec, folder)
        run_folders.empty(folder)
    except (NfError, DataError) as error:
        return infrastructure(spec, str(error), runs)
    except OSError as error:
        cause = f"cannot write to {folder}: {error.strerror}"
        return infrastructure(spec, cause, runs)
    try:
        built = build_design(spec.build, builds)
    except BuildError as error:
        verdict = Verdict(False, FailureKind.BUILD, str(error))
        log = build_directory(spec.build, builds)[0] / "build.log"
        return save(record_of(spec, folder, verdict, log=log), folder)
    except (NfError, OSError) as error:
        verdict = Verdict(False, FailureKind.INFRASTRUCTURE, str(error))
        return save(record_of(spec, folder, verdict), folder)
    try:
        return save(_simulate(spec, folder, built, launch), folder)
    except OSError as error:
        verdict = Verdict(False, FailureKind.INFRASTRUCTURE, f"{folder}: {error.strerror}")
        return record_of(spec, folder, verdict, built)


def infrastructure(spec: RunSpec, cause: str, runs: Path | None = None) -> RunRecord:
    """Return the record of a run that did not start: no disk, no worker, a fault of the runner."""
    verdict = Verdict(False, FailureKind.INFRASTRUCTURE, " ".join(cause.split())[:300])
    return record_of(spec, (runs or RUNS) / spec.id, verdict)


def _simulate(
    spec: RunSpec, folder: Path, built: Built, launch: Callable[..., Finished] | None
) -> RunRecord:
    log = folder / "run.log"
    start = time.monotonic()
    environment = _environment(spec, folder, built)
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        # Compiling the bench again in each run takes longer than a short test; not in the tree.
        environment["PYTHONPYCACHEPREFIX"] = str(built.directory.parent / "pycache")
    runner = registry.get(spec.build.sim)(log, environment, spec.timeout_s)
    planned = discover.registered(spec.module, spec.build.root)
    runner.hdl_toplevel = spec.build.top  # build() may have run in another process
    # Waves and code coverage name their file on the command line: nothing could share a server.
    if launch:
        runner.launch = launch
    elif runner.forks and not (spec.direct or spec.build.waves or spec.build.coverage):
        runner.launch = fork_client.run_logged
    with contextlib.suppress(SystemExit):  # raised when a pytest run finds failed cases
        runner.test(
            test_module=spec.module,
            hdl_toplevel=spec.build.top,
            hdl_toplevel_lang="verilog",
            test_filter=_filter(spec),
            seed=spec.seed,
            parameters=dict(spec.build.parameters),
            build_dir=built.directory,
            test_dir=folder,
            results_xml=str(folder / _RESULTS),
            test_args=runner.run_arguments(spec, folder),
            plusargs=[*_silent(spec), *runner.wave_plusargs(spec, folder)],
            waves=spec.build.waves is not None,
        )
    finished = runner.finished or Finished(1, False, 0.0)
    cases = read_results(folder / _RESULTS, spec.build.root)
    lines = read_log(log)
    verdict = judge(finished, cases, lines, spec.tests, spec.build.root)
    if verdict.passed:
        names = data.kept(folder / _REGISTERED, tuple[str, ...])
        verdict = as_registered(names, planned, spec.tests, cases or ())
    if not verdict.passed and shutil.disk_usage(folder).free < _FULL_BYTES:
        # Half a log and half a result file say nothing about the design.
        verdict = Verdict(
            False, FailureKind.INFRASTRUCTURE, f"no space left on the disk of {folder}"
        )
    if spec.build.waves:
        _convert_waves(spec, folder)
    if spec.build.coverage:
        run_counts.pack(folder, built.directory / "src" if spec.build.copied else spec.build.root)
    cases = with_keys(cases or (), lines, spec.build.root)
    record = record_of(spec, folder, verdict, built, time.monotonic() - start, cases)
    used = finished.seconds if finished.used is None else finished.used
    record = replace(record, sim_seconds=round(finished.seconds, 3), used_seconds=round(used, 3))
    if finished.timed_out and not spec.rerun:  # the limit may come from the command line
        return replace(record, rerun=f"{record.rerun} --timeout {spec.timeout_s:g}")
    return record


def _convert_waves(spec: RunSpec, folder: Path) -> None:
    """Make the waves of a run of its VCD file and its messages; a damaged file stays as it is."""
    dump = Simulator.dump_file(folder)
    with contextlib.suppress(OSError, ValueError):  # of a simulator that was killed
        texts = messages.texts(messages.read(folder))
        fst_file.convert(dump, Simulator.waves_file(folder), spec.window_ns, texts)
        dump.unlink()


def _silent(spec: RunSpec) -> list[str]:
    """Return the plusarg that disables the assertions of the RTL, if NF_CHECKERS_OFF asks for it.

    Such a run measures the value of the assertions.
    """
    off = dict(spec.env).get("NF_CHECKERS_OFF", "").split(",")
    return ["+verilator+noassert"] if "assertions" in off else []


def _filter(spec: RunSpec) -> str | None:
    """Return cocotb's regular expression for exactly the tests of a run, with all parameter values.

    None for all tests of the module; cocotb then skips those that are marked so. The module is not
    named: a test that it imports from another one keeps that one's name.
    """
    if not spec.tests:
        return None
    return rf"^(?:.*\.)?(?:{'|'.join(re.escape(test) for test in spec.tests)})(?:/.*)?$"


def _environment(spec: RunSpec, folder: Path, built: Built) -> dict[str, str]:
    env = {
        "COCOTB_RANDOM_SEED": str(spec.seed),
        "COCOTB_TEST_FILTER": _filter(spec) or "",
        "COCOTB_ANSI_OUTPUT": "0",
        "COCOTB_RESULTS_ATTACHMENTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # cocotb wants pytest's assertions, nothing else
        "PYTHONHASHSEED": "0",  # the order of a set is part of the stimulus
        "NF_SIM": spec.build.sim,
        "NF_PARAMETERS": json.dumps(dict(spec.build.parameters)),
        "NF_METRICS": str(folder / _METRICS),
        "PYGPI_USERS": ",".join(cocotb_private.ENTRY_POINTS),
        cocotb_private.REGISTERED: str(folder / _REGISTERED),
        # Stimulus is what the record has of it, whatever the user's shell says by now.
        "NF_SCALE": "1",
        "NF_WEIGHTS": "",
        "NF_SCENARIO": "",
        "PYTHONPATH": str(spec.build.root),
    }
    if spec.build.waves:
        env[messages.VARIABLE] = str(folder / messages.FILE)
    if spec.build.dut is not Dut.RTL and spec.build.edits:
        env["NF_TWINS"] = str(built.directory / "src" / twins.FOLDER)
    found = tool_versions.libpython()
    if found:
        env["LIBPYTHON_LOC"] = found
    env.update(dict(spec.env))
    return env


def record_of(
    spec: RunSpec,
    folder: Path,
    verdict: Verdict,
    built: Built | None = None,
    seconds: float = 0.0,
    cases: Sequence[CaseResult] = (),
    log: Path | None = None,
) -> RunRecord:
    """Make the record of a run, with the waves, coverage and metrics that it left in its folder.

    Args:
        spec: The run.
        folder: Its folder.
        verdict: Passed, or the failure.
        built: Build that it used; None if it failed before.
        seconds: Duration without the build.
        cases: Results of its tests.
        log: Log to name; by default `run.log` of the folder.
    """
    simulator = registry.get(spec.build.sim)
    waves = simulator.waves_file(folder)
    coverage = folder / run_counts.PACKED
    metrics = _metrics(folder / _METRICS)
    return RunRecord.of(
        spec,
        verdict,
        build_seconds=round(built.seconds, 3) if built else 0.0,
        seconds=round(seconds, 3),
        sim_time_ns=sum(case.sim_time_ns for case in cases),
        cases=tuple(cases),
        log=shown(log or folder / "run.log"),
        waves=shown(waves) if spec.build.waves and waves.is_file() else None,
        coverage=shown(coverage) if coverage.is_file() else None,
        rerun=rerun_command(spec, cases),
        metrics=metrics,
        line_history=() if verdict.passed else messages.line_history(messages.read(folder)),
        cycles=_cycles(metrics),
        environment=tool_environment.passed(),
        sim_version=simulator.version(),
    )


def _metrics(path: Path) -> dict[str, Any]:
    """Read the figures that the testbench wrote (cycles, traffic, coverage) by name; {} if none.

    A file that is not strict JSON is reported: without it the run has no coverage.
    """
    if not path.exists():
        return {}
    try:
        return read_object(path)
    except OSError as error:
        say(f"nf: {shown(path)}: {error.strerror}.", file=sys.stderr)
    except DataError as error:
        say(f"nf: {shown(path)}: {error}. The run counts without figures.", file=sys.stderr)
    return {}


def _cycles(metrics: Mapping[str, object]) -> int | None:
    """Return the sum of the clock cycles of a run's tests; None if none counts them.

    Metrics named `cycles` or `....cycles` are added.
    """
    counts = [v for k, v in metrics.items() if k.rpartition(".")[2] == "cycles"]
    numbers = [count for count in counts if isinstance(count, int)]
    return sum(numbers) if numbers else None


def save(record: RunRecord, folder: Path) -> RunRecord:
    """Write a record to `record.json` in a folder, and return it; a full disk is no error.

    It is written at once, so a later crash of the runner loses no finished run.
    """
    with contextlib.suppress(OSError):  # a full disk must not hide what the caller still has
        output.write_text(folder / "record.json", json.dumps(record.to_json(), indent=1))
    return record


def rerun_command(spec: RunSpec, cases: Sequence[CaseResult] = ()) -> str:
    """Return the shell command that repeats a run, only with the failed tests if they are known."""
    if spec.rerun:
        return masked_line(spec.rerun)
    module = spec.short_module
    failed = dict.fromkeys(c.name for c in cases if c.status == "failed")
    names = [f"{module}::{name}" for name in failed or spec.tests] or [f"{module}::*"]
    own = registry.get(spec.build.sim).variable
    parts = [f"{own}={os.environ[own]}"] if os.environ.get(own) else []
    parts += [".venv/bin/nf", "run", *names, "--sim", spec.build.sim]
    parts += ["--seed", str(spec.seed)]
    parts += ["--build", spec.build_name]
    scale = dict(spec.env).get("NF_SCALE")
    if scale:
        parts += ["--scale", scale]
    for option, variable in (("--weights", "NF_WEIGHTS"), ("--scenario", "NF_SCENARIO")):
        value = dict(spec.env).get(variable)
        if value:
            parts += [option, value]
    return " ".join(shlex.quote(part) for part in parts)
