# SPDX-License-Identifier: Apache-2.0
"""Random damage and mixtures of journals, shards and captures: merging and going on must refuse
them, or give the tensors that the reference models expect of the capture as it lies there.

    python -m scripts.cli.journal_campaign --cases 500 --seed 1

The device model plays the device. Journals are made once, of captures that differ in their middle
and of several options; each case mixes and damages copies of them. A case that fails is repeated
by `--seed` with `--cases 1`. Exit code 0: every case held.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np

from models.formats import Mode, Tie
from neuron_fabric.capture.layout import MANIFEST
from neuron_fabric.capture.reader import Capture, write_capture
from neuron_fabric.capture.safetensors_io import open_tensors
from neuron_fabric.data import parse_json
from neuron_fabric.text import say
from scripts.cli import replay as nf_replay
from scripts.fuzz import setup
from verif.conftest import BulkModel, expected_outputs

SHARDS = 3
SIZES = {"a.weight": 5000, "b.weight": 40, "c": 1}
"""Elements by tensor; three workers."""
VARIANTS: dict[str, tuple[str, ...]] = {
    "plain": ("--route", "b*=G_TERNARY", "c=FP32", "*=G_BINARY"),
    "seed": ("--route", "b*=G_TERNARY", "c=FP32", "*=G_BINARY", "--seed", "2"),
    "tie": ("--route", "b*=G_TERNARY", "c=FP32", "*=G_BINARY", "--tie", "minus"),
    "fp32": ("--route", "b*=FP32", "c=FP32", "*=G_BINARY"),
}
CAPTURES = ("one", "two")
OUT = "out.safetensors"


@dataclass
class Campaign:
    """The pool of captures and journals below ``folder``, and what came of the cases."""

    folder: Path
    journals: dict[tuple[str, str, int], bytes]
    """By capture, variant and shard; shard 0 is a replay in one piece that was killed."""

    @staticmethod
    def make(folder: Path) -> Campaign:
        """Make the pool."""
        rng = np.random.default_rng(1)
        values = {
            name: rng.standard_normal((3, size)).astype(np.float32) for name, size in SIZES.items()
        }
        write_capture(folder / "one", "small", {0: values})
        values["a.weight"][1, 1000:4000] *= -1
        write_capture(folder / "two", "small", {0: values})
        journals: dict[tuple[str, str, int], bytes] = {}
        for capture in CAPTURES:
            for variant, words in VARIANTS.items():
                for part in range(SHARDS + 1):
                    out = folder / "pool" / f"{capture}-{variant}-{part}"
                    out.mkdir(parents=True)
                    more = ("--shard", f"{part}/{SHARDS}") if part else ()
                    code, _ = replay(
                        folder / capture, out, words, *more, dies_at=None if part else 4
                    )
                    assert code == (0 if part else 1)
                    journals[capture, variant, part] = (out / journal_name(part)).read_bytes()
        return Campaign(folder, journals)

    def case(self, seed: int) -> str:
        """What came of one case: `refused`, or `same`. AssertionError when it is neither."""
        rng = random.Random(seed)
        place = self.folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        name, variant = rng.choice(CAPTURES), rng.choice(list(VARIANTS))
        capture = place / "capture"
        shutil.copytree(self.folder / name, capture)
        parts = rng.choice(([0], range(1, SHARDS + 1)))
        for part in parts:
            own = name, variant, part
            twin = "two" if name == "one" else "one", variant, part  # of other gradients
            others = [self.journals[key] for key in rng.choice(([twin], list(self.journals)))]
            data = rng.choice(others) if rng.random() < 0.2 else self.journals[own]
            if rng.random() < 0.1:
                data = _head_of_another(rng, rng.choice(others), self.journals[own])
            if rng.random() < 0.1:
                data = rng.choice(MIXTURES)(rng, data, rng.choice(others))
            (place / journal_name(part)).write_bytes(data)
            if rng.random() < 0.2:
                setup.damage(place, rng, journal_name(part), rng.choice(DAMAGE))
        if rng.random() < 0.25:
            _change(rng, capture)
        if rng.random() < 0.05:
            (place / journal_name(rng.choice(parts))).unlink()
        how = ("--resume",) if parts == [0] else ("--merge", str(SHARDS))
        code, error = replay(capture, place, VARIANTS[variant], *how)
        if code == 0:
            check(place / OUT, capture, VARIANTS[variant])
            return "same"
        assert code == 2, f"exit code {code}: {error}"
        assert len(error.splitlines()) == 1, error
        assert error.startswith("nf replay: "), error
        assert not (place / OUT).exists(), "refused, and yet there are results"
        return "refused"


def replay(
    capture: Path, place: Path, words: Sequence[str], *more: str, dies_at: int | None = None
) -> tuple[int, str]:
    """Exit code and stderr of `nf replay`, the device model in the device's place."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    nf_replay.add_arguments(parser)
    model = BulkModel(place)
    model.dies_at = dies_at
    line = [str(capture), "--transport", "bulk", *words, *more, "--out", str(place / OUT)]
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = nf_replay.run(parser.parse_args(line), model)
    return code, error.getvalue()


def journal_name(part: int) -> str:
    """The journal of a shard, or (0) of a replay in one piece."""
    shard = f".shard-{part}-of-{SHARDS}" if part else ""
    return f"{OUT}.verilator{shard}.journal"


def check(out: Path, capture: Path, words: Sequence[str]) -> None:
    """AssertionError unless the tensors are those of the reference models."""
    options = dict(pairwise(words))
    tie = Tie[options.get("--tie", "plus").upper()]
    threshold = int(options.get("--threshold", 1))
    file = open_tensors(out)
    routes = parse_json(file.metadata["routes"])
    for name, values in Capture.open(capture).load(0).items():
        wanted = expected_outputs(values, Mode[routes[name]], tie=tie, threshold=threshold)
        for suffix, array in wanted.items():
            got = file.read(f"{name}.{suffix}")
            assert got.tobytes() == array.tobytes(), f"{name}.{suffix} is another one"


DAMAGE = ("flip", "cut", "append", "zeros", "swap", "twice", "garbage", "empty")
"""What `setup.damage` does to a journal."""


# -- mixtures: (rng, journal, another journal) -> journal ---------------------------------------
def _head_of_another(_rng: random.Random, data: bytes, other: bytes) -> bytes:
    return other[: _records(other)] + data[_records(data) :]


def _tail_of_another(_rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data + other[_records(other) :]


def _other_from(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = rng.randrange(min(len(data), len(other)))
    return data[:at] + other[at:]


def _records(data: bytes) -> int:
    """Where the records begin, behind the identity in JSON."""
    match = re.search(rb'"tie": "[A-Z]*"}', data)
    assert match is not None
    return match.end()


MIXTURES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    *(_head_of_another, _tail_of_another, _other_from),
)


# -- changes of a capture -----------------------------------------------------------------------
def _change(rng: random.Random, capture: Path) -> None:
    files = sorted(path.relative_to(capture) for path in capture.rglob("*.safetensors"))
    how = rng.choice(("flip", "flip", "cut", "gone", "dangling", "swap workers", "manifest"))
    if how == "swap workers":
        paths = [capture / name for name in rng.sample(files, 2)]
        first, second = (path.read_bytes() for path in paths)
        paths[0].write_bytes(second)
        paths[1].write_bytes(first)
    elif how == "manifest":
        setup.damage(capture, rng, MANIFEST, "flip")
    else:
        setup.damage(capture, rng, str(rng.choice(files)), how)


def run(cases: int, seed: int, folder: Path) -> Counter[str]:
    """Cases seed .. seed + cases - 1; counts of `same`, `refused` and of what failed, by text."""
    found: Counter[str] = Counter()
    with patch("verif.replay.options.EPOCH_LINES_LOG2", 0):  # lines: there are several epochs
        campaign = Campaign.make(folder)
        for number in range(seed, seed + cases):
            try:
                found[campaign.case(number)] += 1
            except Exception as error:  # whatever it is: this case has failed
                found[f"--seed {number}: {type(error).__name__}: {error}"] += 1
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(args.cases, args.seed, Path(folder))
    for text in sorted(found):
        if text not in ("same", "refused"):
            say(f"FAIL {text}")
    same, refused = found["same"], found["refused"]
    say(f"{args.cases} cases: {same} gave the same tensors, {refused} were refused")
    return 0 if same + refused == args.cases else 1


if __name__ == "__main__":
    sys.exit(main())
