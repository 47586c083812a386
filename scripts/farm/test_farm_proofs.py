# SPDX-License-Identifier: Apache-2.0
"""Tests of proofs on Dask workers: the same results, and counterexamples that replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.common.paths import ROOT
from scripts.common.records import FailureKind
from scripts.farm import cluster
from scripts.farm.test_cluster import ON_DASK, workers
from scripts.farm.work import ProofRun
from scripts.prove import proof, solvers
from scripts.prove.proof import Proof

pytestmark = [
    *ON_DASK,
    pytest.mark.skipif(not solvers.installed(), reason="the solver is not installed"),
]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Farm]:
    """Connect to a scheduler with one worker."""
    with (
        workers(tmp_path_factory.mktemp("farm"), 1) as made,
        cluster.connect(made.address, 1) as found,
    ):
        yield found


@pytest.fixture
def fifo() -> Proof:
    """Return a quick proof, "fifo/three"."""
    return next(one for one in proof.read() if one.id == "fifo/three")


@pytest.mark.nightly("6 s: a counterexample comes back in every change")
def test_a_proof(farm: cluster.Farm, fifo: Proof, tmp_path: Path) -> None:
    record = farm.send(fifo.spec, ProofRun(fifo), None, tmp_path)
    assert record.passed, record.cause
    assert {case.name for case in record.cases} >= {"Pointers_A"}
    assert record.used_seconds > 0


def test_a_counterexample_comes_back(farm: cluster.Farm, fifo: Proof, tmp_path: Path) -> None:
    mutant = next(one for one in proof.mutants() if one.id == "fifo-wraps-at-a-power-of-two")
    broken = proof.broken(fifo, mutant)
    record = farm.send(broken.spec, ProofRun(broken), None, tmp_path)
    assert record.kind is FailureKind.ASSERTION
    (stimulus,) = record.stimulus
    assert record.waves
    for name in (stimulus, record.waves, record.log):
        assert (ROOT / name).is_file()
        assert (ROOT / name).is_relative_to(tmp_path)


class Unreadable(ProofRun):
    """Work item whose pickle cannot be loaded."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        """Return a call of int("x"), so that unpickling raises ValueError in the worker."""
        return int, ("x",)


def test_work_that_cannot_be_unpickled(farm: cluster.Farm, fifo: Proof, tmp_path: Path) -> None:
    record = farm.send(fifo.spec, Unreadable(fifo), None, tmp_path)
    assert record.kind is FailureKind.INFRASTRUCTURE
    assert record.cause.startswith("ValueError: ")
