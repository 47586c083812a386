# SPDX-License-Identifier: Apache-2.0
"""`nf capture`: run a training script with capture on, or print the content of a capture.

The script runs unchanged, once in each worker; environment variables tell `attach()` of
neuron_fabric what to write (`neuron_fabric.capture.selection`).

examples:
  nf capture --steps 3,60 train              an example of the project, captured
  nf capture --workers 8 --layers 'fc.*' -- train.py --lr 1  your own script
  nf capture check build/captures/train      check it and print its content
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np

from models.modes import Mode
from models.regions import MAX_WORKERS
from neuron_fabric.capture import Capture
from neuron_fabric.capture.layout import DTYPES, MANIFEST, tied_tensors
from neuron_fabric.capture.selection import FOLDER, LAYERS, RANKS, STEPS, Selection
from neuron_fabric.errors import CaptureError, say
from neuron_fabric.lock import Busy
from scripts.common import folder_locks
from scripts.common.arguments import up_to
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, shown, writable
from scripts.ranks.launch import run_workers
from verif.replay.gradient_source import ZeroTensors
from verif.replay.routing import assign_routes, route_warnings

EXAMPLE_SCRIPTS = ROOT / "examples"
CAPTURES = BUILD / "captures"
CHECK = "check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf capture`; the words after the script belong to the script."""
    add = parser.add_argument
    parser.usage = (
        "nf capture [--out DIR] [--workers N] [--steps S] [--ranks R] [--layers GLOBS] "
        "[--] SCRIPT [ARGS]\n       nf capture check DIR"
    )
    add("--out", type=Path, metavar="DIR", help="folder to make (build/captures/SCRIPT by default)")
    workers = up_to(MAX_WORKERS)
    add("--workers", type=workers, default=4, metavar="N", help="gloo workers to start (4)")
    add("--steps", default="", metavar="S", help="3,60 or 0-100 or 0-1000:50 (all)")
    add("--ranks", default="", metavar="R", help="0,2 or 0-3 (all)")
    add("--layers", default="", metavar="GLOBS", help="parameter names: 'layer1.*,fc.*' (all)")
    what = "a script that calls attach(), an example's name, or check"
    add("script", metavar="SCRIPT", help=what)
    add("args", nargs=argparse.REMAINDER, metavar="ARGS", help="its own arguments")


def run(args: argparse.Namespace) -> int:
    """Capture a training, or check a capture; return the exit code. A fault of the capture is an
    NfError."""
    try:
        if args.script == CHECK:
            if len(args.args) != 1:
                raise NfError("write `nf capture check DIR` with one folder.")
            return _check(Path(args.args[0]))
        return _capture(args)
    except CaptureError as error:
        raise NfError(f"{error}.") from error


def _capture(args: argparse.Namespace) -> int:
    """Run the workers with capture on and print the content of the result.

    Returns:
        0 if all workers ended well, 1 if one failed; steps before the failure are kept.

    Raises:
        NfError: an option, the script or torch is wrong or missing, or the script captured nothing.
        CaptureError: the capture of workers that ended well cannot be read.
    """
    script = script_path(args.script)
    Selection.parse(args.steps, args.ranks, args.layers).workers(args.workers)
    if importlib.util.find_spec("torch") is None:
        raise NfError("torch is not installed: `make torch`.")
    folder_locks.tree()
    folder = args.out or _free_folder(script.stem)
    if args.out:
        try:
            folder_locks.take(folder)
        except Busy as busy:
            raise NfError(f"{folder} is {busy}: choose another --out.") from None
    writable(folder)
    with suppress(CaptureError):  # none that is whole
        steps = len(Capture.open(folder).steps)
        raise NfError(f"{folder} holds a capture already ({steps} steps): choose another --out.")
    with suppress(OSError):  # what is not empty stays
        folder.rmdir()
    env = {
        **os.environ,
        FOLDER: str(Path(folder).resolve()),
        STEPS: args.steps,
        RANKS: args.ranks,
        LAYERS: args.layers,
    }
    failed = run_workers([sys.executable, str(script.absolute()), *args.args], args.workers, env)
    if failed is not None:
        say(f"nf capture: {args.script}: {failed}", file=sys.stderr)
    if not (folder / MANIFEST).is_file():
        if failed is None:
            raise NfError(
                f"{args.script} has captured nothing: it calls attach(model) of neuron_fabric "
                "after it has made its DistributedDataParallel model."
            )
        return 1
    try:
        capture = Capture.open(folder)
    except CaptureError:
        if failed is None:
            raise
        return 1  # before the first step was whole: why has been said
    for line in _summary(capture):
        say(line)
    say(f"nf capture: replay it with `.venv/bin/nf replay {shown(capture.path)}`")
    return 0 if failed is None else 1


def _check(folder: Path) -> int:
    """Read every byte of a capture, print its content and warnings, and return 0.

    CaptureError is raised for damage. A capture that passes can be replayed, unless it exceeds
    limits of the device.
    """
    capture = Capture.open(folder)
    for line in _summary(capture):
        say(line)
    values = special = 0
    zeros, by_default = ZeroTensors(), assign_routes(capture.tensors, (), capture.modules)
    for step, worker, spec, array in capture.values():
        if by_default[spec.name] == Mode.G_BINARY and array.size and not array.any():
            zeros.add(step, worker, spec.name)
        values += array.size
        special += array.size - int(np.isfinite(array).sum())
    for line in zeros.lines():
        say(f"nf capture: warning: {line}")
    say(f"nf capture: whole: {values:,} values read, {special:,} of them NaN or infinite")
    return 0


def _summary(capture: Capture) -> list[str]:
    """Return the content of a capture as lines: sizes, head, tied tensors, warnings about
    routes, and steps that were not completed."""
    steps = ", ".join(map(str, capture.steps[:8])) + ", ..." * (len(capture.steps) > 8)
    elements = sum(spec.elements for spec in capture.tensors)
    size = sum(spec.size for spec in capture.tensors)
    dtypes = [d for d in DTYPES if any(spec.dtype == d for spec in capture.tensors)]
    lines = [
        f"{shown(capture.path)}: {capture.model}, {capture.world_size} workers, "
        f"{len(capture.steps)} steps ({steps})",
        f"  a worker and step: {len(capture.tensors)} tensors, {elements:,} elements "
        f"({', '.join(dtypes)}), {size:,} bytes",
    ]
    if capture.note:
        lines.append(f"  {capture.note}")
    heads = [module.name or "the model" for module in capture.modules if module.head]
    tied = tied_tensors(capture.modules)
    if capture.modules:
        lines.append(f"  modules of the head: {', '.join(heads) or 'not captured'}")
    if tied:
        lines.append(f"  tied: {', '.join(tied[:4])}" + ", ..." * (len(tied) > 4))
    routes = assign_routes(capture.tensors, (), capture.modules)
    lines += [f"  warning: {line}" for line in route_warnings(capture, routes)]
    cut = capture.unfinished()
    if cut:
        lines.append(f"  not whole, left out: step {', '.join(map(str, cut[:8]))}")
    return lines


def script_path(name: str) -> Path:
    """Return the path of a script, given as a path or by the name of an example of the project.

    Raises:
        NfError: There is neither.
    """
    example = EXAMPLE_SCRIPTS / f"{name}.py"
    path = example if example.is_file() and not Path(name).exists() else Path(name)
    if not path.is_file():
        # Scripts that capture: what only uses them does not count.
        known = ", ".join(sorted(path.stem for path in EXAMPLE_SCRIPTS.glob("train*.py")))
        raise NfError(f"no script {name}; give a path, or one of the examples: {known}.")
    return path


def _free_folder(stem: str) -> Path:
    """Return `build/captures/STEM`, with a number appended if it exists; lock it."""
    for number in count(1):
        path = CAPTURES / (stem if number == 1 else f"{stem}-{number}")
        if not path.exists():
            with suppress(Busy):  # another command is about to make it
                folder_locks.take(path)
                return path
    raise AssertionError
