# SPDX-License-Identifier: Apache-2.0
"""`nf regress`: the shipped capture on every simulator by every route, then the smoke suite."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import say
from scripts import report
from scripts.build import registry
from scripts.cli import steps
from scripts.common import process
from scripts.common.arguments import positive
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
from scripts.report.document import read_records
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

EXAMPLES = """examples:
  nf regress                                 both simulators
  nf regress --sim verilator --jobs 2        one of them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sim", choices=registry.choices(), default=registry.ALL, help=registry.HELP
    )
    parser.add_argument("--jobs", "-j", type=positive, help="runs at once")


def run(args: argparse.Namespace) -> int:
    start = time.monotonic()
    sims, missing = registry.choose(args.sim)
    if missing:
        say(missing)
    done: list[steps.Step] = []
    records: list[RunRecord] = []
    jobs = args.jobs or process.cores()
    # What takes longest first: FP32, and what compiles at once. Meanwhile the others compile.
    work = [(sim, route, how) for route in ROUTES for sim in reversed(sims) for how in TRANSPORTS]
    work.sort(key=lambda one: one[1] != "fp32")
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for step, record in pool.map(lambda one: _replay(*one), work):
            done.append(step)
            records.append(record)
    step, record = compare(sims)
    done.append(step)
    records.append(record)
    words = steps.nf("run", "--suite", "smoke", "--sim", args.sim, "--jobs", str(jobs))
    done.append(steps.run("smoke suite", words))
    smoke = REPORT / "results.json"
    if smoke.is_file() and smoke.stat().st_mtime > time.time() - (time.monotonic() - start):
        records += read_records(smoke)
    report.write_all(records, "nf regress", seconds=time.monotonic() - start)
    say(report.where())
    return steps.close(done, time.monotonic() - start)


def _who(sim: str, transport: str) -> str:
    """Whose results: begins the names of their files."""
    return str(sim) if transport == "signal" else f"{sim}-{transport}"


def _replay(sim: str, route: str, transport: str) -> tuple[steps.Step, RunRecord]:
    OUT.mkdir(parents=True, exist_ok=True)
    who = _who(sim, transport)
    log = OUT / f"{who}-{route}.log"
    folder = OUT / "records" / f"{who}-{route}"
    out = shown(OUT / f"{who}-{route}.safetensors")
    words = ["replay", shown(CAPTURE), "--sim", sim, "--transport", transport, "--out", out]
    (folder / RECORD).unlink(missing_ok=True)
    words = steps.nf(*words, *ROUTES[route], "--record", shown(folder))
    step = steps.run(f"replay {route} {who}", words, log, steps.Show.AT_END)
    name = f"replay::{route}" if transport == "signal" else f"replay::{route}-{transport}"
    try:
        record = RunRecord.from_json(read_object(folder / RECORD))
    except (OSError, DataError):  # it could not be driven
        spec = RunSpec(BuildSpec(sim, TOP, FILELIST), name, rerun=shlex.join([NF, *words[3:-2]]))
        record = infrastructure(spec, step.last)
    record = replace(record, id=f"replay.{route}-{who}", name=name, log=shown(log))
    return step, record


def compare(sims: Sequence[str]) -> tuple[steps.Step, RunRecord]:
    """The tensors read back must be the same on every simulator and by both transports."""
    start = time.monotonic()
    every = [_who(sim, how) for sim in sims for how in TRANSPORTS]
    say("--- replay results are the same on every simulator, in bulk too", flush=True)
    bad = [line for route in ROUTES for line in differences(OUT, every, route)]
    for line in bad:
        say(line)
    last = bad[0] if bad else f"{len(ROUTES)} routes compared"
    seconds = time.monotonic() - start
    log = OUT / "agree.log"
    output.write_text(log, "".join(f"{line}\n" for line in bad or [last]))
    spec = RunSpec(BuildSpec(sims[0], TOP, FILELIST), "replay::agree", rerun=f"{NF} regress")
    verdict = Verdict(False, FailureKind.MISMATCH, last) if bad else Verdict(True)
    record = RunRecord.of(
        spec,
        verdict,
        id="replay.agree",
        name="replay::agree",
        sim="+".join(sims),
        seconds=seconds,
        log=shown(log),
    )
    code = int(bool(bad))
    return steps.Step("replay results agree", code, 1 - code, code, seconds, last), record


def differences(folder: Path, sims: Sequence[str], route: str) -> list[str]:
    """Tensors that differ between the result files of a route, one line each."""
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


def short_replays(capture: Path, sim: str) -> Iterator[tuple[str, list[str]]]:
    """Replay steps for `nf test`: the default route on each simulator."""
    sims, _ = registry.choose(sim)
    OUT.mkdir(parents=True, exist_ok=True)
    for one in sims:
        out = OUT / f"test-{one}.safetensors"
        words = ("replay", shown(capture), "--sim", str(one), "--out", shown(out))
        yield f"replay {one}", steps.nf(*words)
