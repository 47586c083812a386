# SPDX-License-Identifier: Apache-2.0
"""`nf regress`: replay the shipped capture by every route, run the smoke suite, write the report.

examples:
  nf regress                                 replay on both simulators, run each test once
  nf regress --sim verilator --jobs 2        the same on one of them
  nf regress --full                          every route and test on every simulator
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli import steps
from scripts.cli.options import add_simulators
from scripts.common.arguments import add_flags
from scripts.common.paths import CAPTURE, REPLAYED, REPORT, shown
from scripts.common.records import (
    FILELIST,
    TOP,
    BuildSpec,
    FailureKind,
    RunRecord,
    RunSpec,
    Verdict,
)
from scripts.report import json_file, write_report
from scripts.run.simulate import infrastructure

RECORD = "record.json"
NF = ".venv/bin/nf"
# Route options of `nf replay` by name; the first is the layer-aware default.
ROUTES: dict[str, tuple[str, ...]] = {
    "layer-aware": (),
    "binary": ("--route", "*=G_BINARY"),
    "ternary": ("--route", "*=G_TERNARY"),
    "fp32": ("--route", "*=FP32"),
    "mix": ("--route", "5.*=G_TERNARY"),
}
TRANSPORTS = ("signal", "bulk")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_simulators(parser)
    what = "replay by every route on every simulator, and run each test wherever it is planned"
    add_flags(parser, full=what)


def run(args: argparse.Namespace) -> int:
    """Replay the shipped capture, then run the smoke suite, then write the report."""
    start = time.monotonic()
    sims, missing = registry.choose(args.sim)
    if missing:
        say(missing)
    todo = replays(sims, args.full)
    if len(sims) > 1 and args.jobs > 1:
        say(f"first a replay on {todo[0].sim}, which builds at once; {sims[0]} builds meanwhile")
    with ThreadPoolExecutor(max_workers=args.jobs) as pool:
        work = [pool.submit(_replay, one) for one in todo]
        first, record = work[0].result()
        if record.passed:
            seconds = time.monotonic() - start
            say(f"=== first result after {seconds:.0f} s: {first.last}", flush=True)
            say(f"=== captured gradients: {shown(CAPTURE)}; returned: {todo[0].out}", flush=True)
        results = [*(one.result() for one in work), compare(todo)]
    done = [step for step, _ in results]
    records = [record for _, record in results]
    words = steps.nf("run", "--suite", "smoke", "--sim", args.sim, "--jobs", str(args.jobs))
    done.append(steps.run("smoke suite", [*words, *([] if args.full else ["--once"])]))
    smoke = REPORT / "results.json"
    if smoke.is_file() and smoke.stat().st_mtime > time.time() - (time.monotonic() - start):
        records += json_file.read(smoke).records
    seconds, drawn = time.monotonic() - start, replayed([*zip(todo, records, strict=False)])
    write_report.write_all(records, "nf regress", seconds=seconds, replayed=drawn)
    code = steps.close(done, time.monotonic() - start)
    say(write_report.where())
    return code


@dataclass(frozen=True)
class Replay:
    """A replay of the shipped capture by `nf regress`: its route, transport and simulator.

    `quick` compiles with little optimisation.
    """

    route: str
    transport: str
    sim: str
    quick: bool = False  # compiled with little optimisation

    @property
    def who(self) -> str:
        """Start of the names of its result files: the simulator, with "-bulk" for bulk."""
        return self.sim if self.transport == "signal" else f"{self.sim}-{self.transport}"

    @property
    def out(self) -> str:
        """Path of its result file, relative to the repository."""
        return shown(REPLAYED / f"{self.who}-{self.route}.safetensors")

    @property
    def files(self) -> list[Path]:
        """Return the result files that exist, one for each step."""
        return sorted(REPLAYED.glob(f"{self.who}-{self.route}*.safetensors"))


def replays(sims: Sequence[str], full: bool) -> list[Replay]:
    """Return the replays of `nf regress`, the one that gives the first result first.

    Args:
        sims: Simulators, the one that builds slowly and runs fast first.
        full: Also on the other simulators by every route: FP32 alone takes Icarus four minutes.
    """
    every = [Replay(route, how, sim) for route in ROUTES for how in TRANSPORTS for sim in sims]
    default = next(iter(ROUTES))
    chosen = [one for one in every if full or one.sim == sims[0] or one.route == default]
    slow = {sim for sim in sims if registry.get(sim).compiles_slowly}
    order = TRANSPORTS.index
    chosen.sort(key=lambda one: (one.route != default, order(one.transport), one.sim in slow))
    # Little is replayed: optimising the bulk transport would take longer than it saves.
    quick = [one.transport == "bulk" or (one is chosen[0] and one.sim in slow) for one in chosen]
    return [replace(one, quick=how) for one, how in zip(chosen, quick, strict=True)]


def _replay(one: Replay) -> tuple[steps.Step, RunRecord]:
    REPLAYED.mkdir(parents=True, exist_ok=True)
    log = REPLAYED / f"{one.who}-{one.route}.log"
    folder = REPLAYED / "records" / f"{one.who}-{one.route}"
    words = ["replay", shown(CAPTURE), "--sim", one.sim, "--transport", one.transport]
    words += ["--quick"] * one.quick
    (folder / RECORD).unlink(missing_ok=True)
    words = steps.nf(*words, "--out", one.out, *ROUTES[one.route], "--record", shown(folder))
    step = steps.run(f"replay {one.route} {one.who}", words, log, at_end=True)
    bulk = "" if one.transport == "signal" else f"-{one.transport}"
    name = f"replay::{one.route}{bulk}"
    try:
        record = RunRecord.from_json(read_object(folder / RECORD))
    except (OSError, DataError):  # the replay ended before its first run
        rerun = shlex.join([NF, *words[3:-2]])
        spec = RunSpec(BuildSpec(one.sim, TOP, FILELIST), name, rerun=rerun)
        record = infrastructure(spec, step.last)
    # The report shows cases: a case has the name of the capture, which all replays share.
    cases = tuple(replace(case, name=name.partition("::")[2]) for case in record.cases)
    record = replace(record, id=f"replay.{one.route}-{one.who}", name=name, cases=cases)
    return step, replace(record, log=shown(log))


def replayed(done: Sequence[tuple[Replay, RunRecord]]) -> dict[str, list[Path]]:
    """Return the result files for the picture of the report: of the first green replay by each
    route, since all replays by a route return the same."""
    files: dict[str, list[Path]] = {}
    for one, record in done:
        if record.passed and one.files:
            files.setdefault(one.route, one.files)
    return files


def compare(done: Sequence[Replay]) -> tuple[steps.Step, RunRecord]:
    """Compare the tensors that replays of one route returned on all simulators and transports.

    Returns:
        The step, and a record for the report.
    """
    start = time.monotonic()
    say("--- replay results are the same on every simulator, in bulk too", flush=True)
    by_route = {route: [one.who for one in done if one.route == route] for route in ROUTES}
    bad = [line for route, who in by_route.items() for line in differences(REPLAYED, who, route)]
    for line in bad:
        say(line)
    last = bad[0] if bad else f"{len(done)} replays by {len(ROUTES)} routes compared"
    seconds = time.monotonic() - start
    log = REPLAYED / "agree.log"
    output.write_text(log, "".join(f"{line}\n" for line in bad or [last]))
    spec = RunSpec(BuildSpec(done[0].sim, TOP, FILELIST), "replay::agree", rerun=f"{NF} regress")
    record = RunRecord.of(
        spec,
        Verdict(False, FailureKind.MISMATCH, last) if bad else Verdict(True),
        id="replay.agree",
        name="replay::agree",
        sim="+".join(sim for sim in registry.names() if sim in {one.sim for one in done}),
        seconds=seconds,
        log=shown(log),
    )
    code = int(bool(bad))
    return steps.Step("replay results agree", code, 1 - code, code, seconds, last), record


def differences(folder: Path, sims: Sequence[str], route: str) -> list[str]:
    """Return one line for each tensor that differs between the result files of a route.

    Args:
        folder: Folder of the files.
        sims: Start of their names (`Replay.who`); the first is the reference.
        route: Name of the route.
    """
    from safetensors.numpy import load_file

    out: list[str] = []
    first, *others = sims
    files = folder.glob(f"{first}-{route}*.safetensors")
    names = sorted(path.name.removeprefix(f"{first}-") for path in files)
    if not names:
        return [f"{route}: {first} wrote no result"]
    for name in names:
        reference = load_file(folder / f"{first}-{name}")
        for sim in others:
            path = folder / f"{sim}-{name}"
            if not path.is_file():
                out.append(f"{route}: {sim} wrote no {path.name}")
                continue
            other = load_file(path)
            if reference.keys() != other.keys():
                out.append(f"{route}: {sim} returned other tensors than {first} in {path.name}")
                continue
            out += [
                f"{route}: {tensor} differs between {first} and {sim}"
                for tensor in reference
                if reference[tensor].tobytes() != other[tensor].tobytes()
            ]
    return out
