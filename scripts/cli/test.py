# SPDX-License-Identifier: Apache-2.0
"""`nf test`, `nf regress` and `nf nightly`: the checks of a change, of a release and of a night.

`make test`, `make regress` and `make nightly` call these. Each runs other commands as steps and
prints a table of them, with the time of each.

examples:
  nf test                                    run everything that CI runs
  nf test --only lint                        run one part
  nf test --only mutate --seed 7             run another sample of the mutants
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli import steps
from scripts.common import git
from scripts.common.arguments import Command, add_jobs, positive
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, REPORT, ROOT, shown
from scripts.common.records import (
    FILELIST,
    TOP,
    BuildSpec,
    FailureKind,
    RunRecord,
    RunSpec,
    Verdict,
)
from scripts.history.database import History
from scripts.plan.selection import date_base
from scripts.report import write_report
from scripts.report.json_file import read_records
from scripts.report.picture import Replayed
from scripts.run.simulate import infrastructure

CAPTURE = ROOT / "captures" / "digits-resnet-8x"
OUT = BUILD / "replay"
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
VOTED = ("binary", "ternary")
"""Routes by which every tensor is voted on: the report draws their votes."""
TESTED_AS_WHEEL = ("cocotbext",)
"""Packages whose tests all run as a wheel; some of neuron_fabric need torch, which is not there."""
MUTATE_S = 12
"""Seconds in which runs of listed mutants start: a sample. `nf nightly` runs all of them, and 1000
mutants made from the source, whose one build alone takes longer than this."""
STEPS = ("doctor", "check", "lint", "prove", "wheels", "replay", "pytest", "smoke", "mutate")
"""Steps of `nf test` in order, each by the first word of its name."""
SUITES = ("nightly", "nightly-link")
GOALS = "coverage goals"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_parts(parser, STEPS, "seed of the sample of mutants (from the commit)")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sim", choices=registry.choices(), default=registry.ALL, help=registry.HELP
    )
    add_jobs(parser)


def _add_parts(parser: argparse.ArgumentParser, names: Iterable[str], seed: str) -> None:
    _add_common(parser)
    first = ", ".join(dict.fromkeys(name.split()[0] for name in names))
    what = f"run only this part, one of: {first}; may be repeated"
    parser.add_argument("--only", action="append", default=[], metavar="PART", help=what)
    parser.add_argument("--seed", type=positive, help=seed)


def run(args: argparse.Namespace) -> int:
    """Run the steps of `nf test`, first those that need one core each; return 1 if one failed."""
    start = time.monotonic()
    seed = args.seed or drawn_seed()
    jobs = str(args.jobs)
    drawn = ("--seed", str(seed), "--within", str(MUTATE_S), "--jobs", jobs)
    # These use one core each and run in parallel.
    narrow = {
        "check": steps.nf("check"),
        "lint": steps.nf("lint"),
        "prove": steps.nf("prove", "--quick", "--jobs", "1"),
        "wheels": [sys.executable, "-m", "scripts.checks.wheels"],
        **dict(_short_replays(args.sim)),
    }
    # These use all cores and run one after the other. Many tests of pytest wait for time or for
    # processes, so that one more than there are cores runs meanwhile.
    wide = {
        "pytest": [
            # Little is replayed: optimising the bulk transport would take longer than it saves.
            *("env", "NF_BULK_QUICK=1", sys.executable, "-m", "pytest"),
            *("-n", str(args.jobs + 1), "--dist", "worksteal"),
            "--durations=20",
        ],
        "smoke": steps.nf("run", "--suite", "smoke", "--once", "--sim", args.sim, "--jobs", jobs),
        "mutate": steps.nf("mutate", *drawn),
    }
    wanted = _chosen(["doctor", *narrow, *wide], args.only)
    done: list[steps.Step] = []
    if "wheels" in wanted:  # that step runs them from the installed wheel
        wide["pytest"] += [f"--ignore={folder}" for folder in TESTED_AS_WHEEL]
    if "doctor" in wanted:
        done.append(steps.run("doctor", steps.nf("doctor")))
    done += steps.run_beside({n: words for n, words in narrow.items() if n in wanted}, args.jobs)
    done += [steps.run(name, words) for name, words in wide.items() if name in wanted]
    if "mutate" in wanted:
        say(f"the sample of mutants again: .venv/bin/nf test --only mutate --seed {seed}")
    return steps.close(done, time.monotonic() - start)


def _chosen(names: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return the names that `--only` selects, whole or by their first word; all without `--only`.

    Raises:
        NfError: There is none.
    """
    found = [name for name in names if not only or name in only or name.split()[0] in only]
    if not found:
        raise NfError(f"no part {' '.join(only)!r}; there are: {', '.join(names)}.")
    return found


def _short_replays(sim: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, command) of the replay steps of `nf test`: the default route, each simulator."""
    OUT.mkdir(parents=True, exist_ok=True)
    for one in registry.choose(sim)[0]:
        out = OUT / f"test-{one}.safetensors"
        words = ("replay", shown(CAPTURE), "--sim", str(one), "--out", shown(out))
        yield f"replay {one}", steps.nf(*words)


def drawn_seed() -> int:
    """Return the seed for the sample of mutants: from the commit, without git from the date.

    Raises:
        NfError: git does not report the commit; a fixed seed would always draw one sample.
    """
    if not (ROOT / ".git").exists():
        return datetime.date.today().toordinal()
    try:
        commit = git.text("describe", "--always", "--abbrev=12", "--exclude=*", root=ROOT)
    except git.GitError as error:
        raise NfError(f"no commit to draw the sample of mutants by ({error}): --seed N.") from error
    return seed_of(commit)


def seed_of(commit: str) -> int:
    """Return a seed, at least 1, for the hash of a commit."""
    return int(commit[:7], 16) or 1


def regress(args: argparse.Namespace) -> int:
    """Replay the shipped capture, then run the smoke suite, then write the report.

    examples:
      nf regress                                 replay on both simulators, run each test once
      nf regress --sim verilator --jobs 2        the same on one of them
      nf regress --full                          every route and test on every simulator
    """
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
        records += read_records(smoke)
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
        return shown(OUT / f"{self.who}-{self.route}.safetensors")

    @property
    def files(self) -> list[Path]:
        """Return the result files that exist, one for each step."""
        return sorted(OUT.glob(f"{self.who}-{self.route}*.safetensors"))


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
    OUT.mkdir(parents=True, exist_ok=True)
    log = OUT / f"{one.who}-{one.route}.log"
    folder = OUT / "records" / f"{one.who}-{one.route}"
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


def replayed(done: Sequence[tuple[Replay, RunRecord]]) -> Replayed:
    """Return the result files for the picture of the report: of the first green replay by each
    route, since all replays by a route return the same."""
    files: dict[str, list[Path]] = {}
    for one, record in done:
        if record.passed and one.files:
            files.setdefault(one.route, one.files)
    return Replayed(CAPTURE, files, VOTED)


def compare(done: Sequence[Replay]) -> tuple[steps.Step, RunRecord]:
    """Compare the tensors that replays of one route returned on all simulators and transports.

    Returns:
        The step, and a record for the report.
    """
    start = time.monotonic()
    say("--- replay results are the same on every simulator, in bulk too", flush=True)
    by_route = {route: [one.who for one in done if one.route == route] for route in ROUTES}
    bad = [line for route, who in by_route.items() for line in differences(OUT, who, route)]
    for line in bad:
        say(line)
    last = bad[0] if bad else f"{len(done)} replays by {len(ROUTES)} routes compared"
    seconds = time.monotonic() - start
    log = OUT / "agree.log"
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


def add_regress_arguments(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument(
        "--full",
        action="store_true",
        help="replay by every route on every simulator, and run each test wherever it is planned",
    )


REGRESS = Command(add_regress_arguments, regress)


def nightly(args: argparse.Namespace) -> int:
    """Run every part of the nightly checks, also after one has failed; return 1 if one failed.

    examples:
      nf nightly                                 run all of it, with the date as the seed
      nf nightly --only fuzz --seed 20261122     repeat parts by their first word, as on that day
    """
    start = time.monotonic()
    seed = str(args.seed or date_base())
    todo = parts(args.sim, str(args.jobs), seed)
    names = _chosen(list(todo), args.only)
    say(f"nf nightly: {len(names)} parts, seed {seed}", flush=True)
    done = []
    for name in names:
        words = [*todo[name], *covered()] if name == GOALS else todo[name]
        done.append(steps.run(name, words))
    return steps.close(done, time.monotonic() - start)


def covered() -> list[str]:
    """Return the history numbers of the last commands that ran the nightly suites, or []."""
    with suppress(NfError), History(write=False) as history:
        found = [history.invocations(1, f"nf run: {suite}") for suite in SUITES]
        return [str(one.id) for some in found for one in some]
    return []


def parts(sim: str, jobs: str, seed: str) -> dict[str, list[str]]:
    """Return the command of each part by name; all random choices are drawn from ``seed``."""
    at_once, night = ("--jobs", jobs), ("--seed-base", seed)
    rtl = ("--sim", "verilator", *at_once)
    return {
        "pytest": [sys.executable, "-m", "pytest", "-m", "nightly", "-n", jobs],
        "wheels": [sys.executable, "-m", "scripts.checks.wheels", "--all"],
        "regress": steps.nf("regress", "--full", "--sim", sim, *at_once),
        "suite": steps.nf("run", "--suite", SUITES[0], "--sim", sim, "--cov", *at_once, *night),
        "suite link": steps.nf("run", "--suite", SUITES[1], *rtl),
        "suite rams": steps.nf("run", "--suite", "nightly-rams", *rtl, *night),
        "suite twins": steps.nf("run", "--suite", "nightly-twins", "--sim", sim, *at_once),
        GOALS: steps.nf("cov", "goals"),
        "close": steps.nf("close", "--seed", seed, *at_once),
        "prove": steps.nf("prove", *at_once),
        "prove mutants": steps.nf("prove", "--mutants", *at_once),
        "mutate": steps.nf("mutate", *at_once),
        "mutate source": steps.nf(
            *("mutate", "--sample", "1000", "--seed", seed, "--floor", "97"), *at_once
        ),
        "docs": ["make", "docs"],
        "figures": steps.nf("measure", "figures", "all"),
        "nodes": steps.nf("train", "nodes", "--nodes", "4", "--rate", "1gbit"),
        "scale": steps.nf(
            *("train", "scale", "gpt-1.3b", "--replay", "--memory-latency", "3"), *at_once
        ),
        "fuzz": steps.nf("fuzz", "--seed", seed, *at_once),
        "fuzz interleave": steps.nf("fuzz", "--interleave", "100", "--seed", seed),
        "fuzz journals": steps.nf("fuzz", "--journals", "500", "--seed", seed),
    }


NIGHTLY = Command(
    partial(
        _add_parts, names=parts("", "", ""), seed="seed of everything that is drawn (the UTC date)"
    ),
    nightly,
)
