# SPDX-License-Identifier: Apache-2.0
"""Proofs on the workers of a Dask scheduler: the same results, and counterexamples that replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.common.paths import ROOT
from scripts.common.records import FailureKind
from scripts.farm import cluster
from scripts.farm.proof_run import Parcel
from scripts.farm.test_cluster import ON_DASK, workers
from scripts.prove import proof, smtbmc
from scripts.prove.proof import Proof

pytestmark = [
    *ON_DASK,
    pytest.mark.skipif(not smtbmc.installed(), reason="the solver is not installed"),
]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Farm]:
    """One worker."""
    with (
        workers(tmp_path_factory.mktemp("farm"), 1) as made,
        cluster.connect(made.address, 1) as found,
    ):
        yield found


@pytest.fixture
def fifo() -> Proof:
    """A quick proof."""
    return next(one for one in proof.read() if one.id == "fifo/three")


def test_a_proof(farm: cluster.Farm, fifo: Proof, tmp_path: Path) -> None:
    record = farm.prove(fifo.spec, Parcel(fifo).pack(), tmp_path)
    assert record.passed, record.cause
    assert {case.name for case in record.cases} >= {"Pointers_A"}
    assert record.used_seconds > 0


def test_a_counterexample_comes_back(farm: cluster.Farm, fifo: Proof, tmp_path: Path) -> None:
    mutant = next(one for one in proof.mutants() if one.id == "fifo-wraps-at-a-power-of-two")
    broken = proof.broken(fifo, mutant)
    record = farm.prove(broken.spec, Parcel(broken).pack(), tmp_path)
    assert record.kind is FailureKind.ASSERTION
    (stimulus,) = record.stimulus
    assert record.waves
    for name in (stimulus, record.waves, record.log):
        assert (ROOT / name).is_file()
        assert (ROOT / name).is_relative_to(tmp_path)


def test_a_proof_that_is_not_there(farm: cluster.Farm, fifo: Proof, tmp_path: Path) -> None:
    record = farm.prove(fifo.spec, b"not a parcel", tmp_path)
    assert record.kind is FailureKind.INFRASTRUCTURE
