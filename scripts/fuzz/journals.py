# SPDX-License-Identifier: Apache-2.0
"""Fuzzer of the journals of bulk replays: random damage and mixtures of journals and captures.

`--merge` and `--resume` must refuse them, or give the tensors that the reference models expect of
the capture as it is.

A device model takes the place of the RTL. Journals are made once, of captures that differ in their
middle and of several options; each case mixes and damages copies of them. A case that fails is
repeated by `nf fuzz --journals 1 --seed SEED`.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path
from unittest.mock import patch

import numpy as np

from models.modes import Mode, Tie
from neuron_fabric.capture import Capture, write_capture
from neuron_fabric.capture.layout import MANIFEST
from neuron_fabric.capture.safetensors_io import open_tensors
from neuron_fabric.data import parse_json
from neuron_fabric.errors import say
from scripts.fuzz import case_files
from verif.conftest import BulkModel, expected_outputs, nf_replay

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


Journals = dict[tuple[str, str, int], bytes]
"""Journals by capture, variant and shard; shard 0 is a replay in one piece that was killed."""


def make(folder: Path) -> Journals:
    """Write the captures below ``folder``, and return the journals of replays of them."""
    rng = np.random.default_rng(1)
    values = {
        name: rng.standard_normal((3, size)).astype(np.float32) for name, size in SIZES.items()
    }
    write_capture(folder / "one", "small", {0: values})
    values["a.weight"][1, 1000:4000] *= -1
    write_capture(folder / "two", "small", {0: values})
    journals: Journals = {}
    for capture, variant, part in product(CAPTURES, VARIANTS, range(SHARDS + 1)):
        out = folder / "pool" / f"{capture}-{variant}-{part}"
        out.mkdir(parents=True)
        more = ("--shard", f"{part}/{SHARDS}") if part else ()
        dies_at = None if part else 4
        code, _ = replay(folder / capture, out, *VARIANTS[variant], *more, dies_at=dies_at)
        assert code == (0 if part else 1)
        journals[capture, variant, part] = (out / journal_name(part)).read_bytes()
    return journals


def case(seed: int, folder: Path, journals: Journals) -> str:
    """Run one random case; return "refused" or "same" (the expected tensors).

    Raises:
        AssertionError: It is neither.
    """
    rng = random.Random(seed)
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    name, variant = rng.choice(CAPTURES), rng.choice(list(VARIANTS))
    capture = place / "capture"
    shutil.copytree(folder / name, capture)
    parts = rng.choice(([0], range(1, SHARDS + 1)))
    for part in parts:
        own = name, variant, part
        twin = "two" if name == "one" else "one", variant, part  # of other gradients
        others = [journals[key] for key in rng.choice(([twin], list(journals)))]
        data = rng.choice(others) if rng.random() < 0.2 else journals[own]
        if rng.random() < 0.1:
            data = _head_of_another(rng, rng.choice(others), journals[own])
        if rng.random() < 0.1:
            data = rng.choice(MIXTURES)(rng, data, rng.choice(others))
        (place / journal_name(part)).write_bytes(data)
        if rng.random() < 0.2:
            case_files.damage(place, rng, journal_name(part), rng.choice(DAMAGE))
    if rng.random() < 0.25:
        _change(rng, capture)
    if rng.random() < 0.05:
        (place / journal_name(rng.choice(parts))).unlink()
    how = ("--resume",) if parts == [0] else ("--merge", str(SHARDS))
    code, error = replay(capture, place, *VARIANTS[variant], *how)
    if code == 0:
        check(place / OUT, capture, VARIANTS[variant])
        return "same"
    assert code == 2, f"exit code {code}: {error}"
    assert len(error.splitlines()) == 1, error
    assert error.startswith("nf replay: "), error
    assert not (place / OUT).exists(), "refused, and yet there are results"
    return "refused"


def replay(capture: Path, place: Path, *words: str, dies_at: int | None = None) -> tuple[int, str]:
    """Run `nf replay` in bulk with a device model in place of the RTL; return exit code and stderr.

    Args:
        capture: Capture to replay.
        place: Folder of the result file.
        words: Further options.
        dies_at: Number of the epoch in which the model fails; None for never.
    """
    model = BulkModel(place)
    model.dies_at = dies_at
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
        code = nf_replay(model, capture, "--transport", "bulk", *words, "--out", place / OUT)
    return code, error.getvalue()


def journal_name(part: int) -> str:
    """Return the file name of the journal of a shard, or (0) of a replay in one piece."""
    shard = f".shard-{part}-of-{SHARDS}" if part else ""
    return f"{OUT}.verilator{shard}.journal"


def check(out: Path, capture: Path, words: Sequence[str]) -> None:
    """Raise AssertionError unless a result file holds the tensors of the reference models.

    ``words`` are the options of the replay.
    """
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
"""Kinds of damage of `case_files.damage` to a journal."""


def _head_of_another(_rng: random.Random, data: bytes, other: bytes) -> bytes:
    return other[: _records(other)] + data[_records(data) :]


def _other_from(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = rng.randrange(min(len(data), len(other)))
    return data[:at] + other[at:]


def _records(data: bytes) -> int:
    """Return the offset of the records in a journal, after its identity in JSON."""
    match = re.search(rb'"tie": "[A-Z]*"}', data)
    assert match is not None
    return match.end()


MIXTURES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    _head_of_another,
    lambda _rng, data, other: data + other[_records(other) :],  # and the tail of another
    _other_from,
)
"""(random numbers, journal, another journal) -> journal"""


def _change(rng: random.Random, capture: Path) -> None:
    files = sorted(path.relative_to(capture) for path in capture.rglob("*.safetensors"))
    how = rng.choice(("flip", "flip", "cut", "missing", "dangling", "swap workers", "manifest"))
    if how == "swap workers":
        paths = [capture / name for name in rng.sample(files, 2)]
        first, second = (path.read_bytes() for path in paths)
        paths[0].write_bytes(second)
        paths[1].write_bytes(first)
    elif how == "manifest":
        case_files.damage(capture, rng, MANIFEST, "flip")
    else:
        case_files.damage(capture, rng, str(rng.choice(files)), how)


def run(cases: int, seed: int, folder: Path) -> Counter[str]:
    """Run the cases with seeds seed .. seed + cases - 1.

    Returns:
        Number of cases that gave "same" or "refused", and of failures by text.
    """
    found: Counter[str] = Counter()
    with patch("verif.replay.options.EPOCH_LINES_LOG2", 0):  # lines: there are several epochs
        journals = make(folder)
        for number in range(seed, seed + cases):
            try:
                found[case(number, folder, journals)] += 1
            except Exception as error:  # whatever it is: this case has failed
                found[f"--seed {number}: {type(error).__name__}: {error}"] += 1
    return found


def campaign(cases: int, seed: int) -> int:
    """Run the cases and print the failures; return the exit code, 0 if every case passed."""
    with tempfile.TemporaryDirectory() as folder:
        found = run(cases, seed, Path(folder))
    same, refused = found.pop("same", 0), found.pop("refused", 0)
    for text in sorted(found):
        say(f"FAIL {text}")
    say(f"{cases} cases: {same} gave the same tensors, {refused} were refused")
    return 1 if found else 0
