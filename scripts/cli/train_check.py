# SPDX-License-Identifier: Apache-2.0
"""`nf train check`: trains small models with low-bit gradients on real gloo processes, and judges.

examples:
  nf train check pairs100                    FP32, 1 bit, 2 bits, the calibrator's verified profile
  nf train check pairs100 --steps 60 --seeds 1   shorter: neither judged nor verified
  nf train check all --steps 60 --seeds 1 --only guided --reducer rtl   by the RTL: the same weights
  nf train check gpu                         the hook on a GPU: bits, set-ups of trainings, rates
  nf train check gpu --device cpu            the same code without a GPU
  nf train check all --only auto --seeds 4,5,6,7,8   attach(model, "auto") against FP32
  nf train check all --only adaptive --seeds 4,5,6,7,8   layer-wise routes against "auto" and FP32
  nf train check pairs100 --only late --seeds 4,5,6,7,8   rounds closed without late ranks
  nf train monitor build/train-check/pairs100  its pages are there too: *.html
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from neuron_fabric.data import DataError, parse_json
from neuron_fabric.errors import say
from neuron_fabric.monitor import log, page
from neuron_fabric.output import write_text
from neuron_fabric.typed import typed
from scripts.cli import train_check_gpu
from scripts.cli.options import add_sim
from scripts.cli.serve import MODEL, RTL, served
from scripts.cli.train_check_goals import (
    ADAPTIVE,
    AUTO,
    CHECKS,
    FED,
    FP32,
    LATE,
    Calibrated,
    CheckFindings,
    TrainingRow,
    lines_of,
    missed,
)
from scripts.common import folder_locks, process
from scripts.common.arguments import add_flags, up_to
from scripts.common.errors import NfError, OptionError
from scripts.common.paths import BUILD, ROOT, shown, writable

ALL, TORCH = "all", "torch"
FOLDER = BUILD / "train-check"
MODULE = "examples.train_check_ranks"
CALIBRATED_WITH = (1001, 1002, 1003)
"""Seeds of the calibration and of its verification: none that a table shows."""
EVERY = 5
"""Steps from one sample of the calibration to the next."""
_POLL_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf train check`."""
    add = parser.add_argument
    names = [*CHECKS, ALL, train_check_gpu.NAME]
    add("name", choices=names, metavar="NAME", help=f"{', '.join(CHECKS)}, all, or gpu")
    add("--steps", type=up_to(1_000_000), metavar="N", help="of each training (as published)")
    seeds = "judged: 1,2,3; auto and adaptive: five"
    add("--seeds", type=_seeds, default=(1, 2, 3), metavar="S,S", help=seeds)
    add("--only", metavar="TEXT", help="trainings whose names hold it, as guided")
    what = "torch; rtl or model, a separate server; unix, unix:PATH of `nf serve`; pool:PATH"
    add("--reducer", default=TORCH, metavar="R", help=what)
    add_sim(add, "simulator of --reducer rtl")
    devices = (train_check_gpu.CUDA, train_check_gpu.CPU)
    add("--device", choices=devices, default=devices[0], help="of gpu: cuda (default), or cpu")
    add_flags(parser, fault="of gpu: change a bit of lines, so that it must fail")


def _seeds(word: str) -> tuple[int, ...]:
    """Parse `S,S` into seeds without repetitions. Raise ArgumentTypeError for anything else."""
    parts = word.split(",")
    if not all(part.isascii() and part.isdecimal() and len(part) < 8 for part in parts):
        raise argparse.ArgumentTypeError(f"{word!r} is no list of numbers, as 1,2,3")
    return tuple(dict.fromkeys(map(int, parts)))


def run(args: argparse.Namespace) -> int:
    """Run the checks; return 1 if a goal is missed or ranks differ, else 0."""
    if args.name == train_check_gpu.NAME:
        return train_check_gpu.run(args)
    if not re.fullmatch(f"torch|{RTL}|{MODEL}|unix|(unix|pool):.+", args.reducer):
        what = f"{args.reducer!r} is no reducer"
        raise OptionError("--reducer", what, f"use torch, {RTL}, {MODEL}, unix or unix:PATH")
    for seed in set(CALIBRATED_WITH).intersection(args.seeds):
        raise NfError(f"seed {seed} is one of the calibration's: give another one.")
    for module, word in (("torch", "torch"), ("sklearn", "scikit-learn")):
        if importlib.util.find_spec(module) is None:
            raise NfError(f"{word} is not installed: `make torch`.")
    names = [
        one for one in CHECKS if args.name == one or (args.name == ALL and _variants(one, args))
    ]
    for name in names:
        if not _variants(name, args):
            known = "; ".join(one for one in CHECKS[name].variants if _fits(one, args))
            raise NfError(f"no training of {name} is called {args.only!r}: {known}.")
    return max(_check(name, args) for name in names)


def _variants(name: str, args: argparse.Namespace) -> list[str]:
    """Return the trainings of a check that `--only` leaves, with those that judge them.

    "auto" is judged against FP32, "adaptive" against both, and late ranks against a training
    without any.
    """
    left = [one for one in CHECKS[name].variants if (args.only or "") in one and _fits(one, args)]
    judges = [FP32] * (AUTO in left or ADAPTIVE in left) + [AUTO] * (ADAPTIVE in left)
    judges += [FED] * (LATE in left)
    return [*(one for one in judges if one not in left), *left]


def _fits(variant: str, args: argparse.Namespace) -> bool:
    """Return whether a training is possible with ``--reducer``.

    Trainings with late ranks have their server here, or "pool:PATH" if they are asked for. No two
    of them close the same rounds, so none is compared with another reducer.
    """
    return variant != LATE or args.reducer == TORCH or _closes(args)


def _closes(args: argparse.Namespace) -> bool:
    """Return whether trainings with late ranks share a pool in place of a server."""
    return args.reducer.startswith("pool:") and "late" in (args.only or "")


def _check(name: str, args: argparse.Namespace) -> int:
    """Run one check with the chosen reducer (started here for rtl and model); return its exit code.

    Result rows name the kind of the reducer, not its socket.
    """
    late = LATE in _variants(name, args)
    if late and _closes(args):
        return _run(name, args, TORCH, args.reducer, {one: one for one in (TORCH, args.reducer)})
    if args.reducer not in (RTL, MODEL) and not late:
        return _run(name, args, args.reducer, "", {args.reducer: args.reducer})
    device = MODEL if late else args.reducer
    shown_as = f"{RTL} ({args.sim})" if device == RTL else MODEL
    with served(device, args.sim, CHECKS[name].workers) as path:
        names = {TORCH: TORCH, (own := f"unix:{path}"): shown_as}
        return _run(name, args, TORCH if late else own, own if late else "", names)


def _run(
    name: str, args: argparse.Namespace, reducer: str, closing: str, names: Mapping[str, str]
) -> int:
    """Write the plan, run the trainings, print table and pages; return the exit code.

    Args:
        name: name of the check.
        args: parsed options.
        reducer: reducer that the hook gets.
        closing: reducer that closes rounds without late ranks; "" if none is needed.
        names: printed name of each reducer.
    """
    info, folder = CHECKS[name], folder_locks.folder(FOLDER / name)
    steps = args.steps or info.steps
    shutil.rmtree(folder, ignore_errors=True)
    writable(folder)
    plan = {
        "check": name,
        "steps": steps,
        "seeds": args.seeds,
        "variants": _variants(name, args),
        "reducer": reducer,
        "closing": closing,
        "every": EVERY,
        "calibrated_with": CALIBRATED_WITH[0],
        "verify": steps == info.steps,
        "within": info.within,
    }
    write_text(folder / "plan.json", json.dumps(plan))
    found, start = CheckFindings(name, args.seeds), time.monotonic()
    failed = _trained(folder, found, names)
    say(*lines_of(found, steps))
    say(*(f"  page: {shown(one)}" for one in _pages(folder, found)))
    say(f"nf train check {name}: {time.monotonic() - start:.0f} s")
    if failed:
        say(f"nf train check {name}: {failed}", file=sys.stderr)
        return 1
    return int(missed(found, steps))


def _trained(folder: Path, found: CheckFindings, names: Mapping[str, str]) -> str:
    """Run all trainings in a child process, and print each result as it arrives.

    Args:
        folder: Folder of the check.
        found: Collects the results.
        names: Printed name of a reducer by its address.

    Returns:
        Why the process ended early; "" if it did not.
    """
    command = [sys.executable, "-m", MODULE, str(folder)]
    output = folder / "output.txt"
    with output.open("wb") as stream:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}  # so many workers share the cores
        child = process.start(command, stream, cwd=ROOT, env=env)
        try:
            path, at = folder / "results.jsonl", 0
            while True:
                ended = child.poll() is not None  # before the last lines are read
                data = path.read_bytes()[at:] if path.exists() else b""
                whole = data[: data.rfind(b"\n") + 1]
                at += len(whole)
                _take(found, whole.splitlines(), names)
                if ended:
                    break
                time.sleep(_POLL_SECONDS)
        finally:
            child.kill()
            child.wait()
    if child.returncode == 0:
        return ""
    said = output.read_text(encoding="utf-8", errors="replace").splitlines()
    why = next((one for one in said if one.startswith("nf ")), said[-1] if said else "no message")
    return f"a process ended: {why} (see {shown(output)})"


def _take(found: CheckFindings, lines: list[bytes], names: Mapping[str, str]) -> None:
    """Add result lines of the trainings to `found` and print them. Raise NfError for a line of
    another form."""
    for line in lines:
        try:
            values = dict(parse_json(line))
            kind = values.pop("kind")
            if kind == "said":
                say(values["text"], flush=True)
                continue
            if kind == "calibration":
                found.calibrated = typed(Calibrated, values)
                say(f"calibrated in {found.calibrated.seconds:.0f} s", flush=True)
                continue
            row = typed(TrainingRow, values)
        except (DataError, KeyError) as error:
            raise NfError(f"{MODULE} has written a line that is none: {error}.") from None
        row = replace(row, reducer=names.get(row.reducer, row.reducer))
        found.rows.append(row)
        what = f"{row.variant}, seed {row.seed}, {row.reducer}"
        say(
            f"{what}: {row.value:.3f} in {row.seconds:.0f} s, weights {row.weights[:12]}",
            flush=True,
        )


def _pages(folder: Path, found: CheckFindings) -> Iterator[Path]:
    """Write an HTML page of each monitored run with the first seed; yield its path."""
    for row in found.rows:
        if row.log is None or row.seed != found.seeds[0] or row.signals_off:
            continue
        segments, _ = log.read(log.find(folder / row.log))
        path = folder / f"{row.log}.html"
        write_text(path, page.page(segments))
        yield path
