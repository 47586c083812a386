# SPDX-License-Identifier: Apache-2.0
"""Laws of a calibration over real gloo processes: the training is bit-identical to plain DDP,
statistics equal those of numpy, and one seed gives one file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.calibration.calibrating import Asked, Trained, profile_by_rule, read_rows
from neuron_fabric.calibration.calibration_job import read_report
from neuron_fabric.calibration.shadow_router import NAMES
from neuron_fabric.codec.draws import Key, draws
from neuron_fabric.hook.payload import SEED
from neuron_fabric.profile import read_profile, write_profile
from neuron_fabric.profile.samples import read_samples, samples_path, write_samples
from neuron_fabric.tests.ddp.naive_statistics import naive_codes, naive_statistics
from neuron_fabric.tests.ddp.shadow_case_ranks import EVERY, STEPS, WORLDS

BITS = {"G_INT4": 4, "G_INT8": 8}
worlds = pytest.mark.parametrize("world", WORLDS)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all trainings and return their folder."""
    out = tmp_path_factory.mktemp("shadow")
    module = "neuron_fabric.tests.ddp.shadow_case_ranks"
    done = subprocess.run(
        [sys.executable, "-m", module, str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@worlds
def test_the_training_is_the_plain_one(ran: Path, world: int) -> None:
    for rank in range(world):
        with np.load(ran / f"{world}-rank-{rank}.npz") as found:
            assert found["law"] == 0


@worlds
def test_a_shadow_that_touches_a_gradient_is_seen(ran: Path, world: int) -> None:
    with np.load(ran / f"{world}-rank-0.npz") as found:
        assert found["twin"] > 0


@worlds
def test_statistics_are_those_of_numpy(ran: Path, world: int) -> None:
    about, steps, sums = read_rows(ran / f"{world}-a")
    assert steps.tolist() == list(range(0, STEPS, EVERY))
    places = {one.name: n for n, one in enumerate(about.trained)}
    ranks = [np.load(ran / f"{world}-rank-{rank}.npz") for rank in range(world)]
    large = [name for name, n in places.items() if about.trained[n].elements >= 1024]
    assert set(large) == {"words.weight", "up.weight", "down.weight", "head.weight"}
    assert {route for route, _ in about.ways} == {"G_BINARY", "G_TERNARY", *BITS}
    for row, step in enumerate(steps):
        for name in large:
            sent = np.stack([one[f"{step}/{name}"].reshape(-1) for one in ranks])
            for n, (route, decode) in enumerate(about.ways):
                if route in BITS:
                    keys = [Key(SEED, step, rank, name) for rank in range(world)]
                    uniform = np.stack([draws(key, sent.shape[1]) for key in keys])
                    wanted = naive_codes(sent, BITS[route], uniform)
                else:
                    wanted = naive_statistics(sent, route, decode)
                found = dict(zip(NAMES, sums[row, n, :, places[name]], strict=True))
                assert found == pytest.approx(wanted, rel=2e-4, abs=1e-9), (step, name, route)
    small = [n for name, n in places.items() if name not in large]
    assert not sums[..., small].any()


@worlds
def test_one_seed_one_file(ran: Path, world: int, tmp_path: Path) -> None:
    texts = []
    for which in "ab":
        folder, out = ran / f"{world}-{which}", tmp_path / which / "p.toml"
        out.parent.mkdir()
        profile, samples = profile_by_rule(
            Asked(out, world), Trained(folder, read_report(folder), None)
        )
        write_profile(profile, out)
        write_samples(samples, samples_path(out))
        texts.append((out.read_bytes(), samples_path(out).read_bytes()))
        assert read_samples(samples_path(out)).workers == world
        assert read_profile(out).region("head").elements == 60 * 20 + 20
        assert read_profile(out).calibration is not None
        assert read_profile(out).valid_for.optimizer == "SGD(momentum=0.9)"
    assert texts[0] == texts[1]


@worlds
def test_the_report(ran: Path, world: int) -> None:
    report = read_report(ran / f"{world}-a")
    assert report is not None
    assert (report.steps, list(report.metrics), len(report.weights)) == (STEPS, ["loss"], 64)
    assert report.sent["FP32"] > 0 < report.sent["G_BINARY"]
