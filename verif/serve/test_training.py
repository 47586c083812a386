# SPDX-License-Identifier: Apache-2.0
"""Training of four gloo ranks with a reducer server: the weights equal those with torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from neuron_fabric.monitor import log
from scripts.run.replay_simulators import Simulators
from verif.replay.options import ReplayOptions
from verif.serve.conftest import serving
from verif.serve.rtl_device import FallbackLimit, RtlDevice
from verif.serve.served_bucket import Counts, ServedBucket
from verif.serve.served_device import ModelDevice, ServedDevice

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")
pytest.importorskip("sklearn", reason="scikit-learn is not installed: see requirements-torch.txt")

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "examples.train_on_device"]


def trained(device: ServedDevice, *words: str) -> tuple[int, str]:
    """Return exit code and output of `examples.train_on_device` with a server of this device.

    The example trains with the device and, unless `words` contain `--alone`, with torch's reducer.
    """
    with serving(4, device, timeout_s=300.0) as served:
        done = subprocess.run(
            [*COMMAND, "--socket", str(served.path), *words],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            encoding="utf-8",
            timeout=900,
            check=False,
        )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("simulator", "words"),
    [
        ("", ("--fp32", "ordered")),  # the FP32 part goes through the device as well
        ("verilator", ()),
        ("verilator", ("--low", "G_INT4")),
        pytest.param(
            "",
            ("--low", "G_INT8", "--fp32", "ordered"),
            marks=pytest.mark.nightly("12 s; the RTL trains on narrow codes in every change"),
        ),
    ],
)
def test_weights_are_those_of_torch(tmp_path: Path, simulator: str, words: tuple[str, ...]) -> None:
    device: ServedDevice = ModelDevice()
    if simulator:
        device = RtlDevice(Simulators().bulk(simulator, {}), tmp_path, simulator, 4)
    code, out = trained(device, "--steps", "16", *words)
    assert code == 0, out
    assert re.search(r"buckets: \d\d+ done, 0 lost", out)
    assert (words[1] if "--low" in words else "G_BINARY") in out
    assert "against torch: 0 of 5,154 weights differ" in out


@pytest.mark.parametrize("simulator", ["verilator"])
def test_fallback_of_the_device_and_the_return(tmp_path: Path, simulator: str) -> None:
    """Check that FALLBACK of the device at each bucket moves the region to FP32 and back.

    Each return takes twice as long as the last one, and the monitor's log shows it.
    """
    model, check = Simulators().bulk(simulator, {}), FallbackLimit(1, 6)
    fell_and_returned(RtlDevice(model, tmp_path, simulator, 4, capacity=check), tmp_path)


@pytest.mark.nightly("a training on Icarus: over a minute")
@pytest.mark.parametrize("simulator", ["icarus"])
def test_a_starved_device_falls_back(tmp_path: Path, simulator: str) -> None:
    """Check that a device with too few slots makes the training fall back to FP32.

    Eight slots, and workers apart by 9 and 18 lines: no line is in its slot when the next worker
    sends it. `test_slots_that_are_too_few` has the opposite cases.
    """
    few, check = {"SLOTS": 8}, FallbackLimit(8, 16)
    model, options = Simulators().bulk(simulator, few), ReplayOptions(parameters=few)
    device = RtlDevice(model, tmp_path, simulator, 4, options, check, apart=True)
    fell_and_returned(device, tmp_path, "G_INT4")


def fell_and_returned(device: ServedDevice, folder: Path, low: str = "G_BINARY") -> None:
    """Run a training whose device raises FALLBACK, and check the decisions in the monitor's log."""
    words = ["--steps", "24", "--alone", "--out", str(folder), "--low", low]
    code, out = trained(device, *words)
    assert code == 0, out
    assert ", 0 lost" in out
    [run], _ = log.read(folder / "monitor.jsonl")
    found = [(one.step, one.target) for one in run.decisions if one.region == "conv"]
    words = [target for _, target in found if target in ("rejected", "admitted")]
    assert words[:4] == ["rejected", "admitted"] * 2
    at = [step for step, target in found if target in ("rejected", "admitted")]
    assert at[1] - at[0] == 4
    assert at[3] - at[2] == 8
    used = [one.bytes.get(low, (0, 0))[0] > 0 for one in run.steps]
    assert used[at[0]]
    assert sum(used[at[0] + 1 : at[1] + 1]) == 2  # samples, in every second step
    assert used[at[1] + 1]


class Lossy(ModelDevice):
    """Negative twin: device with wrong bits in a count plane of one line."""

    def reduce(self, bucket: ServedBucket) -> Counts:
        counts = super().reduce(bucket)
        bucket.got[1, bucket.stretches[0].lines[0]] ^= 1
        return counts


def test_a_wrong_count_is_seen() -> None:
    code, out = trained(Lossy(), "--steps", "16")
    assert code == 1
    assert re.search(r"against torch: [1-9]\d* of 5,154|against torch: [1-9],\d+ of", out), out
