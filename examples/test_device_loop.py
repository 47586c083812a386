# SPDX-License-Identifier: Apache-2.0
"""Trainings with a device as their reducer, end to end: by votes and by integer codes."""

from __future__ import annotations

import re
import subprocess

import pytest

from examples.conftest import example

REASON = "{} is not installed: see requirements-torch.txt"
pytest.importorskip("torch", reason=REASON.format("torch"))
pytest.importorskip("sklearn", reason=REASON.format("scikit-learn"))

VOTES, CODES = "votes_in_the_loop", "integer_codes_in_the_loop"


RTL = pytest.mark.nightly("trainings on the RTL; verif/serve trains on it in every change")


@pytest.mark.parametrize(
    "device", [("--device", "model"), pytest.param(("--sim", "verilator"), marks=RTL)]
)
def test_it_trains_on_votes(device: tuple[str, str]) -> None:
    """A few steps of every variant; the server compares each line with the models, and what votes
    are sent for takes fewer bytes."""
    done = example(VOTES, *device, "--steps", "8", "--workers", "2")
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\S.*?)  +([\d.]+) +([\d.]+) +[\d.]+% +([\d,]+)$", done.stdout, re.M)
    sent = {variant: int(count.replace(",", "")) for variant, _, _, count in rows}
    assert all(float(after) < float(before) for _, before, after, _ in rows)
    assert sent["FP32"] > sent["G_TERNARY everywhere"] > sent["G_BINARY everywhere"]
    assert re.search(r"ended: [1-9]\d+ buckets done, 0 lost, [\d,]+ lines", done.stdout)


def rows_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Every row of the table but for its accuracy; the loss has fallen in each."""
    assert done.returncode == 0, done.stderr
    row = r"^(\S+) +([\d.]+) +([\d.]+) +[\d.]+% +([\d,]+)$"
    rows = re.findall(row, done.stdout, re.M)
    assert [name for name, *_ in rows] == ["FP32", "G_INT4", "G_INT8"]
    assert all(float(after) < float(before) for _, before, after, _ in rows)
    sent = [int(count.replace(",", "")) for *_, count in rows]
    assert sent[0] > sent[2] > sent[1]
    return [" ".join(row) for row in rows]


def trained_on_codes(*device: str) -> tuple[list[str], str]:
    """A few steps of every row: the table, and all that was printed."""
    done = example(CODES, *device, "--steps", "8", "--workers", "2")
    rows = rows_of(done)
    assert re.search(r"ended: [1-9]\d+ buckets done, 0 lost, [\d,]+ lines", done.stdout)
    return rows, done.stdout


@pytest.mark.nightly("17 s; verif/serve trains on codes in every change, by the RTL and the models")
def test_it_trains_on_codes() -> None:
    _, out = trained_on_codes("--device", "model")
    assert " 0 cycles" in out


@RTL
@pytest.mark.parametrize("simulator", ["verilator"])
def test_rtl_and_models_train_alike_on_codes(simulator: str) -> None:
    """The server compares each line of the RTL with the models before it is used."""
    rows, out = trained_on_codes("--sim", simulator)
    assert rows == trained_on_codes("--device", "model")[0]
    assert " 0 cycles" not in out


@pytest.mark.parametrize(
    "name",
    [VOTES, pytest.param(CODES, marks=pytest.mark.nightly("13 s of imports for the same line"))],
)
def test_more_workers_than_the_device_takes(name: str) -> None:
    """What the server says, in a line."""
    done = example(name, "--device", "model", "--workers", "65")
    assert done.returncode == 1
    assert "'65' is not a number from 1 to 64" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
