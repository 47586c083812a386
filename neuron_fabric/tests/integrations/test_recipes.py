# SPDX-License-Identifier: Apache-2.0
"""Tests that each recipe resumes a training on 3 ranks with the bits of an uninterrupted one."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.errors import AttachError
from neuron_fabric.integrations.rank_session import read_rank
from neuron_fabric.tests.integrations.recipe_ranks import FORGOTTEN, LIBRARIES, WORLD, recipe
from neuron_fabric.tests.python_process import run_python

CHECKPOINTS = {
    "hugging_face": "out/checkpoint-4",
    "lightning": "out/epoch=0.ckpt",
    "accelerate": "out/0",
}
"""Checkpoint of the first epoch by integration."""


def train(place: Path, name: str, *words: str) -> tuple[int, str]:
    """Run trainings of a recipe in the folder ``place``; return exit code and standard error."""
    run = f"import os, sys; os.chdir({str(place)!r})\n"
    run += (
        f"from neuron_fabric.tests.integrations.recipe_ranks import main; main(*{(name, *words)})"
    )
    done = run_python("-c", run, CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
    return done.returncode, done.stderr


def weights(folder: Path) -> list[bytes]:
    """Return the bits of all weights by rank."""
    every = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]
    return [b"".join(one.numpy().tobytes() for one in state.values()) for state in every]


@pytest.mark.nightly("a framework is imported, and four trainings of three ranks run")
@pytest.mark.parametrize("name", LIBRARIES)
def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    pytest.importorskip(LIBRARIES[name], reason="see requirements-frameworks.txt")
    saved = CHECKPOINTS[name]
    first = ("1", "middle", "-")  # it is stopped here
    words = (*first, "2", "end", saved, "2", FORGOTTEN, saved, "2", "whole", "-")
    code, said = train(tmp_path, name, *words)
    assert code == 0, said
    middle, end, forgotten, whole = (
        weights(tmp_path / one) for one in ("middle", "end", FORGOTTEN, "whole")
    )
    assert len(set(whole)) == 1  # of all ranks
    assert end == whole != middle
    assert forgotten != whole  # without the residuals


@pytest.mark.nightly("accelerate is imported, and two trainings of three ranks run")
def test_a_checkpoint_without_the_file_of_a_rank_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="see requirements-frameworks.txt")
    assert train(tmp_path, "accelerate", "1", "middle", "-")[0] == 0
    (tmp_path / "out" / "0" / "neuron-fabric-rank-1.pt").unlink()
    code, said = train(tmp_path, "accelerate", "2", "end", "out/0")
    assert code == 2
    assert said.count("nf runtime: rank 1: out/0/neuron-fabric-rank-1.pt: is missing") == 1


@pytest.mark.parametrize("name", LIBRARIES)
def test_recipes_compile(name: str) -> None:
    compile(recipe(name), name, "exec")


def test_files_of_ranks_are_checked(tmp_path: Path) -> None:
    """Check which file a rank reads: its own, or that of rank 0 if fewer ranks wrote them."""
    first = tmp_path / "neuron-fabric-rank-0.pt"
    with pytest.raises(AttachError, match=r"rank-1\.pt: is missing; resume from"):
        read_rank(tmp_path, 1, 2)
    for foreign in (b"", b"text", b"PK\x03\x04"):
        first.write_bytes(foreign)
        with pytest.raises(AttachError, match=r"rank-0\.pt: is no state of neuron_fabric"):
            read_rank(tmp_path, 0, 2)
    torch.save({"format": "other"}, first)
    with pytest.raises(AttachError, match="is no state"):
        read_rank(tmp_path, 0, 2)
    torch.save({"format": "neuron-fabric-rank", "state": {"world": 1, "rank": 0}}, first)
    assert read_rank(tmp_path, 1, 2) == read_rank(tmp_path, 0, 1) == {"world": 1, "rank": 0}
    with pytest.raises(AttachError, match=r"rank-1\.pt: is missing"):
        read_rank(tmp_path, 1, 1)
