# SPDX-License-Identifier: Apache-2.0
"""`nf train exact`: check that FP32 gradients with the hook are bit-identical to plain DDP.

A small net is trained by gloo processes three times: without a hook, with a profile that leaves all
in FP32, and with the hook that captures. Every gradient of every step is compared, bit for bit.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from neuron_fabric.data import read_object
from neuron_fabric.errors import AttachError, say

HELP = "check that FP32 gradients with the hook are bit-identical to plain DDP"
EXAMPLES = """examples:
  nf train exact                             2, 3, 4 and 6 workers on this machine
  nf train exact --workers 5 --steps 20      one number of workers, longer
"""
MOST = 16
_WHERE = "exact"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: numbers of workers, steps, time-out."""
    add = parser.add_argument
    add("--workers", type=_numbers, default=(2, 3, 4, 6), metavar="W,W", help="2,3,4,6")
    add("--steps", type=int, default=4, metavar="N", help="of each training: 4")
    add("--timeout", type=float, default=600.0, metavar="S", help="for all of it: 600 seconds")


def _numbers(word: str) -> tuple[int, ...]:
    parts = word.split(",")
    if not all(part.isdecimal() and 1 <= int(part) <= MOST for part in parts):
        raise argparse.ArgumentTypeError(f"{word!r} is no list of numbers from 1 to {MOST}")
    return tuple(dict.fromkeys(map(int, parts)))


def run(args: argparse.Namespace) -> int:
    """Run the trainings and print a table of the comparison.

    Returns:
        0 if no gradient differs, 1 if one does.

    Raises:
        AttachError: The trainings cannot be run.
    """
    if args.steps < 1:
        raise AttachError(_WHERE, f"{args.steps} steps", "ask for one at least")
    if importlib.util.find_spec("torch") is None:
        raise AttachError(_WHERE, "torch is not installed", "pip install torch")
    with tempfile.TemporaryDirectory(prefix="nf-ddp-check-") as folder:
        words = [folder, str(args.steps), *map(str, args.workers)]
        command = [sys.executable, "-m", "neuron_fabric.hook.exact_ranks", *words]
        try:
            done = subprocess.run(
                command,
                env={"OMP_NUM_THREADS": "1", **os.environ},
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=args.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            what = f"the processes took more than {args.timeout:g} s"
            raise AttachError(_WHERE, what, "give it --timeout, or fewer workers") from None
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
            why = next((line for line in said if line.startswith("nf ")), said[-1])
            raise AttachError(_WHERE, f"a process ended: {why}", "is gloo there?")
        found = [read_object(file) for file in sorted(Path(folder).glob("rank-*.json"))]
    return _told(found)


def _told(found: list[dict[str, list[int]]]) -> int:
    """Print a row per number of workers and hook; return 1 if any gradient differs, else 0.

    A row has the largest count of any rank.
    """
    say(f"{'':24}{'gradients':>12}{'differ':>10}")
    wrong = 0
    for name in found[0]:
        rows = [one[name] for one in found if name in one]
        differ = max(row[1] for row in rows)
        say(f"{name:24}{rows[0][0]:12,}{differ:10,}")
        wrong += differ
    return int(wrong > 0)
